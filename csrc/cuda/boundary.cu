// Boundaries of dense masks on CUDA: rows of bits, eroded along rows in shared memory, then along columns in
// device memory, then taken off the pixels. A bit stands for the square of `length` pixels of which it is the
// upper left corner.
#include "../core/platform.h"
#include "launch.h"

namespace valor {
namespace {

constexpr int kBoundaryThreads = 256;

// 32 bits of a row from bit `first` on; zeros follow the row.
__device__ __forceinline__ uint32_t bits_from(const uint32_t* row, int32_t words, int32_t first) {
  const int32_t word = first / 32, shift = first % 32;
  const uint32_t low = word < words ? row[word] : 0u;
  if (shift == 0) return low;
  return low >> shift | (word + 1 < words ? row[word + 1] : 0u) << (32 - shift);
}

// A warp a row: bit x of the result is whether pixels x to x + length - 1 are set.
__global__ void __launch_bounds__(32)
    erode_rows_kernel(const uint8_t* masks, int32_t width, int32_t length, uint32_t* out) {
  VALOR_DYNAMIC_SHARED(uint32_t, row);
  const Warp warp;
  const int32_t words = (width + 31) / 32;
  const uint8_t* const pixels = masks + static_cast<int64_t>(blockIdx.x) * width;
  for (int32_t word = 0; word < words; ++word) {
    const int32_t x = 32 * word + warp.lane();
    const uint32_t bits = warp.ballot(x < width && pixels[x]);
    if (warp.lane() == 0) row[word] = bits;
  }
  warp.sync();
  for (int32_t done = 1; done < length;) {  // a bit stands for `done` pixels
    const int32_t step = 2 * done <= length ? done : length - done;
    for (int32_t base = 0; base < words; base += 32) {
      const int32_t word = base + warp.lane();
      const uint32_t later = word < words ? bits_from(row, words, 32 * word + step) : 0u;
      warp.sync();  // all have read: words before are not needed any more
      if (word < words) row[word] &= later;
      warp.sync();
    }
    done += step;
  }
  for (int32_t word = warp.lane(); word < words; word += 32)
    out[static_cast<int64_t>(blockIdx.x) * words + word] = row[word];
}

// A thread a word of `length` rows: word y of the result is the AND of rows y to y + length - 1, from what is
// left of its block of rows and the beginning of the next (van Herk 1992).
__global__ void __launch_bounds__(kBoundaryThreads)
    erode_columns_kernel(const uint32_t* rows, int64_t threads, int32_t height, int32_t words, int32_t length,
                         uint32_t* out) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kBoundaryThreads + threadIdx.x;
  if (thread >= threads) return;
  const int32_t blocks = (height + length - 1) / length;
  const int64_t word = thread % words, block = thread / words % blocks;
  const int64_t first = thread / words / blocks * height * words + word;
  const int32_t begin = static_cast<int32_t>(block) * length;
  const int32_t end = height - begin < length ? height : begin + length;
  uint32_t bits = ~0u;
  for (int32_t y = end - 1; y >= begin; --y) {
    bits &= rows[first + static_cast<int64_t>(y) * words];
    out[first + static_cast<int64_t>(y) * words] = bits;
  }
  bits = ~0u;
  for (int32_t y = begin; y < end; ++y) {
    if (height - y < length) bits = 0;  // the square ends below the image
    if (y > begin && bits) bits &= rows[first + (static_cast<int64_t>(y) + length - 1) * words];
    out[first + static_cast<int64_t>(y) * words] &= bits;
  }
}

// A thread a pixel.
__global__ void __launch_bounds__(kBoundaryThreads)
    boundary_kernel(const uint8_t* masks, const uint32_t* squares, int64_t pixels, int32_t height,
                    int32_t width, int32_t distance, uint8_t* out) {
  const int64_t pixel = static_cast<int64_t>(blockIdx.x) * kBoundaryThreads + threadIdx.x;
  if (pixel >= pixels) return;
  const int32_t x = static_cast<int32_t>(pixel % width) - distance, words = (width + 31) / 32;
  const int64_t row = pixel / width;
  bool inside = false;
  if (x >= 0 && row % height >= distance)
    inside = squares[(row - distance) * words + x / 32] >> (x % 32) & 1u;
  out[pixel] = masks[pixel] && !inside;
}

unsigned boundary_blocks(int64_t threads) {
  return static_cast<unsigned>((threads + kBoundaryThreads - 1) / kBoundaryThreads);
}

}  // namespace
}  // namespace valor

// masks, out: [num_masks, height, width]. rows, squares: uint32 [num_masks, height, ceil(width / 32)], where
// the kernels work. 32 * words of a row fit in shared memory.
VALOR_API int32_t valor_mask_boundary_cuda(const uint8_t* masks, int64_t num_masks, int64_t height,
                                           int64_t width, int64_t distance, uint32_t* rows, uint32_t* squares,
                                           uint8_t* out, void* stream) {
  using namespace valor;
  const int64_t pixels = num_masks * height * width, words = (width + 31) / 32;
  if (pixels == 0) return 0;
  const int32_t h = static_cast<int32_t>(height), w = static_cast<int32_t>(width);
  const int32_t d = static_cast<int32_t>(distance), length = 2 * d + 1,
                row_words = static_cast<int32_t>(words);
  const int64_t threads = num_masks * ((height + length - 1) / length) * words;
  int32_t status = VALOR_LAUNCH(erode_rows_kernel, static_cast<unsigned>(num_masks * height), 32,
                                static_cast<size_t>(4 * words), stream, masks, w, length, rows);
  if (status == 0)
    status = VALOR_LAUNCH(erode_columns_kernel, boundary_blocks(threads), kBoundaryThreads, 0, stream, rows,
                          threads, h, row_words, length, squares);
  if (status == 0)
    status = VALOR_LAUNCH(boundary_kernel, boundary_blocks(pixels), kBoundaryThreads, 0, stream, masks,
                          squares, pixels, h, w, d, out);
  return status;
}
