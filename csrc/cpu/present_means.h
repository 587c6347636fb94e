// Means over the classes that count, in numpy's order of summation (csrc/core/means.h).
#pragma once
#include <limits>
#include <vector>

#include "../core/curves.h"
#include "../core/means.h"

namespace valor {

// What one mean is taken over; all are indices. `first` and `count` are those of its IoU thresholds in a
// list.
struct MeanPick {
  int64_t of_recall, area, limit, first, count;
};
static_assert(sizeof(MeanPick) == 5 * 8, "MeanPick holds int64 fields only");

class PresentMeans {
 public:
  explicit PresentMeans(const Accumulation& run) : run_(run), present_(run.shape.areas) {
    for (int64_t a = 0; a < run.shape.areas; ++a)
      for (int64_t k = 0; k < run.shape.classes; ++k)
        if (run.positives_of(k, a) > 0) present_[a].push_back(k);
  }

  // NaN where nothing counts.
  double mean(const MeanPick& pick, const int64_t* thresholds) {
    gather(pick);
    const int64_t size = pick.count * block_;
    if (size == 0) return std::numeric_limits<double>::quiet_NaN();
    return sum({0, size}, chosen(pick, thresholds + pick.first)) / static_cast<double>(size);
  }

 private:
  struct Values {
    const double* at;
    double next() { return *at++; }
  };

  // All values of an array that count, threshold by threshold; kept for the next mean over the same.
  void gather(const MeanPick& pick) {
    if (gathered_ && pick.of_recall == last_.of_recall && pick.area == last_.area &&
        pick.limit == last_.limit)
      return;
    const CurveShape& shape = run_.shape;
    const int64_t samples = pick.of_recall ? 1 : shape.recalls;
    const int64_t limits = pick.of_recall ? shape.limits : run_.curves();
    const double* from = (pick.of_recall ? run_.recall : run_.precision) + pick.area * limits + pick.limit;
    const std::vector<int64_t>& present = present_[pick.area];
    block_ = samples * static_cast<int64_t>(present.size());
    values_.resize(shape.thresholds * block_);
    double* to = values_.data();
    for (int64_t row = 0; row < shape.thresholds * samples;
         ++row, from += shape.classes * shape.areas * limits)
      for (int64_t k : present) *to++ = from[k * shape.areas * limits];
    last_ = pick;
    gathered_ = true;
  }

  // The values of some thresholds, one block after another.
  const double* chosen(const MeanPick& pick, const int64_t* thresholds) {
    bool together = true;
    for (int64_t i = 1; i < pick.count; ++i) together &= thresholds[i] == thresholds[i - 1] + 1;
    if (together) return values_.data() + thresholds[0] * block_;
    chosen_.clear();
    for (int64_t i = 0; i < pick.count; ++i) {
      const double* from = values_.data() + thresholds[i] * block_;
      chosen_.insert(chosen_.end(), from, from + block_);
    }
    return chosen_.data();
  }

  static double sum(const SumNode& node, const double* values) {
    if (node.splits()) return sum(node.left(), values) + sum(node.right(), values);
    return sum_block(Values{values + node.start}, static_cast<int32_t>(node.size));
  }

  const Accumulation& run_;
  std::vector<std::vector<int64_t>> present_;  // [A] classes
  std::vector<double> values_, chosen_;
  MeanPick last_{};
  bool gathered_ = false;
  int64_t block_ = 0;  // values of a threshold
};

}  // namespace valor
