// Histograms of scores as they are, which may be guessed to be probabilities.
#include "sweep_tile_kernels.h"

namespace valor {
namespace {

// One block counts the rows from `first` on, which make no wide one.
__global__ void __launch_bounds__(kThreads)
    rest_kernel(const __grid_constant__ TileTask task, const int64_t first, const bool positives_too) {
  if (is_idle(task)) return;
  const uint32_t classes = static_cast<uint32_t>(task.sweep.target.classes);
  const int64_t buckets = task.lookup.shape.thresholds + 1;
  const uint32_t elements = static_cast<uint32_t>(task.sweep.rows - first) * classes;
  for (uint32_t i = threadIdx.x; i < elements; i += kThreads) {
    const int64_t row = first + i / classes, column = i % classes;
    const Truth truth = task.sweep.target.at(row, column);
    if (truth == kIgnored) continue;
    const float x = task.value(row, column);
    if (task.reading == kProbabilities && lies_outside(x)) *task.outside = 1;
    if (truth == kBadTruth || x != x) {
      note(task, row, column);
      continue;
    }
    Word* total = place_of<kAnyCells>(task, task.cells, x, task.totals() + column * buckets);
    if (positives_too && truth == kPositive) atomicAdd(total, Word{1});
    atomicAdd(total + classes * buckets, Word{1});
  }
}

template <bool kSides>
__device__ __forceinline__ uint32_t row_flag(int64_t c) {
  return c < 0 ? kLeftOutRow : kSides ? static_cast<uint32_t>(c) : 0;
}

// One thread a row of class indices: whether it counts, and without kSides its positive.
template <bool kSides>
__global__ void __launch_bounds__(kThreads) flag_kernel(const __grid_constant__ TileTask task) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (row >= task.sweep.rows || is_idle(task)) return;
  const int64_t c = task.sweep.target.row_class(row);
  if (c == kBadRow) note(task, row, 0);
  const int64_t next = row + 1 < task.sweep.rows ? task.sweep.target.row_class(row + 1) : 0;
  task.flags[row] = static_cast<uint8_t>(row_flag<kSides>(c) | row_flag<kSides>(next) << 4);
  if (c < 0 || kSides) return;
  const float x = task.value(row, c);
  Word* counts = task.totals() + c * (task.lookup.shape.thresholds + 1);
  if (x == x) atomicAdd(place_of<kAnyCells>(task, task.cells, x, counts), Word{1});
}

}  // namespace

int32_t launch_rest(const TileTask& task, int64_t first, bool positives_too, void* stream) {
  return VALOR_LAUNCH(rest_kernel, 1, kThreads, 0, stream, task, first, positives_too);
}

int32_t launch_flags(const TileTask& task, bool sides, void* stream) {
  const unsigned blocks = static_cast<unsigned>((task.sweep.rows + kThreads - 1) / kThreads);
  return VALOR_LAUNCH(sides ? flag_kernel<true> : flag_kernel<false>, blocks, kThreads, 0, stream, task);
}

bool launch_tiles(const TileTask& task, void* stream, int32_t* status) {
  return launch_reading<AsTheyAre>(task, stream, status);
}

}  // namespace valor
