// One image of an assignment on CUDA, for one warp.
#pragma once
#include <type_traits>

#include "../core/assign_group.h"
#include "assign_sources.h"
#include "copy_bytes.h"

namespace valor {

// A detection in the order in which it is matched.
struct Ranked {
  uint64_t key;  // descending_key of its score
  int32_t label, row;

  VALOR_HD bool operator<(const Ranked& other) const {
    if (label != other.label) return label < other.label;
    return key != other.key ? key < other.key : row < other.row;
  }
};

// Working memory of an image with D detections and G ground truths, padding left out. In shared memory its
// rows of the detections table follow, placed as in that table modulo 16.
class ImageMemory {
 public:
  VALOR_HD static int64_t bytes(int64_t detections, int64_t ground_truths, int64_t box_bytes) {
    const int64_t all = detections * static_cast<int64_t>(sizeof(Ranked)) +
                        CandidateList::capacity(ground_truths) * static_cast<int64_t>(sizeof(Candidate)) +
                        ground_truths * (box_bytes + kGroundTruthBytes);
    return (all + 15) / 16 * 16;
  }
  // With the rows, of `memory_bytes` as above.
  VALOR_HD static int64_t shared_bytes(int64_t memory_bytes, const Rule& rule, int64_t detections) {
    return memory_bytes + 16 + detections * rule.detection_bytes();
  }
  VALOR_HD ImageMemory(unsigned char* base, int64_t detections, int64_t ground_truths)
      : base_(base),
        detections_(static_cast<int32_t>(detections)),
        ground_truths_(static_cast<int32_t>(ground_truths)) {}

  VALOR_HD Ranked* detections() const { return reinterpret_cast<Ranked*>(base_); }  // by class and rank
  VALOR_HD Candidate* candidates() const { return reinterpret_cast<Candidate*>(detections() + detections_); }
  // Of each ground truth, by position in the image: the fields of GroundTruths.
  VALOR_HD uint64_t* counts() const {
    return reinterpret_cast<uint64_t*>(candidates() + CandidateList::capacity(ground_truths_));
  }
  VALOR_HD uint64_t* taken() const { return counts() + ground_truths_; }
  // Its label and row, later in their order.
  VALOR_HD uint64_t* cells() const { return taken() + ground_truths_; }
  // box_bytes of each, for the source.
  VALOR_HD void* boxes() const { return cells() + ground_truths_; }
  VALOR_HD uint8_t* flags(int64_t box_bytes) const {
    return static_cast<uint8_t*>(boxes()) + ground_truths_ * box_bytes;
  }

 private:
  static constexpr int64_t kGroundTruthBytes = 3 * sizeof(uint64_t) + 1;
  unsigned char* base_;
  int32_t detections_, ground_truths_;
};

// Rows of an image that are no padding; both are 0 where `error` is not kNoError.
struct ImageCounts {
  int64_t detections, ground_truths, error;

  __device__ __forceinline__ static ImageCounts of(const Segment& segment, int64_t image) {
    ImageCounts counts;
    counts.error = count_rows(segment, image, counts.detections, counts.ground_truths);
    if (counts.error != kNoError) counts.detections = counts.ground_truths = 0;
    return counts;
  }
};

// With kMany there may be more than 64 settings; with kMatches they may be noted.
template <class Source, RuleKind kKind, bool kMany, bool kMatches>
class ImageWarp {
 public:
  // `rows` is where rows of detections are put together, but for padding.
  __device__ __forceinline__ ImageWarp(const Rule& rule, const Segment& segment, const ImageCounts& counts,
                                       const Output& out, const Source& source, const ImageMemory& memory,
                                       uint8_t* rows)
      : rule_(rule),
        segment_(segment),
        out_(out),
        source_(source),
        memory_(memory),
        rows_(rows),
        flags_(memory.flags(Source::kGroundTruthBytes)),
        list_(memory.candidates(), counts.ground_truths),
        detections_(static_cast<int32_t>(counts.detections)),
        ground_truths_(static_cast<int32_t>(counts.ground_truths)),
        error_(counts.error) {}

  // Rows that `rows` holds after run.
  __device__ __forceinline__ int32_t detections() const { return detections_; }

