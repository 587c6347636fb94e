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

struct alignas(16) QuadCorner {
  double x, y;
};

// A place for `room` corners, each `stride` after the one before.
struct CornerRing {
  QuadCorner* first;
  int32_t room, stride;
};

// What is left of a convex polygon of 4 corners when it is cut 4 times. It lies in a ring: what a cut leaves
// is added at the end while corners are taken from the beginning. Rounding can bend an edge, so that a cut of
// n corners meets n / 2 bends and leaves up to n + n / 2: 4, 6, 9, 13, 19. Without bends it leaves n + 1. In
// either case there is one corner more while it cuts.
class Clipped {
 public:
  static constexpr int32_t kMost = 20, kUsual = 9;

  VALOR_HD explicit Clipped(const CornerRing& ring) : ring_(ring) {}

  VALOR_HD int32_t size() const { return size_; }
  // Whether the ring had no room for all of it.
  VALOR_HD bool over() const { return over_; }
  VALOR_HD void add(double x, double y) {
    if (size_ == ring_.room) {
      over_ = true;
      return;
    }
    ring_.first[end_ * ring_.stride] = QuadCorner{x, y};
    end_ = after(end_);
    ++size_;
  }
  // Leaves what is on the left of the line from (ax, ay) by (ex, ey) (Sutherland and Hodgman 1974).
  VALOR_HD void cut(double ax, double ay, double ex, double ey) {
    const int32_t corners = size_;
    QuadCorner last = ring_.first[(end_ ? end_ - 1 : ring_.room - 1) * ring_.stride];
    double last_side = cross(ex, ey, last.x - ax, last.y - ay);
    VALOR_ROLLED for (int32_t i = 0; i < corners; ++i) {
      const QuadCorner now = take();
      const double side = cross(ex, ey, now.x - ax, now.y - ay);
      if ((last_side > 0.0 && side < 0.0) || (last_side < 0.0 && side > 0.0)) {
        const double part = last_side / (last_side - side);
        add(last.x + part * (now.x - last.x), last.y + part * (now.y - last.y));
      }
      if (side >= 0.0) add(now.x, now.y);
      last = now;
      last_side = side;
    }
  }
  // By the triangles of the first corner; nothing is left afterwards.
  VALOR_HD double area() {
    if (size_ < 3) return 0.0;
    double twice = 0.0;
    const QuadCorner first = take();
    QuadCorner last = take();
    VALOR_ROLLED while (size_ > 0) {
      const QuadCorner now = take();
      twice += cross(last.x - first.x, last.y - first.y, now.x - first.x, now.y - first.y);
      last = now;
    }
    return 0.5 * twice;
  }

 private:
  VALOR_HD int32_t after(int32_t at) const { return at + 1 < ring_.room ? at + 1 : 0; }
  VALOR_HD QuadCorner take() {
    const QuadCorner corner = ring_.first[begin_ * ring_.stride];
    begin_ = after(begin_);
    --size_;
    return corner;
  }

  const CornerRing ring_;
  int32_t begin_ = 0, end_ = 0, size_ = 0;
  bool over_ = false;
};

// Area that two quadrilaterals share, with the origin of `a` as origin.
VALOR_HD double shared_area(const Quad& a, const Quad& b, Clipped& polygon) {
  for (int32_t i = 0; i < a.size; ++i) polygon.add(a.dx[i], a.dy[i]);
  const double from_x = b.x - a.x, from_y = b.y - a.y;
  VALOR_ROLLED for (int32_t i = 0; i < b.size && polygon.size() > 2; ++i) {
    const int32_t next = i + 1 < b.size ? i + 1 : 0;
    polygon.cut(from_x + b.dx[i], from_y + b.dy[i], b.dx[next] - b.dx[i], b.dy[next] - b.dy[i]);
  }
  return polygon.area();
}

VALOR_HD Box aligned_box(const Quad& q) {
  const double x = q.x + q.dx[0], y = q.y + q.dy[0];
  if (q.alignment == kAlignedCorners) return Box{x, y, q.dx[2], q.dy[2]};
  return Box{x, y, (q.x + q.dx[2]) - x, (q.y + q.dy[2]) - y};
}

VALOR_HD double oblique_iou(const Quad& detection, const Quad& gt, bool crowd, Clipped& polygon) {
  const bool swap = comes_before(gt, detection);
  double shared = shared_area(swap ? gt : detection, swap ? detection : gt, polygon);
  if (!(shared > 0.0)) return 0.0;
  shared = min_number(shared, min_number(detection.area, gt.area));
  return shared / (crowd ? detection.area : detection.area + gt.area - shared);
}

VALOR_HD bool are_apart(const Quad& a, const Quad& b) {
  return a.right < b.left || b.right < a.left || a.bottom < b.top || b.bottom < a.top;
}

// Intersection over union, over the detection's area for a crowd. From 0 to 1 for finite rows; 0 where an
// area is 0; 1 for equal ones. Where the edges of both are parallel to the axes it is that of box_iou.
// `polygon` is empty; if it is over afterwards, the number is none.
VALOR_HD double quad_iou(const Quad& detection, const Quad& gt, bool crowd, Clipped& polygon) {
  if (!(detection.area > 0.0 && gt.area > 0.0) || are_apart(detection, gt)) return 0.0;
  if (same_quad(detection, gt)) return 1.0;
  const double iou = detection.alignment && gt.alignment
                         ? box_iou<true>(aligned_box(detection), aligned_box(gt), crowd)
                         : oblique_iou(detection, gt, crowd, polygon);
  return iou >= 0.0 ? min_number(iou, 1.0) : 0.0;  // NaN where an area is beyond float64
}

VALOR_HD double quad_iou(const Quad& detection, const Quad& gt, bool crowd) {
  QuadCorner corners[Clipped::kMost];
  Clipped polygon(CornerRing{corners, Clipped::kMost, 1});
  return quad_iou(detection, gt, crowd, polygon);
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
