// Scores of a row in vector registers. The score of a row depends on nothing but the row.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "../core/row_scores.h"
#include "moment_terms.h"

namespace valor {

#define VALOR_INLINED __attribute__((always_inline))

constexpr int64_t kMostPairs = 256;  // members of an ensemble that are compared one with another
constexpr int64_t kFetched = 1024;   // numbers that are fetched before they are read

constexpr double kRoot2 = 0x1.6a09e667f3bcdp0;

// The logarithm of p / q for positive normal numbers, to about one unit in the last place (Tang,
// "Table-driven implementation of the logarithm function", 1990; the polynomial of FreeBSD's e_log.c). It
// takes one division.
VALOR_INLINE Pack log_of_ratio(const Pack& p, const Pack& q) {
  constexpr uint64_t kFraction = 0xfffffffffffffull, kOne = 0x3ff0000000000000ull;
  Pack m = (Pack)(((PackWords)p & kFraction) | kOne), n = (Pack)(((PackWords)q & kFraction) | kOne);
  const Pack far_m = kRoot2 * n, far_n = kRoot2 * m, zero = {}, one = zero + 1.0;
  const PackBits exponent = (PackBits)((PackWords)p >> 52) - (PackBits)((PackWords)q >> 52);
  Pack k = (Pack)(exponent + 0x4338000000000000ll) - 0x1.8p52;
  k = k + (m > far_m ? one : zero) - (n > far_n ? one : zero);
  m = m > far_m ? m * 0.5 : m;
  n = n > far_n ? n * 0.5 : n;
  const Pack s = (m - n) / (m + n), z = s * s, w = z * z;  // m - n is not rounded
  const Pack even = w * (0.3999999999940941908 + w * (0.2222219843214978396 + w * 0.1531383769920937332));
  const Pack odd =
      z * (0.6666666666666735130 +
           w * (0.2857142874366239149 + w * (0.1818357216161805012 + w * 0.1479819860511658591)));
  return k * kLog2High + ((s + s) + (s * (even + odd) + k * kLog2Low));
}
typedef double QuarterPack __attribute__((vector_size(16)));
typedef double SplitPack __attribute__((vector_size(32)));

VALOR_INLINE double sum_of_lanes(const Pack& lanes) {
  SplitPack halves[2];
  memcpy(halves, &lanes, sizeof halves);
  const SplitPack half = halves[0] + halves[1];
  QuarterPack quarters[2];
  memcpy(quarters, &half, sizeof quarters);
  const QuarterPack quarter = quarters[0] + quarters[1];
  return quarter[0] + quarter[1];
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

VALOR_INLINE double cosine_of(double both, double of_a, double of_b) {
  const double cosine = both / (std::sqrt(of_a) * std::sqrt(of_b));
  return cosine > 1 ? 1 : cosine < -1 ? -1 : cosine;
}

// Which lanes hold no normal number above 0. By whole numbers: GCC makes some comparisons lane by lane.
VALOR_INLINE PackBits not_normal(const Pack& x) {
  const PackWords bits = (PackWords)x;
  return (PackBits)((bits - 0x0010000000000000ull) | (0x7fefffffffffffffull - bits)) >> 63;
}
VALOR_INLINE PackBits not_zero(const Pack& x) { return -((PackBits)x & 0x7fffffffffffffffll) >> 63; }

// p log(p / q), 0 for p of 0; NaN where a number is no normal one above 0.
VALOR_INLINE Pack divergence_terms(const Pack& p, const Pack& q) {
  const PackBits found = (PackBits)(p * log_of_ratio(p, q)) | not_normal(p) | not_normal(q);
  return (Pack)(found & not_zero(p));
}

// Rows as float64, one after another, with room for a pack behind the last.
struct ScoreBlock {
  std::vector<double> first, second, terms;
  PackBits last;  // which lanes of the last pack of a row belong to it

  ScoreBlock(int64_t rows, int64_t columns)
      : first(rows * columns + kPackLanes), second(first.size()), terms(first.size()) {
    const int64_t left = (columns - 1) % kPackLanes + 1;
    for (int l = 0; l < kPackLanes; ++l) last[l] = l < left ? -1 : 0;
  }
};

// Calls each(place, mask) for the packs of a row.
template <class Each>
VALOR_INLINE void over_packs(int64_t columns, const PackBits& last, const Each& each) {
  int64_t i = 0;
  for (; i + kPackLanes < columns; i += kPackLanes) each(i, ~PackBits{});
  each(i, last);
}

VALOR_INLINE double sum_of(const double* row, int64_t columns, const PackBits& last) {
  Pack sum = {};
  over_packs(columns, last, [&](int64_t i, const PackBits& mask) VALOR_INLINED {
    sum += (Pack)((PackBits)load_pack(row + i) & mask);
  });
  return sum_of_lanes(sum);
}

VALOR_INLINE void store_pack(const Pack& from, double* to) { memcpy(to, &from, sizeof from); }

// Divides each row by its sum. What a pack writes behind its row is written again with the next row.
VALOR_INLINE void normalise(const double* from, int64_t rows, int64_t columns, const PackBits& last,
                            double* to) {
  for (int64_t row = 0; row < rows; ++row, from += columns, to += columns) {
    const double sum = sum_of(from, columns, last);
    const double scale = sum > 1e-300 && sum < 1e300 ? 1 / sum : kNan;
    for (int64_t i = 0; i < columns; i += kPackLanes) store_pack(load_pack(from + i) * scale, to + i);
  }
}

// Copies numbers; whether one is below 0.
template <class Value>
VALOR_INLINE bool copy_numbers(const Value* from, int64_t count, double* to) {
  PackBits below = {};
  int64_t i = 0;
  for (; i + kPackLanes <= count; i += kPackLanes) {
    __builtin_prefetch(from + kFetched + i);
    const Pack found = load_pack(from + i);
    below |= found < 0.0;
    store_pack(found, to + i);
  }
  bool negative = any(below);
  for (; i < count; ++i) to[i] = from[i], negative |= from[i] < 0;
  return negative;
}

// Cosines of rows.
template <class Value>
VALOR_INLINE void write_cosines(const Value* first, const Value* second, int64_t rows, int64_t columns,
                                ScoreBlock& block, double* to) {
  copy_numbers(first, rows * columns, block.first.data());
  copy_numbers(second, rows * columns, block.second.data());
  const double *a_of = block.first.data(), *b_of = block.second.data();
  for (int64_t row = 0; row < rows; ++row, a_of += columns, b_of += columns) {
    Pack both = {}, of_a = {}, of_b = {};
    over_packs(columns, block.last, [&](int64_t i, const PackBits& mask) VALOR_INLINED {
      const Pack a = (Pack)((PackBits)load_pack(a_of + i) & mask);
      const Pack b = (Pack)((PackBits)load_pack(b_of + i) & mask);
      both += a * b, of_a += a * a, of_b += b * b;
    });
    to[row] = cosine_of(sum_of_lanes(both), sum_of_lanes(of_a), sum_of_lanes(of_b));
  }
}

// Divergences of rows of probabilities; whether a number is below 0.
template <bool kJensen, class Value>
VALOR_INLINE bool write_divergences(const Value* first, const Value* second, int64_t rows, int64_t columns,
                                    ScoreBlock& block, double* to) {
  double *p_of = block.first.data(), *q_of = block.second.data(), *terms = block.terms.data();
  bool negative = copy_numbers(first, rows * columns, terms);
  normalise(terms, rows, columns, block.last, p_of);
  negative |= copy_numbers(second, rows * columns, terms);
  normalise(terms, rows, columns, block.last, q_of);
  for (int64_t i = 0; i < rows * columns; i += kPackLanes) {
    const Pack p = load_pack(p_of + i), q = load_pack(q_of + i);
    if (kJensen) {
      const Pack middle = (p + q) * 0.5;
      store_pack((divergence_terms(p, middle) + divergence_terms(q, middle)) * 0.5, terms + i);
    } else {
      store_pack(divergence_terms(p, q), terms + i);
    }
  }
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t at = row * columns;
    const double sum = sum_of(terms + at, columns, block.last);
    to[row] =
        sum == sum ? not_negative(sum) : divergence(kJensen ? kJs : kKl, first + at, second + at, columns);
  }
  return negative;
}

// exp(p) (p - q), 0 for p of minus infinity; NaN where the power is out of reach.
VALOR_INLINE Pack terms_of_logs(const Pack& p, const Pack& q) {
  const Pack zero = {};
  const PackBits fits = ((PackBits)size_of(p) - bits_of(700.0)) >> 63;
  const PackWords there = (PackWords)((PackBits)p ^ bits_of(-kInfinity));
  const Pack power = long_exp<Pack>((Pack)((PackBits)p & fits), zero);
  return (Pack)(((PackBits)(power * (p - q)) | ~fits) & ((PackBits)(there | -there) >> 63));
}

// The logarithm of the mean of two numbers of which p and q are the logarithms, one of them finite.
VALOR_INLINE Pack log_means(const Pack& p, const Pack& q) {
  const Pack zero = {}, high = p > q ? p : q, low = p > q ? q : p, gap = low - high;
  const Pack reach = gap < zero - 700.0 ? zero - 700.0 : gap;  // exp of it is lost beside 1
  return high + (log_of_ratio(1.0 + long_exp<Pack>(reach, zero), zero + 1.0) - kLog2);
}

// Divergences of rows of logarithms of probabilities.
template <bool kJensen, class Value>
VALOR_INLINE void write_log_divergences(const Value* first, const Value* second, int64_t rows,
                                        int64_t columns, ScoreBlock& block, double* to) {
  double *p_of = block.first.data(), *q_of = block.second.data(), *terms = block.terms.data();
  copy_numbers(first, rows * columns, p_of);
  copy_numbers(second, rows * columns, q_of);
  for (int64_t i = 0; i < rows * columns; i += kPackLanes) {
    const Pack p = load_pack(p_of + i), q = load_pack(q_of + i);
    if (kJensen) {
      const Pack middle = log_means(p, q);
      store_pack((terms_of_logs(p, middle) + terms_of_logs(q, middle)) * 0.5, terms + i);
    } else {
      store_pack(terms_of_logs(p, q), terms + i);
    }
  }
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t at = row * columns;
    const double sum = sum_of(terms + at, columns, block.last);
    to[row] =
        sum == sum ? sum : divergence(kJensen ? kJsOfLogs : kKlOfLogs, first + at, second + at, columns);
  }
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
