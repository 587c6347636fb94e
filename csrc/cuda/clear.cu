#include "clear.h"
#include "launch.h"

namespace valor {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kWordsEach = 4, kMostBlocks = 4096;

__global__ void __launch_bounds__(kThreads) clear_kernel(const __grid_constant__ ClearTask task) {
  if (task.source && blockIdx.x == 0 && threadIdx.x == 0) *task.target = *task.source;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x,
                step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int table = 0; table < ClearTask::kTables; ++table)
    for (int64_t i = first; i < task.counts[table]; i += step) task.tables[table][i] = 0;
}

}  // namespace

int32_t clear(const ClearTask& task, void* stream) {
  int64_t most = 1;
  for (const int64_t count : task.counts) most = count > most ? count : most;
  const int64_t blocks = (most + kWordsEach * kThreads - 1) / (kWordsEach * kThreads);
  return VALOR_LAUNCH(clear_kernel, static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks),
                      kThreads, 0, stream, task);
}

}  // namespace valor
