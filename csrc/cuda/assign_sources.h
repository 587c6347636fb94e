// Where the candidates of an image come from on CUDA: boxes, whose IoU is computed on the way, or stored
// pairs of any geometry.
#pragma once
#include "../core/assign.h"
#include "candidate_list.h"

namespace valor {

// What assign needs of a detection, whatever its geometry.
struct Detection {
  double score, area;
  int64_t label;
  int64_t error;
};

// Boxes; with kUsual these and scores are float32 and labels int64.
template <bool kUsual>
class BoxSource {
 public:
  static constexpr bool kInOrder = false;
  static constexpr int64_t kGroundTruthBytes = sizeof(Box);

  VALOR_HD static void narrow(Rule& rule) {
    if (!kUsual) return;
    rule.boxes_type = rule.gt_boxes_type = rule.scores_type = kFloat32;
    rule.labels_type = rule.gt_labels_type = kInt64;
  }
  static bool serves(const Rule& rule) {
    Rule narrowed = rule;
    narrow(narrowed);
    return memcmp(&narrowed, &rule, sizeof rule) == 0;
  }

  // `memory` has kGroundTruthBytes for each ground truth.
  __device__ __forceinline__ BoxSource(const Rule& rule, const Segment& segment, const Pairs&, void* memory)
      : rule_(rule), segment_(segment), gt_boxes_(static_cast<Box*>(memory)) {}

  __device__ __forceinline__ Detection load(int32_t row, uint64_t& hash, BoxExtent& extent) const {
    const LoadedDetection d = load_detection(rule_, segment_, row);
    extent.add(d.box);
    if (rule_.options & kHashed) hash += hash_detection(row, d.box, d.score, d.label);
    return {d.score, detection_area(segment_, d.box, row), d.label, d.error};
  }
  __device__ __forceinline__ GroundTruthRow load_gt(int32_t row, uint64_t& hash, BoxExtent& extent) const {
    const LoadedGroundTruth t = load_ground_truth(rule_, segment_, row);
    gt_boxes_[row] = t.box;
    extent.add(t.box);
    if (rule_.options & kHashed) hash += hash_ground_truth(t.box, t.label, t.flags, t.area);
    return {t.label, t.flags, t.area, t.error};
  }
  // The first error of a detection's pairs, which `labels` of ground truths may show.
  template <class Labels>
  __device__ __forceinline__ int64_t pair_error(int32_t, int32_t, int32_t, const Labels&) const {
    return kGoodRow;
  }
  __device__ __forceinline__ double area(int32_t row) const {
    return segment_.areas ? reinterpret_cast<const double*>(segment_.areas)[row] : area_of(box(row));
  }
  // How many pairs to look at, for a detection whose class has `size` ground truths.
  __device__ __forceinline__ int32_t pairs(int32_t, int32_t size) const { return size; }
  // Pair `number` of a detection; `row_of` gives the ground truths of its class.
  template <class RowOf>
  __device__ __forceinline__ Candidate pair(int32_t row, int32_t number, const uint8_t* flags,
                                            const RowOf& row_of) const {
    const int32_t j = row_of(number);
    return {bits_of(box_iou<true>(box(row), gt_boxes_[j], flags[j] & kCrowd)), 0, j};
  }

 private:
  __device__ __forceinline__ static double area_of(const Box& box) { return box.w * box.h; }
  __device__ __forceinline__ Box box(int32_t row) const {
    return load_box(reinterpret_cast<const void*>(segment_.boxes), row,
                    static_cast<FloatType>(rule_.boxes_type), static_cast<BoxFormat>(rule_.box_format));
  }

  const Rule& rule_;
  const Segment& segment_;
  Box* gt_boxes_;
};

// Pairs that a geometry has stored, which are checked.
class StoredSource {
 public:
  static constexpr bool kInOrder = true;
  static constexpr int64_t kGroundTruthBytes = 0;

  VALOR_HD static void narrow(Rule&) {}
  static bool serves(const Rule&) { return true; }

  __device__ __forceinline__ StoredSource(const Rule& rule, const Segment& segment, const Pairs& pairs, void*)
      : rule_(rule), segment_(segment), pairs_(pairs) {}

  __device__ __forceinline__ Detection load(int32_t row, uint64_t& hash, BoxExtent&) const {
    const double score = load_score(rule_, segment_, row);
    const int64_t label = load_label(rule_, segment_, row);
    if (rule_.options & kHashed)
      hash += hash_detection(row, reinterpret_cast<const uint64_t*>(segment_.hashes)[row], score, label);
    return {score, area(row), label, detection_error(rule_, score, label)};
  }
  __device__ __forceinline__ GroundTruthRow load_gt(int32_t row, uint64_t& hash, BoxExtent&) const {
    const double own = reinterpret_cast<const double*>(segment_.gt_own_areas)[row];
    const GroundTruthRow t = load_row(rule_, segment_, row, own);
    if (rule_.options & kHashed)
      hash += hash_ground_truth(reinterpret_cast<const uint64_t*>(segment_.gt_hashes)[row], t.label, t.flags,
                                t.area);
    return t;
  }
  template <class Labels>
  __device__ __forceinline__ int64_t pair_error(int32_t row, int32_t label, int32_t ground_truths,
                                                const Labels& label_of) const {
    return stored_error(pairs_, segment_.first_detection + row, ground_truths,
                        [&](int32_t j) { return label_of(j) == label; });
  }
  __device__ __forceinline__ double area(int32_t row) const {
    return reinterpret_cast<const double*>(segment_.areas)[row];
  }
  __device__ __forceinline__ int32_t pairs(int32_t row, int32_t) const {
    return pairs_.counts[segment_.first_detection + row];
  }
  template <class RowOf>
  __device__ __forceinline__ Candidate pair(int32_t row, int32_t number, const uint8_t*, const RowOf&) const {
    const int64_t at = pairs_.offsets[segment_.first_detection + row] + number;
    return {bits_of(pairs_.similarities[at]), 0, pairs_.ground_truths[at]};
  }

 private:
  const Rule& rule_;
  const Segment& segment_;
  const Pairs& pairs_;
};

}  // namespace valor
