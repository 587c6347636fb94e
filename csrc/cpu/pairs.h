// Finds the pairs of a batch on the CPU by any similarity, see csrc/core/pairs.h: size_rooms, then fill_rooms
// once the host has made the rooms.
#pragma once
#include <algorithm>
#include <vector>

#include "../core/pairs.h"
#include "pool.h"

namespace valor {

// The pairs of one image: ground truths of a class side by side, so that a detection looks at no other.
class ImagePairs {
 public:
  // `kFill` writes the pairs into their rooms, else offset()[d + 1] receives how many detection d may have.
  template <bool kFill, class Similarity>
  void run(const PairBatch& batch, const Similarity& similarity, int64_t image) {
    const int64_t first = batch.first_detections()[image], end = batch.first_detections()[image + 1];
    first_gt_ = batch.first_gts()[image];
    const int64_t valid = valid_rows(batch.counts, image, end - first);
    group(batch, valid_rows(batch.gt_counts, image, batch.first_gts()[image + 1] - first_gt_));
    for (int64_t row = first; row < end; ++row) {
      const int32_t rooms = row - first < valid ? candidates(batch, similarity, row) : 0;
      if (kFill)
        fill(batch, similarity, row);
      else
        batch.offset()[row + 1] = rooms;
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

  // Leaves in candidates_ the ground truths of the detection's class that bounds do not rule out.
  template <class Similarity>
  int32_t candidates(const PairBatch& batch, const Similarity& similarity, int64_t row) {
    const int64_t label = batch.label(row);
    candidates_.clear();
    auto at = std::lower_bound(order_.begin(), order_.end(), label,
                               [this](int32_t j, int64_t wanted) { return labels_[j] < wanted; });
    for (; at != order_.end() && labels_[*at] == label; ++at)
      if (similarity.may_reach(row, first_gt_ + *at, crowd_[*at])) candidates_.push_back(*at);
    return static_cast<int32_t>(candidates_.size());
  }

  template <class Similarity>
  void fill(const PairBatch& batch, const Similarity& similarity, int64_t row) {
    found_.clear();
    for (const int32_t j : candidates_) {
      const double value = similarity(row, first_gt_ + j, crowd_[j]);
      if (value >= batch.lowest) found_.push_back(Found{value, j});
    }
    candidates_.clear();
    std::sort(found_.begin(), found_.end());
    int64_t pair = batch.offset()[row];
    batch.used_rooms()[row] = static_cast<int32_t>(found_.size());
    for (const Found& found : found_) {
      *batch.ground_truth(pair) = found.gt;
      *batch.similarity(pair++) = found.similarity;
    }
  }

  int64_t first_gt_ = 0;
  std::vector<int64_t> labels_;
  std::vector<int32_t> order_, candidates_;
  std::vector<uint8_t> crowd_;
  std::vector<Found> found_;
};

template <bool kFill, class Similarity>
void each_image(const PairBatch& batch, const Similarity& similarity, int64_t threads) {
  auto body = [&](int64_t begin, int64_t end) {
    thread_local ImagePairs pairs;
    for (int64_t image = begin; image < end; ++image) pairs.run<kFill>(batch, similarity, image);
  };
  parallel_for(batch.images, std::clamp<int64_t>(batch.images / 16, 1, 64), static_cast<int>(threads), body);
}

// Writes to offset() where the room of every detection begins, and the size of all at the end.
template <class Similarity>
void size_rooms(const PairBatch& batch, const Similarity& similarity, int64_t threads) {
  each_image<false>(batch, similarity, threads);
  batch.offset()[0] = 0;
  for (int64_t row = 0; row < batch.first_detections()[batch.images]; ++row)
    batch.offset()[row + 1] += batch.offset()[row];
}

// Writes the pairs into their rooms, and how many there are.
template <class Similarity>
void fill_rooms(const PairBatch& batch, const Similarity& similarity, int64_t threads) {
  each_image<true>(batch, similarity, threads);
}

}  // namespace valor
