// What matching gets and gives: the images of a batch, the choices of a run, the row tables, and errors.
// valor_gpu/ops/assign/match_batch.py declares the same fields under the same names; tests/ops/test_assign_pairs.py
// compares them. Every field is an int64: pointers are addresses.
#pragma once
#include <stddef.h>

#include "error_codes.h"

namespace valor {

// clang-format off: it moves the names of these lists anew each time
// Columns with a row for each detection: boxes [D, 4], scores, labels, areas (float64, or 0: of the boxes),
// flags (uint8 DetectionFlag, or 0), hashes (uint64 of the geometry, for stored pairs).
#define VALOR_DETECTION_COLUMNS(X) \
  X(boxes) X(scores) X(labels) X(areas) X(flags) X(hashes)
// For each ground truth: gt_flags (GroundTruthFlag, or 0) and gt_areas (or 0) come from the user,
// gt_own_areas (float64) and gt_hashes (uint64) from the geometry of stored pairs.
#define VALOR_GROUND_TRUTH_COLUMNS(X) \
  X(gt_boxes) X(gt_labels) X(gt_flags) X(gt_areas) X(gt_own_areas) X(gt_hashes)

// One image: addresses of its first rows, its id (id_address: 0, or where an int64 id lies), row counts (what
// shapes the output), where the int64 counts of valid rows lie if the batch is padded (0: all rows are
// valid), and the first output rows.
#define VALOR_SEGMENT_FIELDS(X) \
  VALOR_DETECTION_COLUMNS(X) VALOR_GROUND_TRUTH_COLUMNS(X) X(id) X(id_address) X(has_id) \
  X(detections) X(ground_truths) X(counts) X(gt_counts) X(first_detection) X(first_ground_truth)

// The choices of a run: thresholds float64 [T], of kCoco already min(t, 1 - 1e-10); area_ranges float64 [A,
// 2], both ends included; limits int64 [M], ascending max-detection limits; a kind of rule; dtype codes.
#define VALOR_RULE_FIELDS(X) \
  X(thresholds) X(num_thresholds) X(area_ranges) X(num_areas) X(limits) X(num_limits) X(box_format) \
  X(gt_box_format) X(options) X(kind) X(boxes_type) X(scores_type) X(labels_type) X(gt_boxes_type) \
  X(gt_labels_type) X(gt_flags_type) X(gt_areas_type)

// A batch whose columns are one array each for all images: where each begins (0: absent), the bytes of a row;
// row counts of all images; lengths int64 [2, I]; image_ids, counts and gt_counts 0 or int64 [I]; stored
// pairs (see Pairs).
#define VALOR_BATCH_FIELDS(X) \
  VALOR_DETECTION_COLUMNS(X) VALOR_GROUND_TRUTH_COLUMNS(X) X(boxes_stride) X(scores_stride) \
  X(labels_stride) X(areas_stride) X(flags_stride) X(hashes_stride) X(gt_boxes_stride) \
  X(gt_labels_stride) X(gt_flags_stride) X(gt_areas_stride) X(gt_own_areas_stride) \
  X(gt_hashes_stride) X(images) X(detections) X(ground_truths) X(lengths) X(image_ids) X(counts) \
  X(gt_counts) X(pair_offsets) X(pair_counts) X(pair_ground_truths) X(pair_similarities) X(pairs) \
  X(room) X(gt_room)
// clang-format on

#define VALOR_FIELD(name) int64_t name;

struct Segment {
  VALOR_SEGMENT_FIELDS(VALOR_FIELD)

  static constexpr int kFields = 21;
  // Image `image` of a table of fields, [fields, images].
  VALOR_HD static Segment at(const int64_t* table, int64_t images, int64_t image) {
    int64_t fields[kFields];
    for (int f = 0; f < kFields; ++f) fields[f] = table[f * images + image];
    Segment segment;
    memcpy(&segment, fields, sizeof segment);
    return segment;
  }
};
static_assert(sizeof(Segment) == 8 * Segment::kFields, "Segment holds int64 fields only");

// Values of Segment::gt_flags and Segment::flags.
enum GroundTruthFlag : int64_t {
  kCrowd = 1,
  kIgnored = 2,
  kIdZero = 4,  // cocoeval's effect of annotation id 0
  kGroup = 8,   // of a crowd under kGroupOf: counts as one, which its first detection finds
};
enum DetectionFlag : int64_t {
  kFree = 1,              // leaves its ground truth free: cocoeval's effect of an id <= 0
  kUnmatchedIgnored = 2,  // ignored where it matches nothing: LVIS' non-exhaustive categories
};

// Values of Rule::kind: how a detection chooses among its candidates.
enum RuleKind : int64_t { kCoco = 0, kGroupOf = 1 };

// Bits of Rule::options.
enum Option : int64_t {
  kAgnostic = 1,     // one cell an image, whatever the labels
  kHashed = 2,       // fill the hashes of the images table
  kCheckScores = 4,  // a NaN score is an error
  kUserInput = 8,  // crowd flags are 0 or 1, and an area that is not positive means the area of the geometry
  kWantMatches = 16,  // note which ground truth each setting matched
};

struct Rule {
  VALOR_RULE_FIELDS(VALOR_FIELD)

