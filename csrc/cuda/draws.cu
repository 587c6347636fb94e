// Weights of resampled units on CUDA: a thread a block of four words.
#include "../core/draws.h"
#include "launch.h"

namespace valor {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostRows = 65535;  // of a grid

// Fields are 64-bit words, as Python packs them.
struct DrawTask {
  int64_t drawn, count, first, seed, kind;
  uint32_t* weights;  // [drawn, count] bytes in words, all 0
  int64_t* error;     // 0, or 1 where a weight would exceed kMostDrawn
  int64_t* keys;      // [count, drawn]

  __device__ __forceinline__ Replicate replicate(int64_t row) const {
    return {static_cast<uint64_t>(seed), static_cast<uint32_t>(first + row), static_cast<uint32_t>(kind)};
  }
};

// Adds 1 to a byte by its word. A byte that is full carries over to the next: then the error says that no
// weight holds.
__device__ __forceinline__ void add_one(const DrawTask& task, int64_t at) {
  const int shift = static_cast<int>(at % 4) * 8;
  const uint32_t before = atomicAdd(task.weights + at / 4, 1u << shift);
  if ((before >> shift & 255) == kMostDrawn) *task.error = 1;
}

__global__ void __launch_bounds__(kThreads) draw_kernel(const __grid_constant__ DrawTask task) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x, start = at * kWords;
  if (start >= task.drawn) return;
  const uint32_t units = static_cast<uint32_t>(task.drawn), least = least_unbiased(units);
  for (int64_t row = blockIdx.y; row < task.count; row += gridDim.y) {
    const Replicate from = task.replicate(row);
    const Block block = from.block(static_cast<uint32_t>(at));
    VALOR_UNROLLED
    for (int i = 0; i < kWords; ++i) {
      if (start + i >= task.drawn) continue;
      const uint32_t unit = drawn_unit(from, static_cast<uint32_t>(at), i, block.word[i], units, least);
      add_one(task, unit * task.count + row);
    }
  }
}

// Keys as signed numbers of the same order.
__global__ void __launch_bounds__(kThreads) key_kernel(const __grid_constant__ DrawTask task) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x, start = 2 * at;
  if (start >= task.drawn) return;
  for (int64_t row = blockIdx.y; row < task.count; row += gridDim.y) {
    const Block block = task.replicate(row).block(static_cast<uint32_t>(at));
    VALOR_UNROLLED
    for (int i = 0; i < 2; ++i)
      if (start + i < task.drawn)
        task.keys[row * task.drawn + start + i] = static_cast<int64_t>(unit_key(block, i) ^ (1ull << 63));
  }
}

int32_t run(void (*kernel)(DrawTask), const DrawTask& task, int64_t share, void* stream) {
  if (task.drawn == 0 || task.count == 0) return 0;
  const int64_t threads = (task.drawn + share - 1) / share, blocks = (threads + kThreads - 1) / kThreads;
  const int64_t rows = task.count < kMostRows ? task.count : kMostRows;
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(rows));
  return VALOR_LAUNCH(kernel, grid, kThreads, 0, stream, task);
}

}  // namespace
}  // namespace valor

// Adds what a DrawTask draws with replacement to its weights, or notes an error. On the host: the words.
VALOR_API int32_t valor_draw_weights_cuda(const void* words, void* stream) {
  const valor::DrawTask& task = *static_cast<const valor::DrawTask*>(words);
  return valor::run(valor::draw_kernel, task, valor::kWords, stream);
}

// Fills the keys of a DrawTask, whose order is that in which units are drawn. On the host: the words.
VALOR_API int32_t valor_draw_keys_cuda(const void* words, void* stream) {
  const valor::DrawTask& task = *static_cast<const valor::DrawTask*>(words);
  return valor::run(valor::key_kernel, task, 2, stream);
}
