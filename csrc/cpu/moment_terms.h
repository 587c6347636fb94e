// Terms that are rounded to float64, of a block of rows in vector registers: the bits of rounded_term.
#pragma once
#include "moment_folds.h"

namespace valor {

template <>
struct BitsOf<Pack> {
  using Type = PackBits;
  using Words = PackWords;
};

template <>
struct ByLane<Pack> {
  static VALOR_INLINE Pack at(const double* table, const PackBits& places) {
#if defined(__clang__)
    Pack found;
    for (int lane = 0; lane < kPackLanes; ++lane) found[lane] = table[places[lane] & 15];
    return found;
#else
    Pack low, high;
    memcpy(&low, table, sizeof low);
    memcpy(&high, table + kPackLanes, sizeof high);
    return __builtin_shuffle(low, high, places);
#endif
  }
  static VALOR_INLINE Pack root(const Pack& x) {
    Pack root;
    for (int lane = 0; lane < kPackLanes; ++lane) root[lane] = sqrt(x[lane]);
    return root;
  }
};

VALOR_INLINE Pack size_of(const Pack& value) { return (Pack)((PackBits)value & 0x7fffffffffffffffll); }

// Terms below are NaN where the bits of rounded_term need more than is done here. No selection is an operand
// of another one: GCC would make one of both, and take it apart lane by lane.

// x^exponent for x from 0 on.
VALOR_INLINE Pack powers_of(const Pack& x, double exponent) {
  if (is_plain_power(exponent)) return plain_power<Pack>(x, exponent);
  const Pack zero = {};
  const Parts<Pack> found = normal_log<Pack>(x >= 0x1p-1022 ? x : zero + kNan);
  const Parts<Pack> exact = product_parts<Pack>(found.high, zero + exponent);
  const Pack within = size_of(exact.high) < 708.0 ? exact.high : zero + kNan;
  const Pack power = normal_exp<Pack>(within, exact.low + found.low * exponent);
  return exponent > 0.0 ? (x == 0.0 ? zero : power) : power;
}

VALOR_INLINE Pack logs_of(const Pack& x) { return normal_log<Pack>(x >= 0x1p-1022 ? x : Pack{} + kNan).high; }

VALOR_INLINE Pack tweedie_terms(const Pack& any_p, const Pack& any_t, double power) {
  const Pack zero = {}, none = zero + kNan;
  if (power == 0.0) return (any_p - any_t) * (any_p - any_t);
  const Pack p = any_p > 0.0 ? any_p : none;
  const Pack t = power < 1.0   ? any_t
                 : power < 2.0 ? (any_t >= 0.0 ? any_t : none)
                               : (any_t > 0.0 ? any_t : none);
  if (power == 1.0) {
    const Pack log = t * logs_of(t / p);
    return 2.0 * ((any_t == 0.0 ? zero : log) + p - t);
  }
  if (power == 2.0) return 2.0 * (logs_of(p / t) + t / p - 1.0);
  if (power == 3.0) return (p - t) / p * ((p - t) / p) / t;
  if (power == 1.5) {
    const Pack root = ByLane<Pack>::root(p), gap = root - ByLane<Pack>::root(t);
    return 4.0 * gap * gap / root;
  }
  const double one = 1.0 / (1.0 - power), two = 1.0 / (2.0 - power);
  const Pack base = power < 0.0 ? (t < 0.0 ? zero : t) : t;
  const Pack first = powers_of(base, 2.0 - power) * (one * two);
  return 2.0 * (first + powers_of(p, 1.0 - power) * (p * two - t * one));
}

template <int64_t kKind>
VALOR_INLINE Pack terms_of(const Pack& p, const Pack& t, double parameter) {
  const Pack e = p - t, size = size_of(e), none = Pack{} + kNan;
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
    const Pack lower = 1.0 + (p < t ? p : t);
    const Pack ratio = size / (lower > 0.0 ? lower : none);
    const Pack d = long_log_of_next<Pack>(ratio < 0x1p1000 ? ratio : none);
    return d * d;
  }
  if (kKind == kLogCosh) return log_cosh_of_size<Pack>(size);
  if (kKind == kMinkowski) return powers_of(size, parameter);
  return tweedie_terms(p, t, parameter);
}

// Replaces terms that are not finite. Numbers without a term get NaN.
__attribute__((noinline, cold)) inline void mend_terms(int64_t kind, const double* p, const double* t,
                                                       double parameter, double* terms) {
  for (int lane = 0; lane < kPackLanes; ++lane)
    if (!is_finite(terms[lane]))
      terms[lane] = domain_error(kind, p[lane], t[lane], parameter)
                        ? kNan
                        : rounded_term(kind, p[lane], t[lane], parameter);
}

// Terms of `count` rows, a multiple of kPackLanes.
template <int64_t kKind, class Source>
VALOR_INLINE void write_terms(const Source& source, int64_t count, double parameter, double* terms) {
  constexpr int64_t kStep = 8 * kPackLanes;
  for (int64_t begin = 0; begin < count; begin += kStep) {
    const int64_t end = std::min(count, begin + kStep);
    Pack all = {};  // NaN where a term is not finite
    for (int64_t i = begin; i < end; i += kPackLanes) {
      Pack p, t;
      source.load(i, p, t);
      const Pack term = terms_of<kKind>(p, t, parameter);
      memcpy(terms + i, &term, sizeof term);
      all += term - term;
    }
    if (!any((PackBits)all)) continue;
    for (int64_t i = begin; i < end; i += kPackLanes) {
      Pack sides[2];
      source.load(i, sides[0], sides[1]);
      double numbers[2][kPackLanes];
      memcpy(numbers, sides, sizeof numbers);
      mend_terms(kKind, numbers[0], numbers[1], parameter, terms + i);
    }
  }
}

// Terms of any kind that is not exact.
template <class Source>
VALOR_INLINE void write_any_terms(int64_t kind, const Source& source, int64_t count, double parameter,
                                  double* to) {
  if (kind == kPercentage) return write_terms<kPercentage>(source, count, parameter, to);
  if (kind == kSymmetric) return write_terms<kSymmetric>(source, count, parameter, to);
  if (kind == kPinball) return write_terms<kPinball>(source, count, parameter, to);
  if (kind == kSquaredLog) return write_terms<kSquaredLog>(source, count, parameter, to);
  if (kind == kLogCosh) return write_terms<kLogCosh>(source, count, parameter, to);
  if (kind == kMinkowski) return write_terms<kMinkowski>(source, count, parameter, to);
  write_terms<kTweedie>(source, count, parameter, to);
}

}  // namespace valor
