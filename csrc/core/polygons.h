// Polygons as crossings of their edges with the columns of a mask.
//
// An edge is prepared once: which columns it crosses, first to last. row(column) is then the first row below
// the crossing, 0 to height. A closed ring crosses every column an even number of times; the rows between the
// first and the second crossing, the third and the fourth and so on are inside.
#pragma once
#include <math.h>

#include "platform.h"

namespace valor {

enum PolygonRule : int64_t { kCocoRule = 0, kCentreRule = 1 };

// Coordinates lie within this distance of 0: five times the distance of two of them fits in an int32.
constexpr double kMaxCoordinate = 2e8;
constexpr int64_t kMinVertices = 3;
// Times that the edges of a mask may cross columns on the CPU: each leaves a run, so that a few numbers would
// otherwise make gigabytes. 64 edges across an image of 200,000 columns are below.
constexpr int64_t kMostCrossings = 1 << 24;

// Why a ring is none; valor_gpu/ops/polygons/cpu.py says it in words.
enum RingProblem : int32_t { kGoodRing = 0, kFewVertices = 1, kBadVertex = 2, kManyCrossings = 3 };

VALOR_HD bool is_coordinate(double value) { return fabs(value) <= kMaxCoordinate; }  // NaN: false

VALOR_HD RingProblem check_ring(const double* xy, int64_t vertices) {
  if (vertices < kMinVertices) return kFewVertices;
  bool good = true;
  for (int64_t i = 0; i < 2 * vertices; ++i) good &= is_coordinate(xy[i]);
  return good ? kGoodRing : kBadVertex;
}

// The rule of COCO: pycocotools 2.0.11, common/maskApi.c, rleFrPoly. It moves vertices to a grid of a fifth
// of a pixel, walks along every edge from grid point to grid point and notes where the walk passes the middle
// of a column, from 5 * column + 2 to 5 * column + 3. Only these steps are looked at here, each in closed
// form with the same rounding; a step from u to u + 1 has one row however the edge is directed.
struct CocoEdge {
  static constexpr bool kRingsUnite = true;  // else even-odd over all rings
  static constexpr int32_t kScale = 5;

  struct Point {
    int32_t x, y;
  };

  static VALOR_HD Point vertex(const double* xy) {
    return {static_cast<int32_t>(kScale * xy[0] + .5), static_cast<int32_t>(kScale * xy[1] + .5)};
  }

  // Whether the edge crosses a column of a mask of this width, at least 1.
  VALOR_HD bool prepare(Point a, Point b, int32_t width) {
    const int32_t low = a.x < b.x ? a.x : b.x, high = a.x < b.x ? b.x : a.x;
    if (high < 3) return false;
    first = low <= 2 ? 0 : (low + 2) / kScale;
    last = (high - 3) / kScale;
    if (last >= width) last = width - 1;
    if (first > last) return false;
    const int32_t dx = high - low, dy = a.y < b.y ? b.y - a.y : a.y - b.y;
    steep = dx < dy;
    const bool flip = steep ? a.y > b.y : a.x > b.x;
    start = flip ? b : a;
    const Point end = flip ? a : b;
    const double across = end.x - start.x, down = end.y - start.y;
    slope = steep ? across / down : down / across;
    if (steep) steps = down / across;
    return true;
  }

  VALOR_HD int32_t row(int32_t column, int32_t height) const {
    const int32_t line = kScale * column + 3;
    return row_of(steep ? start.y + steep_step(line) : flat_y(line), height);
  }

  // The height of the walk, the smaller one of the two sides of `line`.
  VALOR_HD int32_t flat_y(int32_t line) const {
    const int32_t step = line - 1 - start.x + (slope < 0 ? 1 : 0);
    return static_cast<int32_t>(start.y + slope * step + .5);
  }

  // The step after which a steep walk is on the other side of `line`.
  VALOR_HD int32_t steep_step(int32_t line) const {
    const bool rising = slope > 0;
    int32_t step = static_cast<int32_t>((line - .5 - start.x) * steps);
    while (beyond(step, line) == rising) --step;
    while (beyond(step + 1, line) != rising) ++step;
    return step;
  }

  VALOR_HD bool beyond(int32_t step, int32_t line) const { return start.x + slope * step + .5 >= line; }

  // From a fifth of a pixel to the row that begins at or below it.
  static VALOR_HD int32_t row_of(int32_t y, int32_t height) {
    if (y < 0) return 0;
    const int32_t row = static_cast<int32_t>((static_cast<uint32_t>(y) + 2) / kScale);
    return row < height ? row : height;
  }

  int32_t first, last;  // columns that are crossed
  Point start;          // the end with the smaller x, of steep edges with the smaller y
  bool steep;
  double slope;  // along the other axis, per step
  double steps;  // per unit of x, of steep edges
};

// A pixel is inside when its centre (column + .5, row + .5) is, even-odd over all rings. A centre on an edge
// counts as if it were moved down by an infinitely small step and to the right by an infinitely smaller one.
struct CentreEdge {
  static constexpr bool kRingsUnite = false;

  struct Point {
    double x, y;
  };

  static VALOR_HD Point vertex(const double* xy) { return {xy[0], xy[1]}; }

  VALOR_HD bool prepare(Point a, Point b, int32_t width) {
    if (b.x < a.x) {  // two polygons that share an edge compute the same rows
      const Point c = a;
      a = b;
      b = c;
    }
    const double from = ceil(a.x - .5), to = ceil(b.x - .5);
    if (!(from < to) || to <= 0 || from >= width) return false;
    first = from < 0 ? 0 : static_cast<int32_t>(from);
    last = to > width ? width - 1 : static_cast<int32_t>(to) - 1;
    start = a;
    dx = b.x - a.x;
    dy = b.y - a.y;
    return true;
  }

  VALOR_HD int32_t row(int32_t column, int32_t height) const {
    const double y = ceil(start.y + (column + .5 - start.x) * dy / dx - .5);
    return y <= 0 ? 0 : y >= height ? height : static_cast<int32_t>(y);
  }

  int32_t first, last;  // columns that are crossed
  Point start;          // the end with the smaller x
  double dx, dy;
};

}  // namespace valor
