// CPU driver of losses of tokens: rows are read once, and again only where the token is very unlikely.
#include "../core/token_losses.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "guard.h"
#include "rows.h"
#include "simd.h"

namespace valor {
namespace {

constexpr int64_t kLeastElements = 1 << 15;   // that are worth a thread
constexpr int64_t kAhead = 2048, kLine = 64;  // bytes that are fetched before they are read; of a line
constexpr int64_t kStep = 16;                 // columns of the last ones that are added at once

template <class Real>
VALOR_INLINE Real same(Real value) {
  return value;
}

// The upper half of the lanes joins the lower, until one is left.
template <class Real>
VALOR_INLINE double fold(const Real* lanes) {
  constexpr int kHalf = kSumLanes / 2;
  double sums[kHalf];
  for (int i = 0; i < kHalf; ++i)
    sums[i] = static_cast<double>(lanes[i]) + static_cast<double>(lanes[i + kHalf]);
  for (int half = kHalf / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
  return sums[0];
}

// The sum of exp(logit - anchor) over a row.
template <class Real, class Raw, Real (*kValue)(Raw)>
VALOR_INLINE double sum_row(const Raw* from, int64_t count, Real anchor, ExpLimits<Real> limits) {
  Real lanes[kSumLanes] = {};
  for (; count >= kSumLanes; count -= kSumLanes, from += kSumLanes) {
    for (int64_t i = 0; i < kSumLanes; i += kLine / sizeof(Raw))
      __builtin_prefetch(from + kAhead / sizeof(Raw) + i);
    for (int64_t i = 0; i < kSumLanes; ++i) lanes[i] = add_exp(kValue(from[i]), anchor, limits, lanes[i]);
  }
  int64_t first = 0;
  for (; count >= kStep; count -= kStep, from += kStep, first += kStep)
    for (int64_t i = 0; i < kStep; ++i)
      lanes[first + i] = add_exp(kValue(from[i]), anchor, limits, lanes[first + i]);
  Raw last[kStep] = {};
  for (int64_t i = 0; i < count; ++i) last[i] = from[i];
  for (int64_t i = 0; i < kStep && count > 0; ++i) {
    const Real sum = add_exp(kValue(last[i]), anchor, limits, lanes[first + i]);
    lanes[first + i] = i < count ? sum : lanes[first + i];
  }
  return fold(lanes);
}
VALOR_FUSED_CLONES double sum_floats(const float* from, int64_t count, float anchor,
                                     ExpLimits<float> limits) {
  return sum_row<float, float, same<float>>(from, count, anchor, limits);
}
VALOR_FUSED_CLONES double sum_doubles(const double* from, int64_t count, double anchor,
                                      ExpLimits<double> limits) {
  return sum_row<double, double, same<double>>(from, count, anchor, limits);
}
VALOR_FUSED_CLONES double sum_halves(const uint16_t* from, int64_t count, float anchor,
                                     ExpLimits<float> limits) {
  return sum_row<float, uint16_t, half_to_float>(from, count, anchor, limits);
}
VALOR_FUSED_CLONES double sum_bfloats(const uint16_t* from, int64_t count, float anchor,
                                      ExpLimits<float> limits) {
  return sum_row<float, uint16_t, bfloat16_to_float>(from, count, anchor, limits);
}

double sum_exps(const TokenTask& task, int64_t start, float anchor, std::vector<float>& copy) {
  const int64_t classes = task.target.classes;
  const FloatType type = static_cast<FloatType>(task.type);
  if (task.column_stride != 1) {
    for (int64_t i = 0; i < classes; ++i) copy[i] = load_float32(task.logits, task.place(start, i), type);
    return sum_floats(copy.data(), classes, anchor, {});
  }
  const uint16_t* half = static_cast<const uint16_t*>(task.logits) + start;
  if (type == kFloat16) return sum_halves(half, classes, anchor, {});
  if (type == kBFloat16) return sum_bfloats(half, classes, anchor, {});
  return sum_floats(static_cast<const float*>(task.logits) + start, classes, anchor, {});
}
double sum_exps(const TokenTask& task, int64_t start, double anchor, std::vector<double>& copy) {
  const double* from = static_cast<const double*>(task.logits);
  const int64_t classes = task.target.classes;
  if (task.column_stride == 1) return sum_doubles(from + start, classes, anchor, {});
  for (int64_t i = 0; i < classes; ++i) copy[i] = from[task.place(start, i)];
  return sum_doubles(copy.data(), classes, anchor, {});
}

// The largest logit of a row; `column` becomes the first bad one, or stays -1. A row of -inf is bad at 0.
double highest_logit(const TokenTask& task, int64_t start, int64_t& column) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double highest = -kInfinity;
  for (int64_t c = 0; c < task.target.classes; ++c) {
    const double x = load_float64(task.logits, task.place(start, c), static_cast<FloatType>(task.type));
    if (!(x < kInfinity)) {
      column = c;
      return x;
    }
    highest = std::max(highest, x);
  }
  if (highest == -kInfinity) column = 0;
  return highest;
}

template <class Real>
int64_t add_row(const TokenTask& task, int64_t row, std::vector<Real>& copy, int64_t* sums) {
  const int64_t c = task.target.row_class(row);
  if (c < 0) return c == kBadRow ? value_error(row, 0, kTarget) : kNoError;
  const int64_t start = task.start(row);
  const double logit = load_float64(task.logits, task.place(start, c), static_cast<FloatType>(task.type));
  double anchor = logit, sum = sum_exps(task, start, static_cast<Real>(anchor), copy);
  if (!settles<Real>(sum)) {
    int64_t bad = -1;
    anchor = highest_logit(task, start, bad);
    if (bad >= 0) return value_error(row, bad, kNanScore);
    sum = sum_exps(task, start, static_cast<Real>(anchor), copy);
  }
  add_loss(anchor, logit, sum, [&](int which, int64_t count) { sums[which] += count; });
  return kNoError;
}

// Adds rows [begin, end); returns the first error.
template <class Real>
int64_t add_rows(const TokenTask& task, int64_t begin, int64_t end, int64_t* sums) {
  std::vector<Real> copy(task.column_stride == 1 ? 0 : task.target.classes);
  int64_t own[kTokenSums] = {}, first = kNoError;
  for (int64_t row = begin; row < end; ++row) first = std::min(first, add_row(task, row, copy, own));
  for (int i = 0; i < kTokenSums; ++i) __atomic_fetch_add(sums + i, own[i], __ATOMIC_RELAXED);
  return first;
}

void sum_losses(const TokenTask& task, int64_t* sums, int64_t* error, int64_t threads) {
  const int64_t grain = std::max<int64_t>(1, kLeastElements / task.target.classes);
  over_rows(task.rows, grain, threads, error, [&](int64_t begin, int64_t end) {
    return task.type == kFloat64 ? add_rows<double>(task, begin, end, sums)
                                 : add_rows<float>(task, begin, end, sums);
  });
}

}  // namespace
}  // namespace valor

// Adds to sums [kTokenSums] and lowers `error`. task_words are a TokenTask.
VALOR_API int32_t valor_sum_token_losses_cpu(const void* task_words, int64_t* sums, int64_t* error,
                                             int64_t threads) {
  return valor::guarded(
      [&] { valor::sum_losses(*static_cast<const valor::TokenTask*>(task_words), sums, error, threads); });
}
