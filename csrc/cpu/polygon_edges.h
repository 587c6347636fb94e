// Makes the signed edges of core/polygon_area.h from rings of any kind: concave, with holes, overlapping,
// touching or crossing themselves. Inside is where a point is inside any of the polygons, and inside a
// polygon where it is inside an odd number of its rings' turns (even-odd).
//
// Rings whose segments meet nowhere else than at common corners need one look each. Otherwise segments are
// cut where they meet others, and the pieces kept where inside lies on one side alone. Which segment lies
// above is decided exactly, so that nothing depends on rounding but the place of a cut, by its last bit.
#pragma once
#include <stdint.h>

#include <algorithm>
#include <vector>

#include "../core/match_load.h"
#include "../core/polygon_area.h"
#include "polygon_segments.h"

namespace valor {

enum PolygonProblem : int { kGoodPolygon = 0, kBadCoordinate = 1, kManyMeetings = 2 };

// A place of a segment where what lies above and below it changes.
struct Meeting {
  static constexpr int32_t kLookAgain = -1;
  int32_t segment;
  int32_t polygon;  // one whose boundary it crosses there, or kLookAgain
  double x;
};

class SegmentMeetings {
 public:
  static constexpr size_t kMost = size_t{1} << 22;  // of one item; each leaves an edge of 56 bytes

  // Finds where segments meet others, but for the next of their ring at the common corner.
  PolygonProblem find(const std::vector<RingSegment>& segments, const std::vector<int32_t>& ring_sizes) {
    segments_ = &segments;
    ring_sizes_ = &ring_sizes;
    found_.clear();
    any_ = false;
    order_.resize(segments.size());
    for (size_t i = 0; i < order_.size(); ++i) order_[i] = static_cast<int32_t>(i);
    std::sort(order_.begin(), order_.end(), [&](int32_t a, int32_t b) {
      return segments[a].x0 != segments[b].x0 ? segments[a].x0 < segments[b].x0 : a < b;
    });
    active_.clear();
    for (const int32_t at : order_) {
      const RingSegment& segment = segments[at];
      const Extent own{segment.top(), segment.bottom(), segment.x1, at};
      size_t kept = 0;
      for (const Extent& other : active_) {
        if (other.right < segment.x0) continue;
        active_[kept++] = other;
        if (other.top <= own.bottom && own.top <= other.bottom) meet(other.segment, at);
      }
      active_.resize(kept);
      active_.push_back(own);
      if (found_.size() > kMost) return kManyMeetings;
    }
    return kGoodPolygon;
  }

  bool any() const { return any_; }
  const std::vector<int32_t>& by_left() const { return order_; }
  std::vector<Meeting>& list() { return found_; }

 private:
  struct Extent {
    double top, bottom, right;
    int32_t segment;
  };

  // Whether one follows the other in their ring.
  bool adjacent(const RingSegment& e, const RingSegment& f) const {
    const int32_t apart = e.position < f.position ? f.position - e.position : e.position - f.position;
    return e.ring == f.ring && (apart == 1 || apart == (*ring_sizes_)[e.ring] - 1);
  }

  void cut(int32_t at, double x, int32_t polygon) {
    const RingSegment& segment = (*segments_)[at];
    if (segment.x0 < x && x < segment.x1) found_.push_back({at, polygon, x});
  }
  void look_again(int32_t a, int32_t b, double x) {
    cut(a, x, Meeting::kLookAgain);
    cut(b, x, Meeting::kLookAgain);
  }

  void meet(int32_t a, int32_t b) {
    const RingSegment &e = (*segments_)[a], &f = (*segments_)[b];
    if (e.vertical() && f.vertical()) {
      const bool touch = e.bottom() == f.top() || f.bottom() == e.top();
      any_ = any_ || !touch || !adjacent(e, f);
    } else if (e.vertical()) {
      meet_vertical(b, a);
    } else if (f.vertical()) {
      meet_vertical(a, b);
    } else {
      meet_lines(a, b);
    }
  }

