// Which images count, and the order in which they break ties of scores.
#pragma once
#include <stdint.h>

#include <algorithm>
#include <vector>

#include "radix.h"

namespace valor {

// A row of the images table, see docs/design/001-detection-records.md.
struct ImageRow {
  int64_t id, has_id, ground_truth_hash, record_hash, detections, ground_truths, negative_sizes, reaches;
};
static_assert(sizeof(ImageRow) == 8 * 8, "ImageRow holds int64 fields only");

// What the copies of images come to.
struct Repeats {
  int64_t conflict = 0, conflict_id = 0;   // an id that came with two different ground truths
  int64_t other_copies = 0, other_id = 0;  // copies with other detections, and the id of the first
};

class ImageOrder {
 public:
  ImageOrder(const ImageRow* rows, int64_t count) : rows_(rows), count_(count) {}

  // Rows of the table that count, by key or by arrival: of the copies of an id the one with the smallest
  // record hash.
  std::vector<int64_t> without_repeats(bool by_key, Repeats& repeats) const {
    std::vector<int64_t> kept;
    kept.reserve(count_);
    const std::vector<Keyed> unnamed = sorted(false), named = sorted(true);
    for (const Keyed& image : unnamed) kept.push_back(image.row);
    for (int64_t at = 0, size = static_cast<int64_t>(named.size()), next; at < size; at = next) {
      for (next = at + 1; next < size && named[next].key == named[at].key;) ++next;
      kept.push_back(next == at + 1 ? named[at].row : first_copy(&named[at], &named[next], repeats));
    }
    if (!by_key) std::sort(kept.begin(), kept.end());
    return kept;
  }

 private:
  struct Keyed {
    uint64_t key;
    int64_t row;
  };

  // The images with an id, or those without, by ascending id (or content hash), then by arrival.
  std::vector<Keyed> sorted(bool with_id) const {
    std::vector<Keyed> images;
    images.reserve(count_);
    for (int64_t row = 0; row < count_; ++row)
      if ((rows_[row].has_id != 0) == with_id)
        images.push_back({static_cast<uint64_t>(rows_[row].id) ^ (1ull << 63), row});
    const auto before = [](const Keyed& a, const Keyed& b) { return a.key < b.key; };
    if (std::is_sorted(images.begin(), images.end(), before)) return images;
    std::vector<Keyed> spare(images.size());
    radix_sort(images.data(), spare.data(), static_cast<int64_t>(images.size()),
               [](const Keyed& image) { return image.key; });
    return images;
  }

  int64_t first_copy(const Keyed* begin, const Keyed* end, Repeats& repeats) const {
    std::vector<int64_t> copies;
    for (const Keyed* image = begin; image < end; ++image) copies.push_back(image->row);
    std::stable_sort(copies.begin(), copies.end(),
                     [&](int64_t a, int64_t b) { return rows_[a].record_hash < rows_[b].record_hash; });
    for (size_t i = 1; i < copies.size(); ++i) {
      const ImageRow &first = rows_[copies[i - 1]], &second = rows_[copies[i]];
      if (first.ground_truth_hash != second.ground_truth_hash && !repeats.conflict) {
        repeats.conflict = 1;
        repeats.conflict_id = first.id;
      }
      if (first.record_hash != second.record_hash && repeats.other_copies++ == 0) repeats.other_id = first.id;
    }
    return copies[0];
  }

  const ImageRow* rows_;
  int64_t count_;
};

}  // namespace valor
