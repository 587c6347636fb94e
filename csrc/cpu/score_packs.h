// Scores of a row in vector registers. The score of a row depends on nothing but the row.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "../core/row_scores.h"
#include "moment_terms.h"

namespace valor {

constexpr int64_t kMostPairs = 256;  // members of an ensemble that are compared one with another

typedef uint64_t PackWords __attribute__((vector_size(64)));

// The logarithm of positive normal numbers, with an error of about one unit in the last place (the polynomial
// of FreeBSD's e_log.c). It has a single division, unlike long_log.
VALOR_INLINE Pack quick_log(const Pack& x) {
  constexpr uint64_t kOne = 0x3ff0000000000000ull, kBelowRoot = 0x3fe6a09e667f3bcdull;
  const PackWords shifted = (PackWords)x + (kOne - kBelowRoot), places = shifted >> 52;
  const Pack k = (Pack)(places | 0x4330000000000000ull) - (0x1p52 + 1023.0);
  const Pack f = (Pack)((PackWords)x - (places << 52) + kOne) - 1.0;
  const Pack s = f / (2.0 + f), z = s * s, w = z * z;
  const Pack even = w * (0.3999999999940941908 + w * (0.2222219843214978396 + w * 0.1531383769920937332));
  const Pack odd =
      z * (0.6666666666666735130 +
           w * (0.2857142874366239149 + w * (0.1818357216161805012 + w * 0.1479819860511658591)));
  const Pack half = 0.5 * f * f;
  return k * 6.93147180369123816490e-01 -
         ((half - (s * (half + (even + odd)) + k * 1.90821492927058770002e-10)) - f);
}

VALOR_INLINE Pack where(const PackBits& mask, const Pack& yes, const Pack& no) {
  return (Pack)((mask & (PackBits)yes) | (~mask & (PackBits)no));
}

VALOR_INLINE double sum_of_lanes(const Pack& lanes) {
  double sums[kPackLanes];
  memcpy(sums, &lanes, sizeof sums);
  for (int half = kPackLanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) sums[l] += sums[l + half];
  return sums[0];
}

// Whether all bits of all lanes are set, of masks.
VALOR_INLINE bool all(const PackBits& mask) {
  int64_t found = -1;
  for (int lane = 0; lane < kPackLanes; ++lane) found &= mask[lane];
  return found == -1;
}

VALOR_INLINE Pack load_pack(const float* from) {
  HalfPack found;
  memcpy(&found, from, sizeof found);
  return __builtin_convertvector(found, Pack);
}
VALOR_INLINE Pack load_pack(const double* from) {
  Pack found;
  memcpy(&found, from, sizeof found);
  return found;
}

// Calls each(a, b) with all numbers of both rows; behind their ends stand `spare_a` and `spare_b`.
template <class Value, class Each>
VALOR_INLINE void over_row(const Value* first, const Value* second, int64_t columns, Value spare_a,
                           Value spare_b, const Each& each) {
  int64_t i = 0;
  for (; i + kPackLanes <= columns; i += kPackLanes) each(load_pack(first + i), load_pack(second + i));
  if (i == columns) return;
  Value a[kPackLanes], b[kPackLanes];
  for (int l = 0; l < kPackLanes; ++l) {
    a[l] = i + l < columns ? first[i + l] : spare_a;
    b[l] = i + l < columns ? second[i + l] : spare_b;
  }
  each(load_pack(a), load_pack(b));
}

template <class Value>
VALOR_INLINE double cosine_of(const Value* first, const Value* second, int64_t columns) {
  Pack both = {}, of_a = {}, of_b = {};
  over_row<Value>(first, second, columns, 0, 0, [&](const Pack& a, const Pack& b) {
    both += a * b;
    of_a += a * a;
    of_b += b * b;
  });
  const double cosine = sum_of_lanes(both) / (std::sqrt(sum_of_lanes(of_a)) * std::sqrt(sum_of_lanes(of_b)));
  return cosine > 1 ? 1 : cosine < -1 ? -1 : cosine;
}

// p log(p / q), 0 for p of 0; `regular` loses lanes whose quotient is no positive normal number.
VALOR_INLINE Pack divergence_terms(const Pack& p, const Pack& q, PackBits& regular) {
  const PackBits none = p == 0.0;
  const Pack ratio = where(none, p - p + 1.0, p / q);
  regular &= (ratio >= 0x1p-1022) & (ratio < kInfinity);
  return p * quick_log(ratio);
}

// A divergence of probabilities; `negative` tells whether a number is below 0.
template <bool kJensen, class Value>
VALOR_INLINE double divergence_of(const Value* first, const Value* second, int64_t columns, bool& negative) {
  Pack all_a = {}, all_b = {}, sum = {};
  PackBits below = {}, regular = ~PackBits{};
  over_row<Value>(first, second, columns, 0, 0, [&](const Pack& a, const Pack& b) {
    all_a += a;
    all_b += b;
    below |= (a < 0.0) | (b < 0.0);
  });
  negative |= any(below);
  const double whole_a = sum_of_lanes(all_a), whole_b = sum_of_lanes(all_b);
  const double to_a = 1 / whole_a, to_b = 1 / whole_b;
  over_row<Value>(first, second, columns, 0, kJensen ? 0 : 1, [&](const Pack& a, const Pack& b) {
    const Pack p = a * to_a, q = b * to_b;
    if (!kJensen) {
      sum += divergence_terms(p, q, regular);
      return;
    }
    const Pack middle = (p + q) * 0.5;
    sum += (divergence_terms(p, middle, regular) + divergence_terms(q, middle, regular)) * 0.5;
  });
  const bool usual = whole_a > 1e-300 && whole_b > 1e-300 && whole_a < 1e300 && whole_b < 1e300;
  if (usual && all(regular)) return not_negative(sum_of_lanes(sum));
  return divergence(kJensen ? kJs : kKl, first, second, columns);
}

// exp(p) (p - q), 0 for p of minus infinity; `regular` loses lanes whose power is out of reach.
VALOR_INLINE Pack terms_of_logs(const Pack& p, const Pack& q, PackBits& regular) {
  const PackBits none = p == -kInfinity;
  const Pack zero = {}, power = where(none, zero, p);
  regular &= (power > -746.0) & (power < 710.0);
  const Pack found = long_exp<Pack>(power, zero) * (p - q);
  return where(none, zero, found);
}

template <bool kJensen, class Value>
VALOR_INLINE double divergence_of_log_rows(const Value* first, const Value* second, int64_t columns) {
  const Value gone = static_cast<Value>(-kInfinity);
  Pack sum = {};
  PackBits regular = ~PackBits{};
  over_row<Value>(first, second, columns, gone, gone, [&](const Pack& p, const Pack& q) {
    if (!kJensen) {
      sum += terms_of_logs(p, q, regular);
      return;
    }
    const Pack zero = {}, high = p > q ? p : q, low = p > q ? q : p;
    const PackBits none = high == -kInfinity;
    const Pack gap = where(none, zero, low - high), reach = gap < -745.0 ? zero - 745.0 : gap;
    regular &= gap <= 0.0;  // not NaN
    const Pack middle = high + (quick_log(1.0 + long_exp<Pack>(reach, zero)) - kLog2);
    sum += (terms_of_logs(p, middle, regular) + terms_of_logs(q, middle, regular)) * 0.5;
  });
  if (all(regular)) return sum_of_lanes(sum);
  return divergence(kJensen ? kJsOfLogs : kKlOfLogs, first, second, columns);
}

// The sum of |x - y| over all pairs of members, each pair counted twice; `errors` has room for whole packs.
VALOR_INLINE double sum_of_pairs(double* errors, int64_t members) {
  const int64_t packs = (members + kPackLanes - 1) / kPackLanes;
  Pack own = {}, later = {};
  PackBits kept;
  for (int l = 0; l < kPackLanes; ++l)
    kept[l] = (packs - 1) * kPackLanes + l < members ? 0x7fffffffffffffffll : 0;
  const PackBits all_kept = PackBits{} + 0x7fffffffffffffffll;
  for (int64_t i = members; i < packs * kPackLanes; ++i) errors[i] = 0.0;
  for (int64_t i = 0; i < members; ++i) {
    const int64_t pack = i / kPackLanes;
    for (int64_t other = pack; other < packs; ++other) {
      const Pack apart = load_pack(errors + other * kPackLanes) - errors[i];
      const Pack size = (Pack)((PackBits)apart & (other + 1 < packs ? all_kept : kept));
      if (other == pack)
        own += size;
      else
        later += size;
    }
  }
  return sum_of_lanes(own + 2.0 * later);
}

// The CRPS of an ensemble; `errors` has room for its members, and up to whole packs.
template <class Value>
VALOR_INLINE double ensemble_score(const Value* members, double target, int64_t count, bool fair,
                                   double* errors) {
  double size = 0, spread = 0;
  for (int64_t i = 0; i < count; ++i) {
    errors[i] = members[i] - target;  // less the target, so that no digit of the spread is lost
    size += std::fabs(errors[i]);
  }
  if (!is_finite(size)) return kNan;
  const double n = static_cast<double>(count);
  if (count <= kMostPairs) {
    spread = sum_of_pairs(errors, count) / 2;
  } else {
    std::sort(errors, errors + count);
    for (int64_t i = 0; i < count; ++i) spread += errors[i] * (2.0 * static_cast<double>(i) + 1.0 - n);
  }
  const double score = size / n - spread / (n * (fair ? n - 1 : n));
  return fair ? score : not_negative(score);  // rounding leaves some below 0
}

}  // namespace valor
