// Boundaries of dense masks on CUDA: pixels become rows of bits, which are eroded along rows in shared
// memory, then along columns in device memory; what is left is taken off the bits, and these become pixels
// again.
#include "../core/platform.h"
#include "divisor.h"
#include "launch.h"
#include "pack_masks.h"

namespace valor {
namespace {

constexpr int kBoundaryThreads = 256, kBoundaryWarps = kBoundaryThreads / 32;
constexpr int64_t kRowBytes = 48 << 10;  // shared, that every device has without asking
constexpr int kPieces = 4;               // of 16 pixels, that a lane has under way
constexpr int kWarpPieces = 32 * kPieces;

// Rows of a tensor of masks [images, height, width] that lies densely in memory, one after another.
struct MaskRows {
  int64_t rows;
  int32_t height, width, words;  // words: of 32 bits, of a row

  // Bytes of an aligned piece of 16 that lie before the row.
  __device__ int32_t shift(const uint8_t* row) const {
    return static_cast<int32_t>(reinterpret_cast<uintptr_t>(row) & 15);
  }
};

__device__ __forceinline__ uint32_t join_bits(uint32_t low, uint32_t high, int32_t shift) {
  return static_cast<uint32_t>((static_cast<uint64_t>(high) << 32 | low) >> shift);
}

// 32 bits of a row from bit `first` on; zeros lie around the row.
__device__ __forceinline__ uint32_t bits_from(const uint32_t* row, int32_t words, int32_t first) {
  const int32_t word = first >> 5;
  const uint32_t count = static_cast<uint32_t>(words);
  const uint32_t low = static_cast<uint32_t>(word) < count ? row[word] : 0u;
  const uint32_t high = static_cast<uint32_t>(word + 1) < count ? row[word + 1] : 0u;
  return join_bits(low, high, first & 31);
}

// Bits of a piece that begins at pixel x of a row; of pixels outside of the row 0.
__device__ __forceinline__ uint32_t clip(uint32_t bits, int32_t x, int32_t width) {
  if (x < 0) bits &= 0xffffu << -x;
  if (width - x < 16) bits &= width > x ? (1u << (width - x)) - 1 : 0u;
  return bits;
}

// A warp reads a row as aligned pieces, which begin up to 15 pixels before it: bit x + shift is pixel x.
// Where a piece reaches beyond the row it has pixels of the rows around, so that they are read a byte at a
// time at the ends of the tensor alone.
__device__ __forceinline__ void pack_row(const MaskRows& masks, const uint8_t* tensor, const uint8_t* row,
                                         int32_t words, uint32_t* to) {
  const int32_t shift = masks.shift(row), pieces = (masks.width + shift + 15) / 16, lane = Warp().lane();
  const uint8_t *const from = row - shift, *const end = tensor + masks.rows * masks.width;
  const bool all_there = from >= tensor && end - from >= 16 * static_cast<int64_t>(pieces);
  for (int32_t first = lane; first < 2 * words; first += kWarpPieces) {
    uint32_t bits[kPieces];
    if (all_there) {
      uint4 pixels[kPieces];
      VALOR_UNROLLED
      for (int k = 0; k < kPieces; ++k) {
        const int32_t piece = first + 32 * k < pieces ? first + 32 * k : pieces - 1;
        pixels[k] = __ldg(reinterpret_cast<const uint4*>(from + 16 * static_cast<int64_t>(piece)));
      }
      VALOR_UNROLLED
      for (int k = 0; k < kPieces; ++k)
        bits[k] = pack_four(pixels[k].x) | pack_four(pixels[k].y) << 4 | pack_four(pixels[k].z) << 8 |
                  pack_four(pixels[k].w) << 12;
    } else {
      VALOR_UNROLLED
      for (int k = 0; k < kPieces; ++k) {
        const int32_t piece = first + 32 * k;
        bits[k] = piece < pieces ? pack_16(from + 16 * static_cast<int64_t>(piece), tensor, end) : 0u;
      }
    }
    VALOR_UNROLLED
    for (int k = 0; k < kPieces; ++k) {
      const int32_t piece = first + 32 * k;
      const uint16_t half = static_cast<uint16_t>(clip(bits[k], 16 * piece - shift, masks.width));
      uint8_t* const place = reinterpret_cast<uint8_t*>(to) + 2 * piece;
      if (piece < 2 * words) memcpy(__builtin_assume_aligned(place, 2), &half, 2);
    }
  }
}

// A bit of the result is the AND of `length` bits from it on, of the word before the others.
__device__ __forceinline__ uint32_t and_of_few(uint32_t word, uint32_t next, int32_t length) {  // of up to 32
  uint64_t bits = static_cast<uint64_t>(next) << 32 | word;
  VALOR_ROLLED
  for (int32_t done = 1; done < length;) {  // a bit stands for `done` bits
    const int32_t step = 2 * done <= length ? done : length - done;
    bits &= bits >> step;
    done += step;
  }
  return static_cast<uint32_t>(bits);
}

// The same of more than 31: bits above the last 0 of the word, up to one `length` before the next 0, which is
// so far from the first bit of the word.
__device__ __forceinline__ uint32_t and_of_many(uint32_t word, int32_t next_zero, int32_t length) {
  const int32_t ones = __clz(static_cast<int>(~word)), last = next_zero - length;
  if (ones == 0 || last < 0) return 0;
  const uint32_t above = ~0u << (32 - ones);
  return last < 31 ? above & ((2u << last) - 1) : above;
}

// Writes whether pixels x - distance to x + distance of a row are set, for every x: from the last words to
// the first. A word begins `distance` pixels early, so that it holds the first pixels of its squares.
__device__ __forceinline__ void erode_row(const uint32_t* row, int32_t row_words, int32_t shift,
                                          const MaskRows& masks, int32_t distance, uint32_t* eroded) {
  const Warp warp;
  const int32_t lane = warp.lane(), length = 2 * distance + 1;
  const bool fits = length <= masks.width;
  const int32_t all = fits ? (masks.width + distance) / 32 + 1 : masks.words;
  uint32_t after = 0;                         // the word behind those of this round
  int32_t zero = 32 * ((all - 1) | 31) + 32;  // the first 0 behind them
  VALOR_ROLLED
  for (int32_t base = (all - 1) & ~31; base >= 0; base -= 32) {
    const int32_t at = base + lane;
    uint32_t result = 0;
    if (fits) {  // the same for all lanes
      const uint32_t word = bits_from(row, row_words, 32 * at + shift - distance);
      uint32_t next = warp.from(word, lane + 1 < 32 ? lane + 1 : lane);
      if (lane == 31) next = after;
      after = warp.from(word, 0);
      if (length <= 32) {
        result = and_of_few(word, next, length);
      } else {
        const int32_t own = 32 * at + __ffs(static_cast<int>(~word)) - 1;  // if it has a 0
        const uint32_t having = warp.ballot(word != ~0u), later = having & ~1u << lane;
        const int32_t found = warp.from(own, later ? __ffs(static_cast<int>(later)) - 1 : lane);
        const int32_t first = warp.from(own, having ? __ffs(static_cast<int>(having)) - 1 : lane);
        result = and_of_many(word, (later ? found : zero) - 32 * at, length);
        if (having) zero = first;
      }
    }
    if (at < masks.words) eroded[at] = result;
  }
}

// A warp a row. bits: bit x is pixel x. eroded: whether pixels x - distance to x + distance are set.
__global__ void __launch_bounds__(kBoundaryThreads)
    erode_rows_kernel(const uint8_t* tensor, MaskRows masks, int32_t distance, int32_t row_words,
                      uint32_t* bits, uint32_t* eroded) {
  VALOR_DYNAMIC_SHARED(uint32_t, shared);
  const Warp warp;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  if (index >= masks.rows) return;  // a whole warp
  uint32_t* const row = shared + row_words * static_cast<int32_t>(threadIdx.x / 32);
  const uint8_t* const pixels = tensor + index * masks.width;
  const int32_t shift = masks.shift(pixels);
  pack_row(masks, tensor, pixels, row_words, row);
  warp.sync();
  uint32_t* const to = bits + index * masks.words;
  VALOR_ROLLED
  for (int32_t word = warp.lane(); word < masks.words; word += 32)
    to[word] = bits_from(row, row_words, 32 * word + shift);
  erode_row(row, row_words, shift, masks, distance, eroded + index * masks.words);
}

constexpr int kBatch = 8;           // rows that a thread has under way
constexpr int kColumnThreads = 64;  // of a block: few words give work to many multiprocessors

// A thread a word of `length` rows: word y of the result is the AND of rows y to y + length - 1, from what is
// left of its block of rows and the beginning of the next (van Herk 1992). Rows whose square would end below
// the image have no result. A batch that is not full repeats its last row, which changes nothing.
__global__ void __launch_bounds__(kColumnThreads)
    erode_columns_kernel(const uint32_t* __restrict__ eroded, MaskRows masks, int64_t threads, Divisor words,
                         Divisor blocks, int32_t length, uint32_t* squares) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kColumnThreads + threadIdx.x;
  if (thread >= threads) return;
  int64_t word, block;
  const int64_t image = blocks.divide(words.divide(thread, &word), &block);
  const int64_t stride = masks.words, first = image * masks.height * stride + word;
  const uint32_t* const from = eroded + first;
  uint32_t* const to = squares + first;
  const int32_t begin = static_cast<int32_t>(block) * length, last = masks.height - length;
  const int32_t end = last < begin + length - 1 ? last : begin + length - 1;  // of the block's results
  uint32_t bits = ~0u;
  VALOR_ROLLED
  for (int32_t y = begin + length - 1; y >= begin; y -= kBatch) {
    uint32_t rows[kBatch];
    VALOR_UNROLLED
    for (int k = 0; k < kBatch; ++k) rows[k] = from[stride * (y - k > begin ? y - k : begin)];
    VALOR_UNROLLED
    for (int k = 0; k < kBatch; ++k) {
      bits &= rows[k];
      to[stride * (y - k > begin ? y - k : begin)] = bits;
    }
  }
  bits = ~0u;
  VALOR_ROLLED
  for (int32_t y = begin; y <= end; y += kBatch) {
    uint32_t left[kBatch], next[kBatch];
    VALOR_UNROLLED
    for (int k = 0; k < kBatch; ++k) {
      const int32_t at = y + k < end ? y + k : end;
      left[k] = to[stride * at];
      next[k] = from[stride * (static_cast<int64_t>(at) + length - 1)];
    }
    VALOR_UNROLLED
    for (int k = 0; k < kBatch; ++k) {
      bits &= next[k];
      to[stride * (y + k < end ? y + k : end)] = left[k] & bits;
    }
  }
}

// 4 bits to 4 bytes of 0 and 1.
__device__ __forceinline__ uint32_t unpack_four(uint32_t bits) {
  return (bits & 15) * 0x00204081u & 0x01010101u;
}

// Those of 16 pixels at an aligned address that lie in a row.
__device__ __forceinline__ void put_part(uint8_t* to, uint32_t bits, int32_t x, int32_t width) {
  VALOR_ROLLED
  for (int i = 0; i < 16; i += 4) {
    const uint32_t bytes = unpack_four(bits >> i);
    if (x + i >= 0 && x + i + 4 <= width) {
      memcpy(__builtin_assume_aligned(to + i, 4), &bytes, 4);
      continue;
    }
    VALOR_UNROLLED
    for (int j = 0; j < 4; ++j)
      if (x + i + j >= 0 && x + i + j < width) to[i + j] = static_cast<uint8_t>(bytes >> 8 * j);
  }
}

// A warp writes a chunk of a row, a lane pieces of 16 pixels at aligned addresses.
__global__ void __launch_bounds__(kBoundaryThreads)
    boundary_kernel(const uint32_t* __restrict__ bits, const uint32_t* __restrict__ squares, MaskRows masks,
                    Divisor chunks, Divisor heights, int32_t distance, uint8_t* out) {
  const int64_t unit = static_cast<int64_t>(blockIdx.x) * kBoundaryWarps + threadIdx.x / 32;
  int64_t chunk, y;
  const int64_t index = chunks.divide(unit, &chunk);
  if (index >= masks.rows) return;
  heights.divide(index, &y);
  const bool has_squares = y >= distance && y + distance < masks.height;
  const uint32_t* const own = bits + index * masks.words;
  const uint32_t* const square = has_squares ? squares + (index - distance) * masks.words : own;
  const uint32_t keep = has_squares ? 0u : ~0u;
  uint8_t* const row = out + index * masks.width;
  const int32_t shift = masks.shift(row), last = masks.words - 1;
  const int32_t begin = 16 * (static_cast<int32_t>(chunk) * kWarpPieces + Warp().lane()) - shift;
  uint32_t left[kPieces];
  VALOR_UNROLLED
  for (int k = 0; k < kPieces; ++k) {
    const int32_t x = begin + 16 * 32 * k;
    const int32_t word = x >> 5, low = word < 0 ? 0 : word < last ? word : last;
    const int32_t high = word < last ? word + 1 : last;
    left[k] = join_bits(own[low] & (~square[low] | keep), own[high] & (~square[high] | keep), x & 31);
  }
  VALOR_UNROLLED
  for (int k = 0; k < kPieces; ++k) {
    const int32_t x = begin + 16 * 32 * k;
    if (x >= masks.width) continue;
    if (x < 0 || masks.width - x < 16) {
      put_part(row + x, left[k], x, masks.width);
      continue;
    }
    *reinterpret_cast<uint4*>(row + x) = uint4{unpack_four(left[k]), unpack_four(left[k] >> 4),
                                               unpack_four(left[k] >> 8), unpack_four(left[k] >> 12)};
  }
}

unsigned blocks_of(int64_t items, int64_t of_block) {
  return static_cast<unsigned>((items + of_block - 1) / of_block);
}

}  // namespace
}  // namespace valor

