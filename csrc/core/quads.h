// Rotated boxes and other convex quadrilaterals: loading and checking a row. Every device runs this
// arithmetic, sine and cosine included, so that no bit depends on a library.
#pragma once
#include <math.h>

#include "load.h"
#include "match_load.h"
#include "platform.h"

namespace valor {

// What a row holds: the corners x1 y1 .. x4 y4, or centre, width, height and an angle in one of four ways.
// Checked corners were accepted before, perhaps in a coarser type, and pass as they are.
enum QuadFormat : int {
  kCorners = 0,
  kDegrees = 1,
  kDegreesClockwise = 2,
  kRadians = 3,
  kRadiansClockwise = 4,
  kCheckedCorners = 5
};

VALOR_HD bool has_corners(QuadFormat format) { return format == kCorners || format == kCheckedCorners; }
VALOR_HD int quad_columns(QuadFormat format) { return has_corners(format) ? 8 : 5; }

// Sine and cosine for |x| <= pi / 4: the polynomials of fdlibm's k_sin.c and k_cos.c (Sun Microsystems,
// 1993).
VALOR_HD double small_sine(double x) {
  const double z = x * x;
  const double tail =
      2.75573137070700676789e-06 + z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10);
  const double rest = 8.33333333332248946124e-03 + z * (-1.98412698298579493134e-04 + z * tail);
  return x + z * x * (-1.66666666666666324348e-01 + z * rest);
}

VALOR_HD double small_cosine(double x) {
  const double z = x * x, half = 0.5 * z, near = 1.0 - half;
  const double tail =
      -2.75573143513906633035e-07 + z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11);
  const double rest = z * (4.16666666666666019037e-02 +
                           z * (-1.38888888888741095749e-03 + z * (2.48015872894767294178e-05 + z * tail)));
  return near + (((1.0 - near) - half) + z * rest);
}

struct Direction {
  double cosine, sine;
};

// Exact at multiples of 90 degrees, and the same for angles that are exactly 360 degrees apart: fmod, and the
// difference to the nearest multiple of 90, have no rounding error.
VALOR_HD Direction direction_of(double degrees) {
  const double turn = fmod(degrees, 360.0), quarter = rint(turn / 90.0);
  const double x = (turn - 90.0 * quarter) * 0.017453292519943295;
  const double s = small_sine(x), c = small_cosine(x);
  switch (static_cast<int>(quarter) & 3) {
    case 0:
      return {c, s};
    case 1:
      return {-s, c};
    case 2:
      return {-c, -s};
    default:
      return {s, -c};
  }
}

// How a quadrilateral whose edges are parallel to the axes becomes a box.
enum Alignment : int32_t { kOblique = 0, kAlignedCorners = 1, kAlignedCentre = 2 };

// A convex polygon of at most 4 corners. They are kept as distances from an origin of its own, so that
// positions far from 0 cost no accuracy; the smallest (x, then y) comes first, and the area is on the left of
// every edge where y grows upwards.
struct Quad {
  double x, y;                      // origin: the centre, or the first corner
  double dx[4], dy[4];              // corners
  double left, top, right, bottom;  // bounds, widened by more than their rounding error
  double area;
  int32_t size;       // corners in use, fewer than 4 where some lie on the edge between others
  int32_t alignment;  // an Alignment
};
static_assert(sizeof(Quad) == 128, "valor_gpu/ops/rotated/cpu.py allocates these");

enum QuadError : int { kGoodQuad = 0, kNotFinite = 1, kBadShape = 2 };

VALOR_HD double cross(double ax, double ay, double bx, double by) { return ax * by - ay * bx; }

// Bounds from the smallest and largest coordinates, widened since these were rounded.
VALOR_HD void set_bounds(Quad& quad, double left, double top, double right, double bottom) {
  const double across = max_size(left, right), down = max_size(top, bottom);
  const double slack = 0x1p-50 * (across > down ? across : down);
  quad.left = left - slack;
  quad.top = top - slack;
  quad.right = right + slack;
  quad.bottom = bottom + slack;
}

VALOR_HD bool is_aligned(const Quad& q) {
  return q.size == 4 && q.dy[0] == q.dy[1] && q.dx[1] == q.dx[2] && q.dy[2] == q.dy[3] && q.dx[3] == q.dx[0];
}

