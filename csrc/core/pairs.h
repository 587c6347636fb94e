// The pairs of a batch for matching, whatever the geometry: what they are made of, and where they go.
#pragma once
#include "load.h"
#include "match_batch.h"
#include "platform.h"

namespace valor {

// A similarity, which finds the pairs of a batch (csrc/cpu/pairs.h, csrc/cuda/pairs.h), has
//   bool may_reach(int64_t detection, int64_t gt, bool crowd) const
//   double operator()(int64_t detection, int64_t gt, bool crowd) const
// over rows of the whole batch. The first is cheap and true wherever the second can reach `lowest`; the
// second is never NaN. Both are called again for the same rows and give the same.

// Every field is 8 bytes so that the host can fill it; pointers are addresses. Rows of all images follow one
// another.
struct PairBatch {
  int64_t geometry;                     // on the host: the struct from which the similarity is made
  int64_t labels, gt_labels, gt_flags;  // [D], [G], [G] or 0
  int64_t firsts;             // int64 [3, I + 1]: first detection, ground truth and pair of an image
  int64_t counts, gt_counts;  // 0, or int64 [I]: rows that are no padding
  int64_t label_type, gt_label_type, gt_flag_type;
  int64_t images, agnostic;  // agnostic: one class for all
  double lowest;             // least similarity of a pair; 0 or less takes all pairs of a class
  int64_t offsets, used;     // int64 [D + 1], int32 [D]: room of a detection, and how much of it is used
  int64_t ground_truths, similarities;  // int32 [P], float64 [P]

  VALOR_HD int64_t label(int64_t row) const {
    return agnostic ? 0
                    : load_int(reinterpret_cast<const void*>(labels), row, static_cast<IntType>(label_type));
  }
  VALOR_HD int64_t gt_label(int64_t row) const {
    return agnostic
               ? 0
               : load_int(reinterpret_cast<const void*>(gt_labels), row, static_cast<IntType>(gt_label_type));
  }
  VALOR_HD bool is_crowd(int64_t row) const {
    return gt_flags &&
           (load_int(reinterpret_cast<const void*>(gt_flags), row, static_cast<IntType>(gt_flag_type)) &
            kCrowd);
  }
  VALOR_HD const int64_t* first_detections() const { return reinterpret_cast<const int64_t*>(firsts); }
  VALOR_HD const int64_t* first_gts() const { return first_detections() + images + 1; }
  VALOR_HD const int64_t* first_pairs() const { return first_gts() + images + 1; }
  VALOR_HD int64_t* offset() const { return reinterpret_cast<int64_t*>(offsets); }
  VALOR_HD int32_t* used_rooms() const { return reinterpret_cast<int32_t*>(used); }
  VALOR_HD int32_t* ground_truth(int64_t pair) const {
    return reinterpret_cast<int32_t*>(ground_truths) + pair;
  }
  VALOR_HD double* similarity(int64_t pair) const { return reinterpret_cast<double*>(similarities) + pair; }
};

// Rows of an image that are no padding: `counts` is 0, or the address of int64 [I]. Whether a count is valid
// is for assign to tell.
VALOR_HD int64_t valid_rows(int64_t counts, int64_t image, int64_t rows) {
  const int64_t count = counts ? reinterpret_cast<const int64_t*>(counts)[image] : rows;
  return count < 0 ? 0 : count < rows ? count : rows;
}

// The loaded rows of both sides of a batch, of a type of the geometry's own. The host fills it: pointers are
// addresses.
struct PairSides {
  int64_t rows, gt_rows;
};

// The rows of one side as the user gives them, and what loading them leaves.
struct SideRows {
  int64_t rows;                          // [N, width]
  int64_t firsts, counts;                // int64 [I + 1]; 0 or int64 [I]
  int64_t images, type, format, target;  // target: whether these are ground truths
  int64_t loaded, areas, hashes;         // [N] of the geometry's type, float64 [N], int64 [N]

  VALOR_HD const int64_t* first() const { return reinterpret_cast<const int64_t*>(firsts); }
  VALOR_HD int64_t position(int64_t image, int64_t row) const { return row - first()[image]; }
  VALOR_HD bool is_padding(int64_t image, int64_t row) const {
    return position(image, row) >= valid_rows(counts, image, first()[image + 1] - first()[image]);
  }
  template <class Row>
  VALOR_HD void store(int64_t row, const Row& value, double area, uint64_t hash) const {
    reinterpret_cast<Row*>(loaded)[row] = value;
    reinterpret_cast<double*>(areas)[row] = area;
    reinterpret_cast<uint64_t*>(hashes)[row] = hash;
  }
};

}  // namespace valor
