// Intersection over union of convex quadrilaterals in float64, and the pairs of a batch of them.
#pragma once
#include "boxes.h"
#include "error_codes.h"
#include "pairs.h"
#include "quads.h"

namespace valor {

VALOR_HD bool same_quad(const Quad& a, const Quad& b) {
  bool same = a.x == b.x && a.y == b.y && a.size == b.size;
  for (int i = 0; i < 4; ++i) same = same && a.dx[i] == b.dx[i] && a.dy[i] == b.dy[i];
  return same;
}

// An order by content, so that the result for (a, b) is that for (b, a).
VALOR_HD bool comes_before(const Quad& a, const Quad& b) {
  if (a.x != b.x) return a.x < b.x;
  if (a.y != b.y) return a.y < b.y;
  for (int i = 0; i < 4; ++i) {
    if (a.dx[i] != b.dx[i]) return a.dx[i] < b.dx[i];
    if (a.dy[i] != b.dy[i]) return a.dy[i] < b.dy[i];
  }
  return false;
}

// What is left of a convex polygon of 4 corners when it is cut 4 times. Rounding can bend an edge, so that a
// cut of n corners meets n / 2 bends and leaves up to n + n / 2: 4, 6, 9, 13, 19.
struct Clipped {
  static constexpr int kMost = 20;
  double x[kMost], y[kMost];
  int32_t size;

  VALOR_HD void add(double px, double py) {
    x[size] = px;
    y[size] = py;
    ++size;
  }
  // By the triangles of the first corner.
  VALOR_HD double area() const {
    double twice = 0.0;
    for (int32_t i = 2; i < size; ++i)
      twice += cross(x[i - 1] - x[0], y[i - 1] - y[0], x[i] - x[0], y[i] - y[0]);
    return 0.5 * twice;
  }
};

// Writes to `to` what of `from` is on the left of the line from (ax, ay) by (ex, ey), and returns true; false
// where that is all, with nothing written (Sutherland and Hodgman 1974).
VALOR_HD bool cut(const Clipped& from, Clipped& to, double ax, double ay, double ex, double ey) {
  double side[Clipped::kMost];
  bool all = true;
  VALOR_ROLLED for (int32_t i = 0; i < from.size; ++i) {
    side[i] = cross(ex, ey, from.x[i] - ax, from.y[i] - ay);
    all = all && side[i] >= 0.0;
  }
  if (all) return false;
  to.size = 0;
  int32_t last = from.size - 1;
  VALOR_ROLLED for (int32_t i = 0; i < from.size; last = i++) {
    if ((side[last] > 0.0 && side[i] < 0.0) || (side[last] < 0.0 && side[i] > 0.0)) {
      const double part = side[last] / (side[last] - side[i]);
      to.add(from.x[last] + part * (from.x[i] - from.x[last]),
             from.y[last] + part * (from.y[i] - from.y[last]));
    }
    if (side[i] >= 0.0) to.add(from.x[i], from.y[i]);
  }
  return true;
}

// Area that two quadrilaterals share, with the origin of `a` as origin.
VALOR_HD double shared_area(const Quad& a, const Quad& b) {
  Clipped buffers[2];
  int now = 0;
  buffers[0].size = 0;
  for (int32_t i = 0; i < a.size; ++i) buffers[0].add(a.dx[i], a.dy[i]);
  const double from_x = b.x - a.x, from_y = b.y - a.y;
  for (int32_t i = 0; i < b.size && buffers[now].size > 2; ++i) {
    const int32_t next = i + 1 < b.size ? i + 1 : 0;
    if (cut(buffers[now], buffers[1 - now], from_x + b.dx[i], from_y + b.dy[i], b.dx[next] - b.dx[i],
            b.dy[next] - b.dy[i]))
      now = 1 - now;
  }
  return buffers[now].area();
}

VALOR_HD Box aligned_box(const Quad& q) {
  const double x = q.x + q.dx[0], y = q.y + q.dy[0];
  if (q.alignment == kAlignedCorners) return Box{x, y, q.dx[2], q.dy[2]};
  return Box{x, y, (q.x + q.dx[2]) - x, (q.y + q.dy[2]) - y};
}

VALOR_HD double oblique_iou(const Quad& detection, const Quad& gt, bool crowd) {
  double shared = comes_before(gt, detection) ? shared_area(gt, detection) : shared_area(detection, gt);
  if (!(shared > 0.0)) return 0.0;
  shared = min_number(shared, min_number(detection.area, gt.area));
  return shared / (crowd ? detection.area : detection.area + gt.area - shared);
}

VALOR_HD bool are_apart(const Quad& a, const Quad& b) {
  return a.right < b.left || b.right < a.left || a.bottom < b.top || b.bottom < a.top;
}

// Intersection over union, over the detection's area for a crowd. From 0 to 1 for finite rows; 0 where an
// area is 0; 1 for equal ones. Where the edges of both are parallel to the axes it is that of box_iou.
VALOR_HD double quad_iou(const Quad& detection, const Quad& gt, bool crowd) {
  if (!(detection.area > 0.0 && gt.area > 0.0) || are_apart(detection, gt)) return 0.0;
  if (same_quad(detection, gt)) return 1.0;
  const double iou = detection.alignment && gt.alignment
                         ? box_iou<true>(aligned_box(detection), aligned_box(gt), crowd)
                         : oblique_iou(detection, gt, crowd);
  return iou >= 0.0 ? min_number(iou, 1.0) : 0.0;  // NaN where an area is beyond float64
}

// Whether quad_iou can reach `lowest`, by bounds alone: they share no more than their bounds do, nor than the
// smaller area. The margin is far above what rounding does to either side.
VALOR_HD bool quad_may_reach(const Quad& detection, const Quad& gt, bool crowd, double lowest) {
  if (lowest <= 0.0) return true;
  if (are_apart(detection, gt)) return false;
  const double w = min_number(detection.right, gt.right) - max_number(detection.left, gt.left);
  const double h = min_number(detection.bottom, gt.bottom) - max_number(detection.top, gt.top);
  const double most = min_number(w * h, min_number(detection.area, gt.area));
  const double whole = crowd ? detection.area : detection.area + gt.area - most;
  return !(most * (1.0 + 1e-9) < lowest * whole);
}

// The similarity of rotated boxes, see core/pairs.h.
struct QuadSimilarity {
  const Quad* quads;
  const Quad* gt_quads;
  double lowest;

