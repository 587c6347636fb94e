// Sums of a lane in slices of a few bits, for exact sums on CUDA.
#pragma once
#include "../core/moments.h"
#include "launch.h"

namespace valor {

constexpr int kLaneRows = 4;  // rows that a lane reads before it uses them

// What is summed, of all kinds that sum the same products.
template <int64_t kKind, bool kFloats>
struct Shape {
  static constexpr bool kSecond = kKind == kWeighted || kKind == kVariance || kKind == kProducts;
  static constexpr bool kSquares = kKind == kSquared || kKind == kVariance || kKind == kProducts;
  static constexpr int kBits = kSquares ? 22 : 45;
  static constexpr int kSlices = kSquares ? (kFloats ? 2 : 4) : (kFloats ? 1 : 3);
  static constexpr int kTop = 2 * kSlices - 1;
  static constexpr int kSides = kSecond ? 2 : 1;
  // Units of the last slices are normal numbers, and so are their squares and 1 by them.
  static constexpr int kReach = kSquares ? 400 : 880;
};

struct Numbers {
  double values[2][kLaneRows];

  // One of them, by selects: registers have no address.
  __device__ __forceinline__ double at(int side, int row) const {
    double found = 0.0;
    VALOR_UNROLLED for (int i = 0; i < kLaneRows; ++i) found = i == row ? values[side][i] : found;
    return found;
  }
};

// The sums of a lane, in units of the slices of numbers below 2^exponents.
template <class S>
class LaneSums {
 public:
  // Whether the numbers of a lane have no more bits than the slices hold.
  __device__ __forceinline__ bool fits(const Numbers& numbers, const int* exponents) const {
    bool good = true;
    VALOR_UNROLLED for (int side = 0; side < S::kSides; ++side) {
      const double bound = power_of_2(exponents[side]);
      VALOR_UNROLLED for (int i = 0; i < kLaneRows; ++i) {
        double value = numbers.values[side][i];
        good &= fabs(value) < bound;
        VALOR_UNROLLED for (int s = 0; s < S::kSlices; ++s) value -= slice(value, exponents[side], s);
        good &= value == 0.0;
      }
    }
    return good;
  }

  __device__ __forceinline__ void add(const Numbers& numbers, const int* exponents) {
    VALOR_UNROLLED for (int i = 0; i < kLaneRows; ++i) {
      int64_t slices[2][S::kSlices];
      VALOR_UNROLLED for (int side = 0; side < S::kSides; ++side) {
        double value = numbers.values[side][i];
        VALOR_UNROLLED for (int s = 0; s < S::kSlices; ++s) {
          const double part = slice(value, exponents[side], s);
          value -= part;
          slices[side][s] = static_cast<int64_t>(part * power_of_2(-unit(exponents[side], s)));
          sums_[side][s] += slices[side][s];
        }
        if (S::kSquares) add_products(slices[side], slices[side], squares_[side]);
      }
      if (S::kSecond && S::kSquares) add_products(slices[0], slices[1], products_);
    }
  }

  // Adds the sums of a warp by add(sum, limb, piece) on its first lane, and begins again at 0.
  template <int64_t kKind, class Add>
  __device__ void flush(const int* exponents, int64_t limbs, Add add) {
    const int one = exponents[0] - S::kBits, other = exponents[1] - S::kBits;
    int sum = 0;
    if (kKind != kSquared) flush_part(sums_[0], one, limbs, sum++, add);
    if (kKind == kWeighted || kKind == kProducts) flush_part(sums_[1], other, limbs, sum++, add);
    if (S::kSquares) flush_part(squares_[0], 2 * one, limbs, sum++, add);
    if (kKind == kVariance) flush_part(sums_[1], other, limbs, sum++, add);
    if (kKind == kVariance || kKind == kProducts) flush_part(squares_[1], 2 * other, limbs, sum++, add);
    if (kKind == kProducts) flush_part(products_, one + other, limbs, sum++, add);
  }

 private:
  static __device__ __forceinline__ int unit(int exponent, int s) { return exponent - S::kBits * (s + 1); }
  static __device__ __forceinline__ double slice(double value, int exponent, int s) {
    const double magic = 1.5 * power_of_2(52 + unit(exponent, s));
    return (value + magic) - magic;
  }
  static __device__ __forceinline__ void add_products(const int64_t* a, const int64_t* b, int64_t* to) {
    VALOR_UNROLLED for (int i = 0; i < S::kSlices; ++i) VALOR_UNROLLED for (int j = 0; j < S::kSlices; ++j)
        to[i + j] += a[i] * b[j];
  }
  template <int kCount, class Add>
  static __device__ __forceinline__ void flush_part(int64_t (&from)[kCount], int exponent, int64_t limbs,
                                                    int sum, Add add) {
    VALOR_UNROLLED for (int w = 0; w < kCount; ++w) {
      const int64_t total = static_cast<int64_t>(Warp().sum(static_cast<uint64_t>(from[w])));
      from[w] = 0;
      if (Warp().lane() == 0)
        add_whole(total, exponent - S::kBits * w + 16 * limbs,
                  [&](int64_t limb, int64_t piece) { add(sum, limb, piece); });
    }
  }

  int64_t sums_[2][S::kSlices] = {}, squares_[2][S::kTop] = {}, products_[S::kTop] = {};
};

__device__ __forceinline__ int exponent_above(double size) {
  return static_cast<int>(bits_of(size) >> 52 & 2047) - 1022;
}

// Exponents that fit all numbers of the warp; false if slices cannot.
template <class S>
__device__ __forceinline__ bool choose_exponents(const Numbers& numbers, int64_t limbs, int* exponents) {
  const int64_t cut = S::kBits * S::kSlices - 8 * limbs, top = 8 * limbs - kLimbBits;
  const int lowest = static_cast<int>(cut > -S::kReach ? cut : -S::kReach);
  const int highest = static_cast<int>(top < S::kReach ? top : S::kReach);
  bool good = true;
  VALOR_UNROLLED for (int side = 0; side < S::kSides; ++side) {
    double size = 0.0;
    VALOR_UNROLLED for (int i = 0; i < kLaneRows; ++i) {
      const double value = fabs(numbers.values[side][i]);
      size = value > size ? value : size;
    }
    const int found = exponent_above(Warp().max(size)) + 1;
    good &= found <= highest;
    exponents[side] = found < lowest ? lowest : found > highest ? highest : found;
  }
  return good && lowest <= highest;
}

}  // namespace valor
