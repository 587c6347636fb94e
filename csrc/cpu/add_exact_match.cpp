// Small updates of exact match: samples all of whose elements are right.
#include "class_rows.h"

namespace valor {
namespace {

struct ExactMatchPlan {
  SmallBatch batch;
  double least;     // multilabel: scores from here on are positive; hard labels are 0 or 1
  int64_t samples;  // of as many elements each
};

struct ExactMatchCall {  // addresses
  const void *preds, *target;
  const double* sums;   // [2]: samples that match, all samples
  const int64_t* seen;  // [5]: samples, ignored elements, samples of ignored elements alone, marks
  double* new_sums;
  int64_t* new_seen;
};

// Adds the elements of a batch, of which right(i, truth) tells for those that are not ignored.
template <class Truth, class Right>
void add_elements(const ExactMatchPlan& plan, const ExactMatchCall& call, int64_t elements, Truth truth,
                  Right right) {
  const int64_t of_sample = elements / plan.samples;
  int64_t matched = 0, ignored = 0, empty = 0;
  for (int64_t sample = 0, i = 0; sample < plan.samples; ++sample) {
    int64_t left_out = 0;
    bool all = true;
    for (int64_t end = i + of_sample; i < end; ++i) {
      const int64_t found = truth(i);
      if (found == kIgnored)
        ++left_out;
      else
        all &= right(i, found);
    }
    matched += all;
    ignored += left_out;
    empty += left_out == of_sample;
  }
  call.new_sums[0] = call.sums[0] + static_cast<double>(matched);
  call.new_sums[1] = call.sums[1] + static_cast<double>(plan.samples);
  const int64_t counts[] = {plan.samples, ignored, empty};
  for (int i = 0; i < 3; ++i) call.new_seen[i] = call.seen[i] + counts[i];
  add_marks(plan.batch, ignored < elements, call.seen + 3, call.new_seen + 3);
}

void add_classes(const ExactMatchPlan& plan, const ExactMatchCall& call) {
  const SmallBatch& batch = plan.batch;
  const Target target = batch.target_at(call.target);
  std::vector<int32_t> predicted(batch.hard ? 0 : batch.rows);
  int64_t error = kNoError;
  if (!batch.hard)
    require(
        valor_predict_top_cpu(call.preds, batch.type, batch.rows, &target, 1, predicted.data(), &error, 1));
  refuse(error);
  const auto truth = [&](int64_t row) {
    const int64_t found = target.row_class(row);
    if (found == kBadRow) throw Refused();
    return found == kIgnoredRow ? static_cast<int64_t>(kIgnored) : found;
  };
  add_elements(plan, call, batch.rows, truth, [&](int64_t row, int64_t found) {
    const int64_t label = batch.hard ? batch.label(call.preds, row) : predicted[row];
    if (label < 0 || label >= target.classes) throw Refused();
    return label == found;
  });
}

void add_labels(const ExactMatchPlan& plan, const ExactMatchCall& call) {
  const SmallBatch& batch = plan.batch;
  const Target target = batch.target_at(call.target);
  const int64_t labels = target.classes;
  if (!batch.hard) check_scores(batch, call.preds, target);
  const auto truth = [&](int64_t i) {
    const Truth found = target.at(i / labels, i % labels);
    if (found == kBadTruth) throw Refused();
    return static_cast<int64_t>(found);
  };
  add_elements(plan, call, batch.rows * labels, truth, [&](int64_t i, int64_t found) {
    return batch.positive(call.preds, i, plan.least) == (found == kPositive);
  });
}

}  // namespace
}  // namespace valor

VALOR_API int32_t valor_add_exact_match_cpu(const void* plan_words, const void* call_words) {
  return valor::guarded([&] {
    const auto& plan = *static_cast<const valor::ExactMatchPlan*>(plan_words);
    const auto& call = *static_cast<const valor::ExactMatchCall*>(call_words);
    plan.batch.target.per_element ? valor::add_labels(plan, call) : valor::add_classes(plan, call);
  });
}
