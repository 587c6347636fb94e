// Ranks of scores: integer keys in the order of floats, and AUROC and AP from what stands at or above each
// positive.
#pragma once
#include <type_traits>

#include "targets.h"

namespace valor {

// A float format by its bits. Keys ascend with the value; -0.0 has the key of 0.0, and no number has key 0,
// which stands for an element that is left out.
template <class Bits, Bits kInfinity>
struct FloatOrder {
  using Raw = Bits;
  using Key = std::conditional_t<sizeof(Bits) == 8, uint64_t, uint32_t>;
  static constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));

  VALOR_HD static bool is_nan(Raw raw) { return static_cast<Bits>(raw & ~kSign) > kInfinity; }
  VALOR_HD static Key key(Raw raw) {
    const Bits bits = static_cast<Bits>(raw & ~kSign) == 0 ? Bits{0} : raw;
    return static_cast<Bits>(bits & kSign ? ~bits : bits | kSign);
  }
  VALOR_HD static Raw raw(Key key) {
    const Bits bits = static_cast<Bits>(key);
    return static_cast<Bits>(bits & kSign ? bits & ~kSign : ~bits);
  }
};
using HalfOrder = FloatOrder<uint16_t, 0x7c00>;
using BFloatOrder = FloatOrder<uint16_t, 0x7f80>;
using SingleOrder = FloatOrder<uint32_t, 0x7f800000u>;
using DoubleOrder = FloatOrder<uint64_t, 0x7ff0000000000000ull>;

// Calls `use` with the order of a FloatType.
template <class Use>
inline void with_order(int64_t type, const Use& use) {
  if (type == kFloat16) return use(HalfOrder());
  if (type == kBFloat16) return use(BFloatOrder());
  if (type == kFloat32) return use(SingleOrder());
  use(DoubleOrder());
}

// Parts of a sum of float64: part k % kLanes of the k-th value, and for running sums equal stretches.
constexpr int kLanes = 256;

// Weight, or number, of what stands at or above a positive, and of negatives above it alone.
template <class Sum>
struct Standing {
  Sum tp, fp, above;
};

template <class Sum>
VALOR_HD double precision_of(const Standing<Sum>& at) {
  return static_cast<double>(at.tp) / static_cast<double>(at.tp + at.fp);
}

// Twice the negatives below a positive, those of equal score once.
template <class Sum>
VALOR_HD Sum wins_of(const Standing<Sum>& at, Sum negatives) {
  return (negatives - at.fp) + (negatives - at.above);
}

VALOR_HD double not_a_number() {
  const uint64_t bits = 0x7ff8000000000000ull;
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// ROC AUC from the wins of all positives.
template <class Sum>
VALOR_HD double auc_of(Sum wins, Sum positives, Sum negatives) {
  if (!(positives > 0 && negatives > 0)) return not_a_number();
  return static_cast<double>(wins) / static_cast<double>(2 * positives * negatives);
}

// Average precision from the sum of the weighted precisions of all positives.
template <class Sum>
VALOR_HD double average_of(double precisions, Sum positives) {
  return positives > 0 ? precisions / static_cast<double>(positives) : not_a_number();
}

}  // namespace valor
