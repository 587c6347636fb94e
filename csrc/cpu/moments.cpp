// CPU driver of exact sums: blocks of rows are folded in vector registers; what does not fit there is added
// row by row. Design: docs/design/053-exact-moments.md.
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed to what is inlined alone
#include "../core/moments.h"

#include <cmath>
#include <cstring>
#include <mutex>
#include <vector>

#include "guard.h"
#include "moment_folds.h"
#include "moment_terms.h"
#include "rows.h"
#include "small_batch.h"

namespace valor {
namespace {

constexpr int64_t kChunk = 1 << 16;  // elements that are worth a thread
constexpr int64_t kGroup = 16,
                  kGroupBlock = 256;  // columns that are read together, and their rows of a block
constexpr int64_t kAhead = 1024;      // float32 numbers that are fetched before they are read

VALOR_FUSED_CLONES bool fold_floats(int64_t kind, const float* p, const float* t, int64_t count,
                                    const FoldRule& rule, FoldResult& out) {
  for (int64_t i = 0; i < count; i += 16)
    __builtin_prefetch(p + kAhead + i), __builtin_prefetch(t + kAhead + i);
  if (kind == kAbsolute) return fold<kAbsolute, 1>(FloatPairs<kAbsolute>{p, t}, count, rule, out);
  if (kind == kWeighted) return fold<kWeighted, 1>(FloatPairs<kWeighted>{p, t}, count, rule, out);
  if (kind == kSquared) return fold<kSquared, 2>(FloatPairs<kSquared>{p, t}, count, rule, out);
  if (kind == kVariance) return fold<kVariance, 2>(FloatPairs<kVariance>{p, t}, count, rule, out);
  return fold<kProducts, 2>(FloatPairs<kProducts>{p, t}, count, rule, out);
}

// Of any kind but the exact ones, numbers are terms, whatever their sign: summed as those of kSigned.
constexpr int64_t kSigned = -1;

template <int64_t kKind>
VALOR_INLINE bool fold_slices(const Numbers& from, int64_t count, const FoldRule& rule, FoldResult& out) {
  constexpr bool kSquares = kKind == kSquared || kKind == kVariance || kKind == kProducts;
  constexpr int kLeast = kSquares || kKind == kSigned ? 2 : 1;
  if (rule.slices == kLeast) return fold<kKind, kLeast>(from, count, rule, out);
  if (rule.slices == kLeast + 1) return fold<kKind, kLeast + 1>(from, count, rule, out);
  return kLeast + 2 <= (kSquares ? 4 : 3) && fold<kKind, kSquares ? 4 : 3>(from, count, rule, out);
}

VALOR_FUSED_CLONES bool fold_numbers(int64_t kind, const double* a, const double* b, int64_t count,
                                     const FoldRule& rule, FoldResult& out) {
  const Numbers from{a, b};
  if (kind == kAbsolute) return fold_slices<kAbsolute>(from, count, rule, out);
  if (kind == kSquared) return fold_slices<kSquared>(from, count, rule, out);
  if (kind == kVariance) return fold_slices<kVariance>(from, count, rule, out);
  if (kind == kProducts) return fold_slices<kProducts>(from, count, rule, out);
  if (kind == kWeighted) return fold_slices<kWeighted>(from, count, rule, out);
  return fold_slices<kSigned>(from, count, rule, out);
}

// first - second, where a kind sums that.
VALOR_FUSED_CLONES void subtract(double* first, const double* second, int64_t count) {
  for (int64_t i = 0; i < count; ++i) first[i] -= second[i];
}

// Terms of the kinds that are not exact.
VALOR_FUSED_CLONES void round_terms(int64_t kind, const double* p, const double* t, int64_t count,
                                    double parameter, double* to) {
  write_any_terms(kind, Numbers{p, t}, count, parameter, to);
}
VALOR_FUSED_CLONES void round_floats(int64_t kind, const float* p, const float* t, int64_t count,
                                     double parameter, double* to) {
  for (int64_t i = 0; i < count; i += 16)
    __builtin_prefetch(p + kAhead + i), __builtin_prefetch(t + kAhead + i);
  write_any_terms(kind, FloatPairs<kProducts>{p, t}, count, parameter, to);
}

// The largest size of numbers; NaN if one is NaN.
double largest(const double* values, int64_t count) {
  double found = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    const double size = std::fabs(values[i]);
    if (!(size <= found)) found = size;
    if (found != found) break;
  }
  return found;
}

int exponent_above(double size) { return static_cast<int>(bits_of(size) >> 52 & 2047) - 1022; }

// The sums of one column.
class Column {
 public:
  Column(const MomentTask& task, int64_t column, int64_t* limbs)
      : task_(task), column_(column), limbs_(limbs), bound_(moment_bound(task.limbs)) {
    const int bits = FoldRule::bits(task.kind), most = FoldRule::most_slices(task.kind);
    // Units of the last slices are normal numbers, and so are their squares and 1 by them.
    const int reach = has_products(task.kind) ? 400 : 880;
    lowest_exponent_ = static_cast<int>(std::max<int64_t>(-reach, bits * most - 8 * task.limbs));
    highest_exponent_ = static_cast<int>(std::min<int64_t>(reach, 8 * task.limbs - kLimbBits));
    rule_ = {lowest_exponent_, lowest_exponent_, FoldRule::least_slices(task.kind)};
  }

