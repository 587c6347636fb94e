// Outcomes by bin of the score on CUDA: a warp a record, a lane a setting.
#include "../core/score_bins.h"
#include "launch.h"

namespace valor {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;

__device__ __forceinline__ void add_one(int64_t* cell) {
  atomicAdd(reinterpret_cast<unsigned long long*>(cell), 1ull);
}

__global__ void __launch_bounds__(kThreads) count_outcomes_kernel(const __grid_constant__ OutcomeTask task) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  int64_t *cell, *hits;
  if (row >= task.rows || !task.find(row, &cell, &hits)) return;
  const uint8_t* const matched = task.record(row) + 13;
  const uint8_t* const ignored = matched + task.setting_bytes();
  VALOR_ROLLED
  for (int64_t s = threadIdx.x % 32; s < task.settings; s += 32) {
    if (ignored[s / 8] >> s % 8 & 1) continue;
    add_one(cell + task.settings + s);
    if (!(matched[s / 8] >> s % 8 & 1)) continue;
    add_one(cell + s);
    add_one(hits + s);
  }
}

}  // namespace
}  // namespace valor

// On the host: task_words, an OutcomeTask.
VALOR_API int32_t valor_count_outcomes_cuda(const void* task_words, void* stream) {
  using namespace valor;
  const OutcomeTask& task = *static_cast<const OutcomeTask*>(task_words);
  const int64_t blocks = (task.rows + kWarps - 1) / kWarps;
  if (blocks == 0) return 0;
  if (blocks > INT32_MAX) return 9;  // cudaErrorInvalidConfiguration
  return VALOR_LAUNCH(count_outcomes_kernel, static_cast<unsigned>(blocks), kThreads, 0, stream, task);
}
