// Small updates of bins of confidence.
#include <algorithm>
#include <cmath>

#include "small_batch.h"

namespace valor {
namespace {

constexpr double kSteps =
    1 << 24;  // of confidence from 0 to 1; _STEPS in valor_gpu/classification/calibration.py

struct ReliabilityPlan {
  SmallBatch batch;
  const double* edges;  // [bins + 1], from 0 to 1
  int64_t bins;
};

struct ReliabilityCall {  // addresses; fields are [bins + 1]
  const void *preds, *target;
  const double *count, *confidence, *correct;
  const int64_t* seen;
  double *new_count, *new_confidence, *new_correct;
  int64_t* new_seen;
};

// The largest score of a row, of equal ones the first.
int64_t best_of(const SmallBatch& batch, const void* preds, int64_t first, int64_t classes) {
  int64_t best = first;
  for (int64_t i = first + 1; i < first + classes; ++i)
    if (batch.score(preds, i) > batch.score(preds, best)) best = i;
  return best;
}

void add_reliability(const ReliabilityPlan& plan, const ReliabilityCall& call) {
  const SmallBatch& batch = plan.batch;
  const Target target = batch.target_at(call.target);
  check_scores(batch, call.preds, target);
  const int64_t cells = plan.bins + 1, classes = target.classes;
  std::vector<double> count(cells), confidence(cells), correct(cells);
  for (int64_t row = 0; row < batch.rows; ++row) {
    if (target.at(row, 0) == kIgnored) continue;
    const int64_t best = best_of(batch, call.preds, row * classes, classes);
    double found = batch.score(call.preds, best);
    if (!target.per_element) found = static_cast<double>(static_cast<float>(found));
    if (!(found >= 0.0 && found <= 1.0)) throw Refused();
    const int64_t cell = std::upper_bound(plan.edges, plan.edges + cells, found) - plan.edges - 1;
    count[cell] += 1.0;
    confidence[cell] += std::nearbyint(found * kSteps) / kSteps;
    correct[cell] += target.at(row, best - row * classes) == kPositive;
  }
  add_to(call.count, count, call.new_count);
  add_to(call.confidence, confidence, call.new_confidence);
  add_to(call.correct, correct, call.new_correct);
  add_seen(batch, target, call.seen, call.new_seen);
}

}  // namespace
}  // namespace valor

VALOR_API int32_t valor_add_reliability_cpu(const void* plan_words, const void* call_words) {
  return valor::guarded([&] {
    valor::add_reliability(*static_cast<const valor::ReliabilityPlan*>(plan_words),
                           *static_cast<const valor::ReliabilityCall*>(call_words));
  });
}
