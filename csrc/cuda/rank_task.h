// What the CUDA kernels of exact AUROC and AP share: their arguments, signed keys, sums over a block.
#pragma once
#include "../core/ranks.h"
#include "../core/sort.h"
#include "launch.h"

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
};

// Keys as torch sorts them: signed. The least stands for what is left out.
template <class Order>
struct SignedOrder {
  using Raw = typename Order::Raw;
  using Key = std::conditional_t<sizeof(Raw) == 8, int64_t, int32_t>;
  using Unsigned = typename Order::Key;
  static constexpr Unsigned kTop = Unsigned{1} << (8 * sizeof(Unsigned) - 1);
  static constexpr Key kLeftOut = static_cast<Key>(kTop);

  __device__ __forceinline__ static Raw raw(const RankTask& task, int64_t row, int64_t column) {
    return static_cast<const Raw*>(task.scores)[row * task.target.classes + column];
  }
  __device__ __forceinline__ static bool is_nan(Raw raw) { return Order::is_nan(raw); }
  __device__ __forceinline__ static Key key(Raw raw) { return static_cast<Key>(Order::key(raw) ^ kTop); }
};

// Tells of a bad value.
__device__ __forceinline__ void note(const RankTask& task, int64_t word) {
  atomicMin(reinterpret_cast<long long*>(task.error), static_cast<long long>(word));
}

// Sum over the block, the upper half of the lanes into the lower; every thread gets it.
template <class Sum>
__device__ __forceinline__ Sum block_sum(Sum* parts, Sum value) {
  __syncthreads();
  parts[threadIdx.x] = value;
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

// First and last of the ascending keys that equal the one at `at`.
template <class Key>
__device__ __forceinline__ int64_t first_equal(const Key* keys, int64_t at) {
  const Key key = keys[at];
  if (at == 0 || keys[at - 1] != key) return at;
  return partition_point(at, [=](int64_t i) { return keys[i] < key; });
}
template <class Key>
__device__ __forceinline__ int64_t last_equal(const Key* keys, int64_t at, int64_t count) {
  const Key key = keys[at];
  if (at + 1 == count || keys[at + 1] != key) return at;
  return at + partition_point(count - at, [=](int64_t i) { return keys[at + i] <= key; }) - 1;
}

// Blocks of `size` for `count` things.
VALOR_HD unsigned blocks_of(int64_t count, int64_t size) {
  return static_cast<unsigned>((count + size - 1) / size);
}

}  // namespace valor
