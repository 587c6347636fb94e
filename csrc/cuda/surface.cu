// Distances between the boundaries of label maps and masks on CUDA. Images and classes ("pairs") are taken a
// few at a time, as many as the workspace holds: rows of bits of their boundaries, steps along columns, then
// per row of the image a warp that asks for its boundary pixels and writes their distances, in the order of
// the image, into a list, of which a block makes the statistics.
#include "../core/surface.h"
#include "launch.h"

namespace valor {
namespace {

constexpr int kSurfaceWarps = 8;  // of a block: each takes a row
constexpr int kColumnThreads = 128;
constexpr int kRowsAhead = 16;   // of a column: so many loads are under way
constexpr int kValuesAhead = 8;  // likewise of a list
constexpr int32_t kNoSteps = 1 << 30;
constexpr uint32_t kSurfaceBins = 256;  // of a byte of a distance

// Where the kernels work; each array has [pairs at once, 2 sides] of the size that is told.
struct SurfaceSpace {
  uint32_t* bits;     // [depth * height, words]: the boundary
  uint32_t* starts;   // [depth * height + 1]: boundary pixels of a row, then those before it and of all
  int32_t* steps;     // [pixels]: along the column to the nearest boundary pixel
  void* costs;        // [pixels]: the least cost over rows and planes; of volumes alone
  double* distances;  // [pixels]: the list
};

// A part of a task.
struct SurfacePart {
  SurfaceTask task;
  SurfaceSpace space;
  int64_t first_pair;

  __device__ int64_t lines() const { return task.depth * task.height; }
  __device__ int64_t words() const { return (task.width + 31) / 32; }
  // Of the side of a pair that a block works for: the number is that of its arrays.
  __device__ int64_t arrays() const { return blockIdx.y; }
  __device__ int64_t other_arrays() const { return blockIdx.y ^ 1; }
  __device__ const uint32_t* bits(int64_t arrays) const { return space.bits + arrays * lines() * words(); }
  __device__ uint32_t* starts(int64_t arrays) const { return space.starts + arrays * (lines() + 1); }
  __device__ int32_t* steps(int64_t arrays) const { return space.steps + arrays * task.pixels(); }
  __device__ uint32_t total(int64_t arrays) const { return starts(arrays)[lines()]; }
  __device__ bool has_both() const { return total(arrays()) > 0 && total(other_arrays()) > 0; }
};

// Both below 2^32, as pixels of an image are: 64-bit division would be a call, for which registers are
// spilled.
__device__ int64_t quotient(int64_t number, int64_t by) {
  return static_cast<uint32_t>(number) / static_cast<uint32_t>(by);
}

// Whether pixels are of a class.
struct ClassMask {
  const void* data;
  int64_t label;
  bool masks;

  __device__ ClassMask(const SurfaceTask& task, int64_t pair, int64_t side) {
    const int64_t image = quotient(pair, task.kept());
    const int64_t of_class = task.first_class + pair - image * task.kept();
    masks = task.sides[side].masks;
    const int64_t map = masks ? image * task.classes + of_class : image;
    data = static_cast<const char*>(task.sides[side].data) + map * task.pixels() * (masks ? 1 : 4);
    label = masks ? 1 : of_class;
  }
  __device__ bool at(int64_t pixel) const {
    return (masks ? static_cast<const uint8_t*>(data)[pixel] : static_cast<const int32_t*>(data)[pixel]) ==
           label;
  }
};

// A warp a row: bits of its boundary pixels, and their number.
__global__ void __launch_bounds__(32 * kSurfaceWarps) mark_boundary_kernel(SurfacePart part) {
  const Warp warp;
  const SurfaceTask& task = part.task;
  const int64_t line = static_cast<int64_t>(blockIdx.x) * kSurfaceWarps + threadIdx.x / 32;
  if (line >= part.lines()) return;
  const ClassMask mask(task, part.first_pair + blockIdx.y / 2, blockIdx.y % 2);
  const int64_t width = task.width, area = task.height * width, z = quotient(line, task.height),
                y = line - z * task.height;
  const bool outer = y == 0 || y == task.height - 1 || (task.volume && (z == 0 || z == task.depth - 1));
  uint32_t* const row = part.space.bits + (part.arrays() * part.lines() + line) * part.words();
  uint32_t count = 0;
  for (int64_t begin = 0; begin < width; begin += 32) {
    const int64_t x = begin + warp.lane(), pixel = line * width + x;
    bool edge = false;
    if (x < width && mask.at(pixel)) {
      edge = outer || x == 0 || x == width - 1 || !mask.at(pixel - 1) || !mask.at(pixel + 1) ||
             !mask.at(pixel - width) || !mask.at(pixel + width) ||
             (task.volume && (!mask.at(pixel - area) || !mask.at(pixel + area)));
    }
    const uint32_t found = warp.ballot(edge);
    if (warp.lane() == 0) row[begin / 32] = found;
    count += static_cast<uint32_t>(count_bits(found));
  }
  if (warp.lane() == 0) part.starts(part.arrays())[line] = count;
}

// A warp a side: where the distances of each row begin in the list.
__global__ void __launch_bounds__(32) start_rows_kernel(SurfacePart part, int64_t* counts) {
  const Warp warp;
  uint32_t* const starts = part.starts(part.arrays());
  uint32_t before = 0;
  for (int64_t begin = 0; begin < part.lines(); begin += 32) {
    const int64_t line = begin + warp.lane();
    const uint32_t count = line < part.lines() ? starts[line] : 0;
    const uint32_t until = warp.running_sum(count);
    if (line < part.lines()) starts[line] = before + until - count;
    before += warp.from(until, 31);
  }
  if (warp.lane() == 0) {
    starts[part.lines()] = before;
    int64_t* const out = counts + 2 * (2 * part.first_pair + blockIdx.y);
    out[0] = before, out[1] = 0;
  }
}

// Rows [first, end) of a 2-D image with boundary pixels of a side; of a volume all rows of a plane.
struct RowRange {
  int64_t first, end;

