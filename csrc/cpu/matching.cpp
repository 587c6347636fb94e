// CPU driver of COCO matching: images are split over threads, one lane works on an image.
#include "../core/matching.h"

#include <algorithm>
#include <vector>

#include "guard.h"
#include "pool.h"

namespace valor {
namespace {

// Maps labels to small consecutive slots, one image at a time; a change of stamp clears. Small labels have a
// place of their own, others share an open-addressed table.
class Slots {
 public:
  void begin(int64_t most) {
    size_t size = 16;
    while (size < 2 * static_cast<size_t>(most)) size *= 2;
    if (entries_.size() < kSmall + size) entries_.assign(kSmall + size, Entry{0, 0, 0});
    mask_ = size - 1;
    ++stamp_;
    used_ = 0;
  }
  int32_t of(int64_t label) {
    size_t at = static_cast<size_t>(label);
    if (at >= kSmall) {
      at = mix(at) & mask_;
      while (entries_[kSmall + at].stamp == stamp_ && entries_[kSmall + at].label != label)
        at = (at + 1) & mask_;
      at += kSmall;
    }
    Entry& entry = entries_[at];
    if (entry.stamp != stamp_) entry = Entry{label, stamp_, used_++};
    return entry.slot;
  }
  int32_t used() const { return used_; }

 private:
  static constexpr size_t kSmall = 2048;
  struct Entry {
    int64_t label;
    uint64_t stamp;
    int32_t slot;
  };
  std::vector<Entry> entries_;
  size_t mask_ = 0;
  uint64_t stamp_ = 0;
  int32_t used_ = 0;
};

// Buffers of one thread, grown to the largest image it has seen.
struct Scratch {
  Slots slots;
  std::vector<LoadedDetection> detections;
  std::vector<LoadedTruth> truths;
  std::vector<int32_t> order, slot, truth_slot, rank, first, names;
  std::vector<uint64_t> keys, counts, taken;
  std::vector<Box> boxes;
  std::vector<uint8_t> flags;
  std::vector<double> ious;
};

class Image {
 public:
  Image(const Rule& rule, const Segment& segment, const Output& out, Scratch& scratch)
      : rule_(rule), segment_(segment), out_(out), s_(scratch) {}

  // The code and row of the first error, kNoError when there is none.
  int64_t run(int64_t index) {
    int64_t error = count_rows(segment_, index, detections_, truths_);
    if (error == kNoError) error = std::min(load_detections(index), load_truths(index));
    if (error != kNoError) return error;
    order_by_score();
    group_truths();
    write_image(rule_, segment_, out_.images + index * kImageColumns, truth_hash_, record_hash_,
                detection_extent_, truth_extent_);
    const double lowest = lowest_threshold(rule_);
    for (int64_t first = 0; first < rule_.lanes(); first += 64) match(Chunk::at(rule_, first), lowest);
    return kNoError;
  }

 private:
  uint8_t* detection_row(int64_t row) const { return out_.detection(rule_, segment_.first_detection + row); }

  int64_t load_detections(int64_t index) {
    s_.detections.resize(detections_);
    for (int64_t i = 0; i < detections_; ++i) {
      LoadedDetection& d = s_.detections[i];
      d = load_detection(rule_, segment_, i);
      if (d.error) return box_error(index, i, d.error);
      detection_extent_.add(d.box);
      if (rule_.options & kHashed) record_hash_ += hash_detection(i, d.box, d.score, d.label);
    }
    for (int64_t i = detections_; i < segment_.detections; ++i) write_padding(rule_, detection_row(i));
    return kNoError;
  }

  int64_t load_truths(int64_t index) {
    s_.truths.resize(segment_.truths);
    for (int64_t j = 0; j < segment_.truths; ++j) {
      LoadedTruth& t = s_.truths[j];
      t = j < truths_ ? load_truth(rule_, segment_, j) : LoadedTruth{};
      if (t.error) return box_error(index, j, t.error);
      write_truth(rule_, out_.truth(rule_, segment_.first_truth + j), t.label, t.flags, t.area, j < truths_);
      if (j >= truths_) continue;
      truth_extent_.add(t.box);
      if (rule_.options & kHashed) truth_hash_ += hash_truth(t.box, t.label, t.flags, t.area);
    }
    return kNoError;
  }

  // Models mostly hand over detections in score order: look before sorting.
  void order_by_score() {
    s_.order.resize(detections_);
    s_.keys.resize(detections_);
    bool sorted = true;
    for (int64_t i = 0; i < detections_; ++i) {
      s_.keys[i] = descending_key(s_.detections[i].score);
      s_.order[i] = static_cast<int32_t>(i);
      sorted &= i == 0 || s_.keys[i - 1] <= s_.keys[i];
    }
    if (sorted) return;
    std::sort(s_.order.begin(), s_.order.end(), [this](int32_t a, int32_t b) {
      return s_.keys[a] != s_.keys[b] ? s_.keys[a] < s_.keys[b] : a < b;
    });
  }

  int32_t slot_of(int64_t label) { return (rule_.options & kAgnostic) ? s_.slots.of(0) : s_.slots.of(label); }

