// Orders detection records by (class, score descending, position of the image, index in the image).
#pragma once
#include <memory>
#include <vector>

#include "../core/curves.h"
#include "class_index.h"
#include "radix.h"

namespace valor {

// Rows of images, in the order that breaks ties of scores.
struct ImageRows {
  const int64_t *starts, *lengths;
  int64_t count;

  int64_t total() const {
    int64_t rows = 0;
    for (int64_t i = 0; i < count; ++i) rows += lengths[i];
    return rows;
  }
};

// Splits records by class and then sorts class by class, which any number of threads may do.
class RecordOrder {
 public:
  // Writes offsets [K + 1]. Rows beyond every limit, padding and labels that are not wanted are left out.
  RecordOrder(const uint8_t* records, int64_t row_bytes, int64_t limits, const ImageRows& images,
              const ClassIndex& index, int64_t classes, bool agnostic, int64_t* offsets)
      : offsets_(offsets), items_(new Keyed[images.total()]) {
    const std::unique_ptr<int32_t[]> class_of(new int32_t[images.total()]);
    const bool pooled = agnostic && classes > 0;
    std::fill(offsets, offsets + classes + 1, 0);
    each_row(records, row_bytes, images, [&](const uint8_t* row, int64_t, int64_t at) {
      const int32_t k = record_bucket(row) >= limits ? -1 : pooled ? 0 : index.of(record_label(row));
      class_of[at] = k;
      if (k >= 0) ++offsets[k + 1];
    });
    for (int64_t k = 0; k < classes; ++k) offsets[k + 1] += offsets[k];
    std::vector<int64_t> next(offsets, offsets + classes);
    each_row(records, row_bytes, images, [&](const uint8_t* row, int64_t number, int64_t at) {
      if (class_of[at] >= 0) items_[next[class_of[at]]++] = Keyed{descending_key(record_score(row)), number};
    });
  }

  struct Keyed {
    uint64_t key;
    int64_t row;
  };

  // Writes the row numbers of class k to their places in `order`.
  void sort(int64_t k, std::vector<Keyed>& spare, int64_t* order) const {
    Keyed* items = items_.get() + offsets_[k];
    const int64_t size = offsets_[k + 1] - offsets_[k];
    if (static_cast<int64_t>(spare.size()) < size) spare.resize(size);
    radix_sort(items, spare.data(), size, [](const Keyed& item) { return item.key; });
    for (int64_t i = 0; i < size; ++i) order[offsets_[k] + i] = items[i].row;
  }

 private:
  template <class Visit>
  static void each_row(const uint8_t* records, int64_t row_bytes, const ImageRows& images, Visit visit) {
    for (int64_t i = 0, at = 0; i < images.count; ++i) {
      const uint8_t* row = records + images.starts[i] * row_bytes;
      for (int64_t j = 0; j < images.lengths[i]; ++j, ++at, row += row_bytes)
        visit(row, images.starts[i] + j, at);
    }
  }

  const int64_t* offsets_;
  std::unique_ptr<Keyed[]> items_;  // not cleared at first, unlike a vector's
};

}  // namespace valor
