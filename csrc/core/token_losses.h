// The loss of a token: minus the logarithm of the probability that a row of logits gives it, by softmax.
// Exponentials and logarithms are written out, so that every device has the same bits. Definition:
// valor_gpu/ops/token_losses/reference.py. Design: docs/design/037-token-losses.md.
#pragma once
#include <math.h>

#include "targets.h"

namespace valor {

constexpr int kSumLanes = 128;  // parts of a sum of exponentials: column c belongs to part c % kSumLanes

// What is summed over tokens. Losses are whole numbers of 2^-28, so that no order changes a bit.
enum TokenSum : int { kTokens, kWhole, kFraction, kImpossible, kTokenSums };
constexpr double kFractionUnit = 0x1p28, kLeastImpossible = 0x1p30;

// Arguments of the op. Fields are 64-bit words, packed by valor_gpu/ops/token_losses/op.py.
struct TokenTask {
  const void* logits;  // [rows / inner, inner, classes] by the strides below, in elements
  int64_t type;        // a FloatType
  int64_t rows, inner;
  int64_t outer_stride, inner_stride, column_stride;
  Target target;  // [rows] class indices

  VALOR_HD int64_t start(int64_t row) const {
    return row / inner * outer_stride + row % inner * inner_stride;
  }
  VALOR_HD int64_t place(int64_t start, int64_t column) const { return start + column * column_stride; }
};

// exp(d) = 2^k * 2^f with a whole k and |f| <= 1/2. Adding kMagic rounds to a whole number, whose lowest bits
// are the exponent of 2^k. Below kLowest exp is that of the limit, which changes no sum of at least 1; k ends
// at kHighest - kMagic, beyond which exp is only known to be larger than kLimit.
template <class Real>
struct ExpRule;

template <>
struct ExpRule<float> {
  using Bits = uint32_t;
  static constexpr int kShift = 23;
  static constexpr float kMagic = 0x1.8p23f + 127.0f, kLog2E = 0x1.715476p0f;
  static constexpr float kLowest = -87.0f, kHighest = kMagic + 127.0f;
  static constexpr double kLimit = 0x1p120;

  VALOR_HD static float fused(float a, float b, float c) { return fmaf(a, b, c); }
  // The polynomial of degree 6 with value 1 at 0 whose largest relative error is least: 1.6e-8.
  VALOR_HD static float power(float f) {
    float sum = fmaf(0x1.41fbbcp-13f, f, 0x1.5f3e52p-10f);
    sum = fmaf(sum, f, 0x1.3b2d4cp-7f);
    sum = fmaf(sum, f, 0x1.c6aee8p-5f);
    sum = fmaf(sum, f, 0x1.ebfbdcp-3f);
    sum = fmaf(sum, f, 0x1.62e430p-1f);
    return fmaf(sum, f, 1.0f);
  }
};

template <>
struct ExpRule<double> {
  using Bits = uint64_t;
  static constexpr int kShift = 52;
  static constexpr double kMagic = 0x1.8p52 + 1023.0, kLog2E = 0x1.71547652b82fep0;
  static constexpr double kLowest = -600.0, kHighest = kMagic + 1000.0;
  static constexpr double kLimit = 0x1p800;

  VALOR_HD static double fused(double a, double b, double c) { return fma(a, b, c); }
  // The polynomial of degree 8 that equals 2^f at 0 and at 8 Chebyshev points: its relative error is 2e-12.
  VALOR_HD static double power(double f) {
    double sum = fma(0x1.63b2d7971923fp-20, f, 0x1.00c0e4e15189cp-16);
    sum = fma(sum, f, 0x1.4308c7183d6a2p-13);
    sum = fma(sum, f, 0x1.5d877598350dep-10);
    sum = fma(sum, f, 0x1.3b2ab70ad2565p-7);
    sum = fma(sum, f, 0x1.c6b08da70cce3p-5);
    sum = fma(sum, f, 0x1.ebfbdff82a734p-3);
    sum = fma(sum, f, 0x1.62e42fef9cc69p-1);
    return fma(sum, f, 1.0);
  }
};

// Limits of ExpRule. As arguments, since GCC makes a maximum of a comparison with one, but not of a constant.
template <class Real>
struct ExpLimits {
  Real lowest = ExpRule<Real>::kLowest, highest = ExpRule<Real>::kHighest;
};

// sum + exp(x - anchor); not below kLimit where that is not, or NaN.
template <class Real>
VALOR_HD Real add_exp(Real x, Real anchor, ExpLimits<Real> limits, Real sum) {
  using Rule = ExpRule<Real>;
  Real d = x - anchor;
  d = limits.lowest > d ? limits.lowest : d;
  Real shifted = Rule::fused(d, Rule::kLog2E, Rule::kMagic);
  shifted = limits.highest < shifted ? limits.highest : shifted;
  const Real power = Rule::power(Rule::fused(d, Rule::kLog2E, -(shifted - Rule::kMagic)));
  typename Rule::Bits bits;
  memcpy(&bits, &shifted, sizeof bits);
  bits <<= Rule::kShift;
  Real scale;
  memcpy(&scale, &bits, sizeof scale);
  return Rule::fused(power, scale, sum);
}

// Whether a sum of exponentials around the logit of the token is good; else the largest logit is the anchor.
template <class Real>
VALOR_HD bool settles(double sum) {
  return sum < ExpRule<Real>::kLimit;
}

// The natural logarithm of a finite number that is at least 1, to 1e-16 of it: that of its exponent, and
// 2 atanh((m - 1) / (m + 1)) of its fraction m from sqrt(1/2) to sqrt(2).
VALOR_HD double log_of(double x) {
  static const double terms[10] = {0x1.5555555555555p-2, 0x1.999999999999ap-3, 0x1.2492492492492p-3,
                                   0x1.c71c71c71c71cp-4, 0x1.745d1745d1746p-4, 0x1.3b13b13b13b14p-4,
                                   0x1.1111111111111p-4, 0x1.e1e1e1e1e1e1ep-5, 0x1.af286bca1af28p-5,
                                   0x1.8618618618618p-5};  // 1 / 3, 1 / 5, ..
  const uint64_t bits = bits_of(x);
  double m = double_of((bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  const bool large = m > 0x1.6a09e667f3bcdp0;
  const double k = static_cast<double>(static_cast<int64_t>(bits >> 52) - 1023 + large);
  if (large) m *= 0.5;
  const double s = (m - 1.0) / (m + 1.0), z = s * s;
  double sum = terms[9];
  for (int n = 8; n >= 0; --n) sum = sum * z + terms[n];
  const double twice = s + s;
  return k * 0x1.62e42fefa0000p-1 + (twice + (twice * z * sum + k * 0x1.cf79abc9e3b3ap-40));
}

// Adds a token of loss `anchor - logit + log(sum)`; what takes part in a sum of its own is add(index, count).
template <class Add>
VALOR_HD void add_loss(double anchor, double logit, double sum, Add add) {
  const double loss = (anchor - logit) + log_of(sum);
  add(kTokens, 1);
  if (!(loss < kLeastImpossible)) return add(kImpossible, 1);
  const double whole = floor(loss);
  add(kWhole, static_cast<int64_t>(whole));
  add(kFraction, static_cast<int64_t>((loss - whole) * kFractionUnit + 0.5));
}

}  // namespace valor
