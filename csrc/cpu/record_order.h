// Orders detection records by (class, score descending, position of the image, index in the image).
#pragma once
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "../core/curves.h"
#include "class_index.h"
#include "pool.h"
#include "radix.h"
#include "record_rows.h"

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
              const ClassIndex& index, int64_t classes, bool agnostic, int64_t* offsets, int64_t* order,
              int64_t threads)
      : records_(records), row_bytes_(row_bytes), offsets_(offsets), order_(order) {
    const int64_t total = images.total();
    const std::unique_ptr<int32_t[]> class_of(new int32_t[total]);  // not cleared at first
    const bool pooled = agnostic && classes > 0;
    const std::vector<Part> parts = split(images, total, threads);
    std::vector<int64_t> next(parts.size() * classes);  // [parts, K]: rows at first, then where they go
    each_part(parts, threads, [&](const Part& part) {
      int64_t* counts = next.data() + part.number * classes;
      each_row(images, part, [&](int64_t number, int64_t at) {
        const uint8_t* row = records + number * row_bytes;
        const int32_t k = record_bucket(row) >= limits ? -1 : pooled ? 0 : index.of(record_label(row));
        class_of[at] = k;
        if (k >= 0) ++counts[k];
      });
    });
    int64_t end = 0;
    for (int64_t k = 0; k < classes; ++k) {
      offsets[k] = end;
      for (const Part& part : parts) {
        const int64_t rows = std::exchange(next[part.number * classes + k], end);
        end += rows;
      }
    }
    offsets[classes] = end;
    each_part(parts, threads, [&](const Part& part) {
      int64_t* places = next.data() + part.number * classes;
      each_row(images, part, [&](int64_t number, int64_t at) {
        if (class_of[at] >= 0) order[places[class_of[at]]++] = number;
      });
    });
  }

  struct Keyed {
    uint64_t key;
    int64_t row;
  };

  // What sorting needs: kept from class to class, since fresh memory costs more than the sort.
  class Room {
   public:
    // Two arrays of `size` items, which are not cleared.
    std::pair<Keyed*, Keyed*> of(int64_t size) {
      if (size > size_) items_.reset(new Keyed[2 * size]), size_ = size;
      return {items_.get(), items_.get() + size_};
    }

   private:
    std::unique_ptr<Keyed[]> items_;
    int64_t size_ = 0;
  };

  // Sorts the row numbers of class k.
  void sort(int64_t k, Room& room) const {
    const int64_t size = offsets_[k + 1] - offsets_[k];
    int64_t* rows = order_ + offsets_[k];
    const auto [items, spare] = room.of(size);
    for (int64_t i = 0; i < size; ++i) {
      if (i + 16 < size) prefetch_record(records_ + rows[i + 16] * row_bytes_, row_bytes_);
      items[i] = Keyed{descending_key(record_score(records_ + rows[i] * row_bytes_)), rows[i]};
    }
    radix_sort(items, spare, size, [](const Keyed& item) { return item.key; });
    for (int64_t i = 0; i < size; ++i) rows[i] = items[i].row;
  }

 private:
  // Images that one thread splits by class, and how many rows come before them.
  struct Part {
    int64_t number, begin, end, at;
  };

  static constexpr int64_t kRowsOfPart = 1 << 16;  // about half a millisecond

  static std::vector<Part> split(const ImageRows& images, int64_t total, int64_t threads) {
    const int64_t wanted = std::max<int64_t>(1, std::min(threads, total / kRowsOfPart));
    std::vector<Part> parts{{0, 0, images.count, 0}};
    for (int64_t i = 0, at = 0; i < images.count; at += images.lengths[i++]) {
      const int64_t number = static_cast<int64_t>(parts.size());
      if (number == wanted || at < total / wanted * number) continue;
      parts.back().end = i;
      parts.push_back({number, i, images.count, at});
    }
    return parts;
  }

  template <class Work>
  static void each_part(const std::vector<Part>& parts, int64_t threads, const Work& work) {
    auto body = [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) work(parts[p]);
    };
    parallel_for(static_cast<int64_t>(parts.size()), 1, static_cast<int>(threads), body);
  }

  template <class Visit>
  static void each_row(const ImageRows& images, const Part& part, const Visit& visit) {
    int64_t at = part.at;
    for (int64_t i = part.begin; i < part.end; ++i)
      for (int64_t j = 0; j < images.lengths[i]; ++j, ++at) visit(images.starts[i] + j, at);
  }

  const uint8_t* records_;
  int64_t row_bytes_;
  const int64_t* offsets_;
  int64_t* order_;
};

}  // namespace valor
