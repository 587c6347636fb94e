// Distances from the boundary pixels of a mask to those of another: what a task holds, how a distance adds up
// along the axes, and the statistics of a list of distances. A boundary pixel is a pixel of the mask with a
// neighbour along an axis that is not, or that lies outside of the image (scipy.ndimage.binary_erosion with
// its default structure takes it away).
#pragma once
#include <math.h>

#include "platform.h"

namespace valor {

enum SurfaceMetric : int64_t { kEuclidean = 0, kChessboard = 1, kTaxicab = 2 };
enum SurfaceAxis : int { kPlanes = 0, kRows = 1, kColumns = 2 };

constexpr int kSumLanes = 256;  // distance i of a list is added to lane i % kSumLanes; then lanes are folded

// Labels int32 [images, depth, height, width], or masks, bytes 0 and 1 [images, classes, depth, height,
// width].
struct SurfaceSide {
  const void* data;
  int64_t masks;
};

// The fields are 64-bit words: Python packs them.
struct SurfaceTask {
  SurfaceSide sides[2];  // predictions, target
  int64_t images, classes, first_class;
  int64_t depth, height, width;
  int64_t volume;     // whether planes are neighbours of each other: not in a 2-D image, whose depth is 1
  int64_t metric;     // a SurfaceMetric
  int64_t unit;       // the spacing is 1: distances are sums of integers
  double spacing[3];  // of planes, rows, columns
  double quantile, tolerance;

  VALOR_HD int64_t pixels() const { return depth * height * width; }
  VALOR_HD int64_t kept() const { return classes - first_class; }
  VALOR_HD int64_t pairs() const { return images * kept(); }  // of image and class
};
static_assert(sizeof(SurfaceTask) == 18 * 8, "valor_gpu/ops/surface/op.py packs 18 words");

// The cost where there is no boundary, above all others; of integers it and another may be added.
template <class Value>
constexpr Value kSurfaceNone = static_cast<Value>(1ll << 61);
template <>
constexpr double kSurfaceNone<double> = HUGE_VAL;

// The cost of n pixels along an axis, and of steps along two axes; the distance is a function of the sum.
// Both ascend with their arguments, in float64 after rounding as well, so that the least cost may be searched
// axis by axis without changing a bit of it.
template <int64_t kMetric, class Value>
struct DistanceRule {
  using Cost = Value;
  static constexpr int64_t metric = kMetric;
  Value spacing[3];

  explicit DistanceRule(const SurfaceTask& task) {
    for (int axis = 0; axis < 3; ++axis) spacing[axis] = static_cast<Value>(task.spacing[axis]);
  }
  VALOR_HD static Value none() { return kSurfaceNone<Value>; }
  VALOR_HD Value step(int axis, int64_t pixels) const {
    const Value far = static_cast<Value>(pixels) * spacing[axis];
    return kMetric == kEuclidean ? far * far : far;
  }
  VALOR_HD static Value join(Value a, Value b) {
    if (kMetric == kChessboard) return a > b ? a : b;
    return a + b;
  }
  VALOR_HD static double distance(Value cost) {
    return kMetric == kEuclidean ? sqrt(static_cast<double>(cost)) : static_cast<double>(cost);
  }
};

// Calls visit with the rule of a task.
template <class Visit>
auto with_rule(const SurfaceTask& task, Visit visit) {
  if (task.unit) {
    if (task.metric == kEuclidean) return visit(DistanceRule<kEuclidean, int64_t>(task));
    if (task.metric == kChessboard) return visit(DistanceRule<kChessboard, int64_t>(task));
    return visit(DistanceRule<kTaxicab, int64_t>(task));
  }
  if (task.metric == kEuclidean) return visit(DistanceRule<kEuclidean, double>(task));
  if (task.metric == kChessboard) return visit(DistanceRule<kChessboard, double>(task));
  return visit(DistanceRule<kTaxicab, double>(task));
}

// The least of line(i) joined with the way from i to `at`, searched outwards until the way alone costs as
// much.
template <class Rule, class Line>
VALOR_HD typename Rule::Cost search_line(const Rule& rule, int axis, const Line& line, int64_t length,
                                         int64_t at) {
  typename Rule::Cost best = line(at);
  const int64_t most = at > length - 1 - at ? at : length - 1 - at;
  for (int64_t by = 1; by <= most; ++by) {
    const typename Rule::Cost way = rule.step(axis, by);
    if (way >= best) break;
    if (at >= by) {
      const typename Rule::Cost cost = rule.join(line(at - by), way);
      if (cost < best) best = cost;
    }
    if (at + by < length) {
      const typename Rule::Cost cost = rule.join(line(at + by), way);
      if (cost < best) best = cost;
    }
  }
  return best;
}

// Where numpy.percentile looks (method "linear"): between the distances of rank `lower` and the next.
struct PercentileRank {
  int64_t lower;
  bool last;  // nothing comes after it
  double part;

  VALOR_HD PercentileRank(int64_t count, double quantile) {
    const double position = static_cast<double>(count - 1) * quantile;
    const double whole = floor(position);
    last = position >= static_cast<double>(count - 1);
    lower = last ? count - 1 : static_cast<int64_t>(whole);
    part = position - whole;
  }
  VALOR_HD double between(double a, double b) const {
    const double gap = b - a;
    return part >= 0.5 ? b - gap * (1.0 - part) : a + gap * part;
  }
};

}  // namespace valor
