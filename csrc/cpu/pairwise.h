// numpy's mean of values in memory. Included by few sources: what no other can see is inlined as a whole.
#pragma once
#include <limits>

#include "../core/means.h"
#include "simd.h"

namespace valor {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

VALOR_CLONES double leaf_sum(const double* values, int32_t size) {
  struct Values {
    const double* at;
    double next() { return *at++; }
  };
  return sum_block(Values{values}, size);
}

double pairwise_sum(const SumNode& node, const double* values) {
  if (node.splits()) return pairwise_sum(node.left(), values) + pairwise_sum(node.right(), values);
  return leaf_sum(values + node.start, static_cast<int32_t>(node.size));
}

// NaN of none.
double mean_of(const double* values, int64_t size) {
  return size == 0 ? kNaN : pairwise_sum({0, size}, values) / static_cast<double>(size);
}

}  // namespace
}  // namespace valor