// masks, out: [num_masks, height, width]. bits, eroded, squares: uint32 [num_masks, height, ceil(width /
// 32)], where the kernels work. (width + 15) bits fit in 48 KiB.
VALOR_API int32_t valor_mask_boundary_cuda(const uint8_t* masks, int64_t num_masks, int64_t height,
                                           int64_t width, int64_t distance, uint32_t* bits, uint32_t* eroded,
                                           uint32_t* squares, uint8_t* out, void* stream) {
  using namespace valor;
  if (num_masks * height * width == 0) return 0;
  const MaskRows rows{num_masks * height, static_cast<int32_t>(height), static_cast<int32_t>(width),
                      static_cast<int32_t>((width + 31) / 32)};
  const int32_t d = static_cast<int32_t>(distance), length = 2 * d + 1;
  const int64_t row_words = (width + 15 + 31) / 32, fit = kRowBytes / (4 * row_words);
  const int64_t warps = fit < kBoundaryWarps ? fit : kBoundaryWarps;
  int32_t status = VALOR_LAUNCH(erode_rows_kernel, blocks_of(rows.rows, warps),
                                static_cast<unsigned>(32 * warps), static_cast<size_t>(4 * row_words * warps),
                                stream, masks, rows, d, static_cast<int32_t>(row_words), bits, eroded);
  const int64_t results = height - length + 1;  // rows of an image where a square begins
  if (status == 0 && results > 0) {
    const Divisor words(rows.words), blocks((results + length - 1) / length);
    const int64_t threads = num_masks * blocks.by * words.by;
    status = VALOR_LAUNCH(erode_columns_kernel, blocks_of(threads, kColumnThreads), kColumnThreads, 0, stream,
                          eroded, rows, threads, words, blocks, length, squares);
  }
  if (status == 0) {
    const Divisor chunks(((width + 15 + 15) / 16 + kWarpPieces - 1) / kWarpPieces), heights(height);
    status = VALOR_LAUNCH(boundary_kernel, blocks_of(rows.rows * chunks.by, kBoundaryWarps), kBoundaryThreads,
                          0, stream, bits, squares, rows, chunks, heights, d, out);
  }
  return status;
}
