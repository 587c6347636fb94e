// CPU driver of scores of rows, and of their exact sums: the numbers are read once. A sum is that of
// csrc/core/moments.h.
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed to what is inlined alone
#include "../core/row_scores.h"

#include <atomic>
#include <mutex>
#include <vector>

#include "guard.h"
#include "pool.h"
#include "score_packs.h"
#include "small_batch.h"

namespace valor {
namespace {

constexpr int64_t kTogether = 1024, kElements = 1 << 16;  // numbers that are read together; worth a thread

struct RowScoreTask {
  const void *first, *second;  // [rows, columns]; from kEnsemble on the second is [rows]
  int64_t rows, columns, is_double, kind;
  const double* levels;  // [columns], of predicted quantiles
  double confidence;     // of intervals
  int64_t limbs;         // of a sum; 0: no sums
  double* scores;        // [rows, K], or null
  int64_t* sums;         // [2 K, limbs]: above 0, and below it without a sign; added to
  int64_t* counts;       // [K, 4]: rows, NaN, infinite, minus infinite; added to
  int64_t* bad;          // []: set to 1 where a number is below 0, or an interval in the wrong order
  int64_t threads;

  int64_t each() const { return kind == kQuantileLosses ? columns : kind == kCoverage ? 3 : 1; }
};

template <class Value>
VALOR_INLINE double score_of_quantiles(const Value* predicted, double target, int64_t columns,
                                       const double* levels) {
  double sum = 0;
  for (int64_t i = 0; i < columns; ++i) sum += quantile_loss(predicted[i], target, levels[i]);
  return 2 * sum / static_cast<double>(columns);
}

// Scores of forecasts of `count` numbers of `second`; whether one of them is bad.
template <class Value>
VALOR_INLINE bool score_forecasts(const RowScoreTask& task, const Value* first, const Value* second,
                                  int64_t count, double* to, double* room) {
  const int64_t columns = task.columns;
  bool bad = false;
  for (int64_t i = 0; i < count; ++i, first += columns) {
    const double target = second[i];
    if (task.kind == kQuantileScore) {
      to[i] = score_of_quantiles(first, target, columns, task.levels);
    } else if (task.kind == kQuantileLosses) {
      for (int64_t q = 0; q < columns; ++q) *to++ = quantile_loss(first[q], target, task.levels[q]);
    } else if (task.kind == kCoverage) {
      bad |= first[0] > first[1];
      score_interval(first[0], first[1], target, task.confidence, to + 3 * i);
    } else {
      to[i] = ensemble_score(first, target, columns, task.kind == kFairEnsemble, room);
    }
  }
  return bad;
}

// Scores of `count` rows from `row` on; whether one of them is bad.
template <class Value>
VALOR_INLINE bool score_block(const RowScoreTask& task, int64_t row, int64_t count, double* to,
                              ScoreBlock& block) {
  const int64_t columns = task.columns, wide = task.kind < kEnsemble ? columns : 1;
  const Value* first = static_cast<const Value*>(task.first) + row * columns;
  const Value* second = static_cast<const Value*>(task.second) + row * wide;
  if (task.kind >= kEnsemble) return score_forecasts(task, first, second, count, to, block.first.data());
  if (task.kind == kKl) return write_divergences<false>(first, second, count, columns, block, to);
  if (task.kind == kJs) return write_divergences<true>(first, second, count, columns, block, to);
  if (task.kind == kCosine) write_cosines(first, second, count, columns, block, to);
  if (task.kind == kKlOfLogs) write_log_divergences<false>(first, second, count, columns, block, to);
  if (task.kind == kJsOfLogs) write_log_divergences<true>(first, second, count, columns, block, to);
  return false;
}

VALOR_FUSED_CLONES bool score_floats(const RowScoreTask& task, int64_t row, int64_t count, double* to,
                                     ScoreBlock& block) {
  return score_block<float>(task, row, count, to, block);
}
VALOR_FUSED_CLONES bool score_doubles(const RowScoreTask& task, int64_t row, int64_t count, double* to,
                                      ScoreBlock& block) {
  return score_block<double>(task, row, count, to, block);
}

// Adds scores [count, K] to the sums and counts of a task.
void add_scores(const RowScoreTask& task, const double* scores, int64_t count, int64_t* sums,
                int64_t* counts) {
  const int64_t each = task.each(), limbs = task.limbs;
  for (int64_t i = 0, k = 0; i < count * each; ++i, k = k + 1 < each ? k + 1 : 0) {
    const double score = scores[i];
    int64_t* const found = counts + kMomentCounts * k;
    ++found[kRows];
    if (!is_finite(score)) {
      ++found[score > 0 ? kInfinite : score < 0 ? kNegativeInfinite : kNans];
      continue;
    }
    int64_t* const to = sums + (score < 0 ? each + k : k) * limbs;
    add_number(std::fabs(score), limbs, [&](int64_t limb, int64_t piece) { to[limb] += piece; });
  }
}

// Rows [begin, end), added to sums and counts; whether one of them is bad.
bool score_rows(const RowScoreTask& task, int64_t begin, int64_t end, int64_t* sums, int64_t* counts) {
  const int64_t each = task.each(),
                block = std::max<int64_t>(1, kTogether / std::max<int64_t>(1, task.columns));
  ScoreBlock held(task.kind <= kFairEnsemble ? std::min(block, end - begin) : 0, task.columns);
  std::vector<double> own(task.scores ? 0 : block * each);
  bool bad = false;
  for (int64_t row = begin; row < end; row += block) {
    const int64_t count = std::min(block, end - row);
    double* const to = task.scores ? task.scores + row * each : own.data();
    bad |= (task.is_double ? score_doubles : score_floats)(task, row, count, to, held);
    if (task.limbs) add_scores(task, to, count, sums, counts);
  }
  for (int64_t sum = 0; sum < 2 * each && task.limbs; ++sum) carry_limbs(sums + sum * task.limbs, task.limbs);
  return bad;
}

void score_all(const RowScoreTask& task) {
  const int64_t words = 2 * task.each() * task.limbs, marks = task.limbs ? kMomentCounts * task.each() : 0;
  const int64_t grain = 1 + kElements / (task.columns + 1);
  std::atomic<bool> bad{false};
  std::mutex guard;
  auto body = [&](int64_t begin, int64_t end) {
    std::vector<int64_t> own(words + marks);
    if (score_rows(task, begin, end, own.data(), own.data() + words)) bad = true;
    std::lock_guard<std::mutex> lock(guard);
    for (int64_t i = 0; i < words; ++i) task.sums[i] += own[i];
    for (int64_t i = 0; i < marks; ++i) task.counts[i] += own[words + i];
  };
  parallel_for(task.rows, grain, static_cast<int>(task.threads), body);
  for (int64_t sum = 0; sum < 2 * task.each() && task.limbs; ++sum)
    carry_limbs(task.sums + sum * task.limbs, task.limbs);
  *task.bad = bad;
}

// Addresses: both rows; old sums and counts, and new ones, unless the task has no limbs; scores, if they are
// kept.
void add_small(RowScoreTask task, void* const* words) {
  task.first = words[0], task.second = words[1];
  const bool kept = task.scores != nullptr;
  task.scores = kept ? static_cast<double*>(words[task.limbs ? 6 : 2]) : nullptr;
  if (task.limbs) {
    task.sums = static_cast<int64_t*>(words[4]), task.counts = static_cast<int64_t*>(words[5]);
    memcpy(task.sums, words[2], 2 * task.each() * task.limbs * sizeof(int64_t));
    memcpy(task.counts, words[3], task.each() * kMomentCounts * sizeof(int64_t));
  }
  if (score_rows(task, 0, task.rows, task.sums, task.counts)) throw Refused();
}

}  // namespace
}  // namespace valor

// Fills scores and adds to sums and counts, as far as the task has them.
VALOR_API int32_t valor_row_scores_cpu(const valor::RowScoreTask* task) {
  return valor::guarded([&] { valor::score_all(*task); });
}

// A small update: the old state and the batch to a new state. Of the words of a RowScoreTask the addresses
// are not read; that of the scores tells whether they are kept.
VALOR_API int32_t valor_add_row_scores_cpu(const void* task_words, const void* call_words) {
  return valor::guarded([&] {
    valor::add_small(*static_cast<const valor::RowScoreTask*>(task_words),
                     static_cast<void* const*>(call_words));
  });
}
