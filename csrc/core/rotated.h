// Intersection over union of convex quadrilaterals in float64, and the pairs of a batch of them.
#pragma once
#include "boxes.h"
#include "error_codes.h"
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
VALOR_HD bool may_reach(const Quad& detection, const Quad& gt, bool crowd, double lowest) {
  if (lowest <= 0.0) return true;
  if (are_apart(detection, gt)) return false;
  const double w = min_number(detection.right, gt.right) - max_number(detection.left, gt.left);
  const double h = min_number(detection.bottom, gt.bottom) - max_number(detection.top, gt.top);
  const double most = min_number(w * h, min_number(detection.area, gt.area));
  const double whole = crowd ? detection.area : detection.area + gt.area - most;
  return !(most * (1.0 + 1e-9) < lowest * whole);
}

// What the pairs of a batch are made of, and where they go. Every field is 8 bytes so that the host can fill
// it; pointers are addresses. Rows of all images follow one another.
struct QuadBatch {
  int64_t quads, gt_quads;              // Quad [D], [G]
  int64_t labels, gt_labels, gt_flags;  // [D], [G], [G] or 0
  int64_t firsts;             // int64 [3, I + 1]: first detection, ground truth and pair of an image
  int64_t counts, gt_counts;  // 0, or int64 [I]: rows that are no padding
  int64_t label_type, gt_label_type, gt_flag_type;
  int64_t images, agnostic;  // agnostic: one class for all
  double lowest;             // least similarity of a pair; 0 or less takes all pairs of a class
  int64_t offsets, used;     // int64 [D + 1], int32 [D]: room of a detection, and how much of it is used
  int64_t ground_truths, similarities;  // int32 [P], float64 [P]

  VALOR_HD const Quad& quad(int64_t row) const { return reinterpret_cast<const Quad*>(quads)[row]; }
  VALOR_HD const Quad& gt_quad(int64_t row) const { return reinterpret_cast<const Quad*>(gt_quads)[row]; }
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

// The rows of one side of a batch, and what loading them leaves.
struct QuadRows {
  int64_t rows;                          // [N, 5] or [N, 8]
  int64_t firsts, counts;                // int64 [I + 1]; 0 or int64 [I]
  int64_t images, type, format, target;  // target: whether these are ground truths
  int64_t quads, areas, hashes;          // Quad [N], float64 [N], int64 [N]

  VALOR_HD const int64_t* first() const { return reinterpret_cast<const int64_t*>(firsts); }
  // Loads row `row`, which is in `image`; its error code.
  VALOR_HD int64_t load(int64_t image, int64_t row) const {
    const int64_t position = row - first()[image], size = first()[image + 1] - first()[image];
    LoadedQuad loaded{};
    const QuadFormat how = static_cast<QuadFormat>(format);
    if (position < valid_rows(counts, image, size))
      loaded = load_quad(reinterpret_cast<const void*>(rows), row, static_cast<FloatType>(type), how);
    reinterpret_cast<Quad*>(quads)[row] = loaded.quad;
    reinterpret_cast<double*>(areas)[row] = loaded.quad.area;
    reinterpret_cast<uint64_t*>(hashes)[row] = loaded.hash;
    if (loaded.error == kGoodQuad) return kNoError;
    const int64_t shape = how == kCorners ? kNotConvex : kNegativeSize;
    const int64_t kind = loaded.error == kNotFinite ? kBox : shape;
    return box_error(image, position, kind + (!target ? 0 : kind == kBox ? kGtBox - kBox : 1));
  }
};

}  // namespace valor
