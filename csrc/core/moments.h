// Exact sums over pairs of numbers: terms, and sums as whole numbers of many limbs. Definition:
// valor_gpu/ops/moments/reference.py. Design: docs/design/053-exact-moments.md.
#pragma once
#include "error_codes.h"
#include "load.h"
#include "powers.h"

namespace valor {

// Kind in valor_gpu/ops/moments/kinds.py. The first ones sum numbers and their products, the others a term
// that is rounded to float64.
enum MomentKind : int64_t {
  kAbsolute,
  kSquared,
  kWeighted,
  kVariance,
  kProducts,
  kPercentage,
  kSymmetric,
  kPinball,
  kSquaredLog,
  kLogCosh,
  kMinkowski,
  kTweedie,
};

enum MomentError : int64_t { kHasTerm = 0, kPredDomain = 6, kTargetDomain = 7 };
enum MomentCount : int { kRows, kNans, kInfinite, kNegativeInfinite, kMomentCounts };

constexpr double kLeastDivisor = 1.17e-06;
constexpr int kMostSums = 5, kLimbBits = 32;

// Arguments of the op. Fields are 64-bit words, packed by valor_gpu/ops/moments/launches.py.
struct MomentTask {
  const void *preds, *target;       // [rows, columns]
  int64_t preds_type, target_type;  // a FloatType, or 4 more than an IntType
  int64_t rows, columns, kind, limbs;
  double parameter;

  VALOR_HD int64_t sums() const { return moment_sums(kind); }
  VALOR_HD static int64_t moment_sums(int64_t kind) {
    return kind == kProducts ? 5 : kind == kVariance ? 4 : kind == kWeighted ? 2 : 1;
  }
};

struct MomentOutputs {
  int64_t *sums, *counts;    // [columns, sums, limbs], [columns, 4]
  double *lowest, *highest;  // [columns]
  int64_t* error;
};

VALOR_HD double load_number(const void* base, int64_t index, int64_t type) {
  constexpr int64_t kFloats = 4;
  return type < kFloats ? load_float64(base, index, static_cast<FloatType>(type))
                        : static_cast<double>(load_int(base, index, static_cast<IntType>(type - kFloats)));
}

// The numbers of a row that are summed or multiplied; state is 0, or NaN or infinite for a row that is in no
// sum; error is a MomentError or 0.
struct RowTerms {
  double first, second, state;
  int64_t error;
};

// Whether numbers below this and above its negative fit in limbs, with all products and 2^62 rows.
VALOR_HD double moment_bound(int64_t limbs) {
  return 8 * limbs - kLimbBits < 1024 ? power_of_2(8 * limbs - kLimbBits) : kInfinity;
}

VALOR_HD bool is_exact_kind(int64_t kind) { return kind <= kProducts; }
VALOR_HD bool has_second(int64_t kind) { return kind == kWeighted || kind == kVariance || kind == kProducts; }
VALOR_HD bool has_products(int64_t kind) {
  return kind == kSquared || kind == kVariance || kind == kProducts;
}
VALOR_HD bool is_finite(double x) { return x - x == 0.0; }

VALOR_HD double rounded_term(int64_t kind, double p, double t, double parameter) {
  const double e = p - t;
  switch (kind) {
    case kPercentage: {
      const double size = fabs(t);
      return fabs(e) / (size < kLeastDivisor ? kLeastDivisor : size);
    }
    case kSymmetric: {
      const double size = fabs(p) + fabs(t);
      return 2.0 * fabs(e) / (size < kLeastDivisor ? kLeastDivisor : size);
    }
    case kPinball:
      return e < 0.0 ? parameter * -e : (1.0 - parameter) * e;
    case kSquaredLog: {
      const double d = log_ratio(p, t);
      return d * d;
    }
    case kLogCosh:
      return log_cosh(e);
    case kMinkowski:
      return power_of(fabs(e), parameter);
    default:
      return tweedie(p, t, parameter);
  }
}

// A MomentError of numbers without a term, or 0.
VALOR_HD int64_t domain_error(int64_t kind, double p, double t, double parameter) {
  if (kind == kSquaredLog) return p < -1.0 ? kPredDomain : t < -1.0 ? kTargetDomain : kHasTerm;
  if (kind != kTweedie || parameter == 0.0) return kHasTerm;
  if (p <= 0.0) return kPredDomain;
  if (parameter < 0.0) return kHasTerm;
  return (parameter < 2.0 ? t < 0.0 : t <= 0.0) ? kTargetDomain : kHasTerm;
}

VALOR_HD RowTerms moment_terms(int64_t kind, double p, double t, double parameter, double bound) {
  RowTerms row{p - t, t, 0.0, 0};
  double state;
  if (kind == kProducts) {
    row.first = p;
    state = is_finite(p) && is_finite(t) ? 0.0 : kNan;
  } else if (kind == kVariance) {
    state = is_finite(t) ? row.first : kNan;
  } else if (kind == kWeighted) {
    row.first = fabs(row.first), row.second = fabs(t);
    state = is_finite(t) ? row.first : kNan;
  } else {
    if (kind == kAbsolute) row.first = fabs(row.first);
    row.error = domain_error(kind, p, t, parameter);
    if (!is_exact_kind(kind)) row.first = row.error ? kNan : rounded_term(kind, p, t, parameter);
    row.second = 0.0;
    state = kind == kSquared ? fabs(row.first) : row.first;
  }
  if (!is_finite(state)) {
    row.state = state;
  } else if (fabs(row.first) >= bound) {
    row.state = row.first > 0.0 ? kInfinity : -kInfinity;
  } else if (fabs(row.second) >= bound) {
    row.state = row.second > 0.0 ? kInfinity : -kInfinity;
  }
  if (row.state != 0.0) row.first = row.second = 0.0;
  return row;
}

// A number as `whole * 2^(place - 8 * limbs)`, cut to a multiple of 2^(-8 * limbs).
struct WholeNumber {
  int64_t whole, place;  // up to 53 bits; at least 0

