// Arithmetic of average precision over resampled images: counts are sums of weights, in int32.
#pragma once
#include "curves.h"

namespace valor {

// As precision_at, of counts that vectors of int32 hold.
VALOR_HD double weighted_precision(int32_t tp, int32_t fp) {
  return static_cast<double>(tp) / (static_cast<double>(fp) + static_cast<double>(tp) + kEpsilon);
}

// How many true positives reach `recall`: reaching_index + 1, without its loops. Where the product is rounded
// down to n, n + 1 of `positives` are at least `recall` and n - 1 are not, so that one comparison decides.
// The result is above every count where `recall` is NaN.
VALOR_HD int32_t reaching_count(int32_t positives, double recall) {
  constexpr double kMost = 2147483646.0;
  double near = recall * static_cast<double>(positives);
  near = near < kMost ? near : kMost;
  near = near > 0.0 ? near : 0.0;
  const int32_t below = static_cast<int32_t>(near);
  const bool reached = static_cast<double>(below) / static_cast<double>(positives) >= recall;
  const int32_t count = below + (reached ? 0 : 1);
  return count > 0 ? count : 1;
}

// Bit t: a true or a false positive at threshold `first` + t of an area range.
struct RecordKinds {
  uint64_t hits, misses;
};

constexpr int64_t kWordThresholds = 56;  // thresholds of one RecordKinds: the bits of a word from any bit of a byte

VALOR_HD uint64_t kind_mask(const CurveShape& shape, int64_t first) {
  const int64_t left = shape.thresholds - first;
  return (uint64_t{1} << (left < kWordThresholds ? left : kWordThresholds)) - 1;
}

VALOR_HD RecordKinds record_kinds(const uint8_t* row, const CurveShape& shape, int64_t area, int64_t first) {
  const int64_t setting = area * shape.thresholds + first, bytes = shape.setting_bytes();
  const int64_t byte = setting / 8 * 8, shift = setting % 8;
  const uint64_t matched = load_bits(row + 13, bytes, byte) >> shift;
  const uint64_t counts = ~(load_bits(row + 13 + bytes, bytes, byte) >> shift) & kind_mask(shape, first);
  return {matched & counts, ~matched & counts};
}

// Whether two neighbours of one class in their order are tied within one image: copies of such a run follow
// it as a whole.
VALOR_HD bool tied_in_image(double score, int32_t unit, double next_score, int32_t next_unit) {
  return unit == next_unit && descending_key(score) == descending_key(next_score);
}

}  // namespace valor
