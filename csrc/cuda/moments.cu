// Exact sums on CUDA: a block takes rows of some columns, a warp those of one. A lane cuts its numbers into
// slices of a few bits, as csrc/cpu/moment_folds.h does, and sums products of slices in integers; what does
// not fit is added row by row. Sums are whole numbers, so that the order of blocks changes nothing.
#include "moment_slices.h"

namespace valor {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kWarpRows = 32 * kLaneRows;
constexpr int64_t kLeastRows = kWarps * kWarpRows, kMostRows = 1 << 16;  // of a block
constexpr int64_t kBlocks = 1024;                                        // that keep a device busy

using Limb = unsigned long long;

// Counts and extremes of a lane.
struct LaneCounts {
  uint32_t counts[kMomentCounts] = {};
  double lowest = kInfinity, highest = -kInfinity;
  int64_t error = kNoError;
};

// The number at an index of predictions (side 0) or of targets.
template <bool kFloats>
__device__ __forceinline__ double number_at(const MomentTask& task, int side, int64_t index) {
  const void* const base = side ? task.target : task.preds;
  if (kFloats) return static_cast<double>(static_cast<const float*>(base)[index]);
  return load_number(base, index, side ? task.target_type : task.preds_type);
}

// Terms of the raw numbers of this lane, rows from `row` on in steps of 32; those of rows at `end` or beyond
// are 0.
template <int64_t kKind>
__device__ __forceinline__ void terms_of(const MomentTask& task, double bound, int64_t column, int64_t row,
                                         int64_t end, const Numbers& raw, Numbers& numbers,
                                         LaneCounts& seen) {
  VALOR_UNROLLED for (int i = 0; i < kLaneRows; ++i) {
    numbers.values[0][i] = numbers.values[1][i] = 0.0;
    if (row + 32 * i >= end) continue;
    const int64_t kind = kKind == kAbsolute ? task.kind : kKind;
    const RowTerms terms = moment_terms(kind, raw.values[0][i], raw.values[1][i], task.parameter, bound);
    numbers.values[0][i] = terms.first, numbers.values[1][i] = terms.second;
    ++seen.counts[kRows];
    if (terms.error) {
      const int64_t code = value_error(row + 32 * i, column, static_cast<ValueError>(terms.error));
      seen.error = code < seen.error ? code : seen.error;
    }
    if (terms.state != 0.0) {
      seen.counts[kInfinite] += terms.state > 0.0;
      seen.counts[kNegativeInfinite] += terms.state < 0.0;
      seen.counts[kNans] += terms.state != terms.state;
    } else if (kKind == kVariance) {
      seen.lowest = terms.second < seen.lowest ? terms.second : seen.lowest;
      seen.highest = terms.second > seen.highest ? terms.second : seen.highest;
    }
  }
}

// The order of float64 numbers is that of their bits as integers, downwards below 0.
__device__ __forceinline__ void widen(const MomentOutputs& out, int64_t column, double lowest,
                                      double highest) {
  const uint64_t low = bits_of(lowest + 0.0), high = bits_of(highest + 0.0);  // + 0.0: no 0 has a sign
  if (low >> 63) {
    atomicMax(reinterpret_cast<Limb*>(out.lowest + column), static_cast<Limb>(low));
  } else {
    atomicMin(reinterpret_cast<long long*>(out.lowest + column), static_cast<long long>(low));
  }
  if (high >> 63) {
    atomicMin(reinterpret_cast<Limb*>(out.highest + column), static_cast<Limb>(high));
  } else {
    atomicMax(reinterpret_cast<long long*>(out.highest + column), static_cast<long long>(high));
  }
}

template <int64_t kKind>
__device__ __forceinline__ void write_counts(const MomentOutputs& out, int64_t column,
                                             const LaneCounts& seen) {
  VALOR_UNROLLED for (int i = 0; i < kMomentCounts; ++i) {
    const uint32_t total = Warp().sum(seen.counts[i]);
    if (Warp().lane() == 0 && total)
      atomicAdd(reinterpret_cast<Limb*>(out.counts) + column * kMomentCounts + i, static_cast<Limb>(total));
  }
  if (seen.error != kNoError)
    atomicMin(reinterpret_cast<long long*>(out.error), static_cast<long long>(seen.error));
  if (kKind != kVariance) return;
  const double highest = Warp().max(seen.highest), lowest = -Warp().max(-seen.lowest);
  if (Warp().lane() == 0 && lowest <= highest) widen(out, column, lowest, highest);
}

// What a warp adds of a column to limbs [sums, limbs] in shared memory.
template <int64_t kKind, bool kFloats>
class WarpSums {
 public:
  __device__ __forceinline__ WarpSums(const MomentTask& task, int64_t column, Limb* shared)
      : task_(task), bound_(moment_bound(task.limbs)), column_(column), shared_(shared) {}

