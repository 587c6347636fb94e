// Packing of dense masks by warps.
#pragma once
#include "../core/masks.h"

namespace valor {

// 16 pixels as they are loaded.
struct PixelPiece {
  uint32_t bytes[4];

  static __device__ __forceinline__ PixelPiece at(const uint8_t* aligned) {
    PixelPiece piece;
    memcpy(piece.bytes, __builtin_assume_aligned(aligned, 16), sizeof piece.bytes);
    return piece;
  }
  __device__ __forceinline__ uint32_t packed() const {
    return pack_four(bytes[0]) | pack_four(bytes[1]) << 4 | pack_four(bytes[2]) << 8 |
           pack_four(bytes[3]) << 12;
  }
};

__device__ __forceinline__ bool is_whole(const uint8_t* at, const uint8_t* begin, const uint8_t* end) {
  return at >= begin && end - at >= 16;
}

// 16 pixels at an aligned address to 16 bits; those outside of [begin, end) are 0 and not read.
__device__ __forceinline__ uint32_t pack_16(const uint8_t* at, const uint8_t* begin, const uint8_t* end) {
  if (is_whole(at, begin, end)) return PixelPiece::at(at).packed();
  uint32_t bits = 0;
  const int from = at < begin ? static_cast<int>(begin - at) : 0;
  const int to = end - at < 16 ? static_cast<int>(end - at) : 16;
  VALOR_ROLLED for (int i = from; i < to; ++i) if (at[i]) bits |= 1u << i;
  return bits;
}

// Packs a tile of a mask, kRows words a lane. A mask begins at any byte of the flat stream of pixels, so that
// lanes read aligned pieces of 16 bytes into bits, and take their words from where they begin in these.
class WarpPacker {
 public:
  static constexpr int kRows = 4, kWords = 32 * kRows;
  static constexpr int kPieces = 4 * kWords;
  static constexpr int kHalves = kPieces + 4;  // 16 bits each; the last word needs up to 15 bits more

  // `stage` is shared by the warp: kHalves of 16 bits, aligned to 8 bytes.
  __device__ __forceinline__ explicit WarpPacker(uint16_t* stage) : stage_(stage) {}

  // Words `first` + 32 q + lane of the mask at `pixels` of `count` pixels. `first` is a multiple of kWords
  // below the number of words; a word beyond them is 0.
  __device__ __forceinline__ void tile(const uint8_t* pixels, int64_t count, int64_t first,
                                       uint64_t (&words)[kRows]) const {
    const uint8_t* const start = pixels + kWordBits * first;
    const uint32_t shift = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(start) & 15);
    const uint8_t *const at = start - shift, *const end = pixels + count;
    if (at >= pixels && end - at >= 16 * (kPieces + 1))
      stage_inside(at);
    else
      stage_rim(at, pixels, end);
    warp_.sync();
    VALOR_UNROLLED for (int q = 0; q < kRows; ++q) {
      const uint16_t* const from = stage_ + 4 * (32 * q + warp_.lane());
      uint64_t low;
      memcpy(&low, __builtin_assume_aligned(from, 8), sizeof low);
      const uint64_t high = from[4];
      words[q] = shift ? low >> shift | high << (64 - shift) : low;
    }
    warp_.sync();  // every lane has its words: the stage may be filled again
  }

 private:
  // Pieces that lie in the mask: four loads are under way before the first is waited for.
  __device__ __forceinline__ void stage_inside(const uint8_t* at) const {
    const int lane = warp_.lane();
    PixelPiece last{};
    if (lane == 0) last = PixelPiece::at(at + 16 * kPieces);
    VALOR_ROLLED for (int first = lane; first < kPieces; first += 4 * 32) {
      PixelPiece pieces[4];
      VALOR_UNROLLED for (int k = 0; k < 4; ++k) pieces[k] = PixelPiece::at(at + 16 * (first + 32 * k));
      VALOR_UNROLLED for (int k = 0; k < 4; ++k) stage(first + 32 * k, pieces[k].packed());
    }
    if (lane == 0) stage(kPieces, last.packed());
  }

  // Pieces of which some begin before the mask or end after it: first those that lie in it.
  __device__ __forceinline__ void stage_rim(const uint8_t* at, const uint8_t* begin,
                                            const uint8_t* end) const {
    const int lane = warp_.lane();
    VALOR_ROLLED for (int first = lane; first < kPieces; first += 4 * 32) {
      PixelPiece pieces[4]{};
      VALOR_UNROLLED for (int k = 0; k < 4; ++k) {
        const uint8_t* const from = at + 16 * (first + 32 * k);
        if (is_whole(from, begin, end)) pieces[k] = PixelPiece::at(from);
      }
      VALOR_UNROLLED for (int k = 0; k < 4; ++k) stage(first + 32 * k, pieces[k].packed());
    }
    VALOR_ROLLED for (int piece = lane; piece <= kPieces; piece += 32) {
      const uint8_t* const from = at + 16 * piece;
      if (piece == kPieces || !is_whole(from, begin, end)) stage(piece, pack_16(from, begin, end));
    }
  }

  __device__ __forceinline__ void stage(int piece, uint32_t bits) const {
    stage_[piece] = static_cast<uint16_t>(bits);
  }

  const Warp warp_{};
  uint16_t* const stage_;
};

}  // namespace valor
