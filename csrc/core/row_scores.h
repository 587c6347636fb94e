// Scores of two rows of numbers: their cosine, divergences of distributions and scores of forecasts, in
// float64.
#pragma once
#include "powers.h"

namespace valor {

// Codes of valor_gpu/regression/row_kernels.py. From kEnsemble on the second row is one number, the target.
enum RowScore : int64_t {
  kCosine,
  kKl,
  kKlOfLogs,
  kJs,
  kJsOfLogs,
  kEnsemble,
  kFairEnsemble,
  kQuantileLosses,
  kQuantileScore,
  kCoverage,
};

constexpr int kRowLanes = 8;

// The sum of term(i) over a row, in lanes that do not wait for one another.
template <class Term>
VALOR_HD double sum_of_row(int64_t columns, const Term& term) {
  double lanes[kRowLanes] = {};
  int64_t i = 0;
  for (; i + kRowLanes <= columns; i += kRowLanes)
    for (int l = 0; l < kRowLanes; ++l) lanes[l] += term(i + l);
  for (int l = 0; i + l < columns; ++l) lanes[l] += term(i + l);
  for (int half = kRowLanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  return lanes[0];
}

// p log(p / q), 0 for p of 0.
VALOR_HD double divergence_term(double p, double q) { return p == 0 ? 0 : p * log(p / q); }
VALOR_HD double divergence_of_logs(double p, double q) { return p == -INFINITY ? 0 : exp(p) * (p - q); }

// The logarithm of the mean of two numbers of which p and q are the logarithms.
VALOR_HD double log_mean(double p, double q) {
  const double high = p > q ? p : q, low = p > q ? q : p;
  return high == -INFINITY ? high : high + log1p(exp(low - high)) - kLog2;
}

// Rounding leaves sums that are 0 or more below it; NaN stays.
VALOR_HD double not_negative(double value) { return value < 0 ? 0 : value; }

// A divergence of two distributions, of any numbers.
template <class Value>
VALOR_HD double divergence(int64_t kind, const Value* first, const Value* second, int64_t columns) {
  const auto a = [&](int64_t i) { return static_cast<double>(first[i]); };
  const auto b = [&](int64_t i) { return static_cast<double>(second[i]); };
  const auto sum = [&](const auto& term) { return sum_of_row(columns, term); };
  if (kind == kKlOfLogs) return sum([&](int64_t i) { return divergence_of_logs(a(i), b(i)); });
  if (kind == kJsOfLogs) {
    return sum([&](int64_t i) {
      const double middle = log_mean(a(i), b(i));
      return (divergence_of_logs(a(i), middle) + divergence_of_logs(b(i), middle)) / 2;
    });
  }
  const double all_a = sum(a), all_b = sum(b);
  if (kind == kKl)
    return not_negative(sum([&](int64_t i) { return divergence_term(a(i) / all_a, b(i) / all_b); }));
  return not_negative(sum([&](int64_t i) {
    const double p = a(i) / all_a, q = b(i) / all_b, middle = (p + q) / 2;
    return (divergence_term(p, middle) + divergence_term(q, middle)) / 2;
  }));
}

// The loss of a predicted quantile of a level; NaN stays.
VALOR_HD double quantile_loss(double predicted, double target, double level) {
  const double error = target - predicted, over = level * error, under = (level - 1) * error;
  return over < under ? under : over;
}

// Whether the target lies in an interval, its width and the interval score.
VALOR_HD void score_interval(double low, double high, double target, double confidence, double* to) {
  const double width = high - low, below = not_negative(low - target), above = not_negative(target - high);
  const double outside = below != below || above != above ? kNan : above > below ? above : below;
  to[0] = outside != outside ? outside : low <= target && target <= high;
  to[1] = width;
  to[2] = width + 2 / (1 - confidence) * outside;
}

}  // namespace valor
