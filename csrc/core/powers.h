// Logarithms and powers of float64 numbers, written out: every device has the same bits. Definition:
// valor_gpu/ops/moments/powers.py. The error is below one unit in the last place, of powers near 1e300 two.
#pragma once
#include <math.h>

#include "two_doubles.h"

namespace valor {

constexpr double kLog2High = 0x1.62e42fefa0000p-1, kLog2Low = 0x1.cf79abc9e3b3ap-40;
constexpr double kLog2 = 0x1.62e42fefa39efp-1, kInfinity = __builtin_inf(), kNan = __builtin_nan("");

// The logarithm of a positive finite number: that of its exponent, and 2 atanh((m - 1) / (m + 1)) of its
// fraction m from sqrt(1/2) to sqrt(2).
VALOR_HD TwoDoubles long_log(double x) {
  static const double terms[10] = {1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11,
                                   1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21};
  const bool tiny = x < 0x1p-1022;
  const uint64_t bits = bits_of(tiny ? x * 0x1p54 : x);
  double m = double_of((bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  const bool large = m > 0x1.6a09e667f3bcdp0;
  const double k = static_cast<double>(static_cast<int64_t>(bits >> 52) - 1023 - (tiny ? 54 : 0) + large);
  if (large) m *= 0.5;
  const double f = m - 1.0;
  const TwoDoubles g = exact_sum(m, 1.0);
  const double q = f / g.high;
  const TwoDoubles product = exact_product(q, g.high);
  const double q_rest = (((f - product.high) - product.low) - q * g.low) / g.high;
  const double z = q * q;
  double series = terms[9];
  for (int n = 8; n >= 0; --n) series = series * z + terms[n];
  const double twice = q + q;
  const TwoDoubles sum = fast_sum(k * kLog2High, twice);
  return fast_sum(sum.high, sum.low + (((q_rest + q_rest) + twice * z * series) + k * kLog2Low));
}

VALOR_HD double power_of_2(int64_t k) { return double_of(static_cast<uint64_t>(k + 1023) << 52); }

// exp(high + low).
VALOR_HD double long_exp(double high, double low) {
  static const double terms[13] = {1.0 / 2,         1.0 / 6,          1.0 / 24,          1.0 / 120,
                                   1.0 / 720,       1.0 / 5040,       1.0 / 40320,       1.0 / 362880,
                                   1.0 / 3628800,   1.0 / 39916800,   1.0 / 479001600.0, 1.0 / 6227020800.0,
                                   1.0 / 87178291200.0};
  if (!(high > -746.0 && high < 710.0)) return high > 0.0 ? kInfinity : high <= 0.0 ? 0.0 : kNan;
  const double k = (high * 0x1.71547652b82fep0 + 0x1.8p52) - 0x1.8p52;  // a whole number
  const double r = (high - k * kLog2High) - (k * kLog2Low - low);
  double series = terms[12];
  for (int n = 11; n >= 0; --n) series = series * r + terms[n];
  const int64_t steps = static_cast<int64_t>(k), half = steps >> 1;
  return (1.0 + (r + r * r * series)) * power_of_2(half) * power_of_2(steps - half);
}

// -inf for 0, NaN below.
VALOR_HD double log_of_any(double x) {
  if (!(x > 0.0 && x < kInfinity)) return x == 0.0 ? -kInfinity : x == kInfinity ? x : kNan;
  const TwoDoubles found = long_log(x);
  return found.high + found.low;
}

// log(1 + x): -inf for -1, NaN below.
VALOR_HD double log_of_next(double x) {
  if (!(x > -1.0 && x < kInfinity)) return x == -1.0 ? -kInfinity : x == kInfinity ? x : kNan;
  const TwoDoubles u = exact_sum(1.0, x), found = long_log(u.high);
  return found.high + (found.low + u.low / u.high);
}

// x^exponent for x >= 0.
VALOR_HD double power_of(double x, double exponent) {
  if (x != x) return x;
  if (exponent == 0.0 || x == 1.0) return 1.0;
  if (x == 0.0) return exponent > 0.0 ? 0.0 : kInfinity;
  if (!(x < kInfinity)) return exponent > 0.0 ? kInfinity : 0.0;
  const TwoDoubles found = long_log(x);
  const double product = found.high * exponent;
  if (!(fabs(product) < 1e4)) return product > 0.0 ? kInfinity : 0.0;
  const TwoDoubles exact = exact_product(found.high, exponent);
  return long_exp(exact.high, exact.low + found.low * exponent);
}

// log(cosh(x)).
VALOR_HD double log_cosh(double x) {
  static const double terms[10] = {1.0 / 2,
                                   1.0 / 24,
                                   1.0 / 720,
                                   1.0 / 40320,
                                   1.0 / 3628800,
                                   1.0 / 479001600.0,
                                   1.0 / 87178291200.0,
                                   1.0 / 20922789888000.0,
                                   1.0 / 6402373705728000.0,
                                   1.0 / 2432902008176640000.0};
  const double a = fabs(x);
  if (!(a < 1.0)) return a + (log_of_next(long_exp(-2.0 * a, 0.0)) - kLog2);
  const double z = a * a;
  double series = terms[9];
  for (int n = 8; n >= 0; --n) series = series * z + terms[n];
  return log_of_next(series * z);
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
