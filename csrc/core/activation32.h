// Softmax and sigmoid of float32 where scores are read to be counted: few instructions, none of a library, so
// that they have the same bits on every GPU and under the simulator.
#pragma once
#include "load.h"
#include "multiply_add.h"

namespace valor {

// exp(x) for x <= 0 to 1.1 units in the last place; exp(0) is 1, below -87 it is 0, and NaN stays NaN.
VALOR_HD float short_exp_of_negative(float x) {
  const float shifted = multiply_add(x, 0x1.715476p0f, 0x1.8p23f), halvings = shifted - 0x1.8p23f;
  // log(2) in two parts: the first has ten bits, so that its product is exact.
  const float rest = multiply_add(halvings, 0x1.bd0106p-13f, multiply_add(halvings, -0x1.63p-1f, x));
  // exp(r) = 1 + r + r * r * q(r): minimax to 3.2e-9 for |r| up to log(2) / 2.
  float q = multiply_add(0x1.6db42ap-10f, rest, 0x1.123b56p-7f);
  q = multiply_add(q, rest, 0x1.55545ep-5f);
  q = multiply_add(q, rest, 0x1.55548ep-3f);
  q = multiply_add(q, rest, 0.5f);
  const float power = multiply_add(rest * rest, q, rest) + 1.0f;
  const float scale = float_from_bits((bits_of(shifted) << 23) + 0x3f800000u);
  return x < -87.0f ? 0.0f : power * scale;
}

// 1 / x for x from 1 to 2 to 0.7 units in the last place, exact for 1 and 2: a parabola, and two steps of
// Newton.
VALOR_HD float reciprocal_to_2(float x) {
  float y = multiply_add(multiply_add(0x1.4afa9p-2f, x, -0x1.7459ecp0f), x, 0x1.0f824ep1f);
  y = multiply_add(multiply_add(-x, y, 1.0f), y, y);
  return multiply_add(multiply_add(-x, y, 1.0f), y, y);
}

// 1 / (1 + exp(-x)); NaN of NaN.
VALOR_HD float short_sigmoid(float x) {
  const float part = short_exp_of_negative(x < 0.0f ? x : -x);
  return (x < 0.0f ? part : 1.0f) * reciprocal_to_2(1.0f + part);
}

// What all probabilities of a row of logits share: exp(score - largest) * inverse.
struct alignas(8) RowShare {
  float largest, inverse;  // the inverse of the sum of exp(score - largest)
};

VALOR_HD float short_softmax(float x, const RowShare& share) {
  return short_exp_of_negative(x - share.largest) * share.inverse;
}

// ------------------------------------------------------------------- rounding to the dtype of scores

// The nearest float16, ties to the even one; for numbers up to 1 and NaN.
VALOR_HD float round_to_half(float x) {
#if defined(__CUDA_ARCH__)
  uint16_t half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
  return half_to_float(half);
#else
  if (!(x >= 0x1p-14f)) return (x + 0.75f) - 0.75f;  // steps of 2**-24
  const uint32_t bits = bits_of(x);
  return float_from_bits((bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu);
#endif
}

// Likewise bfloat16.
VALOR_HD float round_to_bfloat16(float x) {
  const uint32_t bits = bits_of(x);
  const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u;
  return x == x ? float_from_bits(rounded) : x;
}

VALOR_HD float round_to(float x, FloatType type) {
  return type == kFloat16 ? round_to_half(x) : type == kBFloat16 ? round_to_bfloat16(x) : x;
}

}  // namespace valor
