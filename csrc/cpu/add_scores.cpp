// Small updates of states of scores: every score, or a histogram of them.
#include <algorithm>

#include "small_batch.h"

namespace valor {
namespace {

struct RecordsPlan {
  SmallBatch batch;
  int64_t target_type;  // the IntType in which targets are kept
  int64_t score_type;   // the FloatType in which scores are kept
};

struct RecordsCall {  // addresses
  const void *preds, *target;
  void *scores, *kept;  // the new rows
};

template <class Int>
void keep(const Target& target, int64_t count, void* to) {
  for (int64_t i = 0; i < count; ++i) static_cast<Int*>(to)[i] = static_cast<Int>(target.value(i));
}

template <class Float>
void widen(const SmallBatch& batch, const void* preds, int64_t count, void* to) {
  for (int64_t i = 0; i < count; ++i) static_cast<Float*>(to)[i] = static_cast<Float>(batch.score(preds, i));
}

// Scores of the type that is kept: that of the predictions or a wider one, so that no digit is lost.
void widen_scores(const RecordsPlan& plan, const void* preds, int64_t count, void* to) {
  if (plan.score_type == plan.batch.type)
    memcpy(to, preds, count * float_bytes(static_cast<FloatType>(plan.batch.type)));
  else if (plan.score_type == kFloat64)
    widen<double>(plan.batch, preds, count, to);
  else
    widen<float>(plan.batch, preds, count, to);
}

void add_records(const RecordsPlan& plan, const RecordsCall& call) {
  const Target target = plan.batch.target_at(call.target);
  check_scores(plan.batch, call.preds, target);
  const int64_t elements = plan.batch.rows * target.classes;
  const int64_t targets = target.per_element ? elements : plan.batch.rows;
  widen_scores(plan, call.preds, elements, call.scores);
  switch (plan.target_type) {
    case kInt8:
      return keep<int8_t>(target, targets, call.kept);
    case kInt16:
      return keep<int16_t>(target, targets, call.kept);
    case kInt32:
      return keep<int32_t>(target, targets, call.kept);
    case kInt64:
      return keep<int64_t>(target, targets, call.kept);
    default:
      return keep<uint8_t>(target, targets, call.kept);
  }
}

struct HistogramPlan {
  SmallBatch batch;
  const double* thresholds;  // ascending
  int64_t count;
};

struct HistogramCall {  // addresses
  const void *preds, *target;
  const double* counts;  // [2, classes, count + 1]: of positives, and of all
  const int64_t* seen;   // [4]
  const double* lightest;
  double* new_counts;
  int64_t* new_seen;
  double* new_lightest;
};

void add_histogram(const HistogramPlan& plan, const HistogramCall& call) {
  const Target target = plan.batch.target_at(call.target);
  check_scores(plan.batch, call.preds, target);
  const int64_t classes = target.classes, buckets = plan.count + 1;
  const double* end = plan.thresholds + plan.count;
  std::vector<int32_t> counts(2 * classes * buckets);
  for (int64_t row = 0, i = 0; row < plan.batch.rows; ++row)
    for (int64_t column = 0; column < classes; ++column, ++i) {
      const Truth truth = target.at(row, column);
      if (truth == kIgnored) continue;
      const int64_t reached =
          std::upper_bound(plan.thresholds, end, plan.batch.score(call.preds, i)) - plan.thresholds;
      counts[column * buckets + reached] += truth;
      ++counts[(classes + column) * buckets + reached];
    }
  add_to(call.counts, counts, call.new_counts);
  add_seen(plan.batch, target, call.seen, call.new_seen);
  *call.new_lightest = std::min(*call.lightest, 1.0);
}

}  // namespace
}  // namespace valor

VALOR_API int32_t valor_add_records_cpu(const void* plan_words, const void* call_words) {
  return valor::guarded([&] {
    valor::add_records(*static_cast<const valor::RecordsPlan*>(plan_words),
                       *static_cast<const valor::RecordsCall*>(call_words));
  });
}

VALOR_API int32_t valor_add_histogram_cpu(const void* plan_words, const void* call_words) {
  return valor::guarded([&] {
    valor::add_histogram(*static_cast<const valor::HistogramPlan*>(plan_words),
                         *static_cast<const valor::HistogramCall*>(call_words));
  });
}