  // kBlock rows of float32 where they lie; false if the block has to be copied.
  bool add_floats(const float* preds, const float* target) {
    if (!is_exact_kind(task_.kind)) {
      double terms[kBlock];
      round_floats(task_.kind, preds, target, kBlock, task_.parameter, terms);
      return add_usual(terms, terms, kBlock, kBlock);
    }
    if (rule_.slices != FoldRule::least_slices(task_.kind)) return false;
    FoldResult found;
    if (!fold_floats(task_.kind, preds, target, kBlock, rule_, found)) return false;
    take(found, kBlock, true);
    return true;
  }

  // `count` rows from `row` on. Both arrays have room for the next multiple of kPackLanes, and are
  // overwritten.
  int64_t add(double* preds, double* target, int64_t row, int64_t count) {
    const int64_t padded = (count + kPackLanes - 1) / kPackLanes * kPackLanes;
    const bool exact = is_exact_kind(task_.kind);
    for (int64_t i = count; i < padded; ++i) preds[i] = target[i] = exact ? 0.0 : 1.0;
    double first[kBlock];
    if (exact) {
      memcpy(first, preds, padded * sizeof *first);
      if (task_.kind != kProducts) subtract(first, target, padded);
    } else {
      round_terms(task_.kind, preds, target, padded, task_.parameter, first);
      for (int64_t i = count; i < padded; ++i) first[i] = 0.0;
    }
    if (add_usual(first, target, count, padded)) return kNoError;
    return add_carefully(preds, target, row, count, padded);
  }

  void write(const MomentOutputs& out) const {
    for (int i = 0; i < kMomentCounts; ++i) out.counts[column_ * kMomentCounts + i] += counts_[i];
    out.lowest[column_] = std::min(out.lowest[column_], lowest_ + 0.0);  // + 0.0: no 0 has a sign
    out.highest[column_] = std::max(out.highest[column_], highest_ + 0.0);
  }

 private:
  void add_extremes(const double* target, int64_t count) {
    if (task_.kind != kVariance) return;
    for (int64_t i = 0; i < count; ++i) {
      lowest_ = std::min(lowest_, target[i]);
      highest_ = std::max(highest_, target[i]);
    }
  }

  // Adds what was folded. Fewer slices are tried next where the last were not needed.
  void take(const FoldResult& found, int64_t count, bool extremes) {
    add_folded(task_.kind, rule_, found, task_.limbs, limbs_);
    counts_[kRows] += count;
    if (extremes && task_.kind == kVariance) {
      lowest_ = std::min(lowest_, found.lowest_second);
      highest_ = std::max(highest_, found.highest_second);
    }
    if (found.spare && is_exact_kind(task_.kind) && rule_.slices > FoldRule::least_slices(task_.kind))
      --rule_.slices;
    started_ = true;
  }

  // Adds a block without a bad row, whose numbers slices fit; false if it is not such a block.
  bool add_usual(const double* first, const double* second, int64_t count, int64_t padded) {
    FoldResult found;
    if (started_ && fold_numbers(task_.kind, first, second, padded, rule_, found)) {
      take(found, count, padded == count);
      if (padded != count) add_extremes(second, count);
      return true;
    }
    const double size = largest(first, padded),
                 other = has_second(task_.kind) ? largest(second, padded) : 0.0;
    if (!(size < bound_ && other < bound_)) return false;
    if (!add_slices(first, second, padded, size, other)) {
      if (is_exact_kind(task_.kind)) return false;
      add_rows(first, first, count);
    }
    counts_[kRows] += count;
    add_extremes(second, count);
    return true;
  }