  // Adds raw numbers, of this lane rows from `row` on in steps of 32.
  __device__ __forceinline__ void add(int64_t row, int64_t end, const Numbers& raw) {
    Numbers numbers;
    terms_of<kKind>(task_, bound_, column_, row, end, raw, numbers, seen_);
    bool fits = usable_ && sums_.fits(numbers, exponents_);
    if (Warp().ballot(!fits)) {
      flush();
      usable_ = choose_exponents<S>(numbers, task_.limbs, exponents_);
      fits = usable_ && sums_.fits(numbers, exponents_);
      if (Warp().ballot(!fits)) {
        for (int i = 0; i < kLaneRows; ++i)
          add_row(kKind == kAbsolute ? task_.kind : kKind, {numbers.at(0, i), numbers.at(1, i), 0.0, 0},
                  task_.limbs, [&](int sum, int64_t limb, int64_t piece) { to_shared(sum, limb, piece); });
        return;
      }
    }
    sums_.add(numbers, exponents_);
  }

  __device__ __forceinline__ void finish(const MomentOutputs& out) {
    flush();
    write_counts<kKind>(out, column_, seen_);
  }

 private:
  using S = Shape<kKind, kFloats>;

  __device__ __forceinline__ void to_shared(int sum, int64_t limb, int64_t piece) {
    atomicAdd(shared_ + sum * task_.limbs + limb, static_cast<Limb>(piece));
  }
  __device__ __forceinline__ void flush() {
    if (!Warp().ballot(usable_)) return;
    sums_.template flush<kKind>(exponents_, task_.limbs,
                                [&](int sum, int64_t limb, int64_t piece) { to_shared(sum, limb, piece); });
  }

  const MomentTask& task_;
  const double bound_;
  const int64_t column_;
  Limb* const shared_;
  LaneCounts seen_;
  LaneSums<S> sums_;
  int exponents_[2] = {-S::kReach, -S::kReach};
  bool usable_ = false;  // whether the exponents fit the limbs
};

// Adds limbs of some columns, [columns, sums, limbs] in shared memory, to those of all.
__device__ __forceinline__ void add_limbs(const MomentTask& task, const MomentOutputs& out, int64_t column,
                                          int64_t columns, Limb* shared) {
  const int64_t sums = columns * task.sums(), words = sums * task.limbs;
  __syncthreads();
  if (threadIdx.x < sums)
    carry_limbs(reinterpret_cast<int64_t*>(shared) + threadIdx.x * task.limbs, task.limbs);
  __syncthreads();
  Limb* const to = reinterpret_cast<Limb*>(out.sums) + column * task.sums() * task.limbs;
  for (int64_t i = threadIdx.x; i < words; i += kThreads)
    if (shared[i]) atomicAdd(to + i, shared[i]);
}

// Rows of the only column: every warp reads consecutive rows.
template <int64_t kKind, bool kFloats>
__global__ void __launch_bounds__(kThreads, 1)
    sum_rows_kernel(const __grid_constant__ MomentTask task, const __grid_constant__ MomentOutputs out,
                    int64_t rows) {
  VALOR_DYNAMIC_SHARED(Limb, shared);
  const int64_t start = blockIdx.x * rows, words = task.sums() * task.limbs;
  for (int64_t i = threadIdx.x; i < words; i += kThreads) shared[i] = 0;
  __syncthreads();
  const int64_t end = start + rows < task.rows ? start + rows : task.rows;
  WarpSums<kKind, kFloats> sums(task, 0, shared);
  for (int64_t row = start + threadIdx.x / 32 * kWarpRows + Warp().lane(); row - Warp().lane() < end;
       row += kLeastRows) {
    Numbers raw;
    VALOR_UNROLLED for (int side = 0; side < 2; ++side) VALOR_UNROLLED for (int i = 0; i < kLaneRows; ++i)
        raw.values[side][i] = row + 32 * i < end ? number_at<kFloats>(task, side, row + 32 * i) : 0.0;
    sums.add(row, end, raw);
  }
  sums.finish(out);
  add_limbs(task, out, 0, 1, shared);
}

// Rows of 2^group adjacent columns: threads read neighbours of a row into a tile in shared memory, [2, tile
// rows, columns + 1], whose columns the warps share.
template <int64_t kKind, bool kFloats>
__global__ void __launch_bounds__(kThreads, 1)
    sum_columns_kernel(const __grid_constant__ MomentTask task, const __grid_constant__ MomentOutputs out,
                       int64_t rows, int group) {
  VALOR_DYNAMIC_SHARED(Limb, shared);
  const int width = 1 << group, tile_rows = kLeastRows >> group, stride = width + 1;  // odd: banks differ
  const int64_t groups = (task.columns + width - 1) >> group, words = task.sums() * task.limbs;
  const int64_t first = (blockIdx.x % groups) << group, start = blockIdx.x / groups * rows;
  double* const tile = reinterpret_cast<double*>(shared + width * words);
  for (int64_t i = threadIdx.x; i < width * words; i += kThreads) shared[i] = 0;
  const int64_t end = start + rows < task.rows ? start + rows : task.rows;
  const int warp = threadIdx.x / 32, own = warp & (width - 1);
  const int place = (warp >> group) * kWarpRows + Warp().lane();  // of the first row of this lane in a tile
  const int64_t column = first + own;
  WarpSums<kKind, kFloats> sums(task, column, shared + own * words);
  for (int64_t row = start; row < end; row += tile_rows) {
    Numbers read;
    VALOR_UNROLLED for (int side = 0; side < 2; ++side) VALOR_UNROLLED for (int i = 0; i < kLaneRows; ++i) {
      const int cell = threadIdx.x + i * kThreads;
      const int64_t from = row + (cell >> group), at = first + (cell & (width - 1));
      const bool inside = from < end && at < task.columns;
      read.values[side][i] = inside ? number_at<kFloats>(task, side, from * task.columns + at) : 0.0;
    }
    __syncthreads();  // the tile has been used
    VALOR_UNROLLED for (int side = 0; side < 2; ++side) VALOR_UNROLLED for (int i = 0; i < kLaneRows; ++i) {
      const int cell = threadIdx.x + i * kThreads;
      tile[(side * tile_rows + (cell >> group)) * stride + (cell & (width - 1))] = read.values[side][i];
    }
    __syncthreads();
    if (column < task.columns && row + place - Warp().lane() < end) {
      Numbers raw;
      VALOR_UNROLLED for (int side = 0; side < 2; ++side) VALOR_UNROLLED for (int i = 0; i < kLaneRows; ++i)
          raw.values[side][i] = tile[(side * tile_rows + place + 32 * i) * stride + own];
      sums.add(row + place, end, raw);
    }
  }
  if (column < task.columns) sums.finish(out);
  add_limbs(task, out, first, task.columns - first < width ? task.columns - first : width, shared);
}

__global__ void __launch_bounds__(kThreads) carry_kernel(int64_t* sums, int64_t count, int64_t limbs) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) carry_limbs(sums + i * limbs, limbs);
}

