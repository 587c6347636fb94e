// What matching gets and gives: the images of a batch, the choices of a run, the row tables, and errors.
#pragma once
#include "error_codes.h"

namespace valor {

// One image of a batch. Every field is an int64 so that the host can fill a table of them, field by field
// ([fields, images]); pointers are addresses.
struct Segment {
  int64_t boxes, scores, labels;    // [detections] rows
  int64_t areas, flags;             // 0, or float64 [detections] areas, uint8 [detections] (kFree)
  int64_t true_boxes, true_labels;  // [truths] rows
  int64_t true_flags, true_areas;   // 0, or [truths] rows (kCrowd, ...)
  int64_t id, id_address;           // the image id, or where an int64 id lies; has_id says whether
  int64_t has_id;
  int64_t detections, truths;  // row counts: what shapes the output
  int64_t count_address,
      true_count_address;                // 0, or where the int64 count of valid rows lies (packed batches)
  int64_t first_detection, first_truth;  // first output row

  static constexpr int kFields = 18;
  VALOR_HD static Segment at(const int64_t* table, int64_t images, int64_t image) {
    int64_t fields[kFields];
    for (int f = 0; f < kFields; ++f) fields[f] = table[f * images + image];
    Segment segment;
    memcpy(&segment, fields, sizeof segment);
    return segment;
  }
};
static_assert(sizeof(Segment) == 8 * Segment::kFields, "Segment holds int64 fields only");

// Values of Segment::true_flags and Segment::flags.
enum TruthFlag : int64_t { kCrowd = 1, kIgnored = 2, kIdZero = 4 };
enum DetectionFlag : int64_t { kFree = 1 };  // leaves its ground truth free: cocoeval's effect of an id <= 0

// The choices of a run. Pointers are addresses, as in Segment.
struct Rule {
  int64_t thresholds, num_thresholds;  // float64 [T], already min(t, 1 - 1e-10)
  int64_t area_ranges, num_areas;      // float64 [A, 2], both ends included
  int64_t limits, num_limits;          // int64 [M], ascending max-detection limits
  int64_t box_format, true_box_format, options;
  int64_t box_type, score_type, label_type, true_box_type, true_label_type, true_flag_type, true_area_type;

  VALOR_HD const double* threshold() const { return reinterpret_cast<const double*>(thresholds); }
  VALOR_HD const double* area() const { return reinterpret_cast<const double*>(area_ranges); }
  VALOR_HD const int64_t* limit() const { return reinterpret_cast<const int64_t*>(limits); }
  VALOR_HD int64_t lanes() const { return num_thresholds * num_areas; }
  VALOR_HD int64_t lane_bytes() const { return (lanes() + 7) / 8; }
  VALOR_HD int64_t detection_bytes() const { return 13 + 2 * lane_bytes(); }
  VALOR_HD int64_t truth_bytes() const { return 4 + (num_areas + 2 + 7) / 8; }
  VALOR_HD int64_t max_detections() const { return limit()[num_limits - 1]; }
  // The numbers are words that follow one another at `address`: thresholds, area ranges, limits.
  VALOR_HD void place(int64_t address) {
    thresholds = address;
    area_ranges = thresholds + 8 * num_thresholds;
    limits = area_ranges + 16 * num_areas;
  }
};

// Bits of Rule::options.
enum Option : int64_t {
  kAgnostic = 1,      // one cell an image, whatever the labels
  kHashed = 2,        // fill the hashes of the images table
  kCheckScores = 4,   // a NaN score is an error
  kUserInput = 8,     // crowd flags are 0 or 1, and an area that is not positive means the area of the box
  kWantMatches = 16,  // note which ground truth each lane matched
};

constexpr int kPaddingBucket = 255;
constexpr int kImageColumns = 8;

// The row tables, see docs/design/001-detection-records.md.
struct Output {
  uint8_t* detections;
  uint8_t* truths;
  int64_t* images;
  int32_t* matches;  // [D, L] or null

  VALOR_HD uint8_t* detection(const Rule& rule, int64_t row) const {
    return detections + row * rule.detection_bytes();
  }
  VALOR_HD uint8_t* truth(const Rule& rule, int64_t row) const { return truths + row * rule.truth_bytes(); }
  // Where lanes from `first` on note the ground truth that a detection takes.
  VALOR_HD int32_t* match(const Rule& rule, int64_t row, int64_t first) const {
    return matches ? matches + row * rule.lanes() + first : nullptr;
  }
};

// Reads the row counts of an image, which lie in memory if the batch is padded; the first error with them.
VALOR_HD int64_t count_rows(const Segment& segment, int64_t image, int64_t& detections, int64_t& truths) {
  detections =
      segment.count_address ? *reinterpret_cast<const int64_t*>(segment.count_address) : segment.detections;
  truths = segment.true_count_address ? *reinterpret_cast<const int64_t*>(segment.true_count_address)
                                      : segment.truths;
  if (detections < 0 || detections > segment.detections) return box_error(image, 0, kCount);
  if (truths < 0 || truths > segment.truths) return box_error(image, 0, kTrueCount);
  return kNoError;
}

}  // namespace valor
