// The largest score of each row on CUDA: some lanes take a row, 16 bytes a load, four loads under way.
#include "entries.h"
#include "formats.h"
#include "launch.h"
#include "top.h"

namespace valor {
namespace {

constexpr int kThreads = 256;
constexpr int kLoads = 4;             // of a lane under way
constexpr int32_t kNone = INT32_MAX;  // in place of a column

struct TopRows {
  TopTask task;
  int lanes;  // that share a row: a power of two
};

__device__ __forceinline__ float next_below(float value) {
  const int32_t bits = (value == 0.0f ? ordered_bits(-0.0f) : ordered_bits(value)) - 1;
  return float_from_bits(static_cast<uint32_t>(bits ^ (bits >> 31 & INT32_MAX)));
}
__device__ __forceinline__ double next_below(double value) {
  const int64_t bits = (value == 0.0 ? ordered_bits(-0.0) : ordered_bits(value)) - 1;
  return double_of(static_cast<uint64_t>(bits ^ (bits >> 63 & INT64_MAX)));
}

// What a lane sees of a row, in the order of columns: the largest score with its first column, whether there
// is NaN, and, if kRanked, how many come before the true class.
template <class Format, bool kRanked>
struct Largest {
  using Raw = typename Format::Raw;
  using Real = typename Format::Real;

  Real best = -static_cast<Real>(__builtin_inf());
  int32_t column = kNone;  // also if all are -inf
  int32_t above = 0;
  bool nan = false;
  Real own = 0, below_own = 0;
  int32_t true_class = 0;

  __device__ __forceinline__ void rank_against(Real score, int32_t c) {
    own = score, true_class = c;
    below_own = next_below(score);  // NaN below -inf
  }
  __device__ __forceinline__ void see(Raw raw, int32_t c) {
    const Real x = Format::value(raw);
    nan |= x != x;
    if (kRanked) above += x > own || (x == own && c < true_class);
    take(x, c);
  }
  // N neighbours from column `first` on; those that tie with the true class beside it are left to the caller.
  // Neighbours that were seen before change nothing unless they are ranked.
  template <int N>
  __device__ __forceinline__ void see(const Vector<Raw, N>& raw, int32_t first, bool ranked) {
    const Real infinity = static_cast<Real>(__builtin_inf());
    const Real bound = !ranked ? infinity : first + N <= true_class ? below_own : own;
    VALOR_UNROLLED
    for (int i = 0; i < N; ++i) {
      const Real x = Format::value(raw.values[i]);
      nan |= x != x;
      if (kRanked) above += !(x <= bound);
      take(x, first + i);
    }
  }
  __device__ __forceinline__ void join(int width) {
    for (int offset = width / 2; offset; offset >>= 1) {
      const Real other = __shfl_xor_sync(Warp::kAll, best, offset);
      const int32_t place = __shfl_xor_sync(Warp::kAll, column, offset);
      if (other > best || (other == best && place < column)) best = other, column = place;
      if (kRanked) above += __shfl_xor_sync(Warp::kAll, above, offset);
      nan |= __shfl_xor_sync(Warp::kAll, nan ? 1 : 0, offset) != 0;
    }
    if (column == kNone) column = 0;
  }

