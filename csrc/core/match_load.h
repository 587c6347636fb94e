// Detections and ground truths of a batch: loading and checking a row, and hashing its content.
#pragma once
#include <math.h>

#include "boxes.h"
#include "load.h"
#include "match_batch.h"

namespace valor {

// A row's content folded into one word, position by position.
VALOR_HD uint64_t fold(uint64_t hash, uint64_t word) {
  return (hash ^ word) * 0x9e3779b97f4a7c15ull + (hash >> 29);
}

VALOR_HD uint64_t hash_box(uint64_t seed, const Box& box, uint64_t tail) {
  uint64_t hash = fold(fold(seed, bits_of(box.x)), bits_of(box.y));
  hash = fold(fold(hash, bits_of(box.w)), bits_of(box.h));
  return mix(fold(hash, tail));
}

VALOR_HD uint64_t hash_detection(int64_t row, const Box& box, double score, int64_t label) {
  return hash_box(mix(static_cast<uint64_t>(row) + 1), box,
                  fold(bits_of(score), static_cast<uint64_t>(label)));
}

VALOR_HD uint64_t hash_truth(const Box& box, int64_t label, int64_t flags, double area) {
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

VALOR_HD bool fits_int32(int64_t value) { return value >= INT32_MIN && value <= INT32_MAX; }

struct LoadedDetection {
  Box box;
  double score;
  int64_t label;
  int64_t error;  // a code, 0 when fine
};

VALOR_HD LoadedDetection load_detection(const Rule& rule, const Segment& segment, int64_t row) {
  LoadedDetection d;
  d.box = load_box(reinterpret_cast<const void*>(segment.boxes), row, static_cast<FloatType>(rule.box_type),
                   static_cast<BoxFormat>(rule.box_format));
  d.score = load_float64(reinterpret_cast<const void*>(segment.scores), row,
                         static_cast<FloatType>(rule.score_type));
  d.label =
      load_int(reinterpret_cast<const void*>(segment.labels), row, static_cast<IntType>(rule.label_type));
  const bool bad_score = (rule.options & kCheckScores) && d.score != d.score;
  d.error = !finite(d.box) ? kBox : bad_score ? kScore : !fits_int32(d.label) ? kLabel : kGoodRow;
  return d;
}

struct LoadedTruth {
  Box box;
  int64_t label, flags;
  double area;
  int64_t error;
};

// User input (kUserInput) has crowd flags of 0 or 1 and, as in torchmetrics, an area that is not positive
// stands for the area of the box, and an infinite one is an error; without that check flags are TruthFlag
// words and areas are taken as they are.
VALOR_HD LoadedTruth load_truth(const Rule& rule, const Segment& segment, int64_t row) {
  LoadedTruth t;
  t.box = load_box(reinterpret_cast<const void*>(segment.true_boxes), row,
                   static_cast<FloatType>(rule.true_box_type), static_cast<BoxFormat>(rule.true_box_format));
  t.label = load_int(reinterpret_cast<const void*>(segment.true_labels), row,
                     static_cast<IntType>(rule.true_label_type));
  t.flags = segment.true_flags ? load_int(reinterpret_cast<const void*>(segment.true_flags), row,
                                          static_cast<IntType>(rule.true_flag_type))
                               : 0;
  t.area = t.box.w * t.box.h;
  bool bad_area = false;
  if (segment.true_areas) {
    const double given = load_float64(reinterpret_cast<const void*>(segment.true_areas), row,
                                      static_cast<FloatType>(rule.true_area_type));
    bad_area = given != given || ((rule.options & kUserInput) && given - given != 0.0);
    if (given > 0.0 || !(rule.options & kUserInput)) t.area = given;
  }
  const bool bad_flag = (rule.options & kUserInput) && (t.flags < 0 || t.flags > 1);
  t.error = !finite(t.box)         ? kTrueBox
            : !fits_int32(t.label) ? kTrueLabel
            : bad_area             ? kTrueArea
            : bad_flag             ? kTrueFlag
                                   : kGoodRow;
  return t;
}

VALOR_HD double detection_area(const Segment& segment, const Box& box, int64_t row) {
  return segment.areas ? reinterpret_cast<const double*>(segment.areas)[row] : box.w * box.h;
}

VALOR_HD bool frees(const Segment& segment, int64_t row) {
  return segment.flags && (reinterpret_cast<const uint8_t*>(segment.flags)[row] & kFree);
}

}  // namespace valor
