// Reads scores and targets some columns at a time: contiguous keys of each column, for the ops that rank.
#pragma once
#include <vector>

#include "../core/ranks.h"

namespace valor {

// Arguments of an op that ranks; fields are 64-bit words, packed by valor_gpu/ops/ranks/op.py.
struct RankInput {
  const void* scores;  // [rows, target.classes], contiguous
  int64_t type;        // a FloatType
  int64_t rows;
  const double* weight;  // [rows] or null
  Target target;
};
static_assert(sizeof(RankInput) == 80, "valor_gpu/ops/ranks/op.py packs ten words");

// Class indices, checked once: the class of every row, and the rows of every class.
struct RowClasses {
  std::vector<int32_t> of;     // [rows], kIgnoredRow where a row is left out; empty with a target per element
  std::vector<int32_t> rows;   // grouped by class, ascending in each
  std::vector<int64_t> first;  // [classes + 1] places in `rows`

  RowClasses(const RankInput& input, FirstError& error) {
    const Target& target = input.target;
    if (target.per_element) return;
    of.resize(input.rows), first.assign(target.classes + 1, 0);
    for (int64_t r = 0; r < input.rows; ++r) {
      const int64_t c = target.row_class(r);
      if (c == kBadRow) error.note(value_error(r, 0, kTarget));
      of[r] = c < 0 ? -1 : static_cast<int32_t>(c);
      if (c >= 0) ++first[c + 1];
    }
    for (int64_t c = 0; c < target.classes; ++c) first[c + 1] += first[c];
    rows.resize(first[target.classes]);
    std::vector<int64_t> next(first.begin(), first.end() - 1);
    for (int64_t r = 0; r < input.rows; ++r)
      if (of[r] >= 0) rows[next[of[r]]++] = static_cast<int32_t>(r);
  }
  int64_t count(int64_t c) const { return first[c + 1] - first[c]; }
};

// Whether any element of a row is a positive or a negative.
inline bool row_counts(const Target& target, int64_t row) {
  if (!target.per_element) return target.row_class(row) >= 0;
  for (int64_t c = 0; c < target.classes; ++c)
    if (const Truth truth = target.at(row, c); truth == kPositive || truth == kNegative) return true;
  return false;
}

inline void check_weights(const RankInput& input, FirstError& error) {
  for (int64_t r = 0; input.weight && r < input.rows; ++r)
    if (!good_weight(input.weight[r]) && row_counts(input.target, r)) error.note(value_error(r, 0, kWeight));
}

// A block of rows and columns, turned around.
template <class Order>
class RankTile {
 public:
  using Raw = typename Order::Raw;
  using Key = typename Order::Key;
  static constexpr int64_t kRows = 512, kColumns = 32;

  RankTile(const RankInput& input, const RowClasses& classes, FirstError& error)
      : input_(input), classes_(classes), error_(error) {}

  // Keys of column c0 + j of `count` rows from `row`; 0 for what is left out.
  const Key* keys(int64_t j) const { return keys_[j]; }
  // Whether they are positives.
  const uint8_t* positive(int64_t j) const { return positive_[j]; }

  void read(int64_t row, int64_t count, int64_t c0, int64_t width, bool with_truths) {
    turn(row, count, c0, width);
    for (int64_t j = 0; j < width; ++j) {
      Key nan = convert(raw_[j], keys_[j], count);
      if (input_.target.per_element)
        read_elements(row, count, c0 + j, j);
      else
        read_rows(row, count, c0 + j, j, with_truths);
      if (nan) leave_out_nan(row, count, c0 + j, j);
      for (int64_t i = 0; input_.weight && i < count; ++i)
        if (!(input_.weight[row + i] > 0.0)) keys_[j][i] = 0;
    }
  }

 private:
  static constexpr int64_t kAhead = 12;  // rows lie far apart: ask for one some steps before it is read
  static constexpr int64_t kPad = 64 / sizeof(Raw) > 16 ? 64 / sizeof(Raw) : 16;  // columns in different sets

  void turn(int64_t row, int64_t count, int64_t c0, int64_t width) {
    const int64_t classes = input_.target.classes;
    const Raw* from = static_cast<const Raw*>(input_.scores) + row * classes + c0;
    for (int64_t i = 0; i < count; ++i, from += classes) {
      __builtin_prefetch(from + kAhead * classes);
      __builtin_prefetch(from + kAhead * classes + width / 2);
      __builtin_prefetch(from + kAhead * classes + width - 1);
      for (int64_t j = 0; j < width; ++j) raw_[j][i] = from[j];
    }
  }

  static Key convert(const Raw* raw, Key* keys, int64_t count) {
    Key nan = 0;
    for (int64_t i = 0; i < count; ++i) {
      nan |= static_cast<Key>(Order::is_nan(raw[i]));
      keys[i] = Order::is_nan(raw[i]) ? 1 : Order::key(raw[i]);
    }
    return nan;
  }

  void read_rows(int64_t row, int64_t count, int64_t column, int64_t j, bool with_truths) {
    const int32_t* of = classes_.of.data() + row;
    for (int64_t i = 0; i < count; ++i) keys_[j][i] = of[i] < 0 ? 0 : keys_[j][i];
    for (int64_t i = 0; with_truths && i < count; ++i) positive_[j][i] = of[i] == column;
  }

  void read_elements(int64_t row, int64_t count, int64_t column, int64_t j) {
    for (int64_t i = 0; i < count; ++i) {
      const Truth truth = input_.target.at(row + i, column);
      if (truth == kBadTruth) error_.note(value_error(row + i, column, kTarget));
      if (truth != kPositive && truth != kNegative) keys_[j][i] = 0;
      positive_[j][i] = truth == kPositive;
    }
  }

  void leave_out_nan(int64_t row, int64_t count, int64_t column, int64_t j) {
    for (int64_t i = 0; i < count; ++i) {
      if (!Order::is_nan(raw_[j][i]) || keys_[j][i] == 0) continue;
      error_.note(value_error(row + i, column, kNanScore));
      keys_[j][i] = 0;
    }
  }

  const RankInput& input_;
  const RowClasses& classes_;
  FirstError& error_;
  Raw raw_[kColumns][kRows + kPad];
  Key keys_[kColumns][kRows + kPad];
  uint8_t positive_[kColumns][kRows];
};

}  // namespace valor
