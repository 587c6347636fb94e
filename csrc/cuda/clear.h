// Sets tables of 8-byte words to 0 by one launch, which may copy one word as well.
#pragma once
#include "launch.h"

namespace valor {

struct ClearTask {
  static constexpr int kTables = 4, kThreads = 256;
  int64_t* tables[kTables];
  int64_t counts[kTables];
  const int64_t* source = nullptr;  // null: no word is copied
  int64_t* target = nullptr;        // in none of the tables

  int32_t launch(void* stream) const;
};

// Instantiated where it is used: a kernel belongs to one source file.
template <int kThreads>
__global__ void __launch_bounds__(kThreads) clear_kernel(const __grid_constant__ ClearTask task) {
  if (task.source && blockIdx.x == 0 && threadIdx.x == 0) *task.target = *task.source;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int table = 0; table < ClearTask::kTables; ++table)
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < task.counts[table];
         i += step)
      task.tables[table][i] = 0;
}

inline int32_t ClearTask::launch(void* stream) const {
  int64_t most = 1;
  for (int64_t count : counts) most = count > most ? count : most;
  const int64_t blocks = (most + 4 * kThreads - 1) / (4 * kThreads), wide = 4096;
  return VALOR_LAUNCH(clear_kernel<kThreads>, static_cast<unsigned>(blocks < wide ? blocks : wide), kThreads,
                      0, stream, *this);
}

}  // namespace valor
