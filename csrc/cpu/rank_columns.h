// One class at a time: where elements stand among its positives, and the AUROC and AP that follow.
#pragma once
#include <algorithm>
#include <vector>

#include "../core/ranks.h"
#include "radix.h"

namespace valor {

// The results of a class.
template <class Sum>
struct AurocAndAp {
  double auc, average;
  Sum positives, negatives;
};

// Sums in kLanes parts.
class LaneSum {
 public:
  void add(int64_t k, double value) { parts_[k % kLanes] += value; }
  double total() {
    for (int half = kLanes / 2; half > 0; half /= 2)
      for (int lane = 0; lane < half; ++lane) parts_[lane] += parts_[lane + half];
    return parts_[0];
  }

 private:
  double parts_[kLanes] = {};
};

// Areas of unweighted elements. `standing(first, last)` is asked for tie groups of the ascending positives,
// from the last to the first, and tells their `fp` and `above`.
template <class Key, class Standings>
AurocAndAp<int64_t> group_auroc_and_ap(const Key* positives, int64_t count, int64_t negatives,
                                       Standings standing) {
  LaneSum precisions;
  int64_t wins = 0;
  for (int64_t last = count - 1, first; last >= 0; last = first - 1) {
    for (first = last; first > 0 && positives[first - 1] == positives[last];) --first;
    Standing<int64_t> at = standing(first, last);
    at.tp = count - first;
    const double precision = precision_of(at);
    wins += (last - first + 1) * wins_of(at, negatives);
    for (int64_t i = last; i >= first; --i) precisions.add(count - 1 - i, precision);
  }
  return {auc_of(wins, count, negatives), average_of(precisions.total(), count), count, negatives};
}

// Areas of ascending positives and ascending negatives.
template <class Key>
AurocAndAp<int64_t> merged_auroc_and_ap(const Key* positives, int64_t count, const Key* downs,
                                        int64_t negatives) {
  int64_t left = negatives;  // negatives below the last group
  return group_auroc_and_ap(positives, count, negatives, [&](int64_t first, int64_t) {
    const Key score = positives[first];
    Standing<int64_t> at{};
    while (left > 0 && downs[left - 1] > score) --left;
    at.above = negatives - left;
    while (left > 0 && downs[left - 1] == score) --left;
    at.fp = negatives - left;
    return at;
  });
}

// Counts how many elements stand between neighbours among a few positives. A table by the upper bits of the
// key says where to look; the steps from there on are the same for every element, so that nothing is guessed
// by a branch.
template <class Key>
class Places {
 public:
  // `keys` ascend.
  void set(std::vector<Key> keys) {
    keys_ = std::move(keys);
    count_ = static_cast<int64_t>(keys_.size());
    at_.assign(count_ + 1, 0), equal_.assign(count_ + 1, 0);
    make_table();
    keys_.resize(count_ + most_, ~Key{0});
  }

  // At most kMost elements.
  void count(const Key* keys, int64_t size) {
    if (count_ == 0) return;
    uint32_t place[kMost];
    find(keys, size, place);
    for (int64_t i = 0; i < size; ++i) {
      const uint32_t at = place[i];
      ++at_[at];
      if (at > 0 && keys_[at - 1] == keys[i]) ++equal_[at - 1];
    }
  }

  // When the positives themselves were among the elements.
  void leave_out_positives() {
    for (int64_t last = count_ - 1, first; last >= 0; last = first - 1) {
      for (first = last; first > 0 && keys_[first - 1] == keys_[last];) --first;
      const uint32_t size = static_cast<uint32_t>(last - first + 1);
      at_[last + 1] -= size, equal_[last] -= size;
    }
  }

  AurocAndAp<int64_t> auroc_and_ap(int64_t negatives) const {
    int64_t above = 0, next = count_;
    return group_auroc_and_ap(keys_.data(), count_, negatives, [&](int64_t, int64_t last) {
      for (; next > last; --next) above += at_[next];
      return Standing<int64_t>{0, above, above - equal_[last]};
    });
  }

  static constexpr int64_t kMost = 512;

 private:
  static constexpr int64_t kBlock = 64;

  void make_table() {
    lowest_ = count_ ? keys_.front() : 0;
    const Key range = count_ ? keys_.back() - lowest_ : 0;
    buckets_ = 256;
    while (buckets_ < 1 << 16 && buckets_ < count_) buckets_ *= 2;
    for (shift_ = 0; (range >> shift_) >= static_cast<Key>(buckets_ - 1);) ++shift_;
    start_.assign(buckets_ + 2, static_cast<uint32_t>(count_));
    most_ = 0;
    for (int64_t b = 0, i = 0; b <= buckets_; ++b) {
      start_[b] = static_cast<uint32_t>(i);
      while (i < count_ && bucket(keys_[i]) == b) ++i;
      most_ = std::max<int64_t>(most_, i - start_[b]);
    }
  }

  // 0 below the lowest positive.
  int64_t bucket(Key key) const {
    const Key up = (key - lowest_) >> shift_, top = static_cast<Key>(buckets_ - 1);
    return key < lowest_ ? 0 : static_cast<int64_t>(up < top ? up : top) + 1;
  }

  // How many positives are at or below each element.
  void find(const Key* keys, int64_t size, uint32_t* place) const {
    for (int64_t begin = 0; begin < size; begin += kBlock) {
      const int64_t block = std::min(kBlock, size - begin);
      uint32_t at[kBlock];
      for (int64_t i = 0; i < block; ++i) at[i] = start_[bucket(keys[begin + i])];
      int64_t length = most_;
      for (; length > 1; length -= length / 2) {
        const uint32_t half = static_cast<uint32_t>(length / 2);
        const Key* middle = keys_.data() + half - 1;
        for (int64_t i = 0; i < block; ++i) at[i] += half & (0u - (middle[at[i]] <= keys[begin + i]));
      }
      for (int64_t i = 0; i < block; ++i) place[begin + i] = at[i] + (keys_[at[i]] <= keys[begin + i]);
    }
  }

  std::vector<Key> keys_;  // ascending, then room for a search from the last bucket
  std::vector<uint32_t> start_;
  std::vector<uint32_t> at_, equal_;  // elements by their place; those equal to the last of a tie group
  Key lowest_ = 0;
  int64_t count_ = 0, buckets_ = 0, most_ = 0;
  int shift_ = 0;
};

}  // namespace valor
