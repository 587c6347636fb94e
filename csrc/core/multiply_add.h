#pragma once
#include "platform.h"

namespace valor {

// `value * scale + offset` rounded once, in hardware and here.
VALOR_HD float multiply_add(float value, float scale, float offset) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(value, scale, offset);
#else
  return __builtin_fmaf(value, scale, offset);
#endif
}

}  // namespace valor
