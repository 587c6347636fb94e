// Detections and ground truths of a batch: loading and checking a row, and hashing its content.
#pragma once
#include <math.h>

#include "boxes.h"
#include "load.h"
#include "match_batch.h"

namespace valor {

constexpr uint64_t kRowSeed = 0x2545f4914f6cdd1dull;  // of the content of a row of any geometry

// A row's content folded into one word, position by position.
VALOR_HD uint64_t fold(uint64_t hash, uint64_t word) {
  return (hash ^ word) * 0x9e3779b97f4a7c15ull + (hash >> 29);
}

VALOR_HD uint64_t fold_box(uint64_t seed, const Box& box) {
  const uint64_t hash = fold(fold(seed, bits_of(box.x)), bits_of(box.y));
  return fold(fold(hash, bits_of(box.w)), bits_of(box.h));
}

VALOR_HD uint64_t hash_box(uint64_t seed, const Box& box, uint64_t tail) {
  return mix(fold(fold_box(seed, box), tail));
}

VALOR_HD uint64_t hash_detection(int64_t row, const Box& box, double score, int64_t label) {
  return hash_box(mix(static_cast<uint64_t>(row) + 1), box,
                  fold(bits_of(score), static_cast<uint64_t>(label)));
}

VALOR_HD uint64_t hash_ground_truth(const Box& box, int64_t label, int64_t flags, double area) {
  return hash_box(0x51afd7ed558ccd6dull, box,
                  fold(bits_of(area), static_cast<uint64_t>(label) << 3 | (flags & 7)));
}

VALOR_HD bool finite(const Box& box) {
  const double total = (box.x - box.x) + (box.y - box.y) + (box.w - box.w) + (box.h - box.h);
  return total == 0.0;  // inf - inf and nan - nan are nan
}

VALOR_HD double max_size(double a, double b) {
  const double size_a = fabs(a), size_b = fabs(b);
  return size_a > size_b ? size_a : size_b;
}

// Counts what in the boxes of a side is mostly a mistake, for Result to tell: negative sizes, and how far
// coordinates reach (boxes in fractions of the image reach 1, others far more).
struct BoxExtent {
  int64_t negative = 0;
  double reach = 0.0;

  VALOR_HD void add(const Box& box) {
    negative += box.w < 0.0 || box.h < 0.0;
    const double position = max_size(box.x, box.y), size = max_size(box.w, box.h);
    const double most = position > size ? position : size;
    reach = most > reach ? most : reach;
  }
};

// Rows of stored pairs: `content` is the hash of the geometry.
VALOR_HD uint64_t hash_content(uint64_t seed, uint64_t content, uint64_t tail) {
  return mix(fold(fold(seed, content), tail));
}

VALOR_HD uint64_t hash_detection(int64_t row, uint64_t content, double score, int64_t label) {
  return hash_content(mix(static_cast<uint64_t>(row) + 1), content,
                      fold(bits_of(score), static_cast<uint64_t>(label)));
}

VALOR_HD uint64_t hash_ground_truth(uint64_t content, int64_t label, int64_t flags, double area) {
  return hash_content(0x51afd7ed558ccd6dull, content,
                      fold(bits_of(area), static_cast<uint64_t>(label) << 3 | (flags & 7)));
}

VALOR_HD bool fits_int32(int64_t value) { return value >= INT32_MIN && value <= INT32_MAX; }

VALOR_HD double load_score(const Rule& rule, const Segment& segment, int64_t row) {
  return load_float64(reinterpret_cast<const void*>(segment.scores), row,
                      static_cast<FloatType>(rule.scores_type));
}

VALOR_HD int64_t load_label(const Rule& rule, const Segment& segment, int64_t row) {
  return load_int(reinterpret_cast<const void*>(segment.labels), row, static_cast<IntType>(rule.labels_type));
}

// What is wrong with a row, whatever its geometry.
VALOR_HD int64_t detection_error(const Rule& rule, double score, int64_t label) {
  const bool bad_score = (rule.options & kCheckScores) && score != score;
  return bad_score ? kScore : !fits_int32(label) ? kLabel : kGoodRow;
}

VALOR_HD uint8_t detection_flags(const Segment& segment, int64_t row) {
  return segment.flags ? reinterpret_cast<const uint8_t*>(segment.flags)[row] : 0;
}

VALOR_HD bool frees(const Segment& segment, int64_t row) { return detection_flags(segment, row) & kFree; }

VALOR_HD double detection_area(const Segment& segment, const Box& box, int64_t row) {
  return segment.areas ? reinterpret_cast<const double*>(segment.areas)[row] : box.w * box.h;
}

struct LoadedDetection {
  Box box;
  double score;
  int64_t label;
  int64_t error;  // a code, 0 when fine
};

VALOR_HD LoadedDetection load_detection(const Rule& rule, const Segment& segment, int64_t row) {
  LoadedDetection d;
  d.box = load_box(reinterpret_cast<const void*>(segment.boxes), row, static_cast<FloatType>(rule.boxes_type),
                   static_cast<BoxFormat>(rule.box_format));
  d.score = load_score(rule, segment, row);
  d.label = load_label(rule, segment, row);
  d.error = !finite(d.box) ? kBox : detection_error(rule, d.score, d.label);
  return d;
}

// The columns of a ground truth that no geometry decides.
struct GroundTruthRow {
  int64_t label, flags;
  double area;
  int64_t error;
};

// User input (kUserInput) has crowd flags of 0 or 1 and, as in torchmetrics, an area that is not positive
// stands for `own_area`, that of the geometry, and an infinite one is an error; without that check flags are
// GroundTruthFlag words and areas are taken as they are.
VALOR_HD GroundTruthRow load_row(const Rule& rule, const Segment& segment, int64_t row, double own_area) {
  GroundTruthRow t;
  t.label = load_int(reinterpret_cast<const void*>(segment.gt_labels), row,
                     static_cast<IntType>(rule.gt_labels_type));
  t.flags = segment.gt_flags ? load_int(reinterpret_cast<const void*>(segment.gt_flags), row,
                                        static_cast<IntType>(rule.gt_flags_type))
                             : 0;
  t.area = own_area;
  bool bad_area = false;
  if (segment.gt_areas) {
    const double given = load_float64(reinterpret_cast<const void*>(segment.gt_areas), row,
                                      static_cast<FloatType>(rule.gt_areas_type));
    bad_area = given != given || ((rule.options & kUserInput) && given - given != 0.0);
    if (given > 0.0 || !(rule.options & kUserInput)) t.area = given;
  }
  const bool bad_flag = (rule.options & kUserInput) && (t.flags < 0 || t.flags > 1);
  t.error = !fits_int32(t.label) ? kGtLabel : bad_area ? kGtArea : bad_flag ? kGtFlag : kGoodRow;
  return t;
}

struct LoadedGroundTruth {
  Box box;
  int64_t label, flags;
  double area;
  int64_t error;
};

VALOR_HD LoadedGroundTruth load_ground_truth(const Rule& rule, const Segment& segment, int64_t row) {
  const Box box =
      load_box(reinterpret_cast<const void*>(segment.gt_boxes), row,
               static_cast<FloatType>(rule.gt_boxes_type), static_cast<BoxFormat>(rule.gt_box_format));
  const GroundTruthRow t = load_row(rule, segment, row, box.w * box.h);
  return {box, t.label, t.flags, t.area, finite(box) ? t.error : int64_t{kGtBox}};
}

}  // namespace valor