  // `batch` has the address of a PairSides of Quad; on the host alone.
  static QuadSimilarity of(const PairBatch& batch) {
    const PairSides& sides = *reinterpret_cast<const PairSides*>(batch.geometry);
    return {reinterpret_cast<const Quad*>(sides.rows), reinterpret_cast<const Quad*>(sides.gt_rows),
            batch.lowest};
  }
  VALOR_HD bool may_reach(int64_t detection, int64_t gt, bool crowd) const {
    return quad_may_reach(quads[detection], gt_quads[gt], crowd, lowest);
  }
  VALOR_HD double operator()(int64_t detection, int64_t gt, bool crowd) const {
    return quad_iou(quads[detection], gt_quads[gt], crowd);
  }
};

// The rows of one side of a batch, [N, 5] or [N, 8].
struct QuadRows : SideRows {
  // Loads row `row`, which is in `image`; its error code.
  VALOR_HD int64_t load(int64_t image, int64_t row) const {
    LoadedQuad quad{};
    const QuadFormat how = static_cast<QuadFormat>(format);
    if (!is_padding(image, row))
      quad = load_quad(reinterpret_cast<const void*>(rows), row, static_cast<FloatType>(type), how);
    store(row, quad.quad, quad.quad.area, quad.hash);
    if (quad.error == kGoodQuad) return kNoError;
    const int64_t shape = how == kCorners ? kNotConvex : kNegativeSize;
    const int64_t kind = quad.error == kNotFinite ? kBox : shape;
    return box_error(image, position(image, row), kind + (!target ? 0 : kind == kBox ? kGtBox - kBox : 1));
  }
};

}  // namespace valor
