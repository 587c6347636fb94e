// Segments of the rings of a polygon, and exact answers about them: which lies above, whether they meet.
// Coordinates are multiples of 2**-200 of the largest one, so that no product is too small for a double.
#pragma once
#include <math.h>

#include "../core/two_doubles.h"

namespace valor {

// From the end with the smaller x (y where it is vertical) to the other.
struct RingSegment {
  double x0, y0, x1, y1;
  TwoDoubles slope;
  int32_t polygon, ring, position;  // position: in its ring
  bool rightward;                   // whether the ring runs from (x0, y0) to (x1, y1)

  bool vertical() const { return x0 == x1; }
  double top() const { return y0 < y1 ? y0 : y1; }
  double bottom() const { return y0 < y1 ? y1 : y0; }
};

inline RingSegment segment_between(double ax, double ay, double bx, double by) {
  const bool rightward = ax < bx || (ax == bx && ay < by);
  RingSegment made = rightward ? RingSegment{ax, ay, bx, by, {}, 0, 0, 0, true}
                               : RingSegment{bx, by, ax, ay, {}, 0, 0, 0, false};
  if (!made.vertical())
    made.slope = quotient_of(exact_difference(made.y1, made.y0), exact_difference(made.x1, made.x0));
  return made;
}

// A sum of doubles without rounding, for its sign (Shewchuk 1997): parts ascend and share no bit.
class ExactSum {
 public:
  void add(double value) {
    int kept = 0;
    for (int i = 0; i < size_; ++i) {
      const TwoDoubles sum = exact_sum(value, parts_[i]);
      if (sum.low != 0.0) parts_[kept++] = sum.low;
      value = sum.high;
    }
    if (value != 0.0) parts_[kept++] = value;
    size_ = kept;
  }
  void add(const TwoDoubles& value) { add(value.low), add(value.high); }
  void add_product(const TwoDoubles& a, const TwoDoubles& b) {
    add(exact_product(a.low, b.low));
    add(exact_product(a.low, b.high));
    add(exact_product(a.high, b.low));
    add(exact_product(a.high, b.high));
  }
  int sign() const { return size_ == 0 ? 0 : parts_[size_ - 1] > 0.0 ? 1 : -1; }

 private:
  double parts_[20];
  int size_ = 0;
};

// 1 where (x, y) has a larger y than the line of `s` has at x, -1 where a smaller one, 0 on it.
inline int side_of(const RingSegment& s, double x, double y) {
  const double one = (s.x1 - s.x0) * (y - s.y0), other = (s.y1 - s.y0) * (x - s.x0), turn = one - other;
  const double doubt = 0x1p-50 * (fabs(one) + fabs(other));
  if (turn > doubt) return 1;
  if (turn < -doubt) return -1;
  ExactSum exact;
  exact.add_product(exact_difference(s.x1, s.x0), exact_difference(y, s.y0));
  exact.add_product(exact_difference(s.y0, s.y1), exact_difference(x, s.x0));
  return exact.sign();
}

// How `f` lies to `e` at the left and at the right end of the x that both have: 1 above (larger y), -1, 0.
inline int above_at_left(const RingSegment& e, const RingSegment& f) {
  return f.x0 >= e.x0 ? side_of(e, f.x0, f.y0) : -side_of(f, e.x0, e.y0);
}
inline int above_at_right(const RingSegment& e, const RingSegment& f) {
  return f.x1 <= e.x1 ? side_of(e, f.x1, f.y1) : -side_of(f, e.x1, e.y1);
}

// Where two segments cross that do; (f, e) gives the same. An error in it moves an area by its square alone,
// since edges stay on the lines of their segments.
inline double crossing_of(const RingSegment& e, const RingSegment& f) {
  const double left = e.x0 > f.x0 ? e.x0 : f.x0, right = e.x1 < f.x1 ? e.x1 : f.x1;
  const auto apart = [&](double x) {
    const TwoDoubles one = product_of(e.slope, exact_difference(x, e.x0));
    const TwoDoubles other = product_of(f.slope, exact_difference(x, f.x0));
    return plus(exact_difference(e.y0, f.y0), minus(one, other));
  };
  const TwoDoubles d = apart(left), sum = minus(d, apart(right));
  const TwoDoubles along = product_of(exact_difference(right, left), quotient_of(d, sum));
  const double x = plus({left, 0.0}, along).high;
  return x > left ? (x < right ? x : right) : left;  // NaN gives the left end
}

// How `f` lies to `e` just right of x, which both have: 1 above, -1 below, 0 on the same line.
inline int above_after(const RingSegment& e, const RingSegment& f, double x) {
  if (f.top() > e.bottom()) return 1;
  if (f.bottom() < e.top()) return -1;
  const int left = above_at_left(e, f), right = above_at_right(e, f);
  if (left * right >= 0) return left ? left : right;
  return crossing_of(e, f) <= x ? right : left;
}

}  // namespace valor