  __device__ RowRange(const SurfacePart& part, int64_t arrays) : first(0), end(part.task.height) {
    if (part.task.depth > 1) return;
    const uint32_t* const starts = part.starts(arrays);  // they ascend
    const uint32_t total = starts[end];
    first = rows_until(starts, 1, end) - 1, end = rows_until(starts, total, end);
  }

 private:
  // The first row before which there are `count` boundary pixels or more.
  __device__ static int64_t rows_until(const uint32_t* starts, uint32_t count, int64_t rows) {
    int64_t low = 0;
    for (int64_t high = rows; low < high;) {
      const int64_t middle = (low + high) / 2;
      if (starts[middle] < count)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
};

// use(i, load(i)) for all i below `count` in their order. Loads come in runs before the first use, which may
// write where a later run loads.
template <class Value, class Load, class Use>
__device__ __forceinline__ void in_runs(int64_t count, Load load, Use use) {
  int64_t i = 0;
  for (; i + kRowsAhead <= count; i += kRowsAhead) {
    Value ahead[kRowsAhead];
    VALOR_UNROLLED for (int k = 0; k < kRowsAhead; ++k) ahead[k] = load(i + k);
    VALOR_UNROLLED for (int k = 0; k < kRowsAhead; ++k) use(i + k, ahead[k]);
  }
  VALOR_ROLLED for (; i < count; ++i) use(i, load(i));
}

// A thread a column of the other side's boundary: steps to the nearest boundary pixel in it, for rows that
// are asked.
__global__ void __launch_bounds__(kColumnThreads) step_columns_kernel(SurfacePart part) {
  const SurfaceTask& task = part.task;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumnThreads + threadIdx.x;
  if (column >= task.depth * task.width || !part.has_both()) return;
  const RowRange asked(part, part.arrays()), there(part, part.other_arrays());
  const int64_t first = asked.first < there.first ? asked.first : there.first;
  const int64_t end = asked.end > there.end ? asked.end : there.end;
  const int64_t z = quotient(column, task.width), x = column - z * task.width, words = part.words();
  const uint32_t* const bits = part.bits(part.other_arrays()) + z * task.height * words + x / 32;
  int32_t* const out = part.steps(part.arrays()) + z * task.height * task.width + x;
  int32_t steps = kNoSteps;
  in_runs<uint32_t>(
      end - first, [&](int64_t i) { return bits[(first + i) * words]; },
      [&](int64_t i, uint32_t word) {
        steps = word >> (x % 32) & 1u ? 0 : steps < kNoSteps ? steps + 1 : kNoSteps;
        out[(first + i) * task.width] = steps;
      });
  in_runs<int32_t>(
      end - 1 - first, [&](int64_t i) { return out[(end - 2 - i) * task.width]; },
      [&](int64_t i, int32_t above) {
        steps = steps < kNoSteps ? steps + 1 : kNoSteps;
        if (above < steps) steps = above;
        out[(end - 2 - i) * task.width] = steps;
      });
}

template <class Rule>
struct ColumnCosts {
  const Rule& rule;
  const int32_t* steps;
  int64_t stride;

  __device__ typename Rule::Cost operator()(int64_t i) const {
    const int32_t found = steps[i * stride];
    return found < kNoSteps ? rule.step(kRows, found) : Rule::none();
  }
};

template <class Cost>
struct StoredCosts {
  const Cost* costs;
  __device__ Cost operator()(int64_t i) const { return costs[i]; }
};

// A thread a pixel of a volume: the least cost over the planes.
template <class Rule>
__global__ void __launch_bounds__(kColumnThreads) join_planes_kernel(SurfacePart part, Rule rule) {
  const SurfaceTask& task = part.task;
  const int64_t pixel = static_cast<int64_t>(blockIdx.x) * kColumnThreads + threadIdx.x;
  if (pixel >= task.pixels() || !part.has_both()) return;
  const int64_t area = task.height * task.width, z = quotient(pixel, area);
  const ColumnCosts<Rule> line{rule, part.steps(part.arrays()) + pixel - z * area, area};
  auto* const costs = static_cast<typename Rule::Cost*>(part.space.costs) + part.arrays() * task.pixels();
  costs[pixel] = search_line(rule, kPlanes, line, task.depth, z);
}

// A warp a row: the distances of its boundary pixels.
template <class Rule>
__global__ void __launch_bounds__(32 * kSurfaceWarps) ask_rows_kernel(SurfacePart part, Rule rule) {
  const Warp warp;
  const SurfaceTask& task = part.task;
  const int64_t line = static_cast<int64_t>(blockIdx.x) * kSurfaceWarps + threadIdx.x / 32;
  if (line >= part.lines() || !part.has_both()) return;
  const int64_t arrays = part.arrays(), width = task.width;
  const uint32_t* const starts = part.starts(arrays) + line;
  if (starts[0] == starts[1]) return;
  const uint32_t* const bits = part.bits(arrays) + line * part.words();
  double* out = part.space.distances + arrays * task.pixels() + starts[0];
  using Cost = typename Rule::Cost;
  const ColumnCosts<Rule> steps{rule, part.steps(arrays) + line * width, 1};
  const StoredCosts<Cost> stored{static_cast<const Cost*>(part.space.costs) + arrays * task.pixels() +
                                 line * width};
  for (int64_t word = 0; word < part.words(); ++word) {
    const uint32_t asked = bits[word];
    if (asked >> warp.lane() & 1u) {
      const int64_t x = 32 * word + warp.lane();
      const Cost cost = task.depth == 1 ? search_line(rule, kColumns, steps, width, x)
                                        : search_line(rule, kColumns, stored, width, x);
      out[count_bits(asked & ((1u << warp.lane()) - 1))] = Rule::distance(cost);
    }
    out += count_bits(asked);
  }
}

// What the threads of a block, kSumLanes of them, know of a list.
struct SurfaceList {
  const double* values;
  int64_t count;
  double* lanes;   // shared, kSumLanes
  uint32_t* bins;  // shared, kSurfaceBins

  // Calls see(value) for the values of this thread in their order.
  template <class See>
  __device__ __forceinline__ void each(See see) const {
    int64_t i = threadIdx.x;
    for (; i + (kValuesAhead - 1) * kSumLanes < count; i += kValuesAhead * kSumLanes) {
      double ahead[kValuesAhead];
      VALOR_UNROLLED for (int k = 0; k < kValuesAhead; ++k) ahead[k] = values[i + k * kSumLanes];
      VALOR_UNROLLED for (int k = 0; k < kValuesAhead; ++k) see(ahead[k]);
    }
    VALOR_ROLLED for (; i < count; i += kSumLanes) see(values[i]);
  }

  // The sum, or with `largest` the largest, of one value a thread; the order is fixed.
  __device__ double fold(double value, bool largest) const {
    lanes[threadIdx.x] = value;
    __syncthreads();
    for (int by = kSumLanes / 2; by; by /= 2) {
      if (static_cast<int>(threadIdx.x) < by) {
        const double other = lanes[threadIdx.x + by];
        lanes[threadIdx.x] =
            largest ? (other > lanes[threadIdx.x] ? other : lanes[threadIdx.x]) : lanes[threadIdx.x] + other;
      }
      __syncthreads();
    }
    const double all = lanes[0];
    __syncthreads();
    return all;
  }

  // The distance of a rank, byte by byte: bits of numbers from 0 on ascend as the numbers do.
  __device__ double of_rank(int64_t rank) const {
    uint64_t known = 0;
    for (int shift = 56; shift >= 0; shift -= 8) {
      bins[threadIdx.x] = 0;
      __syncthreads();
      each([&](double value) {
        const uint64_t bits = bits_of(value);
        if (shift == 56 || bits >> (shift + 8) == known) atomicAdd(&bins[bits >> shift & 255], 1u);
      });
      __syncthreads();
      int64_t bin = 0;
      for (; rank >= bins[bin]; ++bin) rank -= bins[bin];
      known = known << 8 | static_cast<uint64_t>(bin);
      __syncthreads();
    }
    return double_of(known);
  }

  // The distance that follows `value`, which is of this rank.
  __device__ double after(double value, int64_t rank) const {
    double until = 0.0, least = HUGE_VAL;
    each([&](double other) {
      until += other <= value;
      if (other > value && other < least) least = other;
    });
    const double ranked = fold(until, false), following = -fold(-least, true);
    return ranked > static_cast<double>(rank + 1) ? value : following;
  }
};
static_assert(kSumLanes == kSurfaceBins, "a thread a lane and a bin");

// A block a side.
__global__ void __launch_bounds__(kSumLanes)
    surface_statistics_kernel(SurfacePart part, int64_t* counts, double* statistics) {
  VALOR_SHARED(double, lanes, [kSumLanes]);
  VALOR_SHARED(uint32_t, bins, [kSurfaceBins]);
  const int64_t side = 2 * part.first_pair + blockIdx.y;
  double* const out = statistics + 3 * side;
  if (!part.has_both()) {
    if (threadIdx.x < 3) out[threadIdx.x] = double_of(0x7ff8000000000000ull);
    return;
  }
  const int64_t count = part.total(part.arrays());
  const SurfaceList list{part.space.distances + part.arrays() * part.task.pixels(), count, lanes, bins};
  double sum = 0.0, largest = 0.0, near = 0.0;
  list.each([&](double value) {
    sum += value, near += value <= part.task.tolerance;
    if (value > largest) largest = value;
  });
  sum = list.fold(sum, false), largest = list.fold(largest, true), near = list.fold(near, false);
  const PercentileRank rank(count, part.task.quantile);
  const double lower = list.of_rank(rank.lower);
  const double percentile = rank.last ? lower : rank.between(lower, list.after(lower, rank.lower));
  if (threadIdx.x != 0) return;
  counts[2 * side + 1] = static_cast<int64_t>(near);
  out[0] = sum, out[1] = largest, out[2] = percentile;
}

template <class Rule>
int32_t launch_part(const SurfacePart& part, const Rule& rule, int64_t pairs, int64_t* counts,
                    double* statistics, void* stream) {
  const SurfaceTask& task = part.task;
  const auto grid = [&](int64_t threads, int64_t of_block) {
    return dim3(static_cast<unsigned>((threads + of_block - 1) / of_block), static_cast<unsigned>(2 * pairs));
  };
  const dim3 by_line = grid(task.depth * task.height, kSurfaceWarps);
  int32_t status = VALOR_LAUNCH(mark_boundary_kernel, by_line, 32 * kSurfaceWarps, 0, stream, part);
  if (status == 0) status = VALOR_LAUNCH(start_rows_kernel, grid(1, 1), 32, 0, stream, part, counts);
  if (status == 0)
    status = VALOR_LAUNCH(step_columns_kernel, grid(task.depth * task.width, kColumnThreads), kColumnThreads,
                          0, stream, part);
  if (status == 0 && task.depth > 1)
    status = VALOR_LAUNCH((join_planes_kernel<Rule>), grid(task.pixels(), kColumnThreads), kColumnThreads, 0,
                          stream, part, rule);
  if (status == 0)
    status = VALOR_LAUNCH((ask_rows_kernel<Rule>), by_line, 32 * kSurfaceWarps, 0, stream, part, rule);
  if (status == 0)
    status =
        VALOR_LAUNCH(surface_statistics_kernel, grid(1, 1), kSumLanes, 0, stream, part, counts, statistics);
  return status;
}

}  // namespace
}  // namespace valor

// As valor_surface_distances_cpu. The arrays of SurfaceSpace have room for `at_once` pairs.
VALOR_API int32_t valor_surface_distances_cuda(const void* task_words, uint32_t* bits, uint32_t* starts,
                                               int32_t* steps, void* costs, double* distances,
                                               int64_t at_once, int64_t* counts, double* statistics,
                                               void* stream) {
  using namespace valor;
  const SurfaceTask task = *static_cast<const SurfaceTask*>(task_words);
  return with_rule(task, [&](const auto& rule) {
    int32_t status = 0;
    for (int64_t first = 0; first < task.pairs() && status == 0; first += at_once) {
      const SurfacePart part{task, SurfaceSpace{bits, starts, steps, costs, distances}, first};
      const int64_t left = task.pairs() - first;
      status = launch_part(part, rule, left < at_once ? left : at_once, counts, statistics, stream);
    }
    return status;
  });
}
