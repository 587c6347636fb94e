// Pairs of a detection and a ground truth that overlap: reading and checking them, and the orders in which
// they are ranked and paired off. The rules are in docs/design/018-valor-detection.md.
#pragma once
#include "error_codes.h"
#include "platform.h"

namespace valor {

// What is wrong with a column, in the order in which they are looked at.
enum OverlapColumn : int64_t {
  kSizes = 0,        // below 0 or above the rows of the side; the place is that in int64 [2, I]
  kSizeTotal = 1,    // do not add up to the rows of side 0 or 1
  kScores = 2,       // NaN
  kCounts = 3,       // below 0 or above the pairs
  kCountTotal = 4,   // do not add up to the pairs
  kGroundTruth = 5,  // not in the datum of the detection
  kIou = 6,          // not above 0 and at most 1
};

VALOR_HD int64_t overlap_error(OverlapColumn column, int64_t place) {
  return box_error(static_cast<int64_t>(column), place, 1);
}

// A pair that is better than others; pair -1: none.
struct Overlap {
  int64_t pair = -1, gt = -1;
  double iou = 0.0;

  // By IoU, of equal ones the earlier ground truth.
  VALOR_HD bool is_beaten_by(double other_iou, int64_t other_gt) const {
    return pair < 0 || other_iou > iou || (other_iou == iou && other_gt < gt);
  }
};

// The pairs of all datums. The host fills it: pointers are addresses.
struct OverlapTable {
  int64_t sizes;                     // int64 [2, I]: detections, ground truths
  int64_t labels, scores;            // int64 [D], float64 [D]
  int64_t gt_labels;                 // int64 [G]
  int64_t counts;                    // int64 [D]
  int64_t ground_truths, ious;       // int64 [P], float64 [P]
  int64_t firsts;                    // int64 [2, I + 1]: sums of the sizes before a datum
  int64_t offsets;                   // int64 [D + 1]: sums of the counts before a detection
  int64_t datums, rows, gts, pairs;  // I, D, G, P

  VALOR_HD const int64_t* first_rows() const { return reinterpret_cast<const int64_t*>(firsts); }
  VALOR_HD const int64_t* first_gts() const { return first_rows() + datums + 1; }
  VALOR_HD int64_t first_pair(int64_t row) const { return reinterpret_cast<const int64_t*>(offsets)[row]; }
  VALOR_HD int64_t size(int64_t place) const { return reinterpret_cast<const int64_t*>(sizes)[place]; }
  VALOR_HD int64_t count(int64_t row) const { return reinterpret_cast<const int64_t*>(counts)[row]; }
  VALOR_HD int64_t label(int64_t row) const { return reinterpret_cast<const int64_t*>(labels)[row]; }
  VALOR_HD int64_t gt_label(int64_t gt) const { return reinterpret_cast<const int64_t*>(gt_labels)[gt]; }
  VALOR_HD double score(int64_t row) const { return reinterpret_cast<const double*>(scores)[row]; }
  VALOR_HD int64_t gt(int64_t pair) const { return reinterpret_cast<const int64_t*>(ground_truths)[pair]; }
  VALOR_HD double iou(int64_t pair) const { return reinterpret_cast<const double*>(ious)[pair]; }

  // The best pair of a detection for which use(pair) is true.
  template <class Use>
  VALOR_HD Overlap best(int64_t row, const Use& use) const {
    Overlap found;
    for (int64_t pair = first_pair(row); pair < first_pair(row + 1); ++pair)
      if (use(pair) && found.is_beaten_by(iou(pair), gt(pair))) found = {pair, gt(pair), iou(pair)};
    return found;
  }

