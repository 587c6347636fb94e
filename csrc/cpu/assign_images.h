// Assignment of the images of a batch by one kind of rule: images are split over threads, one CPU thread
// works on an image. Every kind is compiled in a file of its own: with two of them in one the compiler no
// longer puts the claims into the loop over detections, which costs 13 %.
#pragma once
#include <algorithm>
#include <stdexcept>
#include <vector>

#include "../core/assign_group.h"
#include "match_sources.h"
#include "pool.h"

namespace valor {

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
  std::vector<Detection> detections;
  std::vector<GroundTruthRow> ground_truths;
  std::vector<int32_t> order, slot, gt_slot, rank;
  std::vector<uint64_t> keys, counts, taken;
  std::vector<uint8_t> flags;
  std::vector<Chunk> chunks;
};

template <class Source, RuleKind kKind>
class Assign {
 public:
  Assign(const Rule& rule, const Segment& segment, const Output& out, Scratch& scratch, Source& source)
      : rule_(rule), segment_(segment), out_(out), s_(scratch), source_(source) {}

  // The code of the first error, kNoError when there is none.
  int64_t run(int64_t index) {
    int64_t error = count_rows(segment_, index, detections_, ground_truths_);
    if (error != kNoError) return error;
    source_.begin(detections_, ground_truths_);
    error = std::min(load_detections(index), load_ground_truths(index));
    if (error != kNoError) return error;
    place_in_slots();
    error = source_.group(rule_, segment_, index, s_.slot, s_.gt_slot, s_.flags, s_.slots.used());
    if (error != kNoError) return error;
    order_by_score();
    write_image(rule_, segment_, out_.images + index * kImageColumns, ground_truth_hash_, record_hash_,
                source_.detection_extent, source_.ground_truth_extent);
    if (rule_.settings() <= 64)
      match_in_one_chunk();
    else
      match_in_chunks();
    return kNoError;
  }

 private:
  uint8_t* detection_row(int64_t row) const { return out_.detection(rule_, segment_.first_detection + row); }

  int64_t load_detections(int64_t index) {
    s_.detections.resize(detections_);
    for (int64_t i = 0; i < detections_; ++i) {
      Detection& d = s_.detections[i];
      if (const int64_t kind = source_.load(rule_, segment_, i, d)) return box_error(index, i, kind);
      if (rule_.options & kHashed) record_hash_ += source_.hash(segment_, i, d);
    }
    for (int64_t i = detections_; i < segment_.detections; ++i) write_padding(rule_, detection_row(i));
    return kNoError;
  }

  int64_t load_ground_truths(int64_t index) {
    s_.ground_truths.resize(ground_truths_);
    s_.flags.resize(ground_truths_);
    for (int64_t j = 0; j < ground_truths_; ++j) {
      GroundTruthRow& t = s_.ground_truths[j];
      if (const int64_t kind = source_.load(rule_, segment_, j, t)) return box_error(index, j, kind);
      s_.flags[j] = static_cast<uint8_t>(t.flags);
      write(j, t, true);
      if (rule_.options & kHashed) ground_truth_hash_ += source_.hash(segment_, j, t);
    }
    for (int64_t j = ground_truths_; j < segment_.ground_truths; ++j) write(j, GroundTruthRow{}, false);
    return kNoError;
  }

