// Rows of different lengths: segment s holds rows offsets[s] to offsets[s + 1].
#pragma once
#include "platform.h"

namespace valor {

// The segment that holds `row`, which must lie below offsets[segments]. Empty segments hold nothing.
VALOR_HD int64_t segment_of(const int64_t* offsets, int64_t segments, int64_t row) {
  int64_t low = 0, high = segments;  // offsets[low] <= row < offsets[high]
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (offsets[middle] <= row ? low : high) = middle;
  }
  return low;
}

}  // namespace valor
