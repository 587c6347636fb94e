// Counts of hard labels: the order of scores as integers, and what a row of predicted and true class adds.
#pragma once
#include "targets.h"

namespace valor {

// A float of any width as an integer of that width: sign and magnitude.
template <class Integer, int64_t Infinity>
struct FloatBits {
  using Word = Integer;
  static constexpr Word kInfinity = static_cast<Word>(Infinity);
  static constexpr Word kMagnitude = static_cast<Word>(~(uint64_t{1} << (8 * sizeof(Word) - 1)));
  static constexpr Word kLowest = static_cast<Word>(-kMagnitude);  // below every key but that of a NaN

  VALOR_HD static Word magnitude(Word bits) { return static_cast<Word>(bits & kMagnitude); }
  VALOR_HD static bool is_nan(Word bits) { return magnitude(bits) > kInfinity; }
  // Ascends with the value; -0.0 and 0.0 have one key.
  VALOR_HD static Word key(Word bits) {
    const Word sign = static_cast<Word>(bits >> (8 * sizeof(Word) - 1));
    return static_cast<Word>((magnitude(bits) ^ sign) - sign);
  }
};
using Float16Bits = FloatBits<int16_t, 0x7c00>;
using BFloat16Bits = FloatBits<int16_t, 0x7f80>;
using Float32Bits = FloatBits<int32_t, 0x7f800000>;
using Float64Bits = FloatBits<int64_t, 0x7ff0000000000000>;

// Calls visit with the FloatBits of a FloatType.
template <class Visit>
auto with_bits(int64_t type, Visit visit) {
  switch (type) {
    case kFloat16:
      return visit(Float16Bits());
    case kBFloat16:
      return visit(BFloat16Bits());
    case kFloat32:
      return visit(Float32Bits());
    default:
      return visit(Float64Bits());
  }
}

struct Scores {
  const void* data;  // [rows, classes]
  int64_t type;      // a FloatType
  int64_t rows, classes;

  template <class Bits>
  VALOR_HD const typename Bits::Word* row(int64_t index) const {
    return static_cast<const typename Bits::Word*>(data) + index * classes;
  }
};

constexpr int32_t kLeftOut = -1;  // in place of a predicted class, by count_top

// Predicted and true classes of rows. The fields are 64-bit words: Python packs them.
struct PairRows {
  const void* preds;
  int64_t preds_type;     // an IntType
  int64_t may_leave_out;  // whether kLeftOut stands among preds, of rows whose error is known
  const double* weight;   // null: every row weighs 1
  int64_t rows;
  Target target;
};

struct Pair {
  int64_t true_class, predicted;
  int64_t error;  // kNoError, or a word of this row
  bool counts;
};

// What a row says, from the value of its target and its prediction.
VALOR_HD Pair judge_pair(const PairRows& rows, int64_t row, int64_t true_class, int64_t predicted) {
  Pair pair{true_class, predicted, kNoError, false};
  if (rows.target.ignores(true_class)) return pair;
  const uint64_t classes = static_cast<uint64_t>(rows.target.classes);
  if (static_cast<uint64_t>(true_class) >= classes)
    pair.error = value_error(row, 0, kTarget);
  else if (rows.weight && !good_weight(rows.weight[row]))
    pair.error = value_error(row, 0, kWeight);
  else if (static_cast<uint64_t>(predicted) < classes)
    pair.counts = true;
  else if (!(rows.may_leave_out && predicted == kLeftOut))
    pair.error = value_error(row, 0, kPrediction);
  return pair;
}

// Tables that a pair is counted in. `add` calls on(cell, whether it counts there).
struct ClassCells {  // [3, classes]: true positives, predicted, true
  int64_t classes;
  VALOR_HD int64_t size() const { return 3 * classes; }
  template <class On>
  VALOR_HD void add(const Pair& pair, On on) const {
    on(pair.true_class, pair.true_class == pair.predicted);
    on(classes + pair.predicted, true);
    on(2 * classes + pair.true_class, true);
  }
};

struct PairCells {  // [classes, classes]: true class, predicted class
  int64_t classes;
  VALOR_HD int64_t size() const { return classes * classes; }
  template <class On>
  VALOR_HD void add(const Pair& pair, On on) const {
    on(pair.true_class * classes + pair.predicted, true);
  }
};

}  // namespace valor
