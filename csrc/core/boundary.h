// Boundaries of masks: pixels from which a pixel outside of the mask, or of the image, is at most d rows and
// d columns away (Cheng et al. 2021, Boundary IoU). The rest is the erosion by a square of 2 d + 1 pixels.
#pragma once
#include "platform.h"

namespace valor {

// Sets bits [begin, end) of a column.
VALOR_HD void set_bits(uint64_t* words, uint32_t begin, uint32_t end) {
  if (begin >= end) return;
  const uint32_t first = begin / 64, last = (end - 1) / 64;
  const uint64_t from = ~0ull << (begin % 64), to = ~0ull >> (63 - (end - 1) % 64);
  if (first == last) {
    words[first] |= from & to;
    return;
  }
  words[first] |= from;
  for (uint32_t j = first + 1; j < last; ++j) words[j] = ~0ull;
  words[last] |= to;
}

}  // namespace valor
