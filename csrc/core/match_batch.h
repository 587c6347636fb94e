// What matching gets and gives: the images of a batch, the choices of a run, the row tables, and errors.
// Python fills Segment, Rule and Batch by the names that are declared here (valor_gpu/native.py). Every field
// is an int64: pointers are addresses.
#pragma once
#include <stddef.h>

#include "error_codes.h"

namespace valor {

// Where the rows of both sides lie; 0: a column is absent.
struct BatchColumns {
  // Of detections: boxes [D, 4], scores, labels, areas (float64; absent: of the boxes), flags (uint8
  // DetectionFlag), hashes (uint64 of the geometry, for stored pairs).
  int64_t boxes, scores, labels, areas, flags, hashes;
  // Of ground truths: gt_flags (GroundTruthFlag) and gt_areas come from the user, gt_own_areas (float64) and
  // gt_hashes (uint64) from the geometry of stored pairs.
  int64_t gt_boxes, gt_labels, gt_flags, gt_areas, gt_own_areas, gt_hashes;
};

// One image.
struct Segment : BatchColumns {
  int64_t id, id_address, has_id;               // id_address: 0, or where an int64 id lies
  int64_t detections, ground_truths;            // row counts, which shape the output
  int64_t counts, gt_counts;                    // where int64 counts of valid rows lie; 0: all rows are valid
  int64_t first_detection, first_ground_truth;  // output rows

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

// The choices of a run.
struct Rule {
  int64_t thresholds, num_thresholds;  // float64 [T], of kCoco already min(t, 1 - 1e-10)
  int64_t area_ranges, num_areas;      // float64 [A, 2], both ends included
  int64_t limits, num_limits;          // int64 [M], ascending max-detection limits
  int64_t box_format, gt_box_format;   // BoxFormat
  int64_t options, kind;
  // FloatType or IntType of the columns that may be of several.
  int64_t boxes_type, scores_type, labels_type;
  int64_t gt_boxes_type, gt_labels_type, gt_flags_type, gt_areas_type;

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

// Images whose columns are one array each.
struct Batch : BatchColumns {
  BatchColumns stride;                        // bytes of a row
  int64_t images, detections, ground_truths;  // rows of all images
  int64_t lengths;                            // int64 [2, I]
  int64_t image_ids, counts, gt_counts;       // 0 or int64 [I]
  // Stored pairs: the fields of Pairs.
  int64_t pair_offsets, pair_counts, pair_ground_truths, pair_similarities, pairs;
  int64_t room, gt_room;  // rows from one image to the next; 0: as many as the image has

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
    static_assert(sizeof(BatchColumns) == 12 * 8, "each column is placed");
    s.boxes = boxes ? boxes + stride.boxes * row : 0;
    s.scores = scores ? scores + stride.scores * row : 0;
    s.labels = labels ? labels + stride.labels * row : 0;
    s.areas = areas ? areas + stride.areas * row : 0;
    s.flags = flags ? flags + stride.flags * row : 0;
    s.hashes = hashes ? hashes + stride.hashes * row : 0;
    s.gt_boxes = gt_boxes ? gt_boxes + stride.gt_boxes * gt_row : 0;
    s.gt_labels = gt_labels ? gt_labels + stride.gt_labels * gt_row : 0;
    s.gt_flags = gt_flags ? gt_flags + stride.gt_flags * gt_row : 0;
    s.gt_areas = gt_areas ? gt_areas + stride.gt_areas * gt_row : 0;
    s.gt_own_areas = gt_own_areas ? gt_own_areas + stride.gt_own_areas * gt_row : 0;
    s.gt_hashes = gt_hashes ? gt_hashes + stride.gt_hashes * gt_row : 0;
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
