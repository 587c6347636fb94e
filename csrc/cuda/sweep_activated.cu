// Histograms of probabilities that are made of logits while they are read: sigmoids for labels, the softmax
// for class indices. If scores may be either, they are counted as probabilities, and again as logits where
// one of them lies outside [0, 1]: the first read then ends at once. The host never waits.
#include "sweep_tile_kernels.h"

namespace valor {
namespace {

struct Shares {
  TileTask task;
  RowShare* shares;  // [rows]
  int lanes;         // that share a row: a power of two
};

// A sum of floats with what rounding has lost (Kahan).
struct CarefulSum {
  float sum = 0.0f, lost = 0.0f;
  __device__ __forceinline__ void add(float x) {
    const float part = x - lost, next = sum + part;
    lost = (next - sum) - part;
    sum = next;
  }
};

// One lane's part of a row: single scores up to the first that is aligned, then 16 bytes a load, then the
// rest.
template <class Format, class See>
__device__ __forceinline__ void see_row(const typename Format::Raw* row, int32_t classes, int32_t lane,
                                        int32_t lanes, See see) {
  using Raw = typename Format::Raw;
  constexpr int32_t kBytes = static_cast<int32_t>(sizeof(Raw)), N = 16 / kBytes;
  const int32_t ahead = static_cast<int32_t>(-reinterpret_cast<intptr_t>(row) & 15) / kBytes;
  const int32_t head = ahead < classes ? ahead : classes, vectors = (classes - head) / N;
  for (int32_t c = lane; c < head; c += lanes) see(Format::value(row[c]));
  for (int32_t v = lane; v < vectors; v += lanes) {
    Vector<Raw, N> raw;
    raw.load(row + head + v * N);
    VALOR_UNROLLED
    for (int i = 0; i < N; ++i) see(Format::value(raw.values[i]));
  }
  for (int32_t c = head + vectors * N + lane; c < classes; c += lanes) see(Format::value(row[c]));
}

// Some lanes take a row, which the second look finds in a cache.
template <class Format>
__global__ void __launch_bounds__(kThreads) share_kernel(const __grid_constant__ Shares of) {
  const TileTask& task = of.task;
  if (is_idle(task)) return;
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / of.lanes;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) & (of.lanes - 1);
  const bool there = row < task.sweep.rows;
  const int32_t classes = there ? static_cast<int32_t>(task.sweep.target.classes) : 0;
  const auto* scores = static_cast<const typename Format::Raw*>(task.sweep.scores) +
                       (there ? row : 0) * task.sweep.target.classes;
  float largest = -static_cast<float>(__builtin_inf());
  see_row<Format>(scores, classes, lane, of.lanes, [&](float x) { largest = x > largest ? x : largest; });
  for (int offset = of.lanes / 2; offset; offset >>= 1) {
    const float other = __shfl_xor_sync(Warp::kAll, largest, offset);
    largest = other > largest ? other : largest;
  }
  CarefulSum own;
  see_row<Format>(scores, classes, lane, of.lanes,
                  [&](float x) { own.add(short_exp_of_negative(x - largest)); });
  double total = static_cast<double>(own.sum) - static_cast<double>(own.lost);
  for (int offset = of.lanes / 2; offset; offset >>= 1) total += __shfl_xor_sync(Warp::kAll, total, offset);
  if (there && lane == 0) of.shares[row] = {largest, static_cast<float>(1.0 / total)};
}

// Forgets what was counted as probabilities if that was wrong. Errors stay: they are also those of logits.
__global__ void __launch_bounds__(kThreads)
    reset_kernel(const __grid_constant__ TileTask task, int64_t words) {
  if (is_idle(task)) return;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < words) task.histogram[i] = 0;
}

int32_t launch_reset(const TileTask& task, void* stream) {
  const int64_t words = 2 * task.sweep.target.classes * (task.lookup.shape.thresholds + 1);
  const unsigned blocks = static_cast<unsigned>((words + kThreads - 1) / kThreads);
  return VALOR_LAUNCH(reset_kernel, blocks, kThreads, 0, stream, task, words);
}

int32_t launch_shares(const TileTask& task, void* stream) {
  Shares of = {task, const_cast<RowShare*>(task.shares), 1};
  const int64_t loads = task.sweep.target.classes * float_bytes(static_cast<FloatType>(task.sweep.type)) / 16;
  while (of.lanes < 32 && of.lanes < loads) of.lanes *= 2;
  const int64_t blocks = (task.sweep.rows * of.lanes + kThreads - 1) / kThreads;
  if (blocks > INT32_MAX) return 9;  // cudaErrorInvalidConfiguration
  const auto kernel = task.sweep.type == kFloat16    ? share_kernel<F16>
                      : task.sweep.type == kBFloat16 ? share_kernel<BF16>
                                                     : share_kernel<F32>;
  return VALOR_LAUNCH(kernel, static_cast<unsigned>(blocks), kThreads, 0, stream, of);
}

// What is counted of each element, as numbers.
__global__ void __launch_bounds__(kThreads)
    activate_kernel(const __grid_constant__ TileTask task, float* out, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t classes = task.sweep.target.classes;
  if (i < count) out[i] = task.value(i / classes, i % classes);
}

}  // namespace

bool launch_activated_tiles(const TileTask& task, void* stream, int32_t* status) {
  *status = 0;
  if ((task.reading == kSoftmax) == (task.sweep.target.per_element != 0)) return false;
  if (task.outside) {
    TileTask guess = task;
    guess.reading = kProbabilities;
    if (!launch_tiles(guess, stream, status)) return false;
    if (*status == 0) *status = launch_reset(task, stream);
  }
  if (*status) return true;
  if (task.reading == kSigmoid) return launch_reading<Sigmoids>(task, stream, status);
  *status = launch_shares(task, stream);
  return *status != 0 || launch_reading<Softmaxes>(task, stream, status);
}

}  // namespace valor

// The probabilities that valor_sweep_activated_cuda counts, float32 [rows, classes], of scores of up to 32
// bits: `reading` is kSigmoid or kSoftmax, `shares` for the softmax [rows + 1] pairs of floats of anything.
VALOR_API int32_t valor_activate_cuda(const void* scores, int64_t type, int64_t rows, int64_t classes,
                                      int64_t reading, void* shares, float* out, void* stream) {
  using namespace valor;
  TileTask task = {};
  task.sweep.scores = scores, task.sweep.type = type, task.sweep.rows = rows;
  task.sweep.target.classes = classes;
  task.reading = reading, task.shares = static_cast<const RowShare*>(shares);
  const int64_t count = rows * classes, blocks = (count + kThreads - 1) / kThreads;
  if (count == 0) return 0;
  if (blocks > INT32_MAX) return 9;  // cudaErrorInvalidConfiguration
  if (reading == kSoftmax)
    if (const int32_t status = launch_shares(task, stream)) return status;
  return VALOR_LAUNCH(activate_kernel, static_cast<unsigned>(blocks), kThreads, 0, stream, task, out, count);
}
