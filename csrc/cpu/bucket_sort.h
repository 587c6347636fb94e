// Sort of a few hundred items by real numbers: buckets of equal width, which hold about an item each where
// numbers are spread, then insertion. It takes a third of the time of a sort by comparison.
#pragma once
#include <stdint.h>

#include <algorithm>
#include <vector>

namespace valor {

// Sorts by descending number; memory is kept from one sort to the next.
template <class Item>
class BucketSort {
 public:
  // `number_of(item)` is a double or NaN, which descends, or stays, where items ascend by operator<. No two
  // items are equal.
  template <class NumberOf>
  void operator()(Item* items, int64_t count, const NumberOf& number_of) {
    if (count <= kFew) return insert(items, count);
    double low = number_of(items[0]), high = low;
    for (int64_t i = 1; i < count; ++i) {
      const double number = number_of(items[i]);
      low = number < low ? number : low, high = number > high ? number : high;
    }
    const int64_t buckets = 2 * count;
    const double last = static_cast<double>(buckets - 1), scale = last / (high - low);
    if (!(scale > 0.0 && scale <= kLargest))
      return std::sort(items, items + count);  // one number, or too far apart
    if (static_cast<int64_t>(ends_.size()) < buckets) ends_.resize(buckets);
    if (static_cast<int64_t>(bucket_.size()) < count) bucket_.resize(count), spare_.resize(count);
    std::fill_n(ends_.begin(), buckets, 0);
    for (int64_t i = 0; i < count; ++i) {
      const double place = (high - number_of(items[i])) * scale;
      bucket_[i] = static_cast<uint32_t>(place < last ? place : last);  // NaN, too, comes last
      ++ends_[bucket_[i]];
    }
    std::copy_n(items, count, spare_.begin());
    uint32_t total = 0, largest = 0;
    for (int64_t b = 0; b < buckets; ++b) {
      const uint32_t size = ends_[b];
      largest = std::max(largest, size);
      ends_[b] = total;
      total += size;
    }
    for (int64_t i = 0; i < count; ++i) items[ends_[bucket_[i]]++] = spare_[i];
    if (largest > kFew) sort_large(items, buckets);
    insert(items, count);
  }

 private:
  static constexpr int64_t kFew = 24;
  static constexpr double kLargest = 0x1p1000;

  static void insert(Item* items, int64_t count) {
    for (int64_t i = 1; i < count; ++i) {
      const Item item = items[i];
      int64_t at = i;
      for (; at > 0 && item < items[at - 1]; --at) items[at] = items[at - 1];
      items[at] = item;
    }
  }

  void sort_large(Item* items, int64_t buckets) const {
    uint32_t begin = 0;
    for (int64_t b = 0; b < buckets; begin = ends_[b++])
      if (ends_[b] - begin > kFew) std::sort(items + begin, items + ends_[b]);
  }

  std::vector<uint32_t> ends_, bucket_;
  std::vector<Item> spare_;
};

}  // namespace valor
