// CPU driver of panoptic quality: each image by one thread, in one pass over runs of its pixels.
#include "../core/panoptic.h"

#include <algorithm>
#include <vector>

#include "guard.h"
#include "rows.h"

namespace valor {
namespace {

constexpr int64_t kTile = 1024;  // pixels whose segments are numbered at a time

// Numbers of pairs of words, from 0 on in order of their first appearance.
class Numbers {
 public:
  explicit Numbers() { clear(); }
  void clear() {
    if (keys_.size() * 8 < slots_.size() || slots_.empty())
      slots_.assign(64, -1);
    else
      std::fill(slots_.begin(), slots_.end(), -1);
    keys_.clear();
  }
  int64_t size() const { return static_cast<int64_t>(keys_.size()); }
  int32_t find(int64_t first, int64_t second) {
    int64_t slot = slot_of(first, second);
    for (; slots_[slot] >= 0; slot = (slot + 1) & mask()) {
      const Key& key = keys_[slots_[slot]];
      if (key.first == first && key.second == second) return slots_[slot];
    }
    const int32_t number = static_cast<int32_t>(keys_.size());
    slots_[slot] = number;
    keys_.push_back({first, second});
    if (2 * keys_.size() > slots_.size()) grow();
    return number;
  }
  int64_t first(int64_t number) const { return keys_[number].first; }
  int64_t second(int64_t number) const { return keys_[number].second; }

 private:
  struct Key {
    int64_t first, second;
  };

  int64_t mask() const { return static_cast<int64_t>(slots_.size()) - 1; }
  int64_t slot_of(int64_t first, int64_t second) const {
    const uint64_t word =
        static_cast<uint64_t>(second) + 0x9e3779b97f4a7c15ull * static_cast<uint64_t>(first);
    return static_cast<int64_t>(mix(word)) & mask();
  }
  void grow() {
    slots_.assign(4 * slots_.size(), -1);
    for (size_t number = 0; number < keys_.size(); ++number) {
      int64_t slot = slot_of(keys_[number].first, keys_[number].second);
      while (slots_[slot] >= 0) slot = (slot + 1) & mask();
      slots_[slot] = static_cast<int32_t>(number);
    }
  }

  std::vector<int32_t> slots_;
  std::vector<Key> keys_;
};

struct Segment {
  int64_t category, flags;  // category -1: void
  int64_t area = 0;
  int64_t on_void = 0;   // pixels that are void on the other side
  int64_t on_crowd = 0;  // pixels on the crowd that excuses
  bool matched = false;
};

// The segments of one side of an image. Number 0 is void.
class Side {
 public:
  Side(const PanopticSide& side, ValueError kind) : side_(side), kind_(kind) {}

  void clear() {
    numbers_.clear();
    segments_.assign(1, Segment{-1, 0});
    whole_.assign(static_cast<size_t>(side_.entries), -1);
    entry_known_ = segment_known_ = false;
    bad_pixel_ = -1;
  }
  std::vector<Segment>& segments() { return segments_; }
  ValueError kind() const { return kind_; }
  int64_t bad_pixel() const { return bad_pixel_; }  // the first of an image, -1 where there is none

  // Numbers of the segments of neighbouring pixels.
  void number_tile(const PixelPlace& place, int64_t pixel, int64_t count, int32_t* numbers) {
    if (side_.map.type == kRgb24) return number_pixels<Rgb24>(place, pixel, count, numbers);
    with_label(side_.map.type, [&](auto zero) {
      using T = decltype(zero);
      number_pixels<T>(place, pixel, count, numbers);
    });
  }
  void write_areas() const {
    if (side_.areas == nullptr) return;
    std::fill_n(side_.areas, side_.entries, 0);
    for (size_t number = 1; number < segments_.size(); ++number)
      side_.areas[numbers_.first(static_cast<int64_t>(number) - 1)] += segments_[number].area;
  }

 private:
  template <class T>
  void number_pixels(const PixelPlace& place, int64_t pixel, int64_t count, int32_t* numbers) {
    const T* values = side_.map.at<T>(place.image, place.row, place.column);
    const int64_t step = side_.map.pixel_stride, instance_stride = side_.instance_stride;
    for (int64_t i = 0; i < count; ++i, values += step) {
      const int64_t key = values[0], instance = instance_stride ? int64_t{values[instance_stride]} : 0;
      if (!segment_known_ || key != key_ || instance != instance_) find(key, instance, pixel + i);
      numbers[i] = number_;
    }
  }
  void find(int64_t key, int64_t instance, int64_t pixel) {
    if (!entry_known_ || key != key_) {
      entry_ = side_.find(key);
      entry_known_ = true;
      if (entry_ < 0 && bad_pixel_ < 0 && side_.is_bad(key)) bad_pixel_ = pixel;
    }
    key_ = key, instance_ = instance, segment_known_ = true;
    if (entry_ < 0)
      number_ = 0;
    else if (side_.values[entry_] & kInstances)
      number_ = number_of(instance);
    else if ((number_ = whole_[entry_]) < 0)
      number_ = whole_[entry_] = number_of(0);
  }
  int32_t number_of(int64_t instance) {
    const int32_t number = numbers_.find(entry_, instance) + 1;
    const int64_t value = side_.values[entry_];
    if (number == static_cast<int64_t>(segments_.size()))
      segments_.push_back(Segment{value >> kEntryBits, value & ((1 << kEntryBits) - 1)});
    return number;
  }

