// Masks as run lengths, column by column: zeros first, then ones, zeros and so on.
#pragma once
#include "platform.h"

namespace valor {

// The runs of mask m are counts[offsets[m]] to counts[offsets[m + 1] - 1]; they add up to height x width,
// which is below 2^31. A mask without runs has no pixel set. The same fields as Runs of
// valor_gpu/ops/runs.py.
struct Runs {
  const int32_t* counts;
  const int64_t* offsets;  // [masks + 1]
  const int32_t* sizes;    // [masks, 2]: height, width
  int64_t masks;

  VALOR_HD const int32_t* begin(int64_t mask) const { return counts + offsets[mask]; }
  VALOR_HD int64_t size(int64_t mask) const { return offsets[mask + 1] - offsets[mask]; }
  VALOR_HD int32_t height(int64_t mask) const { return sizes[2 * mask]; }
  VALOR_HD int32_t width(int64_t mask) const { return sizes[2 * mask + 1]; }
  VALOR_HD int64_t pixels(int64_t mask) const { return static_cast<int64_t>(height(mask)) * width(mask); }
};

}  // namespace valor