 private:
  __device__ __forceinline__ void take(Real x, int32_t c) {
    if (x > best) best = x, column = c;
  }
};

// One lane's part of a row: single scores up to the first that is aligned, then loads of N, then the rest.
template <class Format, bool kRanked>
__device__ __forceinline__ void read_row(const typename Format::Raw* row, int32_t classes, int32_t lane,
                                         int32_t lanes, Largest<Format, kRanked>& largest) {
  using Raw = typename Format::Raw;
  constexpr int N = 16 / static_cast<int>(sizeof(Raw));
  int32_t head =
      static_cast<int32_t>(-reinterpret_cast<intptr_t>(row) & 15) / static_cast<int32_t>(sizeof(Raw));
  head = head < classes ? head : classes;
  VALOR_ROLLED
  for (int32_t c = lane; c < head; c += lanes) largest.see(row[c], c);
  const int32_t vectors = (classes - head) / N;
  VALOR_ROLLED
  for (int32_t v = lane; v < vectors; v += kLoads * lanes) {
    Vector<Raw, N> raw[kLoads];
    int32_t places[kLoads];  // the last load stands for those beyond it
    VALOR_UNROLLED
    for (int j = 0; j < kLoads; ++j) {
      places[j] = head + (v + j * lanes < vectors ? v + j * lanes : vectors - 1) * N;
      raw[j].load(row + places[j]);
    }
    VALOR_UNROLLED
    for (int j = 0; j < kLoads; ++j) largest.see(raw[j], places[j], v + j * lanes < vectors);
  }
  VALOR_ROLLED
  for (int32_t c = head + vectors * N + lane; c < classes; c += lanes) largest.see(row[c], c);
  if constexpr (kRanked) {
    const int32_t beside = largest.true_class - head;
    if (lane != 0 || beside < 0 || beside >= vectors * N) return;
    VALOR_ROLLED
    for (int32_t c = largest.true_class - beside % N; c < largest.true_class; ++c)
      largest.above += Format::value(row[c]) == largest.own;
  }
}

// Notes the first NaN of a row.
template <class Format>
__device__ __forceinline__ void note_nan(const TopTask& task, int64_t i, const typename Format::Raw* row) {
  int32_t c = 0;
  for (typename Format::Real x = Format::value(row[0]); x == x; x = Format::value(row[++c])) {
  }
  lower(task.error, value_error(i, c, kNanScore));
}

template <class Format, bool kRanked>
__global__ void __launch_bounds__(kThreads) largest_kernel(const __grid_constant__ TopRows rows) {
  const TopTask& task = rows.task;
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / rows.lanes;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) & (rows.lanes - 1);
  const int32_t classes = static_cast<int32_t>(task.scores.classes);
  const bool there = i < task.scores.rows;
  const int64_t true_class = !there ? kIgnoredRow : task.target.data ? task.target.row_class(i) : 0;
  const typename Format::Raw* row =
      static_cast<const typename Format::Raw*>(task.scores.data) + (there ? i : 0) * task.scores.classes;
  Largest<Format, kRanked> largest;
  if (true_class >= 0) {
    if (kRanked) largest.rank_against(Format::value(row[true_class]), static_cast<int32_t>(true_class));
    read_row<Format, kRanked>(row, classes, lane, rows.lanes, largest);
  }
  largest.join(rows.lanes);
  if (!there || lane != 0) return;
  const bool counts = true_class >= 0 && !largest.nan;
  const int32_t found = kRanked && largest.above < task.k ? static_cast<int32_t>(true_class) : largest.column;
  if (task.out) task.out[i] = counts ? found : kLeftOut;
  if (counts && task.matrix) atomicAdd(task.matrix + true_class * classes + found, 1ull);
  if (true_class == kBadRow) lower(task.error, value_error(i, 0, kTarget));
  if (true_class >= 0 && largest.nan) note_nan<Format>(task, i, row);
}

// Lanes that leave each about four loads of a row.
int lanes_of(int64_t bytes) {
  int lanes = 1;
  while (lanes < 32 && kLoads * 16 * lanes < bytes) lanes *= 2;
  return lanes;
}

}  // namespace

int32_t launch_largest(const TopTask& task, void* stream) {
  const int64_t bytes = task.scores.classes * float_bytes(static_cast<FloatType>(task.scores.type));
  const TopRows rows{task, lanes_of(bytes)};
  const int64_t blocks = (task.scores.rows * rows.lanes + kThreads - 1) / kThreads;
  if (blocks > INT32_MAX) return 9;  // cudaErrorInvalidConfiguration
  return with_format(task.scores.type, [&](auto format) {
    using Format = decltype(format);
    const auto kernel = task.k > 1 ? largest_kernel<Format, true> : largest_kernel<Format, false>;
    return VALOR_LAUNCH(kernel, static_cast<unsigned>(blocks), kThreads, 0, stream, rows);
  });
}

}  // namespace valor

// Writes the class that each row predicts, kLeftOut for rows that do not count, and lowers `error`; with a
// `matrix` [C, C], which is 0 before, counts rows by true and predicted class. Either may be null. On the
// host: target_words, a Target.
VALOR_API int32_t valor_predict_top_cuda(const void* scores, int64_t type, int64_t rows,
                                         const void* target_words, int64_t k, int32_t* predicted,
                                         int64_t* matrix, int64_t* error, void* stream) {
  using namespace valor;
  if (rows == 0) return 0;
  const Target& target = *static_cast<const Target*>(target_words);
  return launch_largest({{scores, type, rows, target.classes},
                         target,
                         k,
                         predicted,
                         reinterpret_cast<unsigned long long*>(matrix),
                         error},
                        stream);
}
