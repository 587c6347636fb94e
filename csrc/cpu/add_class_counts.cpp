// Small updates of the counts of classes, and of pairs of them, in the multiclass task.
#include <numeric>

#include "class_rows.h"

namespace valor {
namespace {

struct ClassCountsPlan {
  SmallBatch batch;
  int64_t top_k;
};

struct ClassCountsCall {  // addresses
  const void *preds, *target;
  const double* counts;  // [4, classes]: true positives, predicted, true and total; or [classes, classes]
  const int64_t* seen;   // [4]
  double* new_counts;
  int64_t* new_seen;
};

void add_counts(const ClassCountsPlan& plan, const ClassCountsCall& call) {
  const Target target = plan.batch.target_at(call.target);
  const int64_t classes = target.classes;
  std::vector<int64_t> counts(3 * classes);
  count_class_rows(plan.batch, call.preds, target, plan.top_k, [&](const PairRows& rows, int64_t* error) {
    return valor_count_labels_cpu(&rows, rows.rows, counts.data(), error, 1);
  });
  const int64_t total = std::accumulate(counts.begin() + 2 * classes, counts.end(), int64_t{0});
  counts.resize(4 * classes, total);
  add_to(call.counts, counts, call.new_counts);
  add_seen(plan.batch, target, call.seen, call.new_seen);
}

void add_pairs(const ClassCountsPlan& plan, const ClassCountsCall& call) {
  const Target target = plan.batch.target_at(call.target);
  std::vector<int64_t> matrix(target.classes * target.classes);
  count_class_rows(plan.batch, call.preds, target, plan.top_k, [&](const PairRows& rows, int64_t* error) {
    return valor_count_pairs_cpu(&rows, rows.rows, matrix.data(), error, 1);
  });
  add_to(call.counts, matrix, call.new_counts);
  add_seen(plan.batch, target, call.seen, call.new_seen);
}

}  // namespace
}  // namespace valor

VALOR_API int32_t valor_add_class_counts_cpu(const void* plan_words, const void* call_words) {
  return valor::guarded([&] {
    valor::add_counts(*static_cast<const valor::ClassCountsPlan*>(plan_words),
                      *static_cast<const valor::ClassCountsCall*>(call_words));
  });
}

VALOR_API int32_t valor_add_class_pairs_cpu(const void* plan_words, const void* call_words) {
  return valor::guarded([&] {
    valor::add_pairs(*static_cast<const valor::ClassCountsPlan*>(plan_words),
                     *static_cast<const valor::ClassCountsCall*>(call_words));
  });
}
