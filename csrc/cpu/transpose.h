// Turns tables of bytes around, by blocks of 8 times 8 in eight words.
#pragma once
#include <string.h>

#include <algorithm>

#include "../core/platform.h"
#include "simd.h"

namespace valor {

template <int kShift>
VALOR_INLINE void swap_bits(uint64_t& upper, uint64_t& lower, uint64_t mask) {
  const uint64_t differ = ((upper >> kShift) ^ lower) & mask;
  lower ^= differ, upper ^= differ << kShift;
}

// Byte j of word i goes to byte i of word j.
VALOR_INLINE void turn_block(uint64_t* x) {
  for (int i = 0; i < 4; ++i) swap_bits<32>(x[i], x[i + 4], 0x00000000ffffffffull);
  for (int i = 0; i < 8; i += i % 4 == 1 ? 3 : 1) swap_bits<16>(x[i], x[i + 2], 0x0000ffff0000ffffull);
  for (int i = 0; i < 8; i += 2) swap_bits<8>(x[i], x[i + 1], 0x00ff00ff00ff00ffull);
}

// Writes from[r * from_stride + c] to to[c * to_stride + r], for r < rows and c < columns.
inline void transpose(const uint8_t* from, int64_t from_stride, int64_t rows, int64_t columns, uint8_t* to,
                      int64_t to_stride) {
  const int64_t columns8 = columns / 8 * 8, rows8 = rows / 8 * 8;
  for (int64_t c = 0; c < columns8; c += 8)
    for (int64_t r = 0; r < rows8; r += 8) {
      uint64_t block[8];
      for (int i = 0; i < 8; ++i) memcpy(&block[i], from + (r + i) * from_stride + c, 8);
      turn_block(block);
      for (int i = 0; i < 8; ++i) memcpy(to + (c + i) * to_stride + r, &block[i], 8);
    }
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = c < columns8 ? rows8 : 0; r < rows; ++r)
      to[c * to_stride + r] = from[r * from_stride + c];
}

}  // namespace valor