  VALOR_HD const double* threshold() const { return reinterpret_cast<const double*>(thresholds); }
  VALOR_HD const double* area() const { return reinterpret_cast<const double*>(area_ranges); }
  VALOR_HD const int64_t* limit() const { return reinterpret_cast<const int64_t*>(limits); }
  VALOR_HD int64_t settings() const { return num_thresholds * num_areas; }
  VALOR_HD int64_t setting_bytes() const { return (settings() + 7) / 8; }
  VALOR_HD int64_t detection_bytes() const { return 13 + 2 * setting_bytes(); }
  VALOR_HD int64_t ground_truth_bytes() const { return 4 + (num_areas + 2 + 7) / 8; }
  VALOR_HD int64_t max_detections() const { return limit()[num_limits - 1]; }
  VALOR_HD int64_t numbers() const { return num_thresholds + 2 * num_areas + num_limits; }
  // The numbers are words that follow one another at `address`: thresholds, area ranges, limits.
  VALOR_HD void place(int64_t address) {
    thresholds = address;
    area_ranges = thresholds + 8 * num_thresholds;
    limits = area_ranges + 16 * num_areas;
  }
  // The words that the host passes: the fields, then the numbers. They must outlive the rule.
  static Rule of(const void* words) {
    Rule rule;
    memcpy(&rule, words, sizeof rule);
    rule.place(reinterpret_cast<int64_t>(words) + static_cast<int64_t>(sizeof rule));
    return rule;
  }
};

// Pairs of a detection and a ground truth, by detection row of the batch: detection d has room for
// offsets[d + 1] - offsets[d] of them and uses counts[d].
struct Pairs {
  const int64_t* offsets;        // [D + 1]
  const int32_t* counts;         // [D]
  const int32_t* ground_truths;  // [P] positions in the image
  const double* similarities;  // [P], descending for a detection; of equal ones the later ground truth first
  int64_t size;                // P
};

struct Batch {
  VALOR_BATCH_FIELDS(VALOR_FIELD)

  VALOR_HD Pairs stored() const {
    return {reinterpret_cast<const int64_t*>(pair_offsets), reinterpret_cast<const int32_t*>(pair_counts),
            reinterpret_cast<const int32_t*>(pair_ground_truths),
            reinterpret_cast<const double*>(pair_similarities), pairs};
  }
  // Image i, whose rows are given.
  VALOR_HD Segment segment(int64_t i, int64_t first_detection, int64_t num_detections,
                           int64_t first_ground_truth, int64_t num_ground_truths) const {
    Segment s{};
    const int64_t row = room ? room * i : first_detection,
                  gt_row = gt_room ? gt_room * i : first_ground_truth;
#define VALOR_PLACE(name) s.name = name ? name + name##_stride * row : 0;
    VALOR_DETECTION_COLUMNS(VALOR_PLACE)
#undef VALOR_PLACE
#define VALOR_PLACE(name) s.name = name ? name + name##_stride * gt_row : 0;
    VALOR_GROUND_TRUTH_COLUMNS(VALOR_PLACE)
#undef VALOR_PLACE
    s.id_address = image_ids ? image_ids + 8 * i : 0;
    s.has_id = image_ids != 0;
    s.detections = num_detections;
    s.ground_truths = num_ground_truths;
    s.counts = counts ? counts + 8 * i : 0;
    s.gt_counts = gt_counts ? gt_counts + 8 * i : 0;
    s.first_detection = first_detection;
    s.first_ground_truth = first_ground_truth;
    return s;
  }
};

constexpr int kPaddingBucket = 255;
constexpr int kImageColumns = 8;

// The row tables, see docs/design/001-detection-records.md.
struct Output {
  uint8_t* detections;
  uint8_t* ground_truths;
  int64_t* images;
  int32_t* matches;  // [D, L] or null

  VALOR_HD uint8_t* detection(const Rule& rule, int64_t row) const {
    return detections + row * rule.detection_bytes();
  }
  VALOR_HD uint8_t* ground_truth(const Rule& rule, int64_t row) const {
    return ground_truths + row * rule.ground_truth_bytes();
  }
  // Where settings from `first` on note the ground truth that a detection takes.
  VALOR_HD int32_t* match(const Rule& rule, int64_t row, int64_t first) const {
    return matches ? matches + row * rule.settings() + first : nullptr;
  }
};

// Reads the row counts of an image, which lie in memory if the batch is padded; the first error with them.
VALOR_HD int64_t count_rows(const Segment& segment, int64_t image, int64_t& detections,
                            int64_t& ground_truths) {
  detections = segment.counts ? *reinterpret_cast<const int64_t*>(segment.counts) : segment.detections;
  ground_truths =
      segment.gt_counts ? *reinterpret_cast<const int64_t*>(segment.gt_counts) : segment.ground_truths;
  if (detections < 0 || detections > segment.detections) return box_error(image, 0, kCount);
  if (ground_truths < 0 || ground_truths > segment.ground_truths) return box_error(image, 0, kGtCount);
  return kNoError;
}

}  // namespace valor