  void meet_vertical(int32_t a, int32_t upright) {
    const RingSegment &e = (*segments_)[a], &v = (*segments_)[upright];
    const int at_top = side_of(e, v.x0, v.y0), at_bottom = side_of(e, v.x1, v.y1);
    if (at_top * at_bottom > 0) return;
    const bool inner = e.x0 < v.x0 && v.x0 < e.x1;
    any_ = any_ || inner || !adjacent(e, v);
    cut(a, v.x0, at_top * at_bottom < 0 ? v.polygon : Meeting::kLookAgain);
  }

  void meet_lines(int32_t a, int32_t b) {
    const RingSegment &e = (*segments_)[a], &f = (*segments_)[b];
    const double left = std::max(e.x0, f.x0), right = std::min(e.x1, f.x1);
    if (left == right) {
      any_ = any_ || ((e.x1 == f.x0 ? e.y1 == f.y0 : e.y0 == f.y1) && !adjacent(e, f));
      return;
    }
    const int first = above_at_left(e, f), last = above_at_right(e, f);
    if (first * last > 0) return;
    if (first * last < 0) {
      any_ = true;
      const double x = crossing_of(e, f);
      cut(a, x, f.polygon);
      cut(b, x, e.polygon);
      return;
    }
    const bool corner = (first == 0) != (last == 0) && adjacent(e, f);
    any_ = any_ || !corner || (first == 0 ? e.x0 != f.x0 : e.x1 != f.x1);
    if (first == 0) look_again(a, b, left);
    if (last == 0) look_again(a, b, right);
  }

  const std::vector<RingSegment>* segments_ = nullptr;
  const std::vector<int32_t>* ring_sizes_ = nullptr;
  std::vector<int32_t> order_;
  std::vector<Extent> active_;
  std::vector<Meeting> found_;
  bool any_ = false;
};

// Polygons by how often they are named: those of odd count stay.
class OddPolygons {
 public:
  void reset(int32_t polygons) { words_.assign((polygons + 63) / 64, 0), first_ = words_.size(), end_ = 0; }
  void flip(int32_t polygon) {
    const size_t word = polygon / 64;
    words_[word] ^= uint64_t{1} << (polygon % 64);
    first_ = std::min(first_, word);
    end_ = std::max(end_, word + 1);
  }
  // Moves them to a list, ascending.
  void take(std::vector<int32_t>& out) {
    out.clear();
    for (size_t word = first_; word < end_; ++word)
      for (uint64_t& bits = words_[word]; bits; bits &= bits - 1)
        out.push_back(static_cast<int32_t>(64 * word) + __builtin_ctzll(bits));
    first_ = words_.size(), end_ = 0;
  }

 private:
  std::vector<uint64_t> words_;
  size_t first_ = 0, end_ = 0;
};

// What finds the sides of segments, one after another.
struct SideFinder {
  OddPolygons below, here;

  explicit SideFinder(int32_t polygons) { below.reset(polygons), here.reset(polygons); }
};

// Which polygons lie on the sides of a segment just right of a place. As lists, since every segment of an
// item has some, and an item of n parts has n segments or more.
class SegmentSides {
 public:
  // `active` are segments that are not vertical; those that do not have x are passed over.
  template <class List>
  void look(const std::vector<RingSegment>& segments, const List& active, int32_t at, double x,
            SideFinder& finder) {
    hidden_ = false;
    const RingSegment& e = segments[at];
    for (const int32_t other : active) {
      const RingSegment& f = segments[other];
      if (!(f.x0 <= x && x < f.x1) || f.top() > e.bottom()) continue;
      const int above = other == at ? 0 : above_after(e, f, x);
      if (above > 0) continue;
      (above < 0 ? finder.below : finder.here).flip(f.polygon);
      hidden_ = hidden_ || (above == 0 && other < at);
    }
    finder.below.take(below_);
    finder.here.take(here_);
  }
  void cross(int32_t polygon) {
    const auto place = std::lower_bound(below_.begin(), below_.end(), polygon);
    if (place != below_.end() && *place == polygon)
      below_.erase(place);
    else
      below_.insert(place, polygon);
  }

  // 1 where inside lies below (at smaller y) alone, -1 where above alone, else 0. Of segments on the same
  // place one alone speaks for all.
  int sign() const {
    const bool below = !below_.empty(), above = below_ != here_;
    return hidden_ ? 0 : static_cast<int>(below) - static_cast<int>(above);
  }

