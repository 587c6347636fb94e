// Small updates of the counts of classes, from scores or hard labels of the multiclass task.
#include <numeric>
#include <vector>

#include "../core/labels.h"
#include "label_calls.h"
#include "small_batch.h"

namespace valor {
namespace {

constexpr int64_t kTables = 3;  // of ClassCells

struct ClassCountsPlan {  // 64-bit words: Python packs them
  int64_t type;           // a FloatType, of hard labels an IntType
  int64_t hard;
  int64_t rows;
  int64_t top_k;
  Target target;  // without its address
};

struct ClassCountsCall {  // addresses
  const void *preds, *target;
  const double* counts;  // [4, classes]: true positives, predicted, true and total
  const int64_t* seen;   // [2]
  double* new_counts;
  int64_t* new_seen;
};

void add(const ClassCountsPlan& plan, const ClassCountsCall& call) {
  const Target target = at_address(plan.target, call.target);
  const int64_t classes = target.classes;
  std::vector<int32_t> predicted(plan.hard ? 0 : plan.rows);
  std::vector<int64_t> counts(kTables * classes);
  int64_t error = kNoError;
  if (!plan.hard)
    require(valor_predict_top_cpu(call.preds, plan.type, plan.rows, &target, plan.top_k, predicted.data(),
                                  &error, 1));
  const PairRows rows{plan.hard ? call.preds : predicted.data(),
                      plan.hard ? plan.type : static_cast<int64_t>(kInt32),
                      !plan.hard,
                      nullptr,
                      plan.rows,
                      target};
  require(valor_count_labels_cpu(&rows, plan.rows, counts.data(), &error, 1));
  refuse(error);
  const int64_t total = std::accumulate(counts.begin() + 2 * classes, counts.end(), int64_t{0});
  for (int64_t i = 0; i < kTables * classes; ++i)
    call.new_counts[i] = call.counts[i] + static_cast<double>(counts[i]);
  for (int64_t i = kTables * classes; i < (kTables + 1) * classes; ++i)
    call.new_counts[i] = call.counts[i] + static_cast<double>(total);
  add_seen(target, plan.rows, call.seen, call.new_seen);
}

}  // namespace
}  // namespace valor

VALOR_API int32_t valor_add_class_counts_cpu(const void* plan_words, const void* call_words) {
  return valor::guarded([&] {
    using namespace valor;
    const ClassCountsPlan& plan = *static_cast<const ClassCountsPlan*>(plan_words);
    const ClassCountsCall& call = *static_cast<const ClassCountsCall*>(call_words);
    add(plan, call);
  });
}
