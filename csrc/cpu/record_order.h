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
  // Writes offsets [K + 1] and, class after class, row numbers in the order of the images. Rows beyond every
  // limit, padding and labels that are not wanted are left out.
  RecordOrder(const uint8_t* records, int64_t row_bytes, int64_t limits, const ImageRows& images,
              const ClassIndex& index, int64_t classes, bool agnostic, int64_t* offsets, int64_t* order)
      : records_(records), row_bytes_(row_bytes), offsets_(offsets), order_(order) {
    const std::unique_ptr<int32_t[]> class_of(new int32_t[images.total()]);  // not cleared at first
    const bool pooled = agnostic && classes > 0;
    std::fill(offsets, offsets + classes + 1, 0);
    each_row(images, [&](int64_t number, int64_t at) {
      const uint8_t* row = records + number * row_bytes;
      const int32_t k = record_bucket(row) >= limits ? -1 : pooled ? 0 : index.of(record_label(row));
      class_of[at] = k;
      if (k >= 0) ++offsets[k + 1];
    });
    for (int64_t k = 0; k < classes; ++k) offsets[k + 1] += offsets[k];
    std::vector<int64_t> next(offsets, offsets + classes);
    each_row(images, [&](int64_t number, int64_t at) {
      if (class_of[at] >= 0) order[next[class_of[at]]++] = number;
    });
  }

  struct Keyed {
    uint64_t key;
    int64_t row;
  };

  // What sorting needs: kept from class to class, since fresh memory costs more than the sort.
  struct Room {
    std::vector<Keyed> items, spare;
  };

  // Sorts the row numbers of class k.
  void sort(int64_t k, Room& room) const {
    const int64_t size = offsets_[k + 1] - offsets_[k];
    int64_t* rows = order_ + offsets_[k];
    room.items.resize(std::max<size_t>(room.items.size(), size));
    room.spare.resize(room.items.size());
    for (int64_t i = 0; i < size; ++i) {
      if (i + 16 < size) __builtin_prefetch(records_ + rows[i + 16] * row_bytes_);
      room.items[i] = Keyed{descending_key(record_score(records_ + rows[i] * row_bytes_)), rows[i]};
    }
    radix_sort(room.items.data(), room.spare.data(), size, [](const Keyed& item) { return item.key; });
    for (int64_t i = 0; i < size; ++i) rows[i] = room.items[i].row;
  }

 private:
  template <class Visit>
  static void each_row(const ImageRows& images, Visit visit) {
    for (int64_t i = 0, at = 0; i < images.count; ++i)
      for (int64_t j = 0; j < images.lengths[i]; ++j, ++at) visit(images.starts[i] + j, at);
  }

  const uint8_t* records_;
  int64_t row_bytes_;
  const int64_t* offsets_;
  int64_t* order_;
};

}  // namespace valor