  // The first error, kNoError when there is none: with one the image counts as empty.
  __device__ __forceinline__ int64_t run(int64_t image) {
    const Chunk chunk = Chunk::at(rule_, 0);
    const int64_t error = load(image, chunk);
    pad();
    if (warp_.lane() == 0)
      write_image(rule_, segment_, out_.images + image * kImageColumns, ground_truth_hash_, record_hash_,
                  detection_extent_, ground_truth_extent_);
    sort_network(warp_, memory_.detections(), static_cast<uint32_t>(detections_));
    sort_network(warp_, memory_.cells(), static_cast<uint32_t>(ground_truths_));
    if (kMany)
      for (int64_t first = 0; first < rule_.settings(); first += 64) assign_some(Chunk::at(rule_, first));
    else
      assign(chunk);
    warp_.sync();
    return error;
  }

 private:
  __device__ __forceinline__ uint8_t* row(int32_t i) const { return rows_ + i * rule_.detection_bytes(); }
  __device__ __forceinline__ uint8_t* table_row(int32_t i) const {
    return out_.detection(rule_, segment_.first_detection + i);
  }

  // ---------------------------------------------------------------------------------------------- rows

  __device__ __forceinline__ int64_t load(int64_t image, const Chunk& chunk) {
    int64_t error = error_;
    if (error == kNoError) {
      const int64_t first = load_detections(image, chunk), second = load_ground_truths(image, chunk);
      error = first < second ? first : second;
    }
    bool bad = warp_.ballot(error != kNoError) != 0;
    if (Source::kInOrder && !bad) {
      warp_.sync();
      error = pair_error(image);
      bad = warp_.ballot(error != kNoError) != 0;
    }
    record_hash_ = warp_.sum(record_hash_);
    ground_truth_hash_ = warp_.sum(ground_truth_hash_);
    join(detection_extent_);
    join(ground_truth_extent_);
    if (bad) clear();
    return error;
  }

  __device__ __forceinline__ void join(BoxExtent& extent) const {
    extent.negative = warp_.sum(static_cast<uint32_t>(extent.negative));
    extent.reach = warp_.max(extent.reach);
  }

  __device__ __forceinline__ void clear() {
    detections_ = ground_truths_ = 0;
    record_hash_ = ground_truth_hash_ = 0;
    detection_extent_ = ground_truth_extent_ = BoxExtent{};
  }

  // Writes each detection as if it matched nothing. The first error of this lane's rows; likewise below.
  __device__ __forceinline__ int64_t load_detections(int64_t image, const Chunk& chunk) {
    int64_t error = kNoError;
    for (int32_t i = warp_.lane(); i < detections_; i += 32) {
      const Detection d = source_.load(i, record_hash_, detection_extent_);
      if (d.error && error == kNoError) error = box_error(image, i, d.error);
      memory_.detections()[i] = Ranked{descending_key(d.score), cell_label(d.label), i};
      write_detection(row(i), d.score, d.label, 0);
      if (!kMany) write_unmatched(chunk, i, d.area);
    }
    return error;
  }

  __device__ __forceinline__ void write_unmatched(const Chunk& chunk, int32_t i, double area) const {
    const bool ignored = detection_flags(segment_, i) & kUnmatchedIgnored;
    write_settings(rule_, row(i), chunk, Outcome{0, ignored ? chunk.all() : chunk.outside(rule_, area)});
  }

  __device__ __forceinline__ int64_t load_ground_truths(int64_t image, const Chunk& chunk) {
    int64_t error = kNoError;
    for (int32_t j = warp_.lane(); j < ground_truths_; j += 32) {
      const GroundTruthRow t = source_.load_gt(j, ground_truth_hash_, ground_truth_extent_);
      if (t.error && error == kNoError) error = box_error(image, j, t.error);
      write_ground_truth(rule_, out_.ground_truth(rule_, segment_.first_ground_truth + j), t.label, t.flags,
                         t.area, true);
      memory_.cells()[j] = cell_key(cell_label(t.label), j);
      flags_[j] = static_cast<uint8_t>(t.flags);
      if (!kMany) open(chunk, j, t);
    }
    return error;
  }

