// Small updates of hinge losses.
#include <algorithm>
#include <cmath>

#include "small_batch.h"

namespace valor {
namespace {

// Of losses, and of what rounding to them leaves; as in valor_gpu/reduce/hinge.py.
constexpr double kSteps = 1 << 24, kFineSteps = static_cast<double>(int64_t{1} << 49);

struct HingePlan {
  SmallBatch batch;
  int64_t columns;  // 1, or a loss for each class
  int64_t squared;
};

struct HingeCall {  // addresses
  const void *preds, *target;
  const double *sums, *total;  // [2, columns], []
  const int64_t* seen;
  double *new_sums, *new_total;
  int64_t* new_seen;
};

// The score of the right class minus the largest of the others.
double margin_of(const SmallBatch& batch, const void* preds, int64_t first, int64_t classes, int64_t right) {
  double others = -INFINITY;
  for (int64_t i = 0; i < classes; ++i)
    if (i != right) others = std::max(others, batch.score(preds, first + i));
  return batch.score(preds, first + right) - others;
}

void add_hinge(const HingePlan& plan, const HingeCall& call) {
  const SmallBatch& batch = plan.batch;
  const Target target = batch.target_at(call.target);
  check_scores(batch, call.preds, target);
  const int64_t columns = plan.columns, classes = target.classes;
  std::vector<double> sums(2 * columns);
  double total = 0;
  const auto add = [&](int64_t column, double margin) {
    double loss = std::max(0.0, 1.0 - margin);
    if (plan.squared) loss *= loss;
    if (!(margin == margin) || std::isinf(loss)) throw Refused();
    const double rounded = std::nearbyint(loss * kSteps) / kSteps;
    sums[column] += rounded;
    sums[columns + column] += std::nearbyint((loss - rounded) * kFineSteps) / kFineSteps;
  };
  for (int64_t row = 0; row < batch.rows; ++row) {
    if (target.at(row, 0) == kIgnored) continue;
    total += 1.0;
    if (classes > 1 && columns == 1) {
      add(0, margin_of(batch, call.preds, row * classes, classes, target.value(row)));
      continue;
    }
    for (int64_t column = 0; column < columns; ++column) {
      const double score = batch.score(call.preds, row * classes + column);
      add(column, target.at(row, column) == kPositive ? score : -score);
    }
  }
  add_to(call.sums, sums, call.new_sums);
  call.new_total[0] = call.total[0] + total;
  add_seen(batch, target, call.seen, call.new_seen);
}

}  // namespace
}  // namespace valor

VALOR_API int32_t valor_add_hinge_cpu(const void* plan_words, const void* call_words) {
  return valor::guarded([&] {
    valor::add_hinge(*static_cast<const valor::HingePlan*>(plan_words),
                     *static_cast<const valor::HingeCall*>(call_words));
  });
}
