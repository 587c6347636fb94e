// Arguments of the ops of ranked documents. valor_gpu/ops/queries/cpu.py and cuda.py fill them.
#pragma once
#include <stdint.h>

namespace valor {

// Arguments of the op query_order.
struct QueryOrderTask {
  const void *indexes, *preds;  // [rows]
  int64_t index_type, type, rows;
  int64_t* order;    // [rows]
  int64_t* queries;  // [rows], of which `count` are written
  int64_t* offsets;  // [rows + 1], of which count + 1 are written
  int64_t* error;
  int64_t* count;
  int64_t threads;
};

// Arguments of the op query_scores.
struct QueryTask {
  const int64_t* order;    // [rows] by query and rank
  const int64_t* offsets;  // [queries + 1]
  const void* preds;       // [rows]
  const void* target;      // [rows]
  const int64_t* best;     // [rows] by query and descending target; only for nDCG on CUDA
  const double* weights;   // by rank, of measures that have any
  double* scores;          // [queries]
  int8_t* status;          // [queries]
  int64_t rows, queries, type, target_type, measure, top_k;
  double parameter, above;
  int64_t adaptive_k, threads;
};

// Arguments of the op query_hits.
struct QueryHitsTask {
  const int64_t *order, *offsets;
  const void* target;
  int32_t* hits;      // [queries, max_k]
  int64_t* relevant;  // [queries]
  int64_t rows, queries, target_type, max_k, threads;
};

}  // namespace valor
