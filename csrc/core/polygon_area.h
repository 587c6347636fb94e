// The area that two polygons share and their intersection over union, and the pairs of a batch of polygons.
//
// A polygon is a list of edges with signs: (x, y) is inside where the signs of the edges above it at x add up
// to 1. The area that two share is then a sum over pairs of edges, of the area below both. Every step has 106
// bits, so that what comes out is the double nearest to the exact value, but for a case in about 2**40.
#pragma once
#include "boxes.h"
#include "pairs.h"
#include "two_doubles.h"

namespace valor {

// The part from x = left to x = right of the line through (x, y). `sign` is 1 where the polygon lies below
// it (at smaller y) and -1 where it lies above.
struct PolygonEdge {
  double x, y;
  TwoDoubles slope;
  double left, right, sign;
};
static_assert(sizeof(PolygonEdge) == 56, "valor_gpu/ops/polygon_sets/op.py has columns for these");

// All lengths of a polygon and its edges are in units of 2**exponent pixels, which is 1 pixel unless the
// coordinates are beyond 2**+-300.
struct PolygonShape {
  TwoDoubles area;
  double left, top, right, bottom;
  double reach;     // largest coordinate of the corners, without sign
  double exponent;  // a multiple of 600
  double is_box;    // 1 for a rectangle whose edges are parallel to the axes
};
static_assert(sizeof(PolygonShape) == 72, "valor_gpu/ops/polygon_sets/op.py has columns for these");

// One polygon; its edges ascend by `left`.
struct PolygonView {
  const PolygonEdge* edges;
  int64_t size;
  const PolygonShape* shape;
};

// The polygons of one side. The host fills it: pointers are addresses.
struct PolygonRows {
  int64_t edges, offsets, shapes;  // PolygonEdge [E], int64 [N + 1], PolygonShape [N]

  VALOR_HD const PolygonShape& shape(int64_t row) const {
    return reinterpret_cast<const PolygonShape*>(shapes)[row];
  }
  VALOR_HD PolygonView view(int64_t row) const {
    const int64_t* const first = reinterpret_cast<const int64_t*>(offsets) + row;
    return {reinterpret_cast<const PolygonEdge*>(edges) + first[0], first[1] - first[0], &shape(row)};
  }
};

// 2**exponent of a multiple of 600, 0 below what a double can hold; the exponent is at most 0.
VALOR_HD double unit_power(double exponent) {
  return exponent == 0.0 ? 1.0 : exponent == -600.0 ? 0x1p-600 : 0.0;
}

// An order by content, so that the result for (a, b) is that for (b, a): the one with more edges first.
VALOR_HD bool comes_before(const PolygonView& a, const PolygonView& b) {
  if (a.size != b.size) return a.size > b.size;
  const double* const first = &a.shape->area.high;
  const double* const second = &b.shape->area.high;
  for (int i = 0; i < 9; ++i)
    if (first[i] != second[i]) return first[i] < second[i];
  const double* const edges = &a.edges->x;
  const double* const others = &b.edges->x;
  for (int64_t i = 0; i < 7 * a.size; ++i)
    if (edges[i] != others[i]) return edges[i] < others[i];
  return false;
}

// Sums the area below pairs of edges. Rows of `a` are independent of one another. kFused changes no bit.
template <bool kFused>
class SharedArea {
 public:
  VALOR_HD SharedArea(const PolygonView& a, const PolygonView& b) : a_(a), b_(b) {
    const double unit = max_number(a.shape->exponent, b.shape->exponent);
    scale_ = unit_power(a.shape->exponent - unit);
    gt_scale_ = unit_power(b.shape->exponent - unit);
    left_ = max_number(a.shape->left * scale_, b.shape->left * gt_scale_);
    right_ = min_number(a.shape->right * scale_, b.shape->right * gt_scale_);
    base_ = max_number(a.shape->top * scale_, b.shape->top * gt_scale_);
    // Heights in float64 are off by far less.
    margin_ = 0x1p-46 * max_number(a.shape->reach * scale_, b.shape->reach * gt_scale_);
  }

  // The shared area of a sum: what rounding alone may leave is none. A sum of 2**20 terms is off by at most
  // 2**-84 of the common width times the largest coordinate.
  VALOR_HD TwoDoubles area(const TwoDoubles& sum) const {
    const double noise = 0x1p-38 * margin_ * (right_ - left_);
    return sum.high > noise ? times(sum, 0.5) : TwoDoubles{};
  }

