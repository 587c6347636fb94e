// Dense masks, one byte per pixel, packed to one bit per pixel. Bit i of word j of a mask is pixel 64 j + i
// in row-major order; every mask begins with a word of its own, whatever its width.
#pragma once
#include "platform.h"

namespace valor {

constexpr int64_t kWordBits = 64;

VALOR_HD int64_t mask_words(int64_t pixels) { return (pixels + kWordBits - 1) / kWordBits; }

// Bit i is set if byte i is not zero. The multiplication moves the lowest bit of byte k to bit 56 + k; no two
// of its partial products meet, so nothing carries.
VALOR_HD uint64_t pack_bytes(uint64_t bytes) {
  const uint64_t low = 0x7f7f7f7f7f7f7f7full;
  const uint64_t ones = (((bytes & low) + low) | bytes) >> 7 & 0x0101010101010101ull;
  return ones * 0x0102040810204080ull >> 56;
}

// The same of four bytes, in the 32-bit operations that a device has.
VALOR_HD uint32_t pack_four(uint32_t bytes) {
  const uint32_t low = 0x7f7f7f7fu;
  const uint32_t ones = (((bytes & low) + low) | bytes) & 0x80808080u;
  return ones * 0x00204081u >> 28;
}

// Up to 64 pixels of a mask: bit i is pixel i; bits from `count` on are 0.
VALOR_HD uint64_t pack_word(const uint8_t* pixels, int64_t count) {
  uint64_t word = 0;
  for (int64_t i = 0; i < count; i += 8) {
    uint64_t bytes =
        0;  // pixel i is the lowest byte: the hosts and devices that we build for are little-endian
    memcpy(&bytes, pixels + i, count - i < 8 ? count - i : 8);
    word |= pack_bytes(bytes) << i;
  }
  return word;
}

// What is known of a mask once it was read. The content is a sum over words, so that threads may add up parts
// of it in any order; a word without pixels adds nothing.
struct MaskFacts {
  int64_t area;
  uint64_t content;
  int64_t first, last;  // words from first to last - 1 hold all its pixels; first >= last: it has none

  VALOR_HD void add(uint64_t word, int64_t j) {
    if (!word) return;
    area += count_bits(word);
    content += mix(word + (static_cast<uint64_t>(j) + 1) * 0x9e3779b97f4a7c15ull);
    if (first > j) first = j;
    if (last <= j) last = j + 1;
  }
};

VALOR_HD MaskFacts no_facts() { return MaskFacts{0, 0, INT64_MAX, 0}; }

// The hash of a mask of a size, by the content of its words.
VALOR_HD uint64_t hash_mask(uint64_t content, int64_t height, int64_t width) {
  return mix(content ^ mix(static_cast<uint64_t>(height) << 32 | static_cast<uint64_t>(width)));
}

}  // namespace valor
