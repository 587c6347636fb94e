// Typed loads from raw pointers, so that one kernel serves every dtype of a tensor without CUDA header types.
#pragma once
#include "platform.h"

namespace valor {

enum FloatType : int { kFloat16 = 0, kBFloat16 = 1, kFloat32 = 2, kFloat64 = 3 };
enum IntType : int { kInt8 = 0, kUInt8 = 1, kInt16 = 2, kInt32 = 3, kInt64 = 4, kBool = 5 };

VALOR_HD int64_t float_bytes(FloatType type) { return type == kFloat64 ? 8 : type == kFloat32 ? 4 : 2; }

VALOR_HD float float_from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// IEEE 754 binary16; exact for every number, and NaN stays NaN.
VALOR_HD float half_to_float(uint16_t half) {
#if defined(__CUDA_ARCH__)
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
  return value;
#else
  // Without a branch, so that loops of it become vector code.
  const uint32_t magnitude = half & 0x7fffu;
  const uint32_t normal = (magnitude << 13) + (magnitude < 0x7c00u ? 112u << 23 : 224u << 23);
  const uint32_t tiny = bits_of(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);  // subnormal
  return float_from_bits(static_cast<uint32_t>(half & 0x8000u) << 16 | (magnitude < 0x400u ? tiny : normal));
#endif
}

// bfloat16 is the upper half of a float32.
VALOR_HD float bfloat16_to_float(uint16_t half) { return float_from_bits(static_cast<uint32_t>(half) << 16); }

// Value of a type up to 32 bits wide; kFloat64 is for load_float64 alone.
VALOR_HD float load_float32(const void* base, int64_t index, FloatType type) {
  switch (type) {
    case kFloat16:
      return half_to_float(static_cast<const uint16_t*>(base)[index]);
    case kBFloat16:
      return bfloat16_to_float(static_cast<const uint16_t*>(base)[index]);
    default:
      return static_cast<const float*>(base)[index];
  }
}

VALOR_HD double load_float64(const void* base, int64_t index, FloatType type) {
  if (type == kFloat64) return static_cast<const double*>(base)[index];
  return static_cast<double>(load_float32(base, index, type));
}

VALOR_HD int64_t load_int(const void* base, int64_t index, IntType type) {
  switch (type) {
    case kInt8:
      return static_cast<const int8_t*>(base)[index];
    case kInt16:
      return static_cast<const int16_t*>(base)[index];
    case kInt32:
      return static_cast<const int32_t*>(base)[index];
    case kInt64:
      return static_cast<const int64_t*>(base)[index];
    default:
      return static_cast<const uint8_t*>(base)[index];
  }
}

}  // namespace valor