  // Adds to `sum` twice the area below edge i of `a` and edges of `b`. Calls come with ascending i; `start`,
  // which begins with 0, keeps where to begin in `b`.
  VALOR_HD void add_row(int64_t i, int64_t& start, TwoDoubles& sum) const {
    const PolygonEdge edge = scaled(a_.edges[i], scale_);
    if (edge.right <= left_ || edge.left >= right_) return;
    while (start < b_.size && b_.edges[start].right * gt_scale_ <= edge.left) ++start;
    VALOR_ROLLED for (int64_t j = start; j < b_.size; ++j) {
      const PolygonEdge other = scaled(b_.edges[j], gt_scale_);
      if (other.left >= edge.right) break;
      const double left = max_number(edge.left, other.left), right = min_number(edge.right, other.right);
      if (left < right) sum = plus(sum, times(twice_below(edge, other, left, right), edge.sign * other.sign));
    }
  }

 private:
  VALOR_HD static PolygonEdge scaled(PolygonEdge edge, double scale) {
    edge.x *= scale, edge.y *= scale, edge.left *= scale, edge.right *= scale;
    return edge;
  }
  VALOR_HD TwoDoubles height(const PolygonEdge& edge, double x) const {
    return plus(exact_difference(edge.y, base_), product_of<kFused>(edge.slope, exact_difference(x, edge.x)));
  }
  // Twice the mean height between two places.
  VALOR_HD TwoDoubles twice_mean(const PolygonEdge& edge, double left, double right) const {
    const TwoDoubles along = plus(exact_difference(left, edge.x), exact_difference(right, edge.x));
    return plus(times(exact_difference(edge.y, base_), 2.0), product_of<kFused>(edge.slope, along));
  }

  // Twice the area between the base and the lower one of two edges.
  VALOR_HD TwoDoubles twice_below(const PolygonEdge& f, const PolygonEdge& g, double left,
                                  double right) const {
    const TwoDoubles width = exact_difference(right, left);
    const double at_left = (f.y + f.slope.high * (left - f.x)) - (g.y + g.slope.high * (left - g.x));
    const double at_right = (f.y + f.slope.high * (right - f.x)) - (g.y + g.slope.high * (right - g.x));
    if (at_left < -margin_ && at_right < -margin_)
      return product_of<kFused>(width, twice_mean(f, left, right));
    if (at_left > margin_ && at_right > margin_) return product_of<kFused>(width, twice_mean(g, left, right));
    const TwoDoubles d = minus(height(f, left), height(g, left)),
                     e = minus(height(f, right), height(g, right));
    if (d.high <= 0.0 && e.high <= 0.0) return product_of<kFused>(width, twice_mean(f, left, right));
    if (d.high >= 0.0 && e.high >= 0.0) return product_of<kFused>(width, twice_mean(g, left, right));
    // They cross: the lower one is half of the sum less the distance, whose mean is that of two triangles.
    const TwoDoubles apart = minus(times(d, d.high < 0.0 ? -1.0 : 1.0), times(e, e.high < 0.0 ? 1.0 : -1.0));
    const TwoDoubles distance =
        quotient_of<kFused>(plus(product_of<kFused>(d, d), product_of<kFused>(e, e)), apart);
    const TwoDoubles sum = plus(twice_mean(f, left, right), twice_mean(g, left, right));
    return times(product_of<kFused>(width, minus(sum, distance)), 0.5);
  }