  // Ground truths of one class side by side, in input order.
  void group_truths() {
    s_.slots.begin(detections_ + truths_);
    s_.slot.resize(detections_);
    s_.truth_slot.resize(truths_);
    for (int64_t j = 0; j < truths_; ++j) s_.truth_slot[j] = slot_of(s_.truths[j].label);
    for (int64_t i = 0; i < detections_; ++i) s_.slot[i] = slot_of(s_.detections[i].label);
    s_.first.assign(s_.slots.used() + 1, 0);
    for (int64_t j = 0; j < truths_; ++j) ++s_.first[s_.truth_slot[j] + 1];
    for (size_t k = 1; k < s_.first.size(); ++k) s_.first[k] += s_.first[k - 1];
    s_.rank.assign(s_.first.begin(), s_.first.end());
    s_.names.resize(truths_);
    s_.boxes.resize(truths_);
    s_.flags.resize(truths_);
    for (int64_t j = 0; j < truths_; ++j) {
      const int32_t at = s_.rank[s_.truth_slot[j]]++;
      s_.names[at] = static_cast<int32_t>(j);
      s_.boxes[at] = s_.truths[j].box;
      s_.flags[at] = static_cast<uint8_t>(s_.truths[j].flags);
    }
    s_.counts.resize(truths_);
    s_.ious.resize(truths_);
  }

  void match(const Chunk& chunk, double lowest) {
    for (int64_t at = 0; at < truths_; ++at) {
      const LoadedTruth& t = s_.truths[s_.names[at]];
      s_.counts[at] = counting_lanes(rule_, chunk, t.flags, t.area);
    }
    s_.taken.assign(truths_, 0);
    s_.rank.assign(s_.slots.used(), 0);
    const int64_t most = rule_.max_detections();
    for (int64_t k = 0; k < detections_; ++k) {
      const int32_t i = s_.order[k], slot = s_.slot[i];
      const int64_t rank = s_.rank[slot]++;
      const LoadedDetection& d = s_.detections[i];
      uint8_t* row = detection_row(i);
      if (chunk.first == 0) write_detection(row, d.score, d.label, bucket_of(rule_, rank));
      write_lanes(rule_, row, chunk, rank < most ? match_one(chunk, lowest, i, slot) : Outcome{0, 0});
    }
  }

  Outcome match_one(const Chunk& chunk, double lowest, int32_t i, int32_t slot) {
    const LoadedDetection& d = s_.detections[i];
    const double area = detection_area(segment_, d.box, i);
    const int32_t begin = s_.first[slot], size = s_.first[slot + 1] - begin;
    if (size == 0) return Outcome{0, chunk.outside(rule_, area)};
    const Cell cell{s_.boxes.data() + begin, s_.flags.data() + begin, s_.counts.data() + begin,
                    s_.taken.data() + begin, s_.ious.data() + begin,  size};
    int32_t* matches = out_.match(rule_, segment_.first_detection + i, chunk.first);
    return match_detection(Serial(), rule_, chunk, cell, d.box, area, frees(segment_, i), lowest, matches,
                           s_.names.data() + begin);
  }

  const Rule& rule_;
  const Segment segment_;
  const Output& out_;
  Scratch& s_;
  int64_t detections_ = 0, truths_ = 0;
  uint64_t record_hash_ = 0, truth_hash_ = 0;
  BoxExtent detection_extent_, truth_extent_;
};

// A batch whose fields are one array each for all images: where the arrays begin, and how many bytes a row
// takes.
struct FlatBatch {
  int64_t fields[9], strides[9];  // boxes, scores, labels, areas, flags; true boxes, labels, flags, areas
  int64_t lengths, ids;           // int64 [2, I]; 0, or int64 [I]
  int64_t count_address, true_count_address;  // 0, or int64 [I]
};

// First output row of every image, detections then ground truths.
std::vector<int64_t> first_rows(const FlatBatch& batch, int64_t images) {
  const int64_t* lengths = reinterpret_cast<const int64_t*>(batch.lengths);
  std::vector<int64_t> firsts(2 * images);
  for (int64_t side = 0; side < 2; ++side)
    for (int64_t i = 0, total = 0; i < images; ++i) {
      firsts[side * images + i] = total;
      total += lengths[side * images + i];
    }
  return firsts;
}

Segment segment_of(const FlatBatch& batch, const std::vector<int64_t>& firsts, int64_t images, int64_t i) {
  const int64_t* lengths = reinterpret_cast<const int64_t*>(batch.lengths);
  const int64_t first_detection = firsts[i], first_truth = firsts[images + i];
  int64_t at[9];
  for (int f = 0; f < 9; ++f)
    at[f] =
        batch.fields[f] ? batch.fields[f] + batch.strides[f] * (f < 5 ? first_detection : first_truth) : 0;
  const auto place = [i](int64_t base) { return base ? base + 8 * i : 0; };
  Segment s{};
  memcpy(&s, at, sizeof at);
  s.id_address = place(batch.ids);
  s.has_id = batch.ids != 0;
  s.detections = lengths[i], s.truths = lengths[images + i];
  s.count_address = place(batch.count_address), s.true_count_address = place(batch.true_count_address);
  s.first_detection = first_detection, s.first_truth = first_truth;
  return s;
}

}  // namespace
}  // namespace valor

// Matches a batch. `error` receives kNoError, or the first error as box_error packs it.
VALOR_API int32_t valor_match_boxes_cpu(const void* batch_words, int64_t num_images, const void* rule_words,
                                        uint8_t* detections, uint8_t* truths, int64_t* images,
                                        int32_t* matches, int64_t* error, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const FlatBatch& batch = *static_cast<const FlatBatch*>(batch_words);
    const Rule& rule = *static_cast<const Rule*>(rule_words);
    const Output out{detections, truths, images, (rule.options & kWantMatches) ? matches : nullptr};
    const std::vector<int64_t> firsts = first_rows(batch, num_images);
    FirstError first;
    auto body = [&](int64_t begin, int64_t end) {
      thread_local Scratch scratch;
      for (int64_t i = begin; i < end; ++i) {
        first.note(Image(rule, segment_of(batch, firsts, num_images, i), out, scratch).run(i));
      }
    };
    const int64_t grain = std::max<int64_t>(1, std::min<int64_t>(64, num_images / 16));
    parallel_for(num_images, grain, static_cast<int>(threads), body);
    *error = first.code();
  });
}
