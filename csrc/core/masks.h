// Dense masks, one byte per pixel, packed to one bit per pixel.
#pragma once
#include "platform.h"

namespace valor {

// Bit i is set if byte i is not zero. The multiplication moves the lowest bit of byte k to bit 56 + k; no two
// of its partial products meet, so nothing carries.
VALOR_HD uint64_t pack_bytes(uint64_t bytes) {
  const uint64_t low = 0x7f7f7f7f7f7f7f7full;
  const uint64_t ones = (((bytes & low) + low) | bytes) >> 7 & 0x0101010101010101ull;
  return ones * 0x0102040810204080ull >> 56;
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

}  // namespace valor