 private:
  std::vector<int32_t> below_, here_;
  bool hidden_ = false;
};

// Makes the edges of one item after another.
class PolygonEdgeMaker {
 public:
  // `count` vertices x, y of all rings; ring r has those from rings[r]; polygon p the rings from polygons[p].
  PolygonProblem make(const double* vertices, const int64_t* rings, const int64_t* polygons, int64_t count,
                      std::vector<PolygonEdge>& edges, PolygonShape& shape) {
    segments_.clear();
    ring_sizes_.clear();
    edges_.clear();
    top_ = HUGE_VAL;
    bottom_ = -HUGE_VAL;
    shape = PolygonShape{};
    if (!set_unit(vertices + 2 * rings[polygons[0]], 2 * (rings[polygons[count]] - rings[polygons[0]]),
                  shape))
      return kBadCoordinate;
    for (int64_t p = 0; p < count; ++p)
      for (int64_t r = polygons[p]; r < polygons[p + 1]; ++r)
        add_ring(vertices + 2 * rings[r], rings[r + 1] - rings[r], static_cast<int32_t>(p));
    const PolygonProblem problem = meetings_.find(segments_, ring_sizes_);
    if (problem != kGoodPolygon) return problem;
    if (meetings_.any())
      keep_pieces(static_cast<int32_t>(count));
    else
      keep_rings(static_cast<int32_t>(count));
    std::sort(edges_.begin(), edges_.end(), before);
    measure(shape);
    edges.insert(edges.end(), edges_.begin(), edges_.end());
    return kGoodPolygon;
  }

 private:
  static bool before(const PolygonEdge& a, const PolygonEdge& b) {
    const double first[] = {a.left, a.y, a.right, a.x, a.slope.high, a.sign};
    const double second[] = {b.left, b.y, b.right, b.x, b.slope.high, b.sign};
    return std::lexicographical_compare(first, first + 6, second, second + 6);
  }

  // Finds the unit of lengths and the smallest difference of coordinates; false where one is not finite.
  bool set_unit(const double* numbers, int64_t count, PolygonShape& shape) {
    double reach = 0.0, total = 0.0;
    for (int64_t i = 0; i < count; ++i) {
      total += numbers[i] - numbers[i];  // NaN for NaN and infinity
      reach = std::max(reach, fabs(numbers[i]));
    }
    int power = 0;
    frexp(reach, &power);
    unit_ = -600 * static_cast<int>(lround(power / 600.0));
    shape.exponent = -unit_;
    shape.reach = ldexp(reach, unit_);
    coarse_ = ldexp(1.5, power + unit_ - 148);
    return total == 0.0;
  }
  double coordinate(double number) const {
    const double scaled = unit_ ? ldexp(number, unit_) : number;
    return fabs(scaled) < coarse_ ? (scaled + coarse_) - coarse_ : scaled;
  }

  void add_ring(const double* xy, int64_t count, int32_t polygon) {
    const int32_t ring = static_cast<int32_t>(ring_sizes_.size());
    int32_t position = 0;
    if (count > 0) {
      double x = coordinate(xy[2 * count - 2]), y = coordinate(xy[2 * count - 1]);
      for (int64_t i = 0; i < count; ++i) {
        const double next_x = coordinate(xy[2 * i]), next_y = coordinate(xy[2 * i + 1]);
        if (next_x == x && next_y == y) continue;
        RingSegment segment = segment_between(x, y, next_x, next_y);
        segment.polygon = polygon, segment.ring = ring, segment.position = position++;
        segments_.push_back(segment);
        x = next_x, y = next_y;
      }
    }
    ring_sizes_.push_back(position);
  }

  void keep(const RingSegment& s, double left, double right, int sign) {
    if (!sign || !(left < right)) return;
    edges_.push_back({s.x0, s.y0, s.slope, left, right, static_cast<double>(sign)});
    for (const double x : {left, right}) {
      const TwoDoubles rise = product_of(s.slope, exact_difference(x, s.x0));
      const double y = x == s.x1 ? s.y1 : plus({s.y0, 0.0}, rise).high;
      top_ = std::min(top_, y);
      bottom_ = std::max(bottom_, y);
    }
  }

