// What the ops of classification share: reading a target, leaving out what is ignored, and words for the
// first bad value.
#pragma once
#include "error_codes.h"
#include "load.h"

namespace valor {

// Weights are at most so large, so that no sum of them, nor a product of four sums, can overflow.
constexpr double kMaxWeight = 1e60;

VALOR_HD bool good_weight(double weight) { return weight >= 0.0 && weight <= kMaxWeight; }

// What a target says of one element: ignored, negative or positive.
enum Truth : int { kIgnored = -1, kNegative = 0, kPositive = 1, kBadTruth = 2 };

// What a row of class indices says, where it says no class.
enum RowClass : int64_t { kIgnoredRow = -1, kBadRow = -2 };

// The target of `classes` columns of scores. The fields are 64-bit words: Python packs them.
struct Target {
  const void* data;     // [N] class indices; with per_element [N, classes] of 0 and 1
  int64_t type;         // an IntType
  int64_t per_element;  // 0 or 1
  int64_t classes;
  int64_t has_ignore;  // 0 or 1
  int64_t ignore;      // the value that leaves out a row, with per_element one element

  VALOR_HD int64_t value(int64_t index) const { return load_int(data, index, static_cast<IntType>(type)); }
  VALOR_HD bool ignores(int64_t value) const { return has_ignore && value == ignore; }

  // Of class indices alone: the class of a row, kIgnoredRow or kBadRow.
  VALOR_HD int64_t row_class(int64_t row) const {
    const int64_t found = value(row);
    if (ignores(found)) return kIgnoredRow;
    return found >= 0 && found < classes ? found : static_cast<int64_t>(kBadRow);
  }

  VALOR_HD Truth at(int64_t row, int64_t column) const {
    if (per_element) {
      const int64_t found = value(row * classes + column);
      if (ignores(found)) return kIgnored;
      return found == 0 ? kNegative : found == 1 ? kPositive : kBadTruth;
    }
    const int64_t found = row_class(row);
    if (found == kIgnoredRow) return kIgnored;
    return found == kBadRow ? kBadTruth : found == column ? kPositive : kNegative;
  }
};
static_assert(sizeof(Target) == 48, "valor_gpu/ops/targets/op.py packs six words");

}  // namespace valor
