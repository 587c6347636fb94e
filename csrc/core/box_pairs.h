// The pairs of a batch of upright boxes by their intersection over union.
#pragma once
#include "boxes.h"
#include "error_codes.h"
#include "match_load.h"
#include "pairs.h"

namespace valor {

// The similarity of upright boxes, see core/pairs.h.
struct BoxSimilarity {
  const Box* boxes;
  const Box* gt_boxes;
  double lowest;

  // `batch` has the address of a PairSides of Box; on the host alone.
  static BoxSimilarity of(const PairBatch& batch) {
    const PairSides& sides = *reinterpret_cast<const PairSides*>(batch.geometry);
    return {reinterpret_cast<const Box*>(sides.rows), reinterpret_cast<const Box*>(sides.gt_rows),
            batch.lowest};
  }
  VALOR_HD bool may_reach(int64_t detection, int64_t gt, bool) const {
    const Box &a = boxes[detection], &b = gt_boxes[gt];
    return lowest <= 0.0 ||
           (overlap<true>(a.x, a.w, b.x, b.w) > 0.0 && overlap<true>(a.y, a.h, b.y, b.h) > 0.0);
  }
  VALOR_HD double operator()(int64_t detection, int64_t gt, bool crowd) const {
    const double iou = box_iou<true>(boxes[detection], gt_boxes[gt], crowd);
    return iou >= 0.0 ? min_number(iou, 1.0) : 0.0;  // NaN where an area is beyond float64
  }
};

// The rows of one side of a batch, [N, 4].
struct BoxRows : SideRows {
  // Loads row `row`, which is in `image`; its error code.
  VALOR_HD int64_t load(int64_t image, int64_t row) const {
    Box box{};
    uint64_t hash = 0;
    bool good = true;
    if (!is_padding(image, row)) {
      box = load_box(reinterpret_cast<const void*>(rows), row, static_cast<FloatType>(type),
                     static_cast<BoxFormat>(format));
      hash = mix(fold_box(kRowSeed, box));
      good = finite(box);
    }
    if (!good) box = Box{};
    store(row, box, box.w * box.h, hash);
    return good ? int64_t{kNoError} : box_error(image, position(image, row), target ? kGtBox : kBox);
  }
};

}  // namespace valor