  // Rings that meet nothing: what one segment sees holds for all of its ring.
  void keep_rings(int32_t polygons) {
    SideFinder finder(polygons);
    SegmentSides sides;
    const std::vector<int32_t>& all = meetings_.by_left();
    for (size_t first = 0, end; first < segments_.size(); first = end) {
      end = first + ring_sizes_[segments_[first].ring];
      size_t seen = first;
      while (seen < end && segments_[seen].vertical()) ++seen;
      if (seen == end) continue;
      const RingSegment& chosen = segments_[seen];
      sides.look(segments_, all, static_cast<int32_t>(seen), chosen.x0, finder);
      const int sign = sides.sign();
      for (size_t i = first; i < end; ++i)
        if (!segments_[i].vertical())
          keep(segments_[i], segments_[i].x0, segments_[i].x1,
               segments_[i].rightward == chosen.rightward ? sign : -sign);
    }
  }

  // Follows every segment from left to right through its meetings.
  void keep_pieces(int32_t polygons) {
    std::vector<Meeting>& all = meetings_.list();
    for (const int32_t at : meetings_.by_left())
      if (!segments_[at].vertical()) all.push_back({at, Meeting::kLookAgain, segments_[at].x0});
    std::sort(all.begin(), all.end(), [](const Meeting& a, const Meeting& b) {
      return a.x != b.x ? a.x < b.x : a.segment < b.segment;
    });
    SideFinder finder(polygons);
    states_.assign(segments_.size(), State{});
    std::vector<int32_t> active;
    const std::vector<int32_t>& by_left = meetings_.by_left();
    size_t next = 0, last;
    for (size_t i = 0; i < all.size(); i = last) {
      const int32_t at = all[i].segment;
      const double x = all[i].x;
      bool look = false;
      for (last = i; last < all.size() && all[last].segment == at && all[last].x == x; ++last)
        look = look || all[last].polygon == Meeting::kLookAgain;
      State& state = states_[at];
      if (x > segments_[at].x0) keep(segments_[at], state.x, x, state.sign);
      if (look) {
        for (; next < by_left.size() && segments_[by_left[next]].x0 <= x; ++next)
          if (!segments_[by_left[next]].vertical()) active.push_back(by_left[next]);
        const auto over = [&](int32_t other) { return segments_[other].x1 <= x; };
        active.erase(std::remove_if(active.begin(), active.end(), over), active.end());
        state.sides.look(segments_, active, at, x, finder);
      } else {
        for (size_t j = i; j < last; ++j) state.sides.cross(all[j].polygon);
      }
      state.x = x;
      state.sign = state.sides.sign();
    }
    for (const State& state : states_) {
      const RingSegment& segment = segments_[&state - states_.data()];
      if (!segment.vertical()) keep(segment, state.x, segment.x1, state.sign);
    }
    states_.clear();
  }

  void measure(PolygonShape& shape) const {
    if (edges_.empty()) return;
    shape.left = edges_.front().left;
    shape.top = top_;
    shape.right = edges_.front().right;
    shape.bottom = bottom_;
    for (const PolygonEdge& edge : edges_) shape.right = std::max(shape.right, edge.right);
    TwoDoubles sum = {};
    for (const PolygonEdge& e : edges_) {
      const TwoDoubles along = plus(exact_difference(e.left, e.x), exact_difference(e.right, e.x));
      const TwoDoubles twice = plus(times(exact_difference(e.y, shape.top), 2.0), product_of(e.slope, along));
      sum = plus(sum, times(product_of(exact_difference(e.right, e.left), twice), e.sign));
    }
    shape.area = sum.high > 0.0 ? times(sum, 0.5) : TwoDoubles{};
    const PolygonEdge &a = edges_.front(), &b = edges_.back();
    shape.is_box = edges_.size() == 2 && a.slope.high == 0.0 && b.slope.high == 0.0 && a.left == b.left &&
                   a.right == b.right;
  }

  struct State {
    double x = 0.0;
    int sign = 0;
    SegmentSides sides;
  };

  int unit_ = 0;
  double coarse_ = 0.0, top_ = 0.0, bottom_ = 0.0;
  std::vector<RingSegment> segments_;
  std::vector<int32_t> ring_sizes_;
  SegmentMeetings meetings_;
  std::vector<State> states_;
  std::vector<PolygonEdge> edges_;
};

}  // namespace valor
