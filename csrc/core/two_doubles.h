// Numbers of 106 bits as the sum of two doubles (Dekker 1971, Knuth 1997). With kFused a GPU makes products
// by fused operations: an exact product has the same two parts either way.
#pragma once
#include "platform.h"

namespace valor {

// high + low, |low| at most half a unit in the last place of high.
struct TwoDoubles {
  double high, low;
};

// |a| >= |b|, or a is 0.
VALOR_HD TwoDoubles fast_sum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

VALOR_HD TwoDoubles exact_sum(double a, double b) {
  const double sum = a + b, part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}

VALOR_HD TwoDoubles exact_difference(double a, double b) { return exact_sum(a, -b); }

template <bool kFused = false>
VALOR_HD TwoDoubles exact_product(double a, double b) {
  const double product = a * b;
#if defined(__CUDA_ARCH__)
  if (kFused) return {product, __fma_rn(a, b, -product)};
#else
  if (kFused) return {product, __builtin_fma(a, b, -product)};
#endif
  const double split_a = 134217729.0 * a, split_b = 134217729.0 * b;
  const double a1 = split_a - (split_a - a), b1 = split_b - (split_b - b);
  const double a2 = a - a1, b2 = b - b1;
  return {product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2};
}

template <bool kFused = false>
VALOR_HD TwoDoubles product_of(const TwoDoubles& a, const TwoDoubles& b) {
  const TwoDoubles exact = exact_product<kFused>(a.high, b.high);
  return fast_sum(exact.high, exact.low + (a.high * b.low + a.low * b.high));
}

// a + b, whichever is larger; (b, a) gives the same bits.
VALOR_HD TwoDoubles plus(const TwoDoubles& a, const TwoDoubles& b) {
  const TwoDoubles high = exact_sum(a.high, b.high), low = exact_sum(a.low, b.low);
  const TwoDoubles sum = fast_sum(high.high, high.low + low.high);
  return fast_sum(sum.high, sum.low + low.low);
}

// The product with a power of two or with -1, which is exact.
VALOR_HD TwoDoubles times(const TwoDoubles& a, double power) { return {a.high * power, a.low * power}; }

VALOR_HD TwoDoubles minus(const TwoDoubles& a, const TwoDoubles& b) { return plus(a, times(b, -1.0)); }

template <bool kFused = false>
VALOR_HD TwoDoubles quotient_of(const TwoDoubles& a, const TwoDoubles& b) {
  const double first = a.high / b.high;
  const TwoDoubles rest = minus(a, product_of<kFused>(b, {first, 0.0}));
  const double second = rest.high / b.high;
  const double third = minus(rest, product_of<kFused>(b, {second, 0.0})).high / b.high;
  return plus(fast_sum(first, second), {third, 0.0});
}

}  // namespace valor
