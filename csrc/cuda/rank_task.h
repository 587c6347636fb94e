// What the CUDA kernels of exact AUROC and AP share: their arguments, places among equal scores, sums over a
// block.
#pragma once
#include "../core/ranks.h"
#include "../core/sort.h"
#include "launch.h"
#include "sorting.h"
#include "table_layout.h"

namespace valor {

constexpr int kThreads = kLanes;  // a thread a part of a sum

// Arguments of the op. Fields are 64-bit words, packed by valor_gpu/ops/ranks/cuda.py.
struct RankTask {
  const void* scores;  // [rows, target.classes]
  int64_t type, rows;
  const double* weight;  // [rows] or null
  Target target;
  double* auroc_and_ap;  // [2, C]
  void* totals;          // [2, C] of int64_t, or of double with weights
  int64_t* error;        // holds kNoError

  template <class Order>
  VALOR_HD typename Order::Raw raw(int64_t row, int64_t column) const {
    return static_cast<const typename Order::Raw*>(scores)[row * target.classes + column];
  }
};

// Bits of a score's key.
template <class Order>
constexpr int kScoreBits = 8 * sizeof(typename Order::Raw);

// Bits that numbers from 0 to `last` take.
inline int bits_up_to(int64_t last) {
  int bits = 0;
  while (last >> bits) ++bits;
  return bits;
}

// Tells of a bad value.
__device__ __forceinline__ void note(const RankTask& task, int64_t word) {
  atomicMin(reinterpret_cast<long long*>(task.error), static_cast<long long>(word));
}

// Sum over the first kLanes threads of a block, the upper half of them into the lower; every thread gets it.
template <class Sum>
__device__ __forceinline__ Sum block_sum(Sum* parts, Sum value) {
  __syncthreads();
  if (threadIdx.x < kLanes) parts[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = kLanes / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  return parts[0];
}

// One thread writes the results of class c.
template <class Sum>
__device__ __forceinline__ void write_auroc_and_ap(const RankTask& task, int64_t c, Sum wins,
                                                   double precisions, Sum positives, Sum negatives) {
  const int64_t C = task.target.classes;
  Sum* totals = static_cast<Sum*>(task.totals);
  task.auroc_and_ap[c] = auc_of(wins, positives, negatives);
  task.auroc_and_ap[C + c] = average_of(precisions, positives);
  totals[c] = positives, totals[C + c] = negatives;
}

// First and last of the ascending keys key_at(0) to key_at(count - 1) that equal the one at `at`.
template <class KeyAt>
__device__ __forceinline__ int64_t first_equal(const KeyAt& key_at, int64_t at) {
  const auto key = key_at(at);
  if (at == 0 || key_at(at - 1) != key) return at;
  return partition_point(at, [&](int64_t i) { return key_at(i) < key; });
}
template <class KeyAt>
__device__ __forceinline__ int64_t last_equal(const KeyAt& key_at, int64_t at, int64_t count) {
  const auto key = key_at(at);
  if (at + 1 == count || key_at(at + 1) != key) return at;
  return at + partition_point(count - at, [&](int64_t i) { return key_at(at + i) <= key; }) - 1;
}

// Blocks of `size` for `count` things.
VALOR_HD unsigned blocks_of(int64_t count, int64_t size) {
  return static_cast<unsigned>((count + size - 1) / size);
}

}  // namespace valor
