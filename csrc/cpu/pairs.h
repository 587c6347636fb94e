// Finds the pairs of a batch on the CPU by any similarity, see csrc/core/pairs.h: a list in memory of C++,
// until the host has arrays for it.
#pragma once
#include <algorithm>
#include <memory>
#include <vector>

#include "../core/pairs.h"
#include "pool.h"

namespace valor {

// Pairs of consecutive images, those of a detection by descending similarity.
struct PairPart {
  std::vector<int32_t> ground_truths;
  std::vector<double> similarities;
};
using PairList = std::vector<PairPart>;

// The pairs of one image: ground truths of a class side by side, so that a detection looks at no other.
class ImagePairs {
 public:
  // Adds the pairs of all detections of the image to `part`; offset()[d + 1] and used_rooms()[d] receive how
  // many detection d has.
  template <class Similarity>
  void run(const PairBatch& batch, const Similarity& similarity, int64_t image, PairPart& part) {
    const int64_t first = batch.first_detections()[image], end = batch.first_detections()[image + 1];
    first_gt_ = batch.first_gts()[image];
    const int64_t valid = valid_rows(batch.counts, image, end - first);
    group(batch, valid_rows(batch.gt_counts, image, batch.first_gts()[image + 1] - first_gt_));
    for (int64_t row = first; row < end; ++row) {
      found_.clear();
      if (row - first < valid) find(batch, similarity, row);
      std::sort(found_.begin(), found_.end());
      batch.used_rooms()[row] = static_cast<int32_t>(found_.size());
      batch.offset()[row + 1] = static_cast<int64_t>(found_.size());
      for (const Found& found : found_) {
        part.ground_truths.push_back(found.gt);
        part.similarities.push_back(found.similarity);
      }
    }
  }

 private:
  struct Found {
    double similarity;
    int32_t gt;
    bool operator<(const Found& other) const {
      return similarity != other.similarity ? similarity > other.similarity : gt > other.gt;
    }
  };

  void group(const PairBatch& batch, int64_t gts) {
    labels_.resize(gts);
    order_.resize(gts);
    crowd_.resize(gts);
    for (int64_t j = 0; j < gts; ++j) {
      labels_[j] = batch.gt_label(first_gt_ + j);
      order_[j] = static_cast<int32_t>(j);
      crowd_[j] = batch.is_crowd(first_gt_ + j);
    }
    std::stable_sort(order_.begin(), order_.end(),
                     [this](int32_t a, int32_t b) { return labels_[a] < labels_[b]; });
  }

  // Leaves in found_ the ground truths of the detection's class whose similarity reaches the lowest
  // threshold.
  template <class Similarity>
  void find(const PairBatch& batch, const Similarity& similarity, int64_t row) {
    const int64_t label = batch.label(row);
    auto at = std::lower_bound(order_.begin(), order_.end(), label,
                               [this](int32_t j, int64_t wanted) { return labels_[j] < wanted; });
    for (; at != order_.end() && labels_[*at] == label; ++at) {
      if (!similarity.may_reach(row, first_gt_ + *at, crowd_[*at])) continue;
      const double value = similarity(row, first_gt_ + *at, crowd_[*at]);
      if (value >= batch.lowest) found_.push_back(Found{value, *at});
    }
  }

  int64_t first_gt_ = 0;
  std::vector<int64_t> labels_;
  std::vector<int32_t> order_;
  std::vector<uint8_t> crowd_;
  std::vector<Found> found_;
};

// Lists the pairs of a batch, and writes to offset() where those of every detection begin in the list. `list`
// receives its address, for valor_collect_pairs_cpu.
template <class Similarity>
void find_pairs(const PairBatch& batch, const Similarity& similarity, int64_t threads, int64_t* list) {
  const int64_t grain = std::clamp<int64_t>(batch.images / 16, 1, 64);
  auto parts = std::make_unique<PairList>(static_cast<size_t>((batch.images + grain - 1) / grain));
  auto body = [&](int64_t begin, int64_t end) {
    thread_local ImagePairs pairs;
    PairPart& part = (*parts)[static_cast<size_t>(begin / grain)];
    for (int64_t image = begin; image < end; ++image) pairs.run(batch, similarity, image, part);
  };
  parallel_for(batch.images, grain, static_cast<int>(threads), body);
  batch.offset()[0] = 0;
  for (int64_t row = 0; row < batch.first_detections()[batch.images]; ++row)
    batch.offset()[row + 1] += batch.offset()[row];
  *list = reinterpret_cast<int64_t>(parts.release());
}

}  // namespace valor