  __device__ __forceinline__ void open(const Chunk& chunk, int32_t j, const GroundTruthRow& t) const {
    memory_.counts()[j] = counting_settings(rule_, chunk, t.flags, t.area);
    memory_.taken()[j] = 0;
  }

  __device__ __forceinline__ int64_t pair_error(int64_t image) const {
    for (int32_t i = warp_.lane(); i < detections_; i += 32) {
      const int64_t kind = source_.pair_error(i, memory_.detections()[i].label, ground_truths_,
                                              [this](int32_t j) { return label_of(memory_.cells()[j]); });
      if (kind) return box_error(image, i, kind);
    }
    return kNoError;
  }

  // Rows beyond the counts, in the tables.
  __device__ __forceinline__ void pad() const {
    warp_.sync();
    zero_bytes(warp_, table_row(detections_), (segment_.detections - detections_) * rule_.detection_bytes());
    zero_bytes(warp_, out_.ground_truth(rule_, segment_.first_ground_truth + ground_truths_),
               (segment_.ground_truths - ground_truths_) * rule_.ground_truth_bytes());
    warp_.sync();
    for (int32_t i = detections_ + warp_.lane(); i < segment_.detections; i += 32)
      table_row(i)[12] = kPaddingBucket;
    if (kMatches && out_.matches) {
      int32_t* matches = out_.match(rule_, segment_.first_detection, 0);
      for (int64_t at = warp_.lane(); at < segment_.detections * rule_.settings(); at += 32) matches[at] = -1;
    }
    warp_.sync();
  }

  // ----------------------------------------------------------------------------------------- classes

  __device__ __forceinline__ int32_t cell_label(int64_t label) const {
    return (rule_.options & kAgnostic) ? 0 : static_cast<int32_t>(label);
  }
  // A word in the order of (label, row), both of which can be read back.
  __device__ __forceinline__ static uint64_t cell_key(int32_t label, int32_t row) {
    return static_cast<uint64_t>(static_cast<uint32_t>(label) ^ 0x80000000u) << 32 |
           static_cast<uint32_t>(row);
  }
  __device__ __forceinline__ static int32_t label_of(uint64_t key) {
    return static_cast<int32_t>(static_cast<uint32_t>(key >> 32) ^ 0x80000000u);
  }
  __device__ __forceinline__ static int last_bit(uint32_t word) { return 31 - __clz(static_cast<int>(word)); }

  // ---------------------------------------------------------------------------------------- matching

  __device__ __forceinline__ void assign_some(const Chunk& chunk) {
    uint64_t hash = 0;
    BoxExtent extent;
    for (int32_t i = warp_.lane(); i < detections_; i += 32) write_unmatched(chunk, i, source_.area(i));
    for (int32_t j = warp_.lane(); j < ground_truths_; j += 32)
      open(chunk, j, source_.load_gt(j, hash, extent));
    warp_.sync();
    assign(chunk);
  }

  // Detections by class and rank, 32 at a time.
  __device__ __forceinline__ void assign(const Chunk& chunk) {
    const double lowest = lowest_threshold(rule_);
    int32_t begin = 0;  // where the class of the last detection seen begins
    for (int32_t base = 0; base < detections_; base += 32) {
      const int32_t at = base + warp_.lane();
      bool begins = false;
      if (at < detections_ && at > 0)
        begins = memory_.detections()[at - 1].label != memory_.detections()[at].label;
      const uint32_t all = warp_.ballot(begins), mine = all & (0xffffffffu >> (31 - warp_.lane()));
      int32_t pairs = 0, first = 0;
      if (at < detections_) describe(chunk, at, at - (mine ? base + last_bit(mine) : begin), pairs, first);
      if (all) begin = base + last_bit(all);
      find_candidates(chunk, lowest, base, pairs, first);
    }
    settle(chunk, detections_);
  }

  // Writes where a detection ranks. Gives how many pairs of it to look at, and the first ground truth of its
  // class.
  __device__ __forceinline__ void describe(const Chunk& chunk, int32_t at, int32_t rank, int32_t& pairs,
                                           int32_t& first) const {
    const Ranked item = memory_.detections()[at];
    row(item.row)[12] = static_cast<uint8_t>(bucket_of(rule_, rank));
    if (rank >= rule_.max_detections()) {
      write_settings(rule_, row(item.row), chunk, Outcome{0, 0});
      return;
    }
    const uint64_t* cells = memory_.cells();
    const uint64_t low = cell_key(item.label, 0), high = low | 0xffffffffu;
    first = partition_point(ground_truths_, [=](int32_t j) { return cells[j] < low; });
    const int32_t size =
        partition_point(ground_truths_ - first, [=](int32_t j) { return cells[first + j] <= high; });
    pairs = source_.pairs(item.row, size);
  }

