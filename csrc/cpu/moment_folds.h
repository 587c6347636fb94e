// Sums of blocks of numbers and of their products, exact and in vector registers.
//
// A number below 2^e is cut into slices: the first is its nearest multiple of 2^(e - B), the next one that of
// what is left, with B bits fewer below. Products of slices have at most 2 B bits, and 53 bits hold a sum of
// 128 of them, so that sums of slices and of their products in double are exact. Where something is left
// after the last slice, or a number is not below 2^e, the block is refused.
#pragma once
#include <algorithm>

#include "../core/moments.h"
#include "simd.h"

namespace valor {

constexpr int kBlock = 1024, kPackLanes = 8;  // rows of a block at most; of a vector
constexpr int kProductBits = 22,
              kLinearBits = 45;  // B: 2 B + 1, or B, and 7 for the rows of a lane are at most 52
constexpr int kMostSlices = 4, kWeights = 2 * kMostSlices - 1;

typedef double Pack __attribute__((vector_size(64)));
typedef int64_t PackBits __attribute__((vector_size(64)));
typedef uint64_t PackWords __attribute__((vector_size(64)));
typedef float HalfPack __attribute__((vector_size(32)));

// Slices of numbers below 2^exponent, and the units of sums.
struct FoldRule {
  int first, second;  // exponents of both numbers
  int slices;

  static int bits(int64_t kind) { return has_products(kind) ? kProductBits : kLinearBits; }
  // Terms that are rounded have 53 bits, wherever they are.
  static int least_slices(int64_t kind) { return has_products(kind) || !is_exact_kind(kind) ? 2 : 1; }
  static int most_slices(int64_t kind) { return has_products(kind) ? 4 : 3; }
};

struct FoldResult {
  int64_t values[kMostSums][kWeights];  // in units of the slices
  double highest_first, lowest_second,
      highest_second;  // the first one without its sign, of kVariance alone the others
  bool spare;          // whether the last slices are 0
};

// Numbers of a block of float32 pairs, as moment_terms has them.
template <int64_t kKind>
struct FloatPairs {
  const float *preds, *target;

  VALOR_INLINE void load(int64_t i, Pack& first, Pack& second) const {
    HalfPack p, t;
    memcpy(&p, preds + i, sizeof p);
    memcpy(&t, target + i, sizeof t);
    first = __builtin_convertvector(p, Pack), second = __builtin_convertvector(t, Pack);
    if (kKind != kProducts) first = first - second;
  }
};

struct Numbers {
  const double *first_of, *second_of;

  VALOR_INLINE void load(int64_t i, Pack& first, Pack& second) const {
    memcpy(&first, first_of + i, sizeof first);
    memcpy(&second, second_of + i, sizeof second);
  }
};

VALOR_INLINE void without_sign(Pack& value) { value = (Pack)((PackBits)value & 0x7fffffffffffffffll); }

// Slices of one of the two numbers.
template <int kSlices>
struct Slicer {
  double magics[kSlices];

