// Histograms of scores of up to 32 bits on CUDA, 16 bytes a load. Where a row is no whole number of loads, as
// many rows as make one are read as one wide row, whose columns are folded at the end. For two sources, each
// of which compiles its own readings.
#pragma once
#include "sweep_tile_thread.h"

namespace valor {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kShared = 44 << 10;                      // bytes
constexpr int64_t kStaged = 12 << 10;                      // bytes of cells
constexpr int64_t kWantedBlocks = 3696;                    // 28 for each of 132 multiprocessors
constexpr int64_t kLeastRows = 1024, kMostRows = 1 << 20;  // of a chunk
constexpr int64_t kMostPairRows = 65535;                   // of a chunk whose counts share a word
constexpr int64_t kVectors = 8;                            // loads of a row of a tile: a line of the cache

// Notes the first error of a column among every `step` rows.
__device__ __forceinline__ void find_nan(const TileTask& task, int64_t row, uint32_t rows, uint32_t step,
                                         int64_t column) {
  VALOR_ROLLED
  for (; rows; --rows, row += step)
    if (task.error_of(row, column) != kNoError) return note(task, row, column);
}

// Whether counts of this task do not matter: they are of a guess that has failed, or of logits that are none.
__device__ __forceinline__ bool is_idle(const TileTask& task) {
  if (!task.outside) return false;
  return (*static_cast<const volatile uint32_t*>(task.outside) != 0) == (task.reading == kProbabilities);
}

// Adds the counts of a block to the histogram; where NaN was counted, looks for the first.
__device__ __forceinline__ void flush(const TileTask& task, const TilePlan& plan, bool pairs,
                                      int64_t first_row, uint32_t rows, uint32_t first, uint32_t columns,
                                      const uint32_t* counts) {
  const uint32_t slots = static_cast<uint32_t>(task.lookup.shape.thresholds) + 2;
  const uint32_t classes = static_cast<uint32_t>(task.sweep.target.classes);
  const int64_t cells = static_cast<int64_t>(classes) * (slots - 1);
  for (uint32_t i = threadIdx.x; i < columns * slots; i += kThreads) {
    const uint32_t column = i / slots, slot = i % slots;
    Word every = 0, positives = 0;
    for (uint32_t copy = 0; copy < plan.copies; ++copy) {
      const uint32_t found = counts[(copy * columns + column) * plan.stride + slot];
      every += pairs ? (found & 0xffffu) + (found >> 16) : found;
      positives += pairs ? found >> 16 : 0;
    }
    // Columns lie in the order of the elements of loads.
    const uint32_t vectors = columns / plan.width, place = column % vectors * plan.width + column / vectors;
    const int64_t c = (first + place) % classes;
    if (every == 0) continue;
    if (slot == 0) {
      find_nan(task, first_row * plan.fold + (first + place) / classes, rows, plan.fold, c);
      continue;
    }
    Word* total = task.totals() + c * (slots - 1) + slot;
    if (positives) atomicAdd(total, positives);
    atomicAdd(total + cells, every);
  }
}

// One block a tile of columns and chunk of wide rows.
template <class Format, Cells kCells, template <int> class TargetOf, template <class> class ReadOf>
__global__ void __launch_bounds__(kThreads, 2)
    tile_kernel(const __grid_constant__ TileTask task, const __grid_constant__ TilePlan plan) {
  VALOR_DYNAMIC_SHARED(uint8_t, shared);
  constexpr int N = 16 / static_cast<int>(sizeof(typename Format::Raw));
  using Target = TargetOf<N>;
  SweepCell* cells = reinterpret_cast<SweepCell*>(shared);
  uint32_t* counts = reinterpret_cast<uint32_t*>(shared + plan.staged);
  const uint32_t tile = blockIdx.x % plan.tiles, first = tile * plan.vectors * N;
  const uint32_t columns = plan.columns - first < plan.vectors * N ? plan.columns - first : plan.vectors * N;
  const int64_t begin = static_cast<int64_t>(blockIdx.x / plan.tiles) * plan.chunk;
  const uint32_t rows =
      static_cast<uint32_t>(plan.wide_rows - begin < plan.chunk ? plan.wide_rows - begin : plan.chunk);
  for (uint32_t i = threadIdx.x; i < plan.staged / sizeof(SweepCell); i += kThreads) cells[i] = task.cells[i];
  for (uint32_t i = threadIdx.x; i < plan.copies * columns * plan.stride; i += kThreads) counts[i] = 0;
  __syncthreads();
  const uint32_t vectors = columns / N, step = kThreads / vectors;
  const uint32_t row = threadIdx.x / vectors, vector = threadIdx.x % vectors;
  uint32_t* own = counts + (row % plan.copies * columns + vector) * plan.stride;
  if (row < step && !is_idle(task))
    TileThread<Format, kCells, Target, ReadOf<Format>, N>(task, plan, begin, first + vector * N, cells, own,
                                                          vectors * plan.stride)
        .read(row, rows, step);
  __syncthreads();
  if (is_idle(task)) return;
  flush(task, plan, Target::kPairs, begin, rows, first, columns, counts);
}

// ----------------------------------------------------------------------------------------------------
// launches

template <int N>
using RowFlags = RowTarget<N, false>;
template <int N>
using RowClasses = RowTarget<N, true>;
template <int N>
using ByteTarget = ElementTarget<N, uint8_t>;
template <int N>
using WordTarget = ElementTarget<N, uint64_t>;

int64_t greatest_divisor(int64_t a, int64_t b) { return b == 0 ? a : greatest_divisor(b, a % b); }

// False where tiles do not fit.
bool plan_tiles(const TileTask& task, int64_t width, bool pairs, TilePlan& plan) {
  const int64_t classes = task.sweep.target.classes, fold = width / greatest_divisor(classes, width);
  const int64_t staged = task.cell_bytes(), stride = (task.lookup.shape.thresholds + 2) | 1;
  const int64_t columns = fold * classes;
  if (staged > kStaged || columns > INT32_MAX / 8) return false;
  const int64_t fit = (kShared - staged) / (4 * stride * width);
  const int64_t most = fit < kVectors ? fit : kVectors, vectors = columns / width;
  if (most < 1 || task.sweep.rows < fold) return false;
  const int64_t tiles = (vectors + most - 1) / most, each = (vectors + tiles - 1) / tiles;
  const int64_t wide_rows = task.sweep.rows / fold, wanted = wide_rows * tiles / kWantedBlocks;
  const int64_t limit = pairs ? kMostPairRows : kMostRows;
  int64_t copies = 1;
  while (2 * copies * each <= (fit < kVectors ? fit : kVectors)) copies *= 2;
  plan.wide_rows = wide_rows;
  plan.fold = static_cast<uint32_t>(fold), plan.columns = static_cast<uint32_t>(columns);
  plan.width = static_cast<uint32_t>(width), plan.stride = static_cast<uint32_t>(stride);
  plan.vectors = static_cast<uint32_t>(each);
  plan.tiles = static_cast<uint32_t>((vectors + each - 1) / each);
  plan.chunk = static_cast<uint32_t>(wanted < kLeastRows ? kLeastRows : wanted < limit ? wanted : limit);
  plan.copies = static_cast<uint32_t>(copies), plan.staged = static_cast<uint32_t>(staged);
  return true;
}

bool is_aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

template <class Format, template <class> class ReadOf, template <int> class TargetOf>
int32_t launch_tiles_of(const TileTask& task, const TilePlan& plan, void* stream) {
  const unsigned blocks =
      static_cast<unsigned>(plan.tiles * ((plan.wide_rows + plan.chunk - 1) / plan.chunk));
  const int64_t shared = plan.staged + 4 * plan.copies * plan.vectors * plan.width * plan.stride;
  const auto kernel = task.keys.leaves  ? tile_kernel<Format, kKeyCells, TargetOf, ReadOf>
                      : task.shape.even ? tile_kernel<Format, kEvenCells, TargetOf, ReadOf>
                                        : tile_kernel<Format, kLookupCells, TargetOf, ReadOf>;
  const int32_t status = VALOR_LAUNCH(kernel, blocks, kThreads, shared, stream, task, plan);
  const int64_t counted = plan.wide_rows * plan.fold;
  if (status || counted == task.sweep.rows) return status;
  return launch_rest(task, counted, TargetOf<4>::kPairs, stream);
}

template <class Format, template <class> class ReadOf>
bool launch_format(const TileTask& task, void* stream, int32_t* status) {
  const Target& target = task.sweep.target;
  const int64_t width = 16 / static_cast<int64_t>(sizeof(typename Format::Raw)), classes = target.classes;
  const bool sides = classes <= kFewClasses,
             bytes = target.type == kInt8 || target.type == kUInt8 || target.type == kBool;
  TilePlan plan;
  if (!plan_tiles(task, width, target.per_element || sides, plan)) return false;
  if (target.per_element) {
    if (!(bytes || target.type == kInt64) || !is_aligned(target.data)) return false;
    if (target.ignores(0) || target.ignores(1)) return false;  // the loop counts every 0 and 1
    if constexpr (ReadOf<Format>::kOfElements)
      *status = bytes ? launch_tiles_of<Format, ReadOf, ByteTarget>(task, plan, stream)
                      : launch_tiles_of<Format, ReadOf, WordTarget>(task, plan, stream);
    return ReadOf<Format>::kOfElements;
  }
  if (width > classes + 1) return false;  // a load has elements of three rows
  if constexpr (ReadOf<Format>::kOfRows) {
    *status = launch_flags(task, sides, stream);
    if (*status == 0)
      *status = sides ? launch_tiles_of<Format, ReadOf, RowClasses>(task, plan, stream)
                      : launch_tiles_of<Format, ReadOf, RowFlags>(task, plan, stream);
  }
  return ReadOf<Format>::kOfRows;
}

// Counts scores as `task.reading`, which is that of ReadOf, says.
template <template <class> class ReadOf>
bool launch_reading(const TileTask& task, void* stream, int32_t* status) {
  if (!task.has_cells() || !is_aligned(task.sweep.scores)) return false;
  switch (task.sweep.type) {
    case kFloat16:
      return launch_format<F16, ReadOf>(task, stream, status);
    case kBFloat16:
      return launch_format<BF16, ReadOf>(task, stream, status);
    case kFloat32:
      return launch_format<F32, ReadOf>(task, stream, status);
    default:
      return false;
  }
}

}  // namespace
}  // namespace valor