// The smallest of four points by x, then y. Every index here is known to the compiler: arrays whose index is
// not would lie in local memory on a GPU.
struct FirstCorner {
  int at = 0;
  double x, y;

  VALOR_HD FirstCorner(double x0, double y0) : x(x0), y(y0) {}
  VALOR_HD void look_at(int i, double other_x, double other_y) {
    if (other_x < x || (other_x == x && other_y < y)) at = i, x = other_x, y = other_y;
  }
  // Of four values in a circle, the one of this corner first.
  VALOR_HD void lead(double (&v)[4]) const {
    if (at & 1) {
      const double front = v[0];
      v[0] = v[1], v[1] = v[2], v[2] = v[3], v[3] = front;
    }
    if (at & 2) {
      const double front = v[0], second = v[1];
      v[0] = v[2], v[1] = v[3], v[2] = front, v[3] = second;
    }
  }
};

// Width and height must not be negative.
VALOR_HD QuadError quad_of_centre(const double* row, QuadFormat format, Quad& quad) {
  const double w = row[2], h = row[3];
  if (w < 0.0 || h < 0.0) return kBadShape;
  const bool radians = format == kRadians || format == kRadiansClockwise;
  Direction to = direction_of(radians ? row[4] * 57.29577951308232 : row[4]);
  if (format == kDegreesClockwise || format == kRadiansClockwise) to.sine = -to.sine;
  // Half of the width and of the height as vectors; counterclockwise where y grows downwards.
  const double ux = 0.5 * w * to.cosine, uy = 0.5 * w * -to.sine, vx = 0.5 * h * to.sine,
               vy = 0.5 * h * to.cosine;
  double dx[4] = {-ux - vx, ux - vx, ux + vx, vx - ux}, dy[4] = {-uy - vy, uy - vy, uy + vy, vy - uy};
  FirstCorner first(dx[0], dy[0]);
  VALOR_UNROLLED for (int i = 1; i < 4; ++i) first.look_at(i, dx[i], dy[i]);
  first.lead(dx);
  first.lead(dy);
  quad.x = row[0];
  quad.y = row[1];
  VALOR_UNROLLED for (int i = 0; i < 4; ++i) quad.dx[i] = dx[i], quad.dy[i] = dy[i];
  quad.area = w * h;
  quad.size = 4;
  quad.alignment = is_aligned(quad) ? kAlignedCentre : kOblique;
  const double across = fabs(ux) + fabs(vx), down = fabs(uy) + fabs(vy);
  set_bounds(quad, quad.x - across, quad.y - down, quad.x + across, quad.y + down);
  return kGoodQuad;
}

// Four points in the order of x, then y.
struct FourPoints {
  double x[4], y[4];

  VALOR_HD void sort() { order(0, 1), order(2, 3), order(0, 2), order(1, 3), order(1, 2); }
  // Twice the area of the triangle of three points, positive where the last is on the left.
  VALOR_HD double turn(int a, int b, int c) const {
    return cross(x[b] - x[a], y[b] - y[a], x[c] - x[a], y[c] - y[a]);
  }
  // Twice the area that the points enclose in the order in which they stand.
  VALOR_HD double enclosed() const { return fabs(cross(x[2] - x[0], y[2] - y[0], x[3] - x[1], y[3] - y[1])); }

 private:
  VALOR_HD void order(int a, int b) {
    if (x[a] < x[b] || (x[a] == x[b] && y[a] <= y[b])) return;
    const double upper_x = x[a], upper_y = y[a];
    x[a] = x[b], y[a] = y[b];
    x[b] = upper_x, y[b] = upper_y;
  }
};

VALOR_HD void add_corner(Quad& quad, const FourPoints& points, int i) {
  VALOR_UNROLLED for (int at = 0; at < 4; ++at) if (at == quad.size) quad.dx[at] = points.x[i],
                                                                     quad.dy[at] = points.y[i];
  ++quad.size;
}

// Adds the inner points that lie on the right of the way from `from` to `to`, first `near`, then `far`; one
// that the other hides is left out.
VALOR_HD void add_chain(Quad& quad, const FourPoints& p, int from, int near, int far, int to) {
  bool first = p.turn(0, 3, near) * (to - from) < 0.0, second = p.turn(0, 3, far) * (to - from) < 0.0;
  if (first && second) {
    first = p.turn(from, near, far) > 0.0;
    second = !first || p.turn(near, far, to) > 0.0;
  }
  if (first) add_corner(quad, p, near);
  if (second) add_corner(quad, p, far);
}

