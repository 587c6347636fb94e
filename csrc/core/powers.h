// Logarithms and powers of float64 numbers, written out: every device has the same bits. Definition:
// valor_gpu/ops/moments/powers.py. The error is below one unit in the last place, of powers near 1e300 two.
// Templates take double, or vectors of it whose comparisons give masks, such as those of GCC.
#pragma once
#include <math.h>

#include "platform.h"

namespace valor {

// What vectors pass through is inlined, whatever the processor that a function is compiled for.
#define VALOR_REAL      \
  template <class Real> \
  VALOR_HD __attribute__((always_inline))

constexpr double kLog2High = 0x1.62e42fefa0000p-1, kLog2Low = 0x1.cf79abc9e3b3ap-40;
constexpr double kLog2 = 0x1.62e42fefa39efp-1, kRoot2 = 0x1.6a09e667f3bcdp0;
constexpr double kInfinity = __builtin_inf(), kNan = __builtin_nan("");

// The integers of the bits of a number.
template <class Real>
struct BitsOf {
  using Type = int64_t;
};

// A sum that is not rounded: low is at most half a unit in the last place of high.
template <class Real>
struct Parts {
  Real high, low;
};

VALOR_REAL typename BitsOf<Real>::Type bits_in(const Real& value) {
  typename BitsOf<Real>::Type bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
template <class Real, class Bits>
VALOR_HD __attribute__((always_inline)) Real with_bits(const Bits& bits) {
  Real value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

VALOR_REAL Parts<Real> fast_parts(const Real& a, const Real& b) {
  const Real sum = a + b;
  return {sum, b - (sum - a)};
}
VALOR_REAL Parts<Real> sum_parts(const Real& a, const Real& b) {
  const Real sum = a + b, part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}
VALOR_REAL Parts<Real> product_parts(const Real& a, const Real& b) {
  const Real product = a * b, split_a = 134217729.0 * a, split_b = 134217729.0 * b;
  const Real a1 = split_a - (split_a - a), b1 = split_b - (split_b - b), a2 = a - a1, b2 = b - b1;
  return {product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2};
}

VALOR_HD double power_of_2(int64_t k) { return with_bits<double>((k + 1023) << 52); }

// The logarithm of positive finite numbers: that of the exponent, and 2 atanh((m - 1) / (m + 1)) of the
// fraction m from sqrt(1/2) to sqrt(2).
VALOR_REAL Parts<Real> long_log(const Real& x) {
  const auto tiny = x < 0x1p-1022;
  const Real zero = x - x, normal = tiny ? x * 0x1p54 : x;
  const auto bits = bits_in(normal);
  Real m = with_bits<Real>((bits & 0xfffffffffffffll) | 0x3ff0000000000000ll);
  const auto large = m > kRoot2;
  const Real exponent = with_bits<Real>((bits >> 52) | 0x4330000000000000ll) - 0x1p52;
  const Real k = (exponent - 1023.0) - (tiny ? zero + 54.0 : zero) + (large ? zero + 1.0 : zero);
  m = large ? m * 0.5 : m;
  const Real f = m - 1.0;
  const Parts<Real> g = sum_parts<Real>(m, zero + 1.0);
  const Real q = f / g.high;
  const Parts<Real> product = product_parts<Real>(q, g.high);
  const Real q_rest = (((f - product.high) - product.low) - q * g.low) / g.high, z = q * q;
  Real series = zero + 1.0 / 21;
  series = series * z + 1.0 / 19;
  series = series * z + 1.0 / 17;
  series = series * z + 1.0 / 15;
  series = series * z + 1.0 / 13;
  series = series * z + 1.0 / 11;
  series = series * z + 1.0 / 9;
  series = series * z + 1.0 / 7;
  series = series * z + 1.0 / 5;
  series = series * z + 1.0 / 3;
  const Real twice = q + q;
  const Parts<Real> sum = fast_parts<Real>(k * kLog2High, twice);
  return fast_parts<Real>(sum.high, sum.low + (((q_rest + q_rest) + twice * z * series) + k * kLog2Low));
}

// exp(high + low) for high from -746 to 710.
VALOR_REAL Real long_exp(const Real& high, const Real& low) {
  const Real shifted = high * 0x1.71547652b82fep0 + 0x1.8p52, k = shifted - 0x1.8p52;  // a whole number
  const Real r = (high - k * kLog2High) - (k * kLog2Low - low);
  Real series = (r - r) + 1.0 / 87178291200.0;
  series = series * r + 1.0 / 6227020800.0;
  series = series * r + 1.0 / 479001600.0;
  series = series * r + 1.0 / 39916800;
  series = series * r + 1.0 / 3628800;
  series = series * r + 1.0 / 362880;
  series = series * r + 1.0 / 40320;
  series = series * r + 1.0 / 5040;
  series = series * r + 1.0 / 720;
  series = series * r + 1.0 / 120;
  series = series * r + 1.0 / 24;
  series = series * r + 1.0 / 6;
  series = series * r + 1.0 / 2;
  const auto steps = bits_in(shifted) - 0x4338000000000000ll, half = steps >> 1;
  const Real first = with_bits<Real>((half + 1023) << 52),
             second = with_bits<Real>((steps - half + 1023) << 52);
  return (1.0 + (r + r * r * series)) * first * second;
}
VALOR_HD bool has_exp(double high) { return high > -746.0 && high < 710.0; }

// log(1 + x) for finite x above -1.
VALOR_REAL Real long_log_of_next(const Real& x) {
  const Parts<Real> u = sum_parts<Real>((x - x) + 1.0, x), found = long_log<Real>(u.high);
  return found.high + (found.low + u.low / u.high);
}

// log(cosh(a)) for a from 0 to below 1, and from 1 to 373.
VALOR_REAL Real log_cosh_near(const Real& a) {
  const Real z = a * a;
  Real series = (a - a) + 1.0 / 2432902008176640000.0;
  series = series * z + 1.0 / 6402373705728000.0;
  series = series * z + 1.0 / 20922789888000.0;
  series = series * z + 1.0 / 87178291200.0;
  series = series * z + 1.0 / 479001600.0;
  series = series * z + 1.0 / 3628800;
  series = series * z + 1.0 / 40320;
  series = series * z + 1.0 / 720;
  series = series * z + 1.0 / 24;
  series = series * z + 1.0 / 2;
  return long_log_of_next<Real>(series * z);
}
VALOR_REAL Real log_cosh_far(const Real& a) {
  return a + (long_log_of_next<Real>(long_exp<Real>(-2.0 * a, a - a)) - kLog2);
}

// -inf for 0, NaN below.
VALOR_HD double log_of_any(double x) {
  if (!(x > 0.0 && x < kInfinity)) return x == 0.0 ? -kInfinity : x == kInfinity ? x : kNan;
  const Parts<double> found = long_log(x);
  return found.high + found.low;
}

// log(1 + x): -inf for -1, NaN below.
VALOR_HD double log_of_next(double x) {
  if (!(x > -1.0 && x < kInfinity)) return x == -1.0 ? -kInfinity : x == kInfinity ? x : kNan;
  return long_log_of_next(x);
}

// x^exponent for x >= 0.
VALOR_HD double power_of(double x, double exponent) {
  if (x != x) return x;
  if (exponent == 0.0 || x == 1.0) return 1.0;
  if (x == 0.0) return exponent > 0.0 ? 0.0 : kInfinity;
  if (!(x < kInfinity)) return exponent > 0.0 ? kInfinity : 0.0;
  const Parts<double> found = long_log(x);
  const double product = found.high * exponent;
  if (!(fabs(product) < 1e4)) return product > 0.0 ? kInfinity : 0.0;
  const Parts<double> exact = product_parts(found.high, exponent);
  if (!has_exp(exact.high)) return exact.high > 0.0 ? kInfinity : 0.0;
  return long_exp(exact.high, exact.low + found.low * exponent);
}

VALOR_HD double log_cosh(double x) {
  const double a = fabs(x);
  if (a < 1.0) return log_cosh_near(a);
  return a < 373.0 ? log_cosh_far(a) : a + (0.0 - kLog2);  // NaN stays NaN
}

// The deviance of target t from prediction p by the Tweedie distribution of a power.
VALOR_HD double tweedie(double p, double t, double power) {
  if (power == 0.0) return (p - t) * (p - t);
  if (power == 1.0) return 2.0 * ((t == 0.0 ? 0.0 : t * log_of_any(t / p)) + p - t);
  if (power == 2.0) return 2.0 * (log_of_any(p / t) + t / p - 1.0);
  const double first = power_of(t < 0.0 ? 0.0 : t, 2.0 - power) / ((1.0 - power) * (2.0 - power));
  const double second = t * power_of(p, 1.0 - power) / (1.0 - power);
  return 2.0 * (first - second + power_of(p, 2.0 - power) / (2.0 - power));
}

}  // namespace valor
