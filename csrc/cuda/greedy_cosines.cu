// Cosines of tokens on CUDA: a warp takes a token and the tokens of the other text one after another.
#include "../core/greedy_cosines.h"
#include "../core/ragged.h"
#include "launch.h"

namespace valor {
namespace {

constexpr int kThreads = 256, kWarp = kDotLanes, kWarps = kThreads / kWarp;

// The sum over the lanes of a warp, the upper half joining the lower; every lane gets it.
__device__ __forceinline__ float fold(float value) {
  for (int by = kWarp / 2; by > 0; by /= 2) value += __shfl_xor_sync(Warp::kAll, value, by);
  return value;
}

__device__ __forceinline__ float dot(const float* a, const float* b, int64_t size) {
  float sum = 0.0f;
  for (int64_t d = threadIdx.x % kWarp; d < size; d += kWarp) sum += a[d] * b[d];
  return fold(sum);
}

__global__ void __launch_bounds__(kThreads)
    length_kernel(const __grid_constant__ CosineTask task, int side, long long* error) {
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (token >= task.tokens[side]) return;
  const float* x = task.vector(side, token);
  const float squares = dot(x, x, task.size);
  if (threadIdx.x % kWarp != 0) return;
  if (!has_direction(squares)) atomicMin(error, static_cast<long long>(value_error(token, side, kNanScore)));
  task.inverse[side][token] = inverse_length(squares);
}

__global__ void __launch_bounds__(kThreads) match_kernel(const __grid_constant__ CosineTask task, int side) {
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (token >= task.tokens[side]) return;
  const int64_t pair = segment_of(task.offsets[side], task.pairs, token);
  const int64_t end = task.offsets[1 - side][pair + 1];
  float best = -2.0f;
  for (int64_t other = task.offsets[1 - side][pair]; other < end; ++other) {
    const float product = dot(task.vector(side, token), task.vector(1 - side, other), task.size);
    const float own = task.inverse[side][token], theirs = task.inverse[1 - side][other];
    const float cosine = cosine_of(product, side ? theirs : own, side ? own : theirs);
    best = cosine > best ? cosine : best;
  }
  if (threadIdx.x % kWarp == 0) task.best[side][token] = best;
}

}  // namespace
}  // namespace valor

// Fills `best` and `inverse`, and lowers `error`, on the device. On the host: task_words, a CosineTask.
VALOR_API int32_t valor_greedy_cosines_cuda(const void* task_words, int64_t* error, void* stream) {
  using namespace valor;
  const CosineTask& task = *static_cast<const CosineTask*>(task_words);
  const auto blocks = [&](int side) {
    return static_cast<unsigned>((task.tokens[side] + kWarps - 1) / kWarps);
  };
  int32_t status = 0;
  for (int side = 0; side < 2 && status == 0; ++side)
    if (task.tokens[side])
      status = VALOR_LAUNCH(length_kernel, blocks(side), kThreads, 0, stream, task, side,
                            reinterpret_cast<long long*>(error));
  for (int side = 0; side < 2 && status == 0; ++side)
    if (task.tokens[side]) status = VALOR_LAUNCH(match_kernel, blocks(side), kThreads, 0, stream, task, side);
  return status;
}