  void write(int64_t row, const GroundTruthRow& t, bool real) const {
    write_ground_truth(rule_, out_.ground_truth(rule_, segment_.first_ground_truth + row), t.label, t.flags,
                       t.area, real);
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

  void place_in_slots() {
    s_.slots.begin(detections_ + ground_truths_);
    s_.slot.resize(detections_);
    s_.gt_slot.resize(ground_truths_);
    for (int64_t j = 0; j < ground_truths_; ++j) s_.gt_slot[j] = slot_of(s_.ground_truths[j].label);
    for (int64_t i = 0; i < detections_; ++i) s_.slot[i] = slot_of(s_.detections[i].label);
  }

  // Calls settle(detection, row, candidates) by descending score for those within the limits.
  template <class Settle>
  void each_detection(const Settle& settle) {
    s_.rank.assign(s_.slots.used(), 0);
    const int64_t most = rule_.max_detections();
    for (int64_t k = 0; k < detections_; ++k) {
      const int32_t i = s_.order[k], slot = s_.slot[i];
      const int64_t rank = s_.rank[slot]++;
      uint8_t* row = detection_row(i);
      write_detection(row, s_.detections[i].score, s_.detections[i].label, bucket_of(rule_, rank));
      if (rank < most)
        settle(i, row, source_.candidates(i, slot));
      else
        memset(row + 13, 0, 2 * rule_.setting_bytes());
    }
  }

  // The state of the ground truths under a chunk, where `place` is its number.
  GroundTruths begin_chunk(const Chunk& chunk, int64_t place) {
    uint64_t* counts = s_.counts.data() + place * ground_truths_;
    for (int64_t j = 0; j < ground_truths_; ++j)
      counts[j] = counting_settings(rule_, chunk, s_.ground_truths[j].flags, s_.ground_truths[j].area);
    return {s_.flags.data(), counts, s_.taken.data() + place * ground_truths_};
  }

  void make_room(int64_t chunks) {
    s_.counts.resize(chunks * ground_truths_);
    s_.taken.assign(chunks * ground_truths_, 0);
  }

  // The usual rules have up to 64 settings. The chunk is a local variable: read through a vector it costs 8
  // %.
  void match_in_one_chunk() {
    const Chunk chunk = Chunk::at(rule_, 0);
    make_room(1);
    const GroundTruths ground_truths = begin_chunk(chunk, 0);
    each_detection([&](int32_t i, uint8_t* row, const auto& candidates) {
      const Detection& d = s_.detections[i];
      write_settings(rule_, row, chunk,
                     assign_by_rule<kKind>(Serial(), rule_, chunk, ground_truths, candidates, d.area, d.flags,
                                           out_.match(rule_, segment_.first_detection + i, 0)));
    });
  }

  void match_in_chunks() {
    s_.chunks.clear();
    for (int64_t first = 0; first < rule_.settings(); first += 64)
      s_.chunks.push_back(Chunk::at(rule_, first));
    make_room(static_cast<int64_t>(s_.chunks.size()));
    for (size_t c = 0; c < s_.chunks.size(); ++c) begin_chunk(s_.chunks[c], static_cast<int64_t>(c));
    each_detection([&](int32_t i, uint8_t* row, const auto& candidates) {
      const Detection& d = s_.detections[i];
      for (size_t c = 0; c < s_.chunks.size(); ++c) {
        const Chunk chunk = s_.chunks[c];
        const int64_t place = static_cast<int64_t>(c) * ground_truths_;
        const GroundTruths ground_truths{s_.flags.data(), s_.counts.data() + place, s_.taken.data() + place};
        write_settings(
            rule_, row, chunk,
            assign_by_rule<kKind>(Serial(), rule_, chunk, ground_truths, candidates, d.area, d.flags,
                                  out_.match(rule_, segment_.first_detection + i, chunk.first)));
      }
    });
  }

  const Rule& rule_;
  const Segment segment_;
  const Output& out_;
  Scratch& s_;
  Source& source_;
  int64_t detections_ = 0, ground_truths_ = 0;
  uint64_t record_hash_ = 0, ground_truth_hash_ = 0;
};

// First output row of every image, detections then ground truths.
inline std::vector<int64_t> first_rows(const Batch& batch) {
  const int64_t* lengths = reinterpret_cast<const int64_t*>(batch.lengths);
  std::vector<int64_t> firsts(2 * batch.images);
  for (int64_t side = 0; side < 2; ++side) {
    int64_t left = side == 0 ? batch.detections : batch.ground_truths, total = 0;
    for (int64_t i = 0; i < batch.images; ++i) {
      const int64_t length = lengths[side * batch.images + i];
      if (length < 0 || length > left) throw std::invalid_argument("lengths do not sum to the rows");
      firsts[side * batch.images + i] = total;
      total += length, left -= length;
    }
    if (left != 0) throw std::invalid_argument("lengths do not sum to the rows");
  }
  return firsts;
}

// Rows and pairs that keep a thread busy for about half a millisecond: on a busy machine a helper that has to
// wake comes too late for less.
constexpr int64_t kRowsOfThread = 8192;

inline int64_t useful_threads(const Batch& batch, int64_t threads) {
  return std::min(threads, 1 + (batch.detections + batch.ground_truths + batch.pairs) / kRowsOfThread);
}

// The first error of a batch.
template <RuleKind kKind, class Source>
int64_t assign_batch(const Batch& batch, const Rule& rule, const Output& out, int64_t threads) {
  const std::vector<int64_t> firsts = first_rows(batch);
  const int64_t images = batch.images, *lengths = reinterpret_cast<const int64_t*>(batch.lengths);
  FirstError first;
  auto body = [&](int64_t begin, int64_t end) {
    thread_local Scratch scratch;
    Source source(batch.stored());
    for (int64_t i = begin; i < end; ++i) {
      const Segment segment =
          batch.segment(i, firsts[i], lengths[i], firsts[images + i], lengths[images + i]);
      first.note(Assign<Source, kKind>(rule, segment, out, scratch, source).run(i));
    }
  };
  const int64_t grain = std::max<int64_t>(1, std::min<int64_t>(64, images / 16));
  parallel_for(images, grain, static_cast<int>(useful_threads(batch, threads)), body);
  return first.code();
}

template <RuleKind kKind>
int64_t assign_by_rule(const Batch& batch, const Rule& rule, const Output& out, int64_t threads) {
  return batch.pair_offsets ? assign_batch<kKind, StoredSource>(batch, rule, out, threads)
                            : assign_batch<kKind, BoxSource>(batch, rule, out, threads);
}

}  // namespace valor
