// Object keypoint similarity as pycocotools' computeOks has it, in the order of numpy's operations, and the
// rows of keypoints of a batch.
#pragma once
#include "error_codes.h"
#include "exp.h"
#include "load.h"
#include "match_load.h"
#include "means.h"
#include "pairs.h"

namespace valor {

// The similarity of two rows of keypoints, see core/pairs.h. The host fills it: every field is 8 bytes, and
// pointers are addresses.
struct KeypointSimilarity {
  int64_t points, gt_points;  // float64 [D, K, 3], [G, K, 3]: x, y, and of ground truths visibility
  int64_t gt_boxes;           // float64 [G, 4] xywh, or 0: the extent of the keypoints
  int64_t gt_areas;           // float64 [G]
  int64_t keypoints;          // K
  int64_t variances;          // float64 [K]: (2 * sigma) ** 2

  VALOR_HD double variance(int64_t k) const { return reinterpret_cast<const double*>(variances)[k]; }
  // `batch` has the address of one; on the host alone.
  static const KeypointSimilarity& of(const PairBatch& batch) {
    return *reinterpret_cast<const KeypointSimilarity*>(batch.geometry);
  }
  VALOR_HD bool may_reach(int64_t, int64_t, bool) const { return true; }
  VALOR_HD double operator()(int64_t detection, int64_t gt, bool) const {
    return measure(detection, gt, LocalSums());
  }
  // With sums as sum_tree takes them.
  template <class Sums>
  VALOR_HD double measure(int64_t detection, int64_t gt, Sums&& sums) const;
};

struct Bounds {
  double left, top, right, bottom;
};

// The smallest and largest x and y of `count` keypoints.
template <class At>
VALOR_HD Bounds bounds_of(const At& at, int64_t count) {
  Bounds b{at(0), at(1), at(0), at(1)};
  for (int64_t k = 1; k < count; ++k) {
    b.left = min_number(b.left, at(3 * k));
    b.right = max_number(b.right, at(3 * k));
    b.top = min_number(b.top, at(3 * k + 1));
    b.bottom = max_number(b.bottom, at(3 * k + 1));
  }
  return b;
}

// What one keypoint after another adds to the sum, from a detection's keypoints at `point`.
struct KeypointTerms {
  const KeypointSimilarity& geometry;
  const double* point;
  double area;
  int64_t k;

  VALOR_HD double term(double dx, double dy) {
    return exp_of_negative(-((dx * dx + dy * dy) / geometry.variance(k++) / (area + 0x1p-52) / 2.0));
  }
};

// Of the visible keypoints of a ground truth, by their distance from those of the detection.
struct VisibleTerms : KeypointTerms {
  const double* gt_point;

  VALOR_HD double next() {
    while (!(gt_point[3 * k + 2] > 0.0)) ++k;
    return term(point[3 * k] - gt_point[3 * k], point[3 * k + 1] - gt_point[3 * k + 1]);
  }
};

// Of all keypoints, by their distance from the doubled box of a ground truth.
struct BoxTerms : KeypointTerms {
  Bounds around;

  VALOR_HD double beyond(double low, double value, double high) const {
    return max_number(0.0, low - value) + max_number(0.0, value - high);
  }
  VALOR_HD double next() {
    return term(beyond(around.left, point[3 * k], around.right),
                beyond(around.top, point[3 * k + 1], around.bottom));
  }
};

// Reads values where `terms` is, and leaves it behind them.
template <class Terms>
struct FromTerms {
  Terms* terms;
  VALOR_HD double next() { return terms->next(); }
};

template <class Terms, class Sums>
VALOR_HD double mean_of(Terms terms, int64_t count, Sums&& sums) {
  return sum_tree(FromTerms<Terms>{&terms}, count, sums) / static_cast<double>(count);
}

template <class Sums>
VALOR_HD double KeypointSimilarity::measure(int64_t detection, int64_t gt, Sums&& sums) const {
  const double* const gt_point = reinterpret_cast<const double*>(gt_points) + 3 * keypoints * gt;
  const KeypointTerms terms{*this, reinterpret_cast<const double*>(points) + 3 * keypoints * detection,
                            reinterpret_cast<const double*>(gt_areas)[gt], 0};
  int64_t count = 0;
  for (int64_t k = 0; k < keypoints; ++k) count += gt_point[3 * k + 2] > 0.0;
  if (count > 0) return mean_of(VisibleTerms{terms, gt_point}, count, sums);
  double box[4];
  if (gt_boxes) {
    for (int i = 0; i < 4; ++i) box[i] = reinterpret_cast<const double*>(gt_boxes)[4 * gt + i];
  } else {
    const Bounds b = bounds_of([=](int64_t i) { return gt_point[i]; }, keypoints);
    box[0] = b.left, box[1] = b.top, box[2] = b.right - b.left, box[3] = b.bottom - b.top;
  }
  const Bounds around{box[0] - box[2], box[1] - box[3], box[0] + box[2] * 2.0, box[1] + box[3] * 2.0};
  return mean_of(BoxTerms{terms, around}, keypoints, sums);
}

// The rows of one side of a batch, and what loading them leaves. Every field is 8 bytes, pointers are
// addresses.
struct KeypointRows {
  int64_t rows, firsts, counts;  // [N, K, 3]; int64 [I + 1]; 0 or int64 [I]
  int64_t images, type, keypoints;
  int64_t points, areas,
      hashes;  // float64 [N, K, 3], `rows` itself where that has it; float64 [N]; int64 [N]
  // Of ground truths: boxes float64 [N, 4] or 0, areas float64 [N], flags [N] or 0. User input (kUserInput)
  // has positive areas and crowd flags of 0 or 1; what becomes of them in `flags`, uint8 [N], is kIgnored too
  // where no keypoint is visible.
  int64_t target, boxes, own_areas, given_flags, flag_type, flags, user;