  const PanopticSide& side_;
  const ValueError kind_;
  Numbers numbers_;  // of entry and instance
  std::vector<Segment> segments_;
  std::vector<int32_t> whole_;  // numbers of entries without instances, -1 where they have none yet
  bool entry_known_ = false, segment_known_ = false;
  int64_t key_ = 0, instance_ = 0, entry_ = -1;  // of the last pixel
  int32_t number_ = 0;
  int64_t bad_pixel_ = -1;
};

// Counts one image after another.
class Counter {
 public:
  explicit Counter(const PanopticTask& task)
      : task_(task), preds_(task.preds, kPrediction), target_(task.target, kTarget) {}

  // Adds an image to its table; returns the first error.
  int64_t count(int64_t image, int64_t* table) {
    preds_.clear(), target_.clear(), pairs_.clear(), shared_.clear();
    count_pixels(image * task_.pixels());
    match(table);
    count_unmatched(table);
    preds_.write_areas(), target_.write_areas();
    return std::min(error_of(preds_), error_of(target_));
  }

 private:
  void count_pixels(int64_t first) {
    int32_t predicted[kTile], truth[kTile];
    int32_t last[2] = {0, 0};
    int64_t run = 0;
    const int64_t end = first + task_.pixels();
    PixelPlace place(task_, first);
    for (int64_t pixel = first, count; pixel < end; pixel += count, place.advance(task_, count)) {
      count = std::min({kTile, end - pixel, task_.columns - place.column});
      preds_.number_tile(place, pixel, count, predicted);
      target_.number_tile(place, pixel, count, truth);
      for (int64_t i = 0; i < count; ++i, ++run) {
        if (predicted[i] == last[0] && truth[i] == last[1]) continue;
        add(last[0], last[1], run);
        last[0] = predicted[i], last[1] = truth[i], run = 0;
      }
    }
    add(last[0], last[1], run);
  }
  void add(int32_t predicted, int32_t truth, int64_t pixels) {
    Segment &segment = preds_.segments()[predicted], &other = target_.segments()[truth];
    segment.area += pixels, other.area += pixels;
    if (truth == 0) segment.on_void += pixels;
    if (predicted == 0) other.on_void += pixels;
    if (truth == 0 || predicted == 0 || segment.category != other.category) return;
    const int32_t pair = pairs_.find(predicted, truth);
    if (pair == static_cast<int64_t>(shared_.size())) shared_.push_back(0);
    shared_[pair] += pixels;
  }
  void match(int64_t* table) {
    for (int64_t pair = 0; pair < pairs_.size(); ++pair) {
      Segment& segment = preds_.segments()[pairs_.first(pair)];
      Segment& other = target_.segments()[pairs_.second(pair)];
      const int64_t common = shared_[pair];
      if (other.flags & kExcuses) segment.on_crowd += common;
      if (other.flags & kCrowd) continue;
      const int64_t ignored = task_.ignores_voids ? other.on_void : 0;
      const int64_t together = segment.area - segment.on_void + other.area - ignored - common;
      if (segment.category < task_.modified && !is_match(common, together)) continue;
      segment.matched = other.matched = true;
      const FixedIou iou(common, together);
      for (int i = 0; i < 3; ++i) cell(table, kIouHigh + i, segment) += iou.words[i];
      if (segment.category < task_.modified) ++cell(table, kTruePositives, segment);
    }
  }
  void count_unmatched(int64_t* table) {
    for (const Segment& segment : preds_.segments()) {
      if (segment.category < 0) continue;
      ++cell(table, kPredicted, segment);
      if (segment.matched || segment.category >= task_.modified) continue;
      if (!is_mostly(segment.on_void + segment.on_crowd, segment.area))
        ++cell(table, kFalsePositives, segment);
    }
    for (const Segment& segment : target_.segments()) {
      if (segment.category < 0 || segment.flags & kCrowd) continue;
      ++cell(table, kTrue, segment);
      if (segment.category >= task_.modified)
        ++cell(table, kTruePositives, segment);
      else if (!segment.matched && !(task_.ignores_voids && is_mostly(segment.on_void, segment.area)))
        ++cell(table, kFalseNegatives, segment);
    }
  }
  int64_t& cell(int64_t* table, int row, const Segment& segment) const {
    return table[row * task_.classes + segment.category];
  }
  int64_t error_of(const Side& side) const {
    const int64_t pixel = side.bad_pixel();
    if (pixel < 0) return kNoError;
    return value_error(pixel / task_.pixels(), pixel % task_.pixels(), side.kind());
  }

  const PanopticTask& task_;
  Side preds_, target_;
  Numbers pairs_;  // of segments of one category that share pixels
  std::vector<int64_t> shared_;
};

void count_images(const PanopticTask& task, int64_t* tables, int64_t* error, int64_t threads) {
  over_rows(task.images, 1, threads, error, [&](int64_t begin, int64_t end) {
    Counter counter(task);
    int64_t found = kNoError;
    for (int64_t image = begin; image < end; ++image)
      found = std::min(found, counter.count(image, tables + image * kCells * task.classes));
    return found;
  });
}

}  // namespace
}  // namespace valor

// Adds to tables [images, kCells, classes] and lowers `error`. task_words are a PanopticTask.
VALOR_API int32_t valor_count_panoptic_cpu(const void* task_words, int64_t* tables, int64_t* error,
                                           int64_t threads) {
  return valor::guarded([&] {
    valor::count_images(*static_cast<const valor::PanopticTask*>(task_words), tables, error, threads);
  });
}