// The convex hull of sorted points: the two outer ones, and the inner ones on either side of the line between
// them.
VALOR_HD void set_hull(Quad& quad, const FourPoints& points) {
  quad.size = 0;
  add_corner(quad, points, 0);
  add_chain(quad, points, 0, 1, 2, 3);
  add_corner(quad, points, 3);
  add_chain(quad, points, 3, 2, 1, 0);
  VALOR_UNROLLED for (int i = 0; i < 4; ++i) if (i >= quad.size) quad.dx[i] = quad.dy[i] = 0.0;
  const double* const x = quad.dx;
  const double* const y = quad.dy;  // the first corner is the origin
  quad.area = quad.size < 3 ? 0.0
                            : 0.5 * (quad.size == 3 ? cross(x[1], y[1], x[2], y[2])
                                                    : cross(x[2], y[2], x[3] - x[1], y[3] - y[1]));
}

// Relative to the coordinates, what rounding them may have done: at least that of float32 arithmetic, since
// corners are mostly computed in it and may have been widened later.
VALOR_HD double rounding_of(FloatType type) {
  return type == kFloat16 ? 0x1p-11 : type == kBFloat16 ? 0x1p-8 : 0x1p-22;
}

// The points must be the corners of a convex quadrilateral one after another, in either direction: they then
// enclose as much as their hull does, up to what rounding explains. Corners may repeat or lie on a line.
VALOR_HD QuadError quad_of_corners(const double* row, FloatType type, Quad& quad) {
  FourPoints points;
  double reach = 0.0;
  VALOR_UNROLLED for (int i = 0; i < 8; ++i) reach = max_size(reach, row[i]);
  FirstCorner first(row[0], row[1]);
  VALOR_UNROLLED for (int i = 1; i < 4; ++i) first.look_at(i, row[2 * i], row[2 * i + 1]);
  quad.x = first.x;
  quad.y = first.y;
  VALOR_UNROLLED for (int i = 0; i < 4; ++i) {
    points.x[i] = row[2 * i] - quad.x;
    points.y[i] = row[2 * i + 1] - quad.y;
  }
  const double enclosed = points.enclosed();
  points.sort();
  set_hull(quad, points);
  double low = 0.0, high = 0.0;
  VALOR_UNROLLED for (int i = 1; i < 4; ++i) {
    low = min_number(low, points.y[i]);
    high = max_number(high, points.y[i]);
  }
  const double width = points.x[3], height = high - low;
  quad.alignment = is_aligned(quad) ? kAlignedCorners : kOblique;
  set_bounds(quad, quad.x, quad.y + low, quad.x + width, quad.y + high);
  const double explained = 4.0 * rounding_of(type) * reach * (width > height ? width : height);
  return quad.area - 0.5 * enclosed > explained ? kBadShape : kGoodQuad;
}

struct LoadedQuad {
  Quad quad;
  uint64_t hash;  // of the row's numbers
  QuadError error;
};

// A row that cannot be used leaves a quadrilateral without area.
VALOR_HD LoadedQuad load_quad(const void* rows, int64_t row, FloatType type, QuadFormat format) {
  LoadedQuad loaded{};
  double values[8];
  const int columns = quad_columns(format);
  double total = 0.0;
  loaded.hash = kRowSeed;
  VALOR_UNROLLED for (int i = 0; i < 8; ++i) {
    values[i] = 0.0;
    if (i >= columns) continue;
    values[i] = load_float64(rows, columns * row + i, type);
    total += values[i] - values[i];  // inf - inf and nan - nan are nan
    loaded.hash = fold(loaded.hash, bits_of(values[i]));
  }
  loaded.hash = mix(loaded.hash);
  loaded.error = total != 0.0          ? kNotFinite
                 : has_corners(format) ? quad_of_corners(values, type, loaded.quad)
                                       : quad_of_centre(values, format, loaded.quad);
  if (loaded.error == kBadShape && format == kCheckedCorners) loaded.error = kGoodQuad;
  if (loaded.error != kGoodQuad) loaded.quad = Quad{};
  return loaded;
}

}  // namespace valor
