// Small updates of the counts of classes in the binary and the multilabel task.
#include "small_batch.h"

namespace valor {
namespace {

struct ElementCountsPlan {
  SmallBatch batch;
  double least;    // scores from here on are positive; hard labels are 0 or 1
  int64_t matrix;  // whether counts are [labels, 2, 2], true by predicted, or else the rows of class counts
};

struct ElementCountsCall {  // addresses
  const void *preds, *target;
  const double* counts;  // [4, labels] or [labels, 2, 2]
  const int64_t* seen;   // [4]
  double* new_counts;
  int64_t* new_seen;
};

void add_elements(const ElementCountsPlan& plan, const ElementCountsCall& call) {
  const Target target = plan.batch.target_at(call.target);
  const int64_t labels = target.classes;
  if (!plan.batch.hard) check_scores(plan.batch, call.preds, target);
  std::vector<int64_t> cells(4 * labels);  // [labels, 2, 2]
  for (int64_t row = 0, i = 0; row < plan.batch.rows; ++row)
    for (int64_t label = 0; label < labels; ++label, ++i) {
      const Truth truth = target.at(row, label);
      if (truth == kIgnored) continue;
      if (truth == kBadTruth) throw Refused();
      ++cells[4 * label + 2 * truth + plan.batch.positive(call.preds, i, plan.least)];
    }
  if (plan.matrix) {
    add_to(call.counts, cells, call.new_counts);
  } else {
    std::vector<int64_t> counts(4 * labels);
    for (int64_t label = 0; label < labels; ++label) {
      const int64_t* cell = cells.data() + 4 * label;
      counts[label] = cell[3];
      counts[labels + label] = cell[1] + cell[3];
      counts[2 * labels + label] = cell[2] + cell[3];
      counts[3 * labels + label] = cell[0] + cell[1] + cell[2] + cell[3];
    }
    add_to(call.counts, counts, call.new_counts);
  }
  add_seen(plan.batch, target, call.seen, call.new_seen);
}

}  // namespace
}  // namespace valor

VALOR_API int32_t valor_add_element_counts_cpu(const void* plan_words, const void* call_words) {
  return valor::guarded([&] {
    valor::add_elements(*static_cast<const valor::ElementCountsPlan*>(plan_words),
                        *static_cast<const valor::ElementCountsCall*>(call_words));
  });
}
