// Order of the documents of queries: what the CPU and CUDA kernels of query_order share. Definition:
// valor_gpu/ops/queries/reference.py.
#pragma once
#include "error_codes.h"
#include "load.h"
#include "ranks.h"

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

// Ascends where scores descend.
template <class Order>
VALOR_HD typename Order::Key descending(typename Order::Raw raw) {
  return ~Order::key(raw);
}

}  // namespace valor