  VALOR_HD WholeNumber(double value, int64_t limbs) {
    const uint64_t bits = bits_of(value);
    const int64_t field = static_cast<int64_t>(bits >> 52 & 2047);
    whole = static_cast<int64_t>((bits & 0xfffffffffffffull) | (field ? 1ull << 52 : 0));
    place = (field ? field : 1) - 1075 + 8 * limbs;
    if (place < 0) {
      whole = place > -62 ? whole >> -place : 0;
      place = 0;
    }
    if (bits >> 63) whole = -whole;
  }
};

// Adds a whole number times 2^place by add(limb, piece), with pieces of at most 33 bits; of a whole number of
// 0 none.
template <class Add>
VALOR_HD void add_whole(int64_t whole, int64_t place, Add add) {
  if (whole == 0) return;
  const int64_t limb = place >> 5;
  const int shift = static_cast<int>(place & 31);
  const uint64_t mask = 0xffffffffull;
  const uint64_t low = (static_cast<uint64_t>(whole) & mask) << shift;
  const int64_t high = whole >> 32;
  // high * 2^shift in two pieces: its lowest 32 bits, and the rest with the sign.
  const uint64_t high_low = (static_cast<uint64_t>(high) & mask) << shift;
  add(limb, static_cast<int64_t>(low & mask));
  add(limb + 1, static_cast<int64_t>((low >> 32) + (high_low & mask)));
  const int64_t rest = static_cast<int64_t>(high_low >> 32) + (high < 0 ? -(int64_t{1} << shift) : 0);
  if (rest) add(limb + 2, rest);
}

template <class Add>
VALOR_HD void add_number(double a, int64_t limbs, Add add) {
  const WholeNumber whole(a, limbs);
  add_whole(whole.whole, whole.place + 8 * limbs, add);
}

template <class Add>
VALOR_HD void add_product(double a, double b, int64_t limbs, Add add) {
  const WholeNumber left(a, limbs), right(b, limbs);
  const int64_t place = left.place + right.place, mask = (1 << 27) - 1;
  const int64_t a1 = left.whole >> 27, a0 = left.whole & mask, b1 = right.whole >> 27,
                b0 = right.whole & mask;
  add_whole(a1 * b1, place + 54, add);
  add_whole(a1 * b0 + a0 * b1, place + 27, add);
  add_whole(a0 * b0, place, add);
}

// Adds the terms of a row by add(sum, limb, piece).
template <class Add>
VALOR_HD void add_row(int64_t kind, const RowTerms& row, int64_t limbs, Add add) {
  const double a = row.first, b = row.second;
  int sum = 0;
  auto to = [&](int64_t limb, int64_t piece) { add(sum, limb, piece); };
  if (kind != kSquared) add_number(a, limbs, to), ++sum;
  if (kind == kProducts || kind == kWeighted) add_number(b, limbs, to), ++sum;
  if (has_products(kind)) add_product(a, a, limbs, to), ++sum;
  if (kind == kVariance) add_number(b, limbs, to), ++sum;
  if (kind == kVariance || kind == kProducts) add_product(b, b, limbs, to), ++sum;
  if (kind == kProducts) add_product(a, b, limbs, to);
}

// Makes all limbs but the last numbers from 0 to 2^32 - 1.
VALOR_HD void carry_limbs(int64_t* limbs, int64_t count) {
  int64_t carry = 0;
  for (int64_t i = 0; i + 1 < count; ++i) {
    const int64_t value = limbs[i] + carry;
    limbs[i] = value & 0xffffffffll;
    carry = value >> kLimbBits;
  }
  limbs[count - 1] += carry;
}

}  // namespace valor
