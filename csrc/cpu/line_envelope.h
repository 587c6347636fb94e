// The least cost of every pixel of a line in time linear in its length, by the lower envelope of the costs
// that the pixels spread (Meijster, Roerdink, Hesselink 2000; Felzenszwalb, Huttenlocher 2012). Integer costs
// alone: where two of them cross is exact.
#pragma once
#include <algorithm>
#include <vector>

#include "../core/surface.h"

namespace valor {

template <class Rule>
class LineEnvelope {
 public:
  // line(i) is what pixel i costs itself, Rule::none() where it spreads nothing.
  template <class Line>
  void build(const Line& line, int64_t length) {
    parts_.clear();
    for (int64_t at = 0; at < length; ++at) {
      const int64_t cost = line(at);
      if (cost >= Rule::none()) continue;
      while (!parts_.empty() &&
             parts_.back().cost_at(parts_.back().begin) > Part{at, 0, cost}.cost_at(parts_.back().begin))
        parts_.pop_back();
      const int64_t begin = parts_.empty() ? 0 : first_better(parts_.back(), at, cost);
      if (begin < length) parts_.push_back(Part{at, begin, cost});
    }
    next_ = 0;
  }

  // The cost of pixels in ascending order.
  int64_t at(int64_t pixel) {
    if (parts_.empty()) return Rule::none();
    while (next_ + 1 < parts_.size() && parts_[next_ + 1].begin <= pixel) ++next_;
    return parts_[next_].cost_at(pixel);
  }

 private:
  struct Part {
    int64_t pixel, begin, cost;  // which spreads, the first that it serves, what it costs itself

    int64_t cost_at(int64_t other) const {
      const int64_t way = other > pixel ? other - pixel : pixel - other;
      return Rule::join(cost, Rule::metric == kEuclidean ? way * way : way);
    }
  };

  // The first pixel from which `at` costs less than `before`, which is left of it and not worse at its begin.
  static int64_t first_better(const Part& before, int64_t at, int64_t cost) {
    const int64_t gap = at - before.pixel, sum = at + before.pixel;
    if (Rule::metric == kEuclidean) return 1 + (gap * sum + cost - before.cost) / (2 * gap);
    if (Rule::metric == kTaxicab)
      return cost >= before.cost + gap ? kNever : 1 + (cost - before.cost + sum) / 2;
    if (before.cost <= cost) return 1 + std::max(before.pixel + cost, sum / 2);
    return 1 + std::min(at - before.cost, sum / 2);
  }

  static constexpr int64_t kNever = 1ll << 62;
  std::vector<Part> parts_;
  size_t next_ = 0;
};

}  // namespace valor