constexpr size_t kShared = 48 << 10;  // of a block, unless the device is asked for more

inline size_t bytes_of_group(const MomentTask& task, int group) {
  const size_t tile = group ? 2 * (kLeastRows >> group) * ((1 << group) + 1) : 0;
  return ((static_cast<size_t>(task.sums() * task.limbs) << group) + tile) * sizeof(Limb);
}

template <int64_t kKind>
int32_t launch_sums(const MomentTask& task, const MomentOutputs& out, void* stream) {
  int group = task.columns > 4 ? 3 : task.columns > 2 ? 2 : task.columns > 1 ? 1 : 0;
  while (group > 0 && bytes_of_group(task, group) > kShared) --group;
  const int64_t groups = (task.columns + (1 << group) - 1) >> group;
  const int64_t wanted = kBlocks / groups > 0 ? kBlocks / groups : 1;
  int64_t rows = ((task.rows + wanted - 1) / wanted + kLeastRows - 1) / kLeastRows * kLeastRows;
  rows = rows < kMostRows ? rows : kMostRows;
  const unsigned blocks = static_cast<unsigned>((task.rows + rows - 1) / rows * groups);
  const size_t bytes = bytes_of_group(task, group);
  const bool floats = task.preds_type == kFloat32 && task.target_type == kFloat32 && is_exact_kind(task.kind);
  int32_t status;
  if (task.columns == 1) {
    status =
        floats
            ? VALOR_LAUNCH((sum_rows_kernel<kKind, true>), blocks, kThreads, bytes, stream, task, out, rows)
            : VALOR_LAUNCH((sum_rows_kernel<kKind, false>), blocks, kThreads, bytes, stream, task, out, rows);
  } else {
    status = floats ? VALOR_LAUNCH((sum_columns_kernel<kKind, true>), blocks, kThreads, bytes, stream, task,
                                   out, rows, group)
                    : VALOR_LAUNCH((sum_columns_kernel<kKind, false>), blocks, kThreads, bytes, stream, task,
                                   out, rows, group);
  }
  if (status) return status;
  const int64_t sums = task.columns * task.sums();
  return VALOR_LAUNCH(carry_kernel, static_cast<unsigned>((sums + kThreads - 1) / kThreads), kThreads, 0,
                      stream, out.sums, sums, task.limbs);
}

}  // namespace
}  // namespace valor

// Adds to sums [columns, K, limbs] and counts [columns, 4], widens lowest and highest [columns], and lowers
// `error`, all on the device. task_words are a MomentTask.
VALOR_API int32_t valor_moments_cuda(const void* task_words, int64_t* sums, int64_t* counts, double* lowest,
                                     double* highest, int64_t* error, void* stream) {
  using namespace valor;
  const MomentTask& task = *static_cast<const MomentTask*>(task_words);
  if (task.rows == 0 || task.columns == 0) return 0;
  const MomentOutputs out{sums, counts, lowest, highest, error};
  switch (task.kind) {
    case kSquared:
      return launch_sums<kSquared>(task, out, stream);
    case kWeighted:
      return launch_sums<kWeighted>(task, out, stream);
    case kVariance:
      return launch_sums<kVariance>(task, out, stream);
    case kProducts:
      return launch_sums<kProducts>(task, out, stream);
    default:
      return launch_sums<kAbsolute>(task, out, stream);
  }
}