  // Leaves out bad rows, and finds the exponents and slices that fit the others.
  int64_t add_carefully(double* first, double* second, int64_t row, int64_t count, int64_t padded) {
    int64_t error = kNoError;
    double size_of_first = 0.0, size_of_second = 0.0;
    for (int64_t i = 0; i < count; ++i) {
      const RowTerms terms = moment_terms(task_.kind, first[i], second[i], task_.parameter, bound_);
      if (terms.error)
        error = std::min(error, value_error(row + i, column_, static_cast<ValueError>(terms.error)));
      if (terms.state != 0.0) {
        ++counts_[terms.state > 0.0 ? kInfinite : terms.state < 0.0 ? kNegativeInfinite : kNans];
      } else if (task_.kind == kVariance) {
        add_extremes(&second[i], 1);
      }
      first[i] = terms.first, second[i] = terms.second;
      size_of_first = std::max(size_of_first, std::fabs(terms.first));
      size_of_second = std::max(size_of_second, std::fabs(terms.second));
    }
    for (int64_t i = count; i < padded; ++i) first[i] = second[i] = 0.0;
    counts_[kRows] += count;
    if (!add_slices(first, second, padded, size_of_first, size_of_second)) add_rows(first, second, count);
    return error;
  }

  void add_rows(const double* first, const double* second, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      add_row(task_.kind, {first[i], second[i], 0.0, 0}, task_.limbs,
              [&](int sum, int64_t limb, int64_t piece) { limbs_[sum * task_.limbs + limb] += piece; });
  }

  bool add_slices(const double* first, const double* second, int64_t padded, double size, double other) {
    // One more, so that the largest of the next block may be somewhat larger.
    rule_.first = std::max(lowest_exponent_, exponent_above(size) + 1);
    rule_.second = std::max(lowest_exponent_, exponent_above(other) + 1);
    if (std::max(rule_.first, rule_.second) > highest_exponent_) {
      rule_.first = rule_.second = lowest_exponent_;
      return false;
    }
    FoldResult found;
    for (rule_.slices = FoldRule::least_slices(task_.kind); rule_.slices <= FoldRule::most_slices(task_.kind);
         ++rule_.slices)
      if (fold_numbers(task_.kind, first, second, padded, rule_, found)) {
        take(found, 0, false);
        return true;
      }
    rule_.slices = FoldRule::least_slices(task_.kind);
    return false;
  }

  const MomentTask& task_;
  const int64_t column_;
  int64_t* const limbs_;  // [sums, limbs]
  const double bound_;
  int lowest_exponent_, highest_exponent_;
  FoldRule rule_;
  bool started_ = false;  // whether the rule has fitted a block
  int64_t counts_[kMomentCounts] = {};
  double lowest_ = kInfinity, highest_ = -kInfinity;
};

// Reads numbers of `columns` columns, `stride` apart, to [columns, room].
template <class Value>
VALOR_INLINE void spread(int64_t rows, int64_t columns, int64_t room, double* to, Value value) {
  if (columns == 1) {
    for (int64_t row = 0; row < rows; ++row) to[row] = value(row, 0);
    return;
  }
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) to[column * room + row] = value(row, column);
}

VALOR_CLONES void read_numbers(const void* base, int64_t type, int64_t start, int64_t stride, int64_t rows,
                               int64_t columns, int64_t room, double* to) {
  auto at = [&](int64_t row, int64_t column) { return start + row * stride + column; };
  if (type == kFloat32) {
    const float* from = static_cast<const float*>(base);
    spread(rows, columns, room, to,
           [&](int64_t r, int64_t c) { return static_cast<double>(from[at(r, c)]); });
  } else if (type == kFloat64) {
    const double* from = static_cast<const double*>(base);
    spread(rows, columns, room, to, [&](int64_t r, int64_t c) { return from[at(r, c)]; });
  } else {
    spread(rows, columns, room, to, [&](int64_t r, int64_t c) { return load_number(base, at(r, c), type); });
  }
}

// Columns [first, first + columns) of rows [begin, end), added to limbs [columns, sums, limbs].
class Task {
 public:
  Task(const MomentTask& task, int64_t first, int64_t columns, int64_t* limbs)
      : task_(task), first_(first), count_(columns) {
    columns_.reserve(columns);
    for (int64_t c = 0; c < columns; ++c)
      columns_.emplace_back(task, first + c, limbs + c * task.sums() * task.limbs);
  }

  int64_t add(int64_t begin, int64_t end) {
    const bool floats = task_.columns == 1 && task_.preds_type == kFloat32 && task_.target_type == kFloat32;
    const int64_t room = count_ == 1 ? kBlock : kGroupBlock;
    if (buffers_.empty()) buffers_.resize(2 * count_ * room);
    int64_t error = kNoError;
    for (int64_t row = begin; row < end; row += room) {
      const int64_t rows = std::min(room, end - row);
      if (floats && rows == kBlock &&
          columns_[0].add_floats(static_cast<const float*>(task_.preds) + row,
                                 static_cast<const float*>(task_.target) + row))
        continue;
      error = std::min(error, add_block(row, rows, room));
    }
    return error;
  }