  // Looks at the pairs of 32 detections, which follow one another over the lanes.
  __device__ __forceinline__ void find_candidates(const Chunk& chunk, double lowest, int32_t base,
                                                  int32_t pairs, int32_t first) {
    const uint32_t end = warp_.running_sum(static_cast<uint32_t>(pairs)), total = warp_.from(end, 31);
    const int32_t start = static_cast<int32_t>(end) - pairs;
    for (uint32_t round = 0; round < total; round += 32) {
      const uint32_t number = round + warp_.lane();
      int32_t owner = 0;  // the lane whose detection the pair belongs to: as many end before
      for (int32_t step = 16; step; step /= 2)
        owner += warp_.from(end, owner + step - 1) <= number ? step : 0;
      const int32_t from = warp_.from(first, owner),
                    inside = static_cast<int32_t>(number) - warp_.from(start, owner);
      bool reaches = false;
      Candidate item{};
      if (number < total) {
        const uint64_t* cell = memory_.cells() + from;
        item = source_.pair(memory_.detections()[base + owner].row, inside, flags_,
                            [=](int32_t k) { return static_cast<int32_t>(cell[k]); });
        item.detection = base + owner;
        reaches = item.similarity() >= lowest;
      }
      const uint32_t kept = warp_.ballot(reaches);
      const int32_t open = base + warp_.from(owner, 0);  // this detection and later ones may have more
      if (!list_.has_room(count_bits(kept))) settle(chunk, open);
      list_.add(warp_, kept, item);
    }
  }

  // Matches the detections before `end`, whose candidates are all in the list: a lane a class.
  __device__ __forceinline__ void settle(const Chunk& chunk, int32_t end) {
    warp_.sync();
    const int32_t size = list_.before(end);
    if (!Source::kInOrder) list_.sort(warp_, size);
    if (kKind == kCoco) list_.find_settings(warp_, rule_, chunk, size);
    for (int32_t at = warp_.lane(); at < size; at += 32)
      if (at == 0 || label_at(at - 1) != label_at(at)) settle_class(chunk, at, size);
    list_.drop(warp_, size);
  }

  __device__ __forceinline__ int32_t label_at(int32_t at) const {
    return memory_.detections()[list_[at].detection].label;
  }

  __device__ __forceinline__ void settle_class(const Chunk& chunk, int32_t at, int32_t size) const {
    const GroundTruths ground_truths{flags_, memory_.counts(), memory_.taken()};
    const int32_t label = label_at(at);
    while (at < size) {
      const int32_t detection = list_[at].detection;
      const Ranked item = memory_.detections()[detection];
      if (item.label != label) return;
      const int32_t begin = at;
      do ++at;
      while (at < size && list_[at].detection == detection);
      using Candidates = std::conditional_t<kKind == kCoco, KnownCandidates, ListedCandidates>;
      const Candidates candidates(&list_[begin], at - begin);
      int32_t* matches =
          kMatches ? out_.match(rule_, segment_.first_detection + item.row, chunk.first) : nullptr;
      write_settings(
          rule_, row(item.row), chunk,
          assign_by_rule<kKind>(Serial(), rule_, chunk, ground_truths, candidates, source_.area(item.row),
                                detection_flags(segment_, item.row), matches));
    }
  }

  const Warp warp_{};
  const Rule& rule_;
  const Segment& segment_;
  const Output& out_;
  const Source& source_;
  const ImageMemory memory_;
  uint8_t* const rows_;
  uint8_t* const flags_;
  CandidateList list_;
  int32_t detections_, ground_truths_;
  const int64_t error_;  // of the counts
  uint64_t record_hash_ = 0, ground_truth_hash_ = 0;
  BoxExtent detection_extent_, ground_truth_extent_;
};

}  // namespace valor
