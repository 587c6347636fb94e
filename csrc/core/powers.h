// Logarithms and powers of float64 numbers, written out: every device has the same bits. Definition:
// valor_gpu/ops/moments/powers.py. In units of the last place the error is below 1, of powers x^y below
// 1 + |y log x| / 16, of those of products and roots below 2, of log(cosh(x)) and of log_ratio below 3.
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
constexpr double kLog2 = 0x1.62e42fefa39efp-1;
constexpr double kInfinity = __builtin_inf(), kNan = __builtin_nan("");

// The integers of the bits of a number.
template <class Real>
struct BitsOf {
  using Type = int64_t;
  using Words = uint64_t;  // which may overflow
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

// What is done lane by lane.
template <class Real>
struct ByLane {
  // The entry of a table of 16, whose place is the lowest 4 bits of a whole number.
  static VALOR_HD double at(const double* table, int64_t place) { return table[place & 15]; }
  static VALOR_HD double root(double x) { return sqrt(x); }
};

VALOR_HD double power_of_2(int64_t k) { return with_bits<double>((k + 1023) << 52); }

// About 1 / m for a sixteenth of the fractions m, and minus its logarithm.
template <class Real>
struct NearFraction {
  Real reciprocal, log_high, log_low;
};
VALOR_REAL NearFraction<Real> near_fraction(const typename BitsOf<Real>::Type& place) {
  static constexpr double kReciprocals[16] = {
      0x1.642d000000000p0,  0x1.5555000000000p0,  0x1.47ae000000000p0,  0x1.3b14000000000p0,
      0x1.2f68000000000p0,  0x1.2492000000000p0,  0x1.1a7c000000000p0,  0x1.1111000000000p0,
      0x1.0842000000000p0,  0x1.0000000000000p0,  0x1.e1e2000000000p-1, 0x1.c71c000000000p-1,
      0x1.af28000000000p-1, 0x1.999a000000000p-1, 0x1.8618000000000p-1, 0x1.745e000000000p-1};
  static constexpr double kLogsHigh[16] = {-0x1.522c40734e000p-2, -0x1.269521132e000p-2,
                                           -0x1.f99146cb38000p-3, -0x1.a940d3c86e000p-3,
                                           -0x1.5bf206b504000p-3, -0x1.1176e8223e000p-3,
                                           -0x1.933be5d474000p-4, -0x1.08588b59dc000p-4,
                                           -0x1.0413d89e68000p-5, 0.0,
                                           0x1.f0a10c0128000p-5,  0x1.e27476e330000p-4,
                                           0x1.5ff5070aba000p-3,  0x1.c8fd7c79ea000p-3,
                                           0x1.1676cabada000p-2,  0x1.46163c228e000p-2};
  static constexpr double kLogsLow[16] = {0x1.09d506add0abfp-44,  0x1.1b77465e77b87p-44,
                                          0x1.90d0a22d25d89p-44,  0x1.86f98a62b76a5p-45,
                                          0x1.2757941bdeda4p-46,  -0x1.1ecce23025d2ep-45,
                                          -0x1.31a5c3835489cp-45, 0x1.7e5f2c55fe581p-46,
                                          0x1.dddcd49b75a6bp-44,  0.0,
                                          -0x1.d59a92de0b93cp-45, -0x1.a31817fc55578p-45,
                                          -0x1.85719c2a69690p-44, -0x1.77bfa12ca2ef8p-45,
                                          0x1.83963c8b4ab26p-44,  -0x1.42b847691edaap-46};
  return {ByLane<Real>::at(kReciprocals, place), ByLane<Real>::at(kLogsHigh, place),
          ByLane<Real>::at(kLogsLow, place)};
}

// The logarithm of x + rest, of x from 2^-1022 on, rest at most half a unit in its last place and kRest false
// without it; with it x is below 2^1000. x is 2^k m, m from 0.703 to 1.406, and c about 1 / m: the logarithm
// is k log 2 - log c + log(1 + f), f = c m - 1, which is at most 1 / 32. The sum of the first parts is exact:
// they are multiples of 2^-42.
template <bool kRest, class Real, bool kNearOne = false>
VALOR_HD __attribute__((always_inline)) Parts<Real> log_of_sum(const Real& x, const Real& rest) {
  const Real zero = x - x;
  using Bits = typename BitsOf<Real>::Type;
  const Bits bits = bits_in(x), steps = bits - 0x3fe6800000000000ll, place = steps >> 48;
  const Bits power = kNearOne ? steps - steps : steps & ~0xfffffffffffffll, fraction = bits - power;
  const Real k = kNearOne ? zero : with_bits<Real>((steps >> 52) + 0x4338000000000000ll) - 0x1.8p52;
  const Real m = with_bits<Real>(fraction), m_high = with_bits<Real>((fraction + 0x4000000ll) & ~0x7ffffffll);
  Real m_low = m - m_high;
  if (kRest) m_low = m_low + (kNearOne ? rest : rest * with_bits<Real>(0x3ff0000000000000ll - power));
  const NearFraction<Real> near = near_fraction<Real>(place);
  const Real f_high = m_high * near.reciprocal - 1.0, f_low = m_low * near.reciprocal, f = f_high + f_low;
  const Real a0 = 0x1.5555555555521p-2 * f - 0x1.0000000000000p-1,
             a1 = 0x1.9999999af751bp-3 * f - 0x1.fffffffffffa0p-3,
             a2 = 0x1.2492357975d4dp-3 * f - 0x1.5555555695eabp-3,
             a3 = 0x1.c7ee28ac92f04p-4 * f - 0x1.ffffdbf0c4765p-4, f2 = f * f, b0 = a0 + a1 * f2,
             b1 = a2 + a3 * f2, f4 = f2 * f2, c0 = b0 + b1 * f4, f8 = f4 * f4;
  const Real series = c0 + (zero - 0x1.9a59d76189686p-4) * f8;
  const Real low = f2 * series + (kNearOne ? near.log_low : k * kLog2Low + near.log_low);
  const Real high = kNearOne ? near.log_high + f_high : k * kLog2High + (near.log_high + f_high);
  const Parts<Real> sum = fast_parts<Real>(high, f_low);
  return fast_parts<Real>(sum.high, sum.low + low);
}

// The logarithm of numbers from 2^-1022 on.
VALOR_REAL Parts<Real> normal_log(const Real& x) { return log_of_sum<false, Real>(x, x); }

// The logarithm of positive finite numbers.
VALOR_REAL Parts<Real> long_log(const Real& x) {
  const auto tiny = x < 0x1p-1022;
  const Real zero = x - x, lower = tiny ? zero - 54.0 : zero;
  const Parts<Real> found = normal_log<Real>(tiny ? x * 0x1p54 : x);
  const Parts<Real> sum = fast_parts<Real>(found.high, lower * kLog2High);
  return {sum.high, sum.low + (found.low + lower * kLog2Low)};
}

// exp(high + low) = 2^(steps / 16) * value, value from 0.98 to 2.05. high is from -746 to 710.
template <class Real>
struct Exponential {
  Real value;
  typename BitsOf<Real>::Type steps;
};
VALOR_REAL Exponential<Real> exponential(const Real& high, const Real& low) {
  static constexpr double kPowersHigh[16] = {
      0x1.0000000000000p0, 0x1.0b5586cf9890fp0, 0x1.172b83c7d517bp0, 0x1.2387a6e756238p0,
      0x1.306fe0a31b715p0, 0x1.3dea64c123422p0, 0x1.4bfdad5362a27p0, 0x1.5ab07dd485429p0,
      0x1.6a09e667f3bcdp0, 0x1.7a11473eb0187p0, 0x1.8ace5422aa0dbp0, 0x1.9c49182a3f090p0,
      0x1.ae89f995ad3adp0, 0x1.c199bdd85529cp0, 0x1.d5818dcfba487p0, 0x1.ea4afa2a490dap0};
  static constexpr double kPowersLow[16] = {0.0,
                                            0x1.8a62e4adc610bp-54,
                                            -0x1.19041b9d78a76p-55,
                                            0x1.9b07eb6c70573p-54,
                                            0x1.6f46ad23182e4p-55,
                                            0x1.ada0911f09ebcp-55,
                                            0x1.d4397afec42e2p-56,
                                            0x1.6324c054647adp-54,
                                            -0x1.bdd3413b26456p-54,
                                            -0x1.41577ee04992fp-55,
                                            0x1.6e9f156864b27p-54,
                                            0x1.c7c46b071f2bep-56,
                                            0x1.7a1cd345dcc81p-54,
                                            0x1.11065895048ddp-55,
                                            0x1.2ed02d75b3707p-55,
                                            -0x1.e9c23179c2893p-54};
  const Real shifted = high * 0x1.71547652b82fep4 + 0x1.8p52, k = shifted - 0x1.8p52;  // a whole number
  const Real r = (high - k * (kLog2High / 16)) - (k * (kLog2Low / 16) - low);
  const Real a0 = 0x1.0000000000000p-1 + 0x1.5555555555556p-3 * r,
             a1 = 0x1.55555554e9456p-5 + 0x1.11111110e10a0p-7 * r,
             a2 = 0x1.6c17ed4e4d929p-10 + 0x1.a01b0c30381a9p-13 * r, r2 = r * r, b0 = a0 + a1 * r2,
             r4 = r2 * r2;
  const Real series = b0 + a2 * r4;
  const auto steps = bits_in(shifted);
  const Real first = ByLane<Real>::at(kPowersHigh, steps), second = ByLane<Real>::at(kPowersLow, steps);
  return {first + (first * (r + r2 * series) + second), steps};
}

// exp(high + low) for high from -746 to 710.
VALOR_REAL Real long_exp(const Real& high, const Real& low) {
  const Exponential<Real> found = exponential<Real>(high, low);
  const typename BitsOf<Real>::Type steps = (found.steps - 0x4338000000000000ll) >> 4, half = steps >> 1;
  const Real first = with_bits<Real>((half + 1023) << 52),
             second = with_bits<Real>((steps - half + 1023) << 52);
  return found.value * first * second;
}
// The same for high from -708 to 709: no power is below 2^-1022.
VALOR_REAL Real normal_exp(const Real& high, const Real& low) {
  const Exponential<Real> found = exponential<Real>(high, low);
  using Words = typename BitsOf<Real>::Words;
  return with_bits<Real>((Words)bits_in(found.value) + ((Words)found.steps >> 4 << 52));
}
VALOR_HD bool has_exp(double high) { return high > -746.0 && high < 710.0; }

// log(1 + x) for x above -1 and below 2^1000.
VALOR_REAL Real long_log_of_next(const Real& x) {
  const Parts<Real> u = sum_parts<Real>((x - x) + 1.0, x);
  return log_of_sum<true, Real>(u.high, u.low).high;
}

// log(cosh(a)) for a from 0 on: below 0.8 by the series of cosh(a) - 1, else a + log(1 + exp(-2 a)) - log 2.
VALOR_REAL Real log_cosh_of_size(const Real& a) {
  const Real zero = {};
  const auto near = a < 0.8;
  const Real z = near ? a * a : zero;
  const Real a0 = 0x1.0000000000000p-1 + 0x1.5555555555502p-5 * z,
             a1 = 0x1.6c16c16c212c0p-10 + 0x1.a01a01907b7eep-16 * z,
             a2 = 0x1.27e5069de9344p-22 + 0x1.1ee5640e638a2p-29 * z, z2 = z * z, b0 = a0 + a1 * z2,
             b1 = a2 + 0x1.99848a67700e4p-37 * z2, z4 = z2 * z2;
  const Real series = b0 + b1 * z4;
  const Real faded = normal_exp<Real>(a < 300.0 ? -2.0 * a : zero - 600.0, zero);
  const Parts<Real> u = fast_parts<Real>(zero + 1.0, near ? series * z : faded);
  const Real value = log_of_sum<true, Real, true>(u.high, u.low).high;
  return near ? value : a + (value - kLog2);
}

// -inf for 0, NaN below.
VALOR_HD double log_of_any(double x) {
  if (!(x > 0.0 && x < kInfinity)) return x == 0.0 ? -kInfinity : x == kInfinity ? x : kNan;
  const Parts<double> found = long_log(x);
  return found.high + found.low;
}

// log(1 + x): -inf for -1, NaN below.
VALOR_HD double log_of_next(double x) {
  if (!(x > -1.0 && x < 0x1p1000)) return x == -1.0 ? -kInfinity : x > 0.0 ? log_of_any(x) : kNan;
  return long_log_of_next(x);
}

// The absolute difference of log(1 + p) and log(1 + t), as one logarithm of 1 and more, so that nothing
// cancels.
VALOR_HD double log_ratio(double p, double t) {
  const double ratio = fabs(p - t) / (1.0 + (p < t ? p : t));
  return ratio < kInfinity ? log_of_next(ratio) : log_of_next(p) - log_of_next(t);
}

// Whether a power is one of products and a square root.
VALOR_HD bool is_plain_power(double exponent) {
  return exponent == 1.0 || exponent == 1.5 || exponent == 2.0 || exponent == 2.5 || exponent == 3.0 ||
         exponent == 4.0;
}
VALOR_REAL Real plain_power(const Real& x, double exponent) {
  if (exponent == 1.0) return x;
  if (exponent == 1.5) return x * ByLane<Real>::root(x);
  const Real square = x * x;
  return exponent == 2.0   ? square
         : exponent == 2.5 ? square * ByLane<Real>::root(x)
         : exponent == 3.0 ? square * x
                           : square * square;
}

// x^exponent for x >= 0.
VALOR_HD double power_of(double x, double exponent) {
  if (is_plain_power(exponent)) return plain_power(x, exponent);
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

VALOR_HD double log_cosh(double x) { return log_cosh_of_size(fabs(x)); }

// The deviance of target t from prediction p by the Tweedie distribution of a power.
VALOR_HD double tweedie(double p, double t, double power) {
  if (power == 0.0) return (p - t) * (p - t);
  if (power == 1.0) return 2.0 * ((t == 0.0 ? 0.0 : t * log_of_any(t / p)) + p - t);
  if (power == 2.0) return 2.0 * (log_of_any(p / t) + t / p - 1.0);
  if (power == 3.0) return (p - t) / p * ((p - t) / p) / t;
  if (power == 1.5) {
    const double root = sqrt(p), gap = root - sqrt(t);
    return 4.0 * gap * gap / root;
  }
  const double one = 1.0 / (1.0 - power), two = 1.0 / (2.0 - power);
  const double first = power_of(t < 0.0 ? 0.0 : t, 2.0 - power) * (one * two);
  return 2.0 * (first + power_of(p, 1.0 - power) * (p * two - t * one));
}

}  // namespace valor
