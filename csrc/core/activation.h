// Softmax and sigmoid of float64 scores: the same bits on every processor, unlike those of vector libraries.
#pragma once
#include "exp.h"

namespace valor {

constexpr double kNotANumber = __builtin_nan("");

// 1 / (1 + exp(-x)); NaN of NaN.
VALOR_HD double sigmoid(double x) {
  if (x != x) return x;
  const double part = exp_of_negative(x < 0.0 ? x : -x);
  return (x < 0.0 ? part : 1.0) / (1.0 + part);
}

// out[c] = exp(row[c]) / sum of exp(row), summed from the first class to the last; all NaN where a score is
// NaN or the largest is infinite.
VALOR_HD void softmax(const double* row, int64_t classes, double* out) {
  double largest = row[0];
  bool all_numbers = true;
  for (int64_t c = 0; c < classes; ++c) {
    largest = row[c] > largest ? row[c] : largest;
    all_numbers &= row[c] == row[c];
  }
  if (!all_numbers || largest - largest != 0.0) {
    for (int64_t c = 0; c < classes; ++c) out[c] = kNotANumber;
    return;
  }
  double sum = 0.0;
  for (int64_t c = 0; c < classes; ++c) sum += out[c] = exp_of_negative(row[c] - largest);
  for (int64_t c = 0; c < classes; ++c) out[c] /= sum;
}

}  // namespace valor
