// Scores and hits of ranked documents on CUDA: a warp takes a query.
#include "../core/queries.h"
#include "launch.h"

namespace valor {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / 32;

// A query's documents, read through the order.
struct OrderedDocs {
  const QueryTask& task;
  int64_t begin, count;

  VALOR_HD int64_t size() const { return count; }
  VALOR_HD double grade(int64_t i) const {
    return load_grade(task.target, task.order[begin + i], task.target_type);
  }
  VALOR_HD double score(int64_t i) const {
    return load_float64(task.preds, task.order[begin + i], static_cast<FloatType>(task.type));
  }
  VALOR_HD double best(int64_t i) const {
    return load_grade(task.target, task.best[begin + i], task.target_type);
  }
};

__device__ __forceinline__ int64_t own_query() {
  return static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
}

__global__ void __launch_bounds__(kThreads, 4) score_kernel(const __grid_constant__ QueryTask task) {
  const int64_t q = own_query();
  if (q >= task.queries) return;
  const int64_t begin = task.offsets[q];
  write_query_score(Warp(), OrderedDocs{task, begin, task.offsets[q + 1] - begin}, task, q);
}

__global__ void __launch_bounds__(kThreads) hits_kernel(const __grid_constant__ QueryHitsTask task) {
  const int64_t q = own_query();
  if (q >= task.queries) return;
  const Warp warp;
  const int64_t begin = task.offsets[q], count = task.offsets[q + 1] - begin;
  const int64_t longer = count > task.max_k ? count : task.max_k;
  const uint32_t up_to_lane = (2u << warp.lane()) - 1;
  int64_t found = 0;
  for (int64_t base = 0; base < longer; base += 32) {
    const int64_t i = base + warp.lane();
    const bool relevant = i < count && load_grade(task.target, task.order[begin + i], task.target_type) > 0.0;
    const uint32_t lanes = warp.ballot(relevant);
    if (i < task.max_k)
      task.hits[q * task.max_k + i] = static_cast<int32_t>(found + count_bits(lanes & up_to_lane));
    found += count_bits(lanes);
  }
  if (warp.lane() == 0) task.relevant[q] = found;
}

unsigned blocks_for(int64_t queries) { return static_cast<unsigned>((queries + kWarps - 1) / kWarps); }

}  // namespace
}  // namespace valor

// Fills scores and status on the device.
VALOR_API int32_t valor_query_scores_cuda(const valor::QueryTask* task, void* stream) {
  using namespace valor;
  if (task->queries == 0) return 0;
  return VALOR_LAUNCH(score_kernel, blocks_for(task->queries), kThreads, 0, stream, *task);
}

// Fills hits and relevant on the device.
VALOR_API int32_t valor_query_hits_cuda(const valor::QueryHitsTask* task, void* stream) {
  using namespace valor;
  if (task->queries == 0) return 0;
  return VALOR_LAUNCH(hits_kernel, blocks_for(task->queries), kThreads, 0, stream, *task);
}