  // Adds counts and extremes to those of all rows; `guard` is locked by the caller where tasks share columns.
  void write(const MomentOutputs& out) const {
    for (int64_t c = 0; c < count_; ++c) columns_[c].write(out);
  }

 private:
  int64_t add_block(int64_t row, int64_t rows, int64_t room) {
    double *preds = buffers_.data(), *target = preds + count_ * room;
    const int64_t start = row * task_.columns + first_;
    read_numbers(task_.preds, task_.preds_type, start, task_.columns, rows, count_, room, preds);
    read_numbers(task_.target, task_.target_type, start, task_.columns, rows, count_, room, target);
    int64_t error = kNoError;
    for (int64_t c = 0; c < count_; ++c)
      error = std::min(error, columns_[c].add(preds + c * room, target + c * room, row, rows));
    return error;
  }

  const MomentTask& task_;
  const int64_t first_, count_;
  std::vector<Column> columns_;
  std::vector<double> buffers_;
};

// Adds all rows to `out`, whose sums are carried.
void add_moments(const MomentTask& task, const MomentOutputs& out, int64_t threads) {
  const int64_t group = std::min(kGroup, task.columns), groups = (task.columns + group - 1) / group;
  const int64_t rows = std::max<int64_t>(kBlock, kChunk / group / kBlock * kBlock);
  const int64_t chunks = (task.rows + rows - 1) / rows, width = task.sums() * task.limbs;
  std::mutex guard;
  over_rows(groups * chunks, 1, threads, out.error, [&](int64_t begin, int64_t end) {
    int64_t error = kNoError;
    std::vector<int64_t> own(chunks > 1 ? group * width : 0);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i / chunks * group, columns = std::min(group, task.columns - first);
      int64_t* const all = out.sums + first * width;
      Task part(task, first, columns, chunks > 1 ? own.data() : all);
      const int64_t start = i % chunks * rows;
      error = std::min(error, part.add(start, std::min(task.rows, start + rows)));
      for (int64_t sum = 0; sum < columns * task.sums(); ++sum)
        carry_limbs((chunks > 1 ? own.data() : all) + sum * task.limbs, task.limbs);
      std::lock_guard<std::mutex> lock(guard);
      part.write(out);
      for (int64_t j = 0; j < columns * width && chunks > 1; ++j) all[j] += own[j], own[j] = 0;
    }
    return error;
  });
  for (int64_t sum = 0; sum < task.columns * task.sums() && chunks > 1; ++sum)
    carry_limbs(out.sums + sum * task.limbs, task.limbs);
}

struct MomentCall {  // addresses
  const void *preds, *target;
  const int64_t *sums, *counts;
  const double *lowest, *highest;
  int64_t *new_sums, *new_counts;
  double *new_lowest, *new_highest;
};

void add_small(MomentTask task, const MomentCall& call) {
  task.preds = call.preds, task.target = call.target;
  const int64_t words = task.columns * task.sums() * task.limbs;
  memcpy(call.new_sums, call.sums, words * sizeof(int64_t));
  memcpy(call.new_counts, call.counts, task.columns * kMomentCounts * sizeof(int64_t));
  memcpy(call.new_lowest, call.lowest, task.columns * sizeof(double));
  memcpy(call.new_highest, call.highest, task.columns * sizeof(double));
  int64_t error = kNoError;
  add_moments(task, {call.new_sums, call.new_counts, call.new_lowest, call.new_highest, &error}, 1);
  refuse(error);
}

}  // namespace
}  // namespace valor

// Adds to sums [columns, K, limbs] and counts [columns, 4], widens lowest and highest [columns], and lowers
// `error`. task_words are a MomentTask.
VALOR_API int32_t valor_moments_cpu(const void* task_words, int64_t* sums, int64_t* counts, double* lowest,
                                    double* highest, int64_t* error, int64_t threads) {
  return valor::guarded([&] {
    valor::add_moments(*static_cast<const valor::MomentTask*>(task_words),
                       {sums, counts, lowest, highest, error}, threads);
  });
}

// A small update: the old state and the batch to a new state. Refuses a number without a term.
VALOR_API int32_t valor_add_moments_cpu(const void* task_words, const void* call_words) {
  return valor::guarded([&] {
    valor::add_small(*static_cast<const valor::MomentTask*>(task_words),
                     *static_cast<const valor::MomentCall*>(call_words));
  });
}
