// The IoU of two quadrilaterals on CUDA, by each lane of a warp.
#pragma once
#include "../core/rotated.h"
#include "launch.h"

namespace valor {

// IoU of a pair by each lane that wants one, in a block of kThreads. Polygons are cut in shared memory: an
// array whose index is known at run time alone would lie in local memory. Those with more than kUsual corners
// follow, one after another.
template <int kThreads, int32_t kUsual = Clipped::kUsual>
__device__ __forceinline__ double lane_iou(const Warp& warp, const Quad* detection, const Quad* gt,
                                           bool crowd, bool wanted) {
  VALOR_SHARED(QuadCorner, corners, [kUsual * kThreads]);
  VALOR_SHARED(QuadCorner, bent_corners, [Clipped::kMost * (kThreads / 32)]);
  CornerRing ring{corners + threadIdx.x, kUsual, kThreads};
  double iou = 0.0;
  uint32_t bent = 0;  // lanes whose polygon did not fit
  VALOR_ROLLED for (bool first = true;; first = false) {
    bool over = false;
    if (wanted) {
      Clipped polygon(ring);
      iou = quad_iou(*detection, *gt, crowd, polygon);
      over = polygon.over();
    }
    if (first) bent = warp.ballot(over);
    warp.sync();  // the next of them takes the same corners
    if (bent == 0) return iou;
    const uint32_t next = bent & ~(bent - 1);
    wanted = next >> warp.lane() == 1;
    bent -= next;
    ring = CornerRing{bent_corners + threadIdx.x / 32 * Clipped::kMost, Clipped::kMost, 1};
  }
}

}  // namespace valor
