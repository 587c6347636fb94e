// Small updates of label rankings: coverage, ranking average precision and ranking loss of samples.
#include <algorithm>
#include <utility>

#include "small_batch.h"

namespace valor {
namespace {

struct LabelRankingsCall {  // addresses
  const void *preds, *target;
  const double* sums;   // [4]: coverage, precision, loss, samples
  const int64_t* seen;  // [3]: samples, ignored elements, samples of ignored elements alone
  double* new_sums;
  int64_t* new_seen;
};

using Label = std::pair<double, bool>;  // score, and whether it is relevant

// Adds coverage, precision and loss of a sample of at least one label, in the order of label_rankings in
// valor_gpu/reduce/label_ranking.py, so that the bits are the same.
void add_sample(std::vector<Label>& labels, double* sums) {
  std::sort(labels.begin(), labels.end(), [](const Label& a, const Label& b) { return a.first > b.first; });
  const auto size = static_cast<int64_t>(labels.size());
  int64_t found = 0, coverage = 0, wrong = 0;
  double fractions = 0;
  for (int64_t start = 0, end = 0; start < size; start = end) {
    int64_t hits = 0;  // among equal scores
    for (; end < size && labels[end].first == labels[start].first; ++end) hits += labels[end].second;
    if (hits == 0) continue;
    found += hits;
    coverage = end;
    wrong += (end - found) * hits;
    const double fraction = static_cast<double>(found) / static_cast<double>(end);
    for (int64_t hit = 0; hit < hits; ++hit) fractions += fraction;
  }
  const bool pairs = found > 0 && found < size;
  const auto positives = static_cast<double>(found);
  sums[0] += static_cast<double>(coverage);
  sums[1] += pairs ? fractions / positives : 1.0;
  sums[2] += pairs ? static_cast<double>(wrong) / static_cast<double>(found * (size - found)) : 0.0;
  sums[3] += 1.0;
}

void add_label_rankings(const SmallBatch& batch, const LabelRankingsCall& call) {
  const Target target = batch.target_at(call.target);
  check_scores(batch, call.preds, target);
  std::vector<Label> labels;
  labels.reserve(target.classes);
  double sums[4] = {};
  int64_t seen[] = {batch.rows, 0, 0};
  for (int64_t row = 0, i = 0; row < batch.rows; ++row) {
    labels.clear();
    for (int64_t column = 0; column < target.classes; ++column, ++i) {
      const Truth truth = target.at(row, column);
      if (truth != kIgnored) labels.emplace_back(batch.score(call.preds, i), truth == kPositive);
    }
    seen[1] += target.classes - static_cast<int64_t>(labels.size());
    if (labels.empty())
      ++seen[2];
    else
      add_sample(labels, sums);
  }
  for (int i = 0; i < 4; ++i) call.new_sums[i] = call.sums[i] + sums[i];
  for (int i = 0; i < 3; ++i) call.new_seen[i] = call.seen[i] + seen[i];
}

}  // namespace
}  // namespace valor

VALOR_API int32_t valor_add_label_rankings_cpu(const void* plan_words, const void* call_words) {
  return valor::guarded([&] {
    valor::add_label_rankings(*static_cast<const valor::SmallBatch*>(plan_words),
                              *static_cast<const valor::LabelRankingsCall*>(call_words));
  });
}