  // The first error in the sizes of a datum, by its index, or the totals, by an index of 0.
  VALOR_HD int64_t size_error(int64_t datum) const {
    int64_t first = kNoError;
    for (int64_t side = 0; side < 2; ++side) {
      const int64_t place = side * datums + datum, total = side ? gts : rows;
      int64_t code = kNoError;
      if (datum < datums && !(size(place) >= 0 && size(place) <= total))
        code = overlap_error(kSizes, place);
      else if (datum == 0 && first_rows()[side * (datums + 1) + datums] != total)
        code = overlap_error(kSizeTotal, side);
      first = code < first ? code : first;
    }
    return first;
  }
  // The first error of a detection but for its pairs, or of the total of the counts, by an index of 0.
  VALOR_HD int64_t row_error(int64_t row) const {
    if (row < rows && score(row) != score(row)) return overlap_error(kScores, row);
    if (row < rows && !(count(row) >= 0 && count(row) <= pairs)) return overlap_error(kCounts, row);
    return row == 0 && first_pair(rows) != pairs ? overlap_error(kCountTotal, 0) : int64_t{kNoError};
  }
  // The first error in the pairs of a detection of a datum, where sizes and counts have none.
  VALOR_HD int64_t pair_error(int64_t row, int64_t datum) const {
    int64_t first = kNoError;
    for (int64_t pair = first_pair(row); pair < first_pair(row + 1); ++pair) {
      const bool inside = gt(pair) >= first_gts()[datum] && gt(pair) < first_gts()[datum + 1];
      const bool good = iou(pair) > 0.0 && iou(pair) <= 1.0;
      const int64_t code = !inside ? overlap_error(kGroundTruth, pair)
                           : !good ? overlap_error(kIou, pair)
                                   : int64_t{kNoError};
      first = code < first ? code : first;
    }
    return first;
  }
};

// What rank_overlaps gives, see valor_gpu/ops/overlaps/op.py.
struct RankedRows {
  int64_t* best;  // [D]
  double *ious, *before, *others;

  VALOR_HD void choose(const OverlapTable& table, int64_t row) const {
    const int64_t label = table.label(row);
    const auto is_same = [&](int64_t pair) { return table.gt_label(table.gt(pair)) == label; };
    const Overlap same = table.best(row, is_same);
    best[row] = same.gt;
    ious[row] = same.iou;
    others[row] = table.best(row, [&](int64_t pair) { return !is_same(pair); }).iou;
    before[row] = 0.0;
  }
  // Whether detection `a` goes before `b`, both of one datum.
  VALOR_HD bool goes_before(const OverlapTable& table, int64_t a, int64_t b) const {
    const double first = table.score(a), second = table.score(b);
    if (first != second) return first > second;
    return ious[a] != ious[b] ? ious[a] > ious[b] : a < b;
  }
};

// Detections take ground truths of their label, each the best that is free, by score and then as they came.
struct DocRule {
  VALOR_HD bool allows(const OverlapTable& table, int64_t row, int64_t pair) const {
    return table.gt_label(table.gt(pair)) == table.label(row);
  }
  VALOR_HD bool goes_before(const OverlapTable& table, int64_t a, int64_t, int64_t b, int64_t) const {
    const double first = table.score(a), second = table.score(b);
    return first != second ? first > second : a < b;
  }
};

// Detections take ground truths of any label at a threshold, the pairs by score, IoU, ground truth and
// detection.
struct ConfuseRule {
  double lowest;  // IoU of a pair that is taken

  VALOR_HD bool allows(const OverlapTable& table, int64_t, int64_t pair) const {
    return table.iou(pair) >= lowest;
  }
  VALOR_HD bool goes_before(const OverlapTable& table, int64_t a, int64_t pair_a, int64_t b,
                            int64_t pair_b) const {
    const double first = table.score(a), second = table.score(b);
    if (first != second) return first > second;
    if (table.iou(pair_a) != table.iou(pair_b)) return table.iou(pair_a) > table.iou(pair_b);
    return table.gt(pair_a) != table.gt(pair_b) ? table.gt(pair_a) < table.gt(pair_b) : a < b;
  }
};

}  // namespace valor
