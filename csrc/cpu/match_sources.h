// Where candidates come from: boxes whose IoU is computed on the way, or stored pairs of any geometry. One
// source serves one thread. It loads the rows of an image and knows their hashes; once every row has the slot
// of its class it is asked for the candidates of each detection, once.
#pragma once
#include <vector>

#include "../core/assign.h"

namespace valor {

// What assign needs of a detection, whatever its geometry.
struct Detection {
  double score, area;
  int64_t label;
  uint8_t flags;
};

struct Candidate {
  double similarity;
  int32_t position;
};

// Boxes of one image, ground truths of a class side by side. The list is as long as the image has ground
// truths, so that nothing overflows.
class BoxSource {
 public:
  explicit BoxSource(const Pairs&) {}

  void begin(int64_t detections, int64_t ground_truths) {
    boxes_.resize(detections);
    gt_boxes_.resize(ground_truths);
    detection_extent = ground_truth_extent = BoxExtent{};
  }
  // Fills `d`; returns a code, 0 when the row is fine.
  int64_t load(const Rule& rule, const Segment& segment, int64_t row, Detection& d) {
    const LoadedDetection loaded = load_detection(rule, segment, row);
    boxes_[row] = loaded.box;
    d = {loaded.score, detection_area(segment, loaded.box, row), loaded.label, detection_flags(segment, row)};
    detection_extent.add(loaded.box);
    return loaded.error;
  }
  int64_t load(const Rule& rule, const Segment& segment, int64_t row, GroundTruthRow& t) {
    const LoadedGroundTruth loaded = load_ground_truth(rule, segment, row);
    gt_boxes_[row] = loaded.box;
    t = {loaded.label, loaded.flags, loaded.area, loaded.error};
    ground_truth_extent.add(loaded.box);
    return loaded.error;
  }
  uint64_t hash(const Segment&, int64_t row, const Detection& d) const {
    return hash_detection(row, boxes_[row], d.score, d.label);
  }
  uint64_t hash(const Segment&, int64_t row, const GroundTruthRow& t) const {
    return hash_ground_truth(gt_boxes_[row], t.label, t.flags, t.area);
  }
  int64_t group(const Rule& rule, const Segment&, int64_t, const std::vector<int32_t>&,
                const std::vector<int32_t>& gt_slots, const std::vector<uint8_t>& flags, int32_t slots) {
    lowest_ = lowest_threshold(rule);
    first_.assign(slots + 1, 0);
    for (const int32_t slot : gt_slots) ++first_[slot + 1];
    for (int32_t k = 1; k <= slots; ++k) first_[k] += first_[k - 1];
    next_.assign(first_.begin(), first_.end());
    cells_.resize(gt_slots.size());
    list_.resize(gt_slots.size());
    for (size_t j = 0; j < gt_slots.size(); ++j)
      cells_[next_[gt_slots[j]]++] = {gt_boxes_[j], gt_boxes_[j].x + gt_boxes_[j].w,
                                      gt_boxes_[j].y + gt_boxes_[j].h, static_cast<int32_t>(j),
                                      (flags[j] & kCrowd) != 0};
    return kNoError;
  }

  class Candidates {
   public:
    Candidates(const Candidate* data, int32_t size) : data_(data), size_(size) {}
    int32_t size() const { return size_; }
    double similarity(int32_t c) const { return data_[c].similarity; }
    int32_t ground_truth(int32_t c) const { return data_[c].position; }

   private:
    const Candidate* data_;
    int32_t size_;
  };

  // Valid until the next call.
  Candidates candidates(int64_t detection, int32_t slot) {
    int32_t size = 0;
    const Box box = boxes_[detection];
    const double right = box.x + box.w, bottom = box.y + box.h;
    for (int32_t at = first_[slot]; at < first_[slot + 1]; ++at) {
      const Placed& other = cells_[at];
      // One branch for the pairs that do not overlap, three in four, where box_iou has two.
      const bool overlap = static_cast<int>(right > other.box.x) & static_cast<int>(other.right > box.x) &
                           static_cast<int>(bottom > other.box.y) & static_cast<int>(other.bottom > box.y);
      if (!overlap && lowest_ > 0) continue;
      const double iou = box_iou<true>(box, other.box, other.crowd);
      if (!(iou >= lowest_)) continue;
      int32_t place = size++;  // later ground truths go before equal ones
      for (; place > 0 && list_[place - 1].similarity <= iou; --place) list_[place] = list_[place - 1];
      list_[place] = {iou, cells_[at].position};
    }
    return {list_.data(), size};
  }

  BoxExtent detection_extent, ground_truth_extent;

 private:
  struct Placed {
    Box box;
    double right, bottom;
    int32_t position;
    bool crowd;
  };
  double lowest_ = 0;
  std::vector<Box> boxes_, gt_boxes_;
  std::vector<int32_t> first_, next_;
  std::vector<Placed> cells_;
  std::vector<Candidate> list_;
};

// Pairs that a geometry has stored, which are checked.
class StoredSource {
 public:
  explicit StoredSource(const Pairs& pairs) : pairs_(pairs) {}

  void begin(int64_t, int64_t) {}
  int64_t load(const Rule& rule, const Segment& segment, int64_t row, Detection& d) {
    d = {load_score(rule, segment, row), reinterpret_cast<const double*>(segment.areas)[row],
         load_label(rule, segment, row), detection_flags(segment, row)};
    return detection_error(rule, d.score, d.label);
  }
  int64_t load(const Rule& rule, const Segment& segment, int64_t row, GroundTruthRow& t) {
    t = load_row(rule, segment, row, reinterpret_cast<const double*>(segment.gt_own_areas)[row]);
    return t.error;
  }
  uint64_t hash(const Segment& segment, int64_t row, const Detection& d) const {
    return hash_detection(row, reinterpret_cast<const uint64_t*>(segment.hashes)[row], d.score, d.label);
  }
  uint64_t hash(const Segment& segment, int64_t row, const GroundTruthRow& t) const {
    return hash_ground_truth(reinterpret_cast<const uint64_t*>(segment.gt_hashes)[row], t.label, t.flags,
                             t.area);
  }
  int64_t group(const Rule&, const Segment& segment, int64_t image, const std::vector<int32_t>& slots,
                const std::vector<int32_t>& gt_slots, const std::vector<uint8_t>&, int32_t) {
    first_ = segment.first_detection;
    const int64_t ground_truths = static_cast<int64_t>(gt_slots.size());
    for (size_t i = 0; i < slots.size(); ++i) {
      const int64_t row = static_cast<int64_t>(i);
      const int64_t kind = stored_error(pairs_, first_ + row, ground_truths,
                                        [&](int32_t j) { return gt_slots[j] == slots[i]; });
      if (kind) return box_error(image, row, kind);
    }
    return kNoError;
  }

  class Candidates {
   public:
    Candidates(const double* similarities, const int32_t* positions, int32_t size)
        : similarities_(similarities), positions_(positions), size_(size) {}
    int32_t size() const { return size_; }
    double similarity(int32_t c) const { return similarities_[c]; }
    int32_t ground_truth(int32_t c) const { return positions_[c]; }

   private:
    const double* similarities_;
    const int32_t* positions_;
    int32_t size_;
  };

  Candidates candidates(int64_t detection, int32_t) const {
    const int64_t begin = pairs_.offsets[first_ + detection];
    return {pairs_.similarities + begin, pairs_.ground_truths + begin, pairs_.counts[first_ + detection]};
  }

  BoxExtent detection_extent, ground_truth_extent;

 private:
  const Pairs pairs_;
  int64_t first_ = 0;
};

}  // namespace valor