  VALOR_INLINE Slicer(int exponent, int bits) {
    for (int s = 0; s < kSlices; ++s) magics[s] = 1.5 * power_of_2(52 + exponent - bits * (s + 1));
  }
  VALOR_INLINE void cut(Pack& value, Pack* slices, PackBits& rest, PackBits& last) const {
    for (int s = 0; s < kSlices; ++s) {
      slices[s] = (value + magics[s]) - magics[s];
      value = value - slices[s];
    }
    rest |= (PackBits)value;
    if (kSlices > 1) last |= (PackBits)slices[kSlices - 1];
  }
};

// acc[i + j] of all products of slices.
template <int kSlices>
VALOR_INLINE void add_squares(const Pack* a, Pack* acc) {
  for (int i = 0; i < kSlices; ++i) {
    acc[2 * i] += a[i] * a[i];
    const Pack twice = a[i] + a[i];
    for (int j = i + 1; j < kSlices; ++j) acc[i + j] += twice * a[j];
  }
}
template <int kSlices>
VALOR_INLINE void add_products(const Pack* a, const Pack* b, Pack* acc) {
  for (int i = 0; i < kSlices; ++i)
    for (int j = 0; j < kSlices; ++j) acc[i + j] += a[i] * b[j];
}

// The sum of all lanes in units of 2^exponent.
VALOR_INLINE int64_t in_units(const Pack& sums, int exponent) {
  const double scale = power_of_2(-exponent);
  int64_t total = 0;
  for (int lane = 0; lane < kPackLanes; ++lane) total += static_cast<int64_t>(sums[lane] * scale);
  return total;
}

VALOR_INLINE bool any(const PackBits& bits) {
  int64_t found = 0;
  for (int lane = 0; lane < kPackLanes; ++lane) found |= bits[lane];
  return (found & 0x7fffffffffffffffll) != 0;  // 0 may have a sign
}

VALOR_INLINE void write_extremes(const Pack& size, const Pack& low, const Pack& high, FoldResult& out) {
  out.highest_first = 0.0, out.lowest_second = kInfinity, out.highest_second = -kInfinity;
  for (int lane = 0; lane < kPackLanes; ++lane) {
    out.highest_first = std::max(out.highest_first, size[lane]);
    out.lowest_second = std::min(out.lowest_second, low[lane]);
    out.highest_second = std::max(out.highest_second, high[lane]);
  }
}

// The sums of all lanes, in the order of the kind.
template <int64_t kKind, int kSlices>
VALOR_INLINE void write_sums(const Pack (*sums)[kSlices], const Pack (*squares)[2 * kSlices - 1],
                             const Pack* products, const FoldRule& rule, FoldResult& out) {
  constexpr bool kSquares = kKind == kSquared || kKind == kVariance || kKind == kProducts;
  constexpr int kBits = kSquares ? kProductBits : kLinearBits, kTop = 2 * kSlices - 1;
  int sum = 0;
  auto put = [&](const Pack* from, int exponent, int weights) {
    for (int w = 0; w < weights; ++w) out.values[sum][w] = in_units(from[w], exponent - kBits * w);
    ++sum;
  };
  const int one = rule.first - kBits, other = rule.second - kBits;
  if (kKind != kSquared) put(sums[0], one, kSlices);
  if (kKind == kWeighted || kKind == kProducts) put(sums[1], other, kSlices);
  if (kSquares) put(squares[0], 2 * one, kTop);
  if (kKind == kVariance) put(sums[1], other, kSlices);
  if (kKind == kVariance || kKind == kProducts) put(squares[1], 2 * other, kTop);
  if (kKind == kProducts) put(products, one + other, kTop);
}

// Sums of a block of `count` rows, a multiple of kPackLanes; false if the rule does not fit.
template <int64_t kKind, int kSlices, class Source>
VALOR_INLINE bool fold(const Source& source, int64_t count, const FoldRule& rule, FoldResult& out) {
  constexpr bool kSecond = kKind == kWeighted || kKind == kVariance || kKind == kProducts;
  constexpr bool kSquares = kKind == kSquared || kKind == kVariance || kKind == kProducts;
  constexpr int kBits = kSquares ? kProductBits : kLinearBits, kTop = 2 * kSlices - 1;
  const Slicer<kSlices> first(rule.first, kBits), second(rule.second, kBits);
  Pack sums[2][kSlices] = {}, squares[2][kTop] = {}, products[kTop] = {};
  Pack size = {}, low = size + kInfinity, high = size - kInfinity;
  PackBits rest = {}, last = {};
  for (int64_t i = 0; i < count; i += kPackLanes) {
    Pack a, b, slices[2][kSlices];
    source.load(i, a, b);
    Pack whole = a;
    without_sign(whole);
    size = whole > size ? whole : size;
    if (kKind == kAbsolute || kKind == kWeighted) a = whole;
    first.cut(a, slices[0], rest, last);
    if (kSecond) {
      if (kKind == kWeighted) without_sign(b);
      low = b < low ? b : low;
      high = b > high ? b : high;
      second.cut(b, slices[1], rest, last);
    }
    for (int side = 0; side <= kSecond; ++side) {
      if (kKind != kSquared)
        for (int s = 0; s < kSlices; ++s) sums[side][s] += slices[side][s];
      if (kSquares) add_squares<kSlices>(slices[side], squares[side]);
    }
    if (kKind == kProducts) add_products<kSlices>(slices[0], slices[1], products);
  }
  write_extremes(size, low, high, out);
  const double reach = std::max(out.highest_second, -out.lowest_second);
  if (any(rest) || out.highest_first >= power_of_2(rule.first)) return false;
  if (kSecond && reach >= power_of_2(rule.second)) return false;
  out.spare = kSlices > 1 && !any(last);
  write_sums<kKind, kSlices>(sums, squares, products, rule, out);
  return true;
}

// Adds the sums of a block to limbs [sums, limbs].
inline void add_folded(int64_t kind, const FoldRule& rule, const FoldResult& from, int64_t count,
                       int64_t* limbs) {
  const int bits = FoldRule::bits(kind), one = rule.first - bits, other = rule.second - bits;
  int sum = 0;
  auto put = [&](int exponent, int weights) {
    int64_t* to = limbs + sum * count;
    for (int w = 0; w < weights; ++w)
      add_whole(from.values[sum][w], exponent - bits * w + 16 * count,
                [&](int64_t limb, int64_t piece) { to[limb] += piece; });
    ++sum;
  };
  const int top = 2 * rule.slices - 1;
  if (kind != kSquared) put(one, rule.slices);
  if (kind == kWeighted || kind == kProducts) put(other, rule.slices);
  if (has_products(kind)) put(2 * one, top);
  if (kind == kVariance) put(other, rule.slices);
  if (kind == kVariance || kind == kProducts) put(2 * other, top);
  if (kind == kProducts) put(one + other, top);
}

}  // namespace valor
