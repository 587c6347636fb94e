// Terms that are rounded to float64, of a block of rows in vector registers: the bits of rounded_term.
#pragma once
#include "moment_folds.h"

namespace valor {

template <>
struct BitsOf<Pack> {
  using Type = PackBits;
};

VALOR_INLINE Pack size_of(const Pack& value) { return (Pack)((PackBits)value & 0x7fffffffffffffffll); }

// x^exponent for x above 0; `regular` loses lanes for which this is not so, or whose power is out of reach.
VALOR_INLINE Pack powers_of(const Pack& x, double exponent, PackBits& regular) {
  const Parts<Pack> found = long_log<Pack>(x);
  const Pack zero = {};
  const Parts<Pack> exact = product_parts<Pack>(found.high, zero + exponent);
  regular &= (x > 0.0) & (x < kInfinity) & (exact.high > -746.0) & (exact.high < 710.0);
  return long_exp<Pack>(exact.high, exact.low + found.low * exponent);
}

VALOR_INLINE Pack logs_of(const Pack& x, PackBits& regular) {
  const Parts<Pack> found = long_log<Pack>(x);
  regular &= (x > 0.0) & (x < kInfinity);
  return found.high + found.low;
}

VALOR_INLINE Pack logs_of_next(const Pack& x, PackBits& regular) {
  regular &= (x > -1.0) & (x < kInfinity);
  return long_log_of_next<Pack>(x);
}

VALOR_INLINE Pack tweedie_terms(const Pack& p, const Pack& t, double power, PackBits& regular) {
  if (power == 0.0) return (p - t) * (p - t);
  regular &= (p > 0.0) & (t > 0.0);
  if (power == 1.0) return 2.0 * (t * logs_of(t / p, regular) + p - t);
  if (power == 2.0) return 2.0 * (logs_of(p / t, regular) + t / p - 1.0);
  const Pack first = powers_of(t, 2.0 - power, regular) / ((1.0 - power) * (2.0 - power));
  const Pack second = t * powers_of(p, 1.0 - power, regular) / (1.0 - power);
  return 2.0 * (first - second + powers_of(p, 2.0 - power, regular) / (2.0 - power));
}

template <int64_t kKind>
VALOR_INLINE Pack terms_of(const Pack& p, const Pack& t, double parameter, PackBits& regular) {
  const Pack e = p - t, size = size_of(e);
  if (kKind == kPercentage) {
    const Pack whole = size_of(t);
    return size / (whole < kLeastDivisor ? whole - whole + kLeastDivisor : whole);
  }
  if (kKind == kSymmetric) {
    const Pack whole = size_of(p) + size_of(t);
    return 2.0 * size / (whole < kLeastDivisor ? whole - whole + kLeastDivisor : whole);
  }
  if (kKind == kPinball) return e < 0.0 ? parameter * -e : (1.0 - parameter) * e;
  if (kKind == kSquaredLog) {
    const Pack d = logs_of_next(p, regular) - logs_of_next(t, regular);
    return d * d;
  }
  if (kKind == kLogCosh) {
    const Pack zero = {};
    regular &= size < 373.0;
    return size < 1.0 ? log_cosh_near<Pack>(size < 1.0 ? size : zero)
                      : log_cosh_far<Pack>(size < 1.0 ? zero + 1.0 : size);
  }
  if (kKind == kMinkowski) return powers_of(size, parameter, regular);
  return tweedie_terms(p, t, parameter, regular);
}

// Terms of `count` rows, a multiple of kPackLanes. Numbers without a term get NaN.
template <int64_t kKind>
VALOR_INLINE void write_terms(const double* preds, const double* target, int64_t count, double parameter,
                              double* terms) {
  for (int64_t i = 0; i < count; i += kPackLanes) {
    Pack p, t;
    memcpy(&p, preds + i, sizeof p);
    memcpy(&t, target + i, sizeof t);
    PackBits regular = (PackBits)(p == p) | -1;
    const Pack found = terms_of<kKind>(p, t, parameter, regular);
    memcpy(terms + i, &found, sizeof found);
    int64_t all = -1;
    for (int lane = 0; lane < kPackLanes; ++lane) all &= regular[lane];
    for (int lane = 0; lane < kPackLanes && !all; ++lane)
      if (!regular[lane])
        terms[i + lane] = domain_error(kKind, p[lane], t[lane], parameter)
                              ? kNan
                              : rounded_term(kKind, p[lane], t[lane], parameter);
  }
}

}  // namespace valor
