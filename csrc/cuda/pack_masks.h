// Packing of dense masks by warps.
#pragma once
#include "../core/masks.h"

namespace valor {

// 16 pixels at an aligned address to 16 bits; those outside of [begin, end) are 0 and not read.
__device__ __forceinline__ uint32_t pack_16(const uint8_t* at, const uint8_t* begin, const uint8_t* end) {
  if (at >= begin && end - at >= 16) {
    uint32_t bytes[4];
    memcpy(bytes, __builtin_assume_aligned(at, 16), sizeof bytes);
    return pack_four(bytes[0]) | pack_four(bytes[1]) << 4 | pack_four(bytes[2]) << 8 |
           pack_four(bytes[3]) << 12;
  }
  uint32_t bits = 0;
  VALOR_ROLLED for (int i = 0; i < 16; ++i) if (at + i >= begin && at + i < end && at[i]) bits |= 1u << i;
  return bits;
}

// Packs 32 words of a mask, 2048 pixels, a word a lane. A mask begins at any byte of the flat stream of
// pixels, so that lanes read aligned pieces of 16 bytes into bits, and take their word from where it begins
// in these.
class WarpPacker {
 public:
  static constexpr int kWords = 32;
  static constexpr int kHalves = 4 * kWords + 4;  // 16 bits each; the last word needs up to 15 bits more

  // `stage` is shared by the warp: kHalves of 16 bits, aligned to 8 bytes.
  __device__ __forceinline__ explicit WarpPacker(uint16_t* stage) : stage_(stage) {}

  // Word `first` + lane of the mask at `pixels` of `count` pixels. `first` is a multiple of 32 below the
  // number of words; a word beyond them is 0.
  __device__ __forceinline__ uint64_t word(const uint8_t* pixels, int64_t count, int64_t first) const {
    const uint8_t* const start = pixels + kWordBits * first;
    const uint32_t shift = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(start) & 15);
    const uint8_t *const at = start - shift, *const end = pixels + count;
    const int lane = warp_.lane();
    uint32_t halves[4];
    for (int k = 0; k < 4; ++k) halves[k] = pack_16(at + 16 * (32 * k + lane), pixels, end);
    for (int k = 0; k < 4; ++k) stage_[32 * k + lane] = static_cast<uint16_t>(halves[k]);
    if (lane == 0) stage_[4 * kWords] = static_cast<uint16_t>(pack_16(at + 16 * 4 * kWords, pixels, end));
    warp_.sync();
    uint64_t low;
    memcpy(&low, __builtin_assume_aligned(stage_ + 4 * lane, 8), sizeof low);
    const uint64_t high = stage_[4 * lane + 4];
    warp_.sync();  // every lane has its word: the stage may be filled again
    return shift ? low >> shift | high << (64 - shift) : low;
  }

 private:
  const Warp warp_{};
  uint16_t* const stage_;
};

}  // namespace valor
