// Run lengths to run lengths of boundaries on the CPU: columns of bits between, masks split over threads.
#include "../core/boundary.h"

#include <algorithm>
#include <vector>

#include "../core/runs.h"
#include "guard.h"
#include "run_list.h"
#include "simd.h"

namespace valor {
namespace {

// Word i of the result is the AND of words i, i + stride, ..., i + (length - 1) * stride, in place; valid for
// the first count - (length - 1) * stride words. Each pass doubles what a word stands for.
VALOR_CLONES void and_windows(uint64_t* words, int64_t count, int64_t stride, int64_t length) {
  int64_t done = 1;
  auto by = [&](int64_t step) {
    const int64_t end = count - (done + step - 1) * stride;
    const uint64_t* const later = words + step * stride;
    for (int64_t i = 0; i < end; ++i) words[i] &= later[i];
    done += step;
  };
  while (2 * done <= length) by(done);
  if (done < length) by(length - done);
}

VALOR_CLONES void remove_bits(uint64_t* from, const uint64_t* bits, int64_t count) {
  for (int64_t i = 0; i < count; ++i) from[i] &= ~bits[i];
}

// Makes the boundary of one mask after another.
class BoundaryMaker {
 public:
  // Adds the runs of the boundary of a mask to `out`.
  void add(const Runs& masks, int64_t mask, int32_t distance, std::vector<int32_t>& out) {
    height_ = static_cast<uint32_t>(masks.height(mask));
    distance_ = static_cast<uint32_t>(distance);
    changes_.clear();
    if (masks.pixels(mask)) {
      list_intervals(masks.begin(mask), masks.size(mask));
      if (is_thin()) {
        for (const Interval& run : intervals_) changes_.insert(changes_.end(), {run.begin, run.end});
      } else {
        load();
        erode();
        for (int64_t c = 0; c < columns_; ++c) find_changes(c);
        forget_large();
      }
    }
    const uint32_t pixels = static_cast<uint32_t>(masks.pixels(mask));
    if (!changes_.empty() && changes_.back() == pixels) changes_.pop_back();
    uint32_t before = 0;
    for (const uint32_t change : changes_) {
      out.push_back(static_cast<int32_t>(change - before));
      before = change;
    }
    out.push_back(static_cast<int32_t>(pixels - before));
  }

 private:
  static constexpr size_t kKeptWords = 1 << 17;  // a megabyte, 8 million pixels

  void list_intervals(const int32_t* counts, int64_t runs) {
    intervals_.clear();
    for_each_run(counts, runs, [&](uint32_t begin, uint32_t end) {
      if (!intervals_.empty() && intervals_.back().end == begin)
        intervals_.back().end = end;
      else
        intervals_.push_back(Interval{begin, end});
    });
    first_ = intervals_.empty() ? 0 : intervals_.front().begin / height_;
    columns_ = intervals_.empty() ? 0 : (intervals_.back().end - 1) / height_ + 1 - first_;
  }

  // Whether no pixel is so far inside that it is eroded. Its columns of bits may take 16 bytes a pixel.
  bool is_thin() const {
    const int64_t window = 2 * static_cast<int64_t>(distance_) + 1;
    return height_ < window || columns_ < window;
  }

  // Fills the columns from the first to the last with a pixel: all pixels, and those that are left when every
  // column is eroded.
  void load() {
    words_ = (height_ + 63) / 64;
    mask_.assign(columns_ * words_, 0);
    eroded_.assign(columns_ * words_, 0);
    for (const Interval& run : intervals_) {
      for (uint32_t column = run.begin / height_, top = run.begin; top < run.end; ++column) {
        const uint32_t start = column * height_;  // below 2^31, as pixels are
        const uint32_t from = top - start, to = std::min(run.end - start, height_);
        const int64_t at = (column - first_) * words_;
        set_bits(mask_.data() + at, from, to);
        if (to - from > 2 * static_cast<uint64_t>(distance_))
          set_bits(eroded_.data() + at, from + distance_, to - distance_);
        top = start + to;
      }
    }
  }

  // Leaves the boundary in mask_.
  void erode() {
    const int64_t window = 2 * static_cast<int64_t>(distance_) + 1;
    and_windows(eroded_.data(), columns_ * words_, words_, window);
    remove_bits(mask_.data() + distance_ * words_, eroded_.data(), (columns_ - window + 1) * words_);
  }

  void forget_large() {
    if (mask_.capacity() <= kKeptWords) return;
    std::vector<uint64_t>().swap(mask_);
    std::vector<uint64_t>().swap(eroded_);
  }

  // Where pixels begin and end; a run that goes on in the next column does not end.
  void find_changes(int64_t column) {
    const uint64_t* const words = mask_.data() + column * words_;
    const uint32_t start = static_cast<uint32_t>(first_ + column) * height_;
    uint64_t before = 0;
    for (int64_t j = 0; j < words_; ++j) {
      for (uint64_t bits = words[j] ^ (words[j] << 1 | before); bits; bits &= bits - 1)
        note(start + static_cast<uint32_t>(64 * j + __builtin_ctzll(bits)));
      before = words[j] >> 63;
    }
    if (before) note(start + height_);  // the last bit of the last word; any other end has a bit of its own
  }

  void note(uint32_t place) {
    if (!changes_.empty() && changes_.back() == place)
      changes_.pop_back();
    else
      changes_.push_back(place);
  }

  struct Interval {
    uint32_t begin, end;
  };
  uint32_t height_ = 0, distance_ = 0;
  int64_t first_ = 0, columns_ = 0, words_ = 0;
  std::vector<Interval> intervals_;
  std::vector<uint64_t> mask_, eroded_;
  std::vector<uint32_t> changes_;
};

}  // namespace
}  // namespace valor

// Finds the boundaries of masks at a distance each, int32 [N], at least 1; `list` receives what
// valor_collect_runs_cpu takes, `offsets` [N + 1] where the runs of a mask begin.
VALOR_API int32_t valor_boundary_runs_cpu(const void* run_words, const int32_t* distances, int64_t* offsets,
                                          int64_t* list, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const Runs& masks = *static_cast<const Runs*>(run_words);
    auto made = list_runs(masks.masks, 8, static_cast<int>(threads), offsets,
                          [&](int64_t mask, std::vector<int32_t>& out) {
                            thread_local BoundaryMaker maker;
                            maker.add(masks, mask, distances[mask], out);
                          });
    *list = reinterpret_cast<int64_t>(made.release());
  });
}
