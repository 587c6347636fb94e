// The largest score of each pixel of maps [B, C, S] on CUDA, as they lie: a thread takes neighbouring pixels,
// 16 bytes a load where maps are aligned, and goes through the classes with several loads under way.
#include "divisor.h"
#include "entries.h"
#include "formats.h"
#include "launch.h"
#include "top.h"

namespace valor {
namespace {

constexpr int kThreads = 256;
constexpr int kLoads = 4;  // of a thread under way

struct MapTask {
  Scores scores;  // rows: pixels of all images
  Target target;
  Divisor groups;  // of neighbouring pixels of an image
  int64_t pixels;  // of an image
  int32_t* out;    // [rows]
  int64_t* error;
};

// Neighbouring pixels: the largest score so far, its class, and whether there is NaN.
template <class Format, int N>
struct Pixels {
  using Raw = typename Format::Raw;
  using Real = typename Format::Real;
  Real best[N];
  int32_t column[N];
  bool nan = false;

  __device__ __forceinline__ Pixels() {
    VALOR_UNROLLED
    for (int i = 0; i < N; ++i) best[i] = -static_cast<Real>(__builtin_inf()), column[i] = 0;
  }
  __device__ __forceinline__ void see(const Vector<Raw, N>& raw, int32_t c) {
    VALOR_UNROLLED
    for (int i = 0; i < N; ++i) {
      const Real x = Format::value(raw.values[i]);
      nan |= x != x;
      if (x > best[i]) best[i] = x, column[i] = c;
    }
  }
};

// Writes one pixel, whose first score is at `scores`.
template <class Format>
__device__ __forceinline__ void write_pixel(const MapTask& task, int64_t row,
                                            const typename Format::Raw* scores, int32_t column, bool nan) {
  const int64_t true_class = task.target.row_class(row);
  if (true_class == kBadRow) lower(task.error, value_error(row, 0, kTarget));
  int32_t found = true_class < 0 ? kLeftOut : column;
  for (int64_t c = 0; nan && true_class >= 0 && c < task.scores.classes; ++c) {
    const typename Format::Real x = Format::value(scores[c * task.pixels]);
    if (x == x) continue;
    lower(task.error, value_error(row, c, kNanScore));
    found = kLeftOut;
    break;
  }
  task.out[row] = found;
}

template <class Format, int N>
__global__ void __launch_bounds__(kThreads, 4) map_kernel(const __grid_constant__ MapTask task) {
  using Raw = typename Format::Raw;
  int64_t group;
  const int64_t image = task.groups.divide(static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x, &group);
  if (image * task.pixels >= task.scores.rows) return;
  const int64_t stride = task.pixels, row = image * stride + group * N;
  const Raw* scores =
      static_cast<const Raw*>(task.scores.data) + image * task.scores.classes * stride + group * N;
  const int32_t classes = static_cast<int32_t>(task.scores.classes);
  Pixels<Format, N> pixels;
  const Raw* from = scores;
  int32_t c = 0;
  VALOR_ROLLED
  for (; c + kLoads <= classes; c += kLoads) {
    Vector<Raw, N> raw[kLoads];
    VALOR_UNROLLED
    for (int j = 0; j < kLoads; ++j) raw[j].load(from), from += stride;
    VALOR_UNROLLED
    for (int j = 0; j < kLoads; ++j) pixels.see(raw[j], c + j);
  }
  VALOR_ROLLED
  for (; c < classes; ++c, from += stride) {
    Vector<Raw, N> raw;
    raw.load(from);
    pixels.see(raw, c);
  }
  VALOR_UNROLLED
  for (int i = 0; i < N; ++i) write_pixel<Format>(task, row + i, scores + i, pixels.column[i], pixels.nan);
}

template <class Format, int N>
int32_t launch_maps(const MapTask& task, void* stream) {
  const int64_t groups = task.scores.rows / N, blocks = (groups + kThreads - 1) / kThreads;
  if (blocks > INT32_MAX) return 9;  // cudaErrorInvalidConfiguration
  MapTask given = task;
  given.groups = Divisor(task.pixels / N);
  return VALOR_LAUNCH((map_kernel<Format, N>), static_cast<unsigned>(blocks), kThreads, 0, stream, given);
}

}  // namespace
}  // namespace valor

// Writes the class that each pixel of scores [images, classes, pixels] predicts, kLeftOut for pixels that do
// not count, and lowers `error`. On the host: target_words, a Target of all pixels.
VALOR_API int32_t valor_predict_maps_cuda(const void* scores, int64_t type, int64_t images, int64_t pixels,
                                          const void* target_words, int32_t* classes, int64_t* error,
                                          void* stream) {
  using namespace valor;
  if (images * pixels == 0) return 0;
  const Target& target = *static_cast<const Target*>(target_words);
  const MapTask task{
      {scores, type, images * pixels, target.classes}, target, Divisor(1), pixels, classes, error};
  return with_format(type, [&](auto format) {
    using Format = decltype(format);
    constexpr int N = 16 / static_cast<int>(sizeof(typename Format::Raw));
    const bool whole = pixels % N == 0 && reinterpret_cast<uintptr_t>(scores) % 16 == 0;
    return whole ? launch_maps<Format, N>(task, stream) : launch_maps<Format, 1>(task, stream);
  });
}