  const PolygonView a_, b_;
  double scale_, gt_scale_, left_, right_, base_, margin_;
};

constexpr int kAreaLanes = 32;  // rows i, i + 32, .. are summed first, then those sums, on every device

template <bool kFused>
VALOR_HD TwoDoubles shared_area(const Serial&, const PolygonView& a, const PolygonView& b) {
  const SharedArea<kFused> shared(a, b);
  TwoDoubles sums[kAreaLanes] = {};
  int64_t start = 0;
  for (int64_t i = 0; i < a.size; ++i) shared.add_row(i, start, sums[i % kAreaLanes]);
  for (int offset = kAreaLanes / 2; offset; offset /= 2)
    for (int lane = 0; lane < offset && lane + offset < a.size; ++lane)
      sums[lane] = plus(sums[lane], sums[lane + offset]);
  return shared.area(sums[0]);
}

#if defined(__CUDACC__)
template <bool kFused>
__device__ __forceinline__ TwoDoubles shared_area(const Warp& warp, const PolygonView& a,
                                                  const PolygonView& b) {
  const SharedArea<kFused> shared(a, b);
  TwoDoubles sum = {};
  int64_t start = 0;
  VALOR_ROLLED for (int64_t i = warp.lane(); i < a.size; i += kAreaLanes) shared.add_row(i, start, sum);
  warp.sync();
  VALOR_ROLLED for (int offset = kAreaLanes / 2; offset; offset /= 2) {
    const int32_t other = warp.lane() ^ offset;
    sum = plus(sum, {warp.from(sum.high, other), warp.from(sum.low, other)});
  }
  return shared.area(sum);
}
#endif

VALOR_HD bool is_less(const TwoDoubles& a, const TwoDoubles& b) {
  return a.high < b.high || (a.high == b.high && a.low < b.low);
}

// Bounds in different units are not compared.
VALOR_HD bool are_apart(const PolygonShape& a, const PolygonShape& b) {
  return a.exponent == b.exponent &&
         (a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top);
}

VALOR_HD double box_iou(const PolygonShape& a, const PolygonShape& b, bool crowd) {
  if (a.left == b.left && a.top == b.top && a.right == b.right && a.bottom == b.bottom) return 1.0;
  const Box first{a.left, a.top, a.right - a.left, a.bottom - a.top};
  const Box second{b.left, b.top, b.right - b.left, b.bottom - b.top};
  return min_number(box_iou<true>(first, second, crowd), 1.0);
}

// Intersection over union, over the detection's area for a crowd; from 0 to 1, and 0 where an area is 0.
template <bool kFused, class Group>
VALOR_HD double polygon_iou(const Group& group, const PolygonView& detection, const PolygonView& gt,
                            bool crowd) {
  const PolygonShape &shape = *detection.shape, &gt_shape = *gt.shape;
  if (!(shape.area.high > 0.0 && gt_shape.area.high > 0.0) || are_apart(shape, gt_shape)) return 0.0;
  if (shape.is_box != 0.0 && gt_shape.is_box != 0.0 && shape.exponent == gt_shape.exponent)
    return box_iou(shape, gt_shape, crowd);
  const bool swap = comes_before(gt, detection);
  TwoDoubles shared = shared_area<kFused>(group, swap ? gt : detection, swap ? detection : gt);
  if (!(shared.high > 0.0)) return 0.0;
  const double unit = max_number(shape.exponent, gt_shape.exponent);
  const double scale = unit_power(shape.exponent - unit), gt_scale = unit_power(gt_shape.exponent - unit);
  const TwoDoubles area = times(times(shape.area, scale), scale);
  const TwoDoubles gt_area = times(times(gt_shape.area, gt_scale), gt_scale);
  if (is_less(area, shared)) shared = area;
  if (is_less(gt_area, shared)) shared = gt_area;
  const TwoDoubles whole = crowd ? area : minus(plus(swap ? gt_area : area, swap ? area : gt_area), shared);
  const double iou = quotient_of<kFused>(shared, whole).high;
  return iou >= 0.0 ? min_number(iou, 1.0) : 0.0;  // NaN where one is too small for the units of the other
}

// Whether the intersection over union can reach `lowest`, by bounds alone: they share no more than their
// bounds do, nor than the smaller area. The margin is far above what rounding does.
VALOR_HD bool polygon_may_reach(const PolygonShape& detection, const PolygonShape& gt, bool crowd,
                                double lowest) {
  if (lowest <= 0.0) return true;
  if (are_apart(detection, gt)) return false;
  if (detection.exponent != gt.exponent) return true;
  const double w = min_number(detection.right, gt.right) - max_number(detection.left, gt.left);
  const double h = min_number(detection.bottom, gt.bottom) - max_number(detection.top, gt.top);
  const double area = detection.area.high, gt_area = gt.area.high;
  const double most = min_number(w * h, min_number(area, gt_area));
  return !(most * (1.0 + 1e-9) < lowest * (crowd ? area : area + gt_area - most));
}

// The polygons of a batch. The host fills it.
struct PolygonSides {
  PolygonRows rows, gt_rows;
};

// The similarity of polygons, see core/pairs.h; a device adds how one pair is computed.
struct PolygonReach {
  PolygonRows rows, gt_rows;
  double lowest;

  // `batch` has the address of a PolygonSides; on the host alone.
  explicit PolygonReach(const PairBatch& batch)
      : rows(reinterpret_cast<const PolygonSides*>(batch.geometry)->rows),
        gt_rows(reinterpret_cast<const PolygonSides*>(batch.geometry)->gt_rows),
        lowest(batch.lowest) {}
  VALOR_HD bool may_reach(int64_t detection, int64_t gt, bool crowd) const {
    return polygon_may_reach(rows.shape(detection), gt_rows.shape(gt), crowd, lowest);
  }
};

}  // namespace valor
