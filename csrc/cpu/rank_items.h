// One class at a time: all its elements in order, for weighted AUROC and AP and for curves.
#pragma once
#include <vector>

#include "rank_columns.h"

namespace valor {

// An element: its key upside down, so that ascending items descend by score; 2 * row + whether it is
// positive.
template <class Key>
struct Ranked {
  Key down;
  uint32_t tag;
  bool positive() const { return tag & 1; }
  uint32_t row() const { return tag >> 1; }
};

template <class Key>
struct RankedRange {
  const Ranked<Key>* items;
  int64_t count;
};

// Elements of some columns.
template <class Key>
class Columns {
 public:
  using Item = Ranked<Key>;
  Columns(int64_t width, int64_t rows) : rows_(rows), items_(width * rows), counts_(width, 0) {}

  void add(int64_t j, int64_t row, const Key* keys, const uint8_t* positive, int64_t count) {
    Item* to = items_.data() + j * rows_;
    int64_t at = counts_[j];
    for (int64_t i = 0; i < count; ++i) {
      if (keys[i] == 0) continue;
      to[at++] = {static_cast<Key>(~keys[i]), static_cast<uint32_t>(2 * (row + i) + positive[i])};
    }
    counts_[j] = at;
  }

  // By descending score, equal ones by row.
  RankedRange<Key> sorted(int64_t j) {
    spare_.resize(counts_[j]);
    Item* items = items_.data() + j * rows_;
    radix_sort(items, spare_.data(), counts_[j], [](const Item& item) { return item.down; });
    return {items, counts_[j]};
  }

 private:
  const int64_t rows_;
  std::vector<Item> items_, spare_;
  std::vector<int64_t> counts_;
};

// Running sums of positives and negatives; float64 ones go in kLanes stretches. Each is the sum of the whole
// stretches before plus that in its own, which keeps them from falling.
template <class Sum>
class Running {
 public:
  explicit Running(int64_t count) : size_((count + kLanes - 1) / kLanes), left_(size_) {}
  void add(bool positive, Sum weight) {
    if (left_ == 0) {
      for (int side = 0; side < 2; ++side) before_[side] += inside_[side], inside_[side] = 0;
      left_ = size_;
    }
    --left_;
    inside_[positive] += weight;
  }
  Sum tp() const { return before_[1] + inside_[1]; }
  Sum fp() const { return before_[0] + inside_[0]; }

 private:
  const int64_t size_;
  int64_t left_;
  Sum before_[2] = {}, inside_[2] = {};
};

// The weight of an element: a number from the rows' list, or 1.
struct RowWeights {
  using Sum = double;
  const double* weights;
  template <class Item>
  double operator()(const Item& item) const {
    return weights[item.row()];
  }
};
struct NoWeights {
  using Sum = int64_t;
  template <class Item>
  int64_t operator()(const Item&) const {
    return 1;
  }
};

// Calls visit(first, last, standing) for every tie group; returns the sums of all.
template <class Key, class Weights, class Visit>
Standing<typename Weights::Sum> for_groups(const RankedRange<Key>& range, const Weights& weights,
                                           const Visit& visit) {
  Running<typename Weights::Sum> sums(range.count);
  Standing<typename Weights::Sum> at{};
  for (int64_t first = 0, end; first < range.count; first = end) {
    at.above = at.fp;
    for (end = first; end < range.count && range.items[end].down == range.items[first].down; ++end)
      sums.add(range.items[end].positive(), weights(range.items[end]));
    at.tp = sums.tp(), at.fp = sums.fp();
    visit(first, end - 1, at);
  }
  return at;
}

template <class Key>
AurocAndAp<double> weighted_auroc_and_ap(const RankedRange<Key>& range, const double* row_weights) {
  const RowWeights weights{row_weights};
  const Standing<double> all = for_groups(range, weights, [](int64_t, int64_t, const auto&) {});
  LaneSum wins, precisions;
  int64_t k = 0;
  for_groups(range, weights, [&](int64_t first, int64_t last, const Standing<double>& at) {
    const double won = wins_of(at, all.fp), precision = precision_of(at);
    for (int64_t i = first; i <= last; ++i) {
      if (!range.items[i].positive()) continue;
      const double weight = weights(range.items[i]);
      wins.add(k, weight * won);
      precisions.add(k++, weight * precision);
    }
  });
  return {auc_of(wins.total(), all.tp, all.fp), average_of(precisions.total(), all.tp), all.tp, all.fp};
}

// Where the points of a class go: room for as many as it has rows.
template <class Raw, class Sum>
struct Points {
  Raw* thresholds;
  Sum *tp, *fp;
};

// Writes a point a distinct score, from the largest; returns how many.
template <class Order, class Weights>
int64_t write_points(const RankedRange<typename Order::Key>& range, const Weights& weights,
                     const Points<typename Order::Raw, typename Weights::Sum>& to) {
  int64_t points = 0;
  for_groups(range, weights, [&](int64_t first, int64_t, const auto& at) {
    to.thresholds[points] = Order::raw(static_cast<typename Order::Key>(~range.items[first].down));
    to.tp[points] = at.tp, to.fp[points++] = at.fp;
  });
  return points;
}

}  // namespace valor