  VALOR_HD const int64_t* first() const { return reinterpret_cast<const int64_t*>(firsts); }

  VALOR_HD double value(int64_t at) const {
    return load_float64(reinterpret_cast<const void*>(rows), at, static_cast<FloatType>(type));
  }

  // Loads row `row`, which is in `image`; its error code. Without `kHashed` there need be no `hashes`.
  template <bool kHashed = true>
  VALOR_HD int64_t load(int64_t image, int64_t row) const {
    const int64_t position = row - first()[image], size = first()[image + 1] - first()[image];
    const bool valid = position < valid_rows(counts, image, size);
    const int64_t begin = 3 * keypoints * row;
    uint64_t hash = kRowSeed;
    double odd[3] = {0.0, 0.0, 0.0};
    int64_t visible = 0;
    for (int64_t k = 0; valid && k < keypoints; ++k) {
      VALOR_UNROLLED for (int64_t i = 0; i < 3; ++i) {
        const double number = value(begin + 3 * k + i);
        if (points != rows) reinterpret_cast<double*>(points)[begin + 3 * k + i] = number;
        if (kHashed) hash = fold(hash, bits_of(number));
        odd[i] += number - number;  // inf - inf and nan - nan are nan
        if (i == 2) visible += number > 0.0;
      }
    }
    const double total = odd[0] + odd[1] + (target ? odd[2] : 0.0);
    int64_t kind = total != 0.0 ? (target ? kGtKeypoints : kKeypoints) : kGoodRow;
    double area = 0.0;
    if (target && valid) area = load_target(row, visible, hash, kind);
    if (!target && valid) {
      const Bounds b = bounds_of([=](int64_t i) { return value(begin + i); }, keypoints);
      area = (b.right - b.left) * (b.bottom - b.top);
    }
    if (flags && !valid) reinterpret_cast<uint8_t*>(flags)[row] = 0;
    reinterpret_cast<double*>(areas)[row] = area;
    if (kHashed) reinterpret_cast<uint64_t*>(hashes)[row] = valid ? mix(hash) : 0;
    return kind == kGoodRow ? kNoError : box_error(image, position, kind);
  }

 private:
  // The area of a ground truth; adds its box to the hash and notes an error where there was none.
  VALOR_HD double load_target(int64_t row, int64_t visible, uint64_t& hash, int64_t& kind) const {
    double total = 0.0;
    for (int i = 0; boxes && i < 4; ++i) {
      const double number = reinterpret_cast<const double*>(boxes)[4 * row + i];
      hash = fold(hash, bits_of(number));
      total += number - number;
    }
    const double area = reinterpret_cast<const double*>(own_areas)[row];
    const int64_t flag = given_flags ? load_int(reinterpret_cast<const void*>(given_flags), row,
                                                static_cast<IntType>(flag_type))
                                     : 0;
    if (kind == kGoodRow && total != 0.0) kind = kGtBox;
    if (kind == kGoodRow && (area - area != 0.0 || !(user ? area > 0.0 : area >= 0.0)))
      kind = user ? kNotPositiveArea : kNegativeArea;
    if (kind == kGoodRow && user && (flag < 0 || flag > 1)) kind = kGtFlag;
    const bool ignored = user && visible == 0;
    if (flags)
      reinterpret_cast<uint8_t*>(flags)[row] = static_cast<uint8_t>(ignored ? flag | kIgnored : flag);
    return area;
  }
};

}  // namespace valor
