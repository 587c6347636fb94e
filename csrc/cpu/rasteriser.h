// Polygons to run lengths on the CPU, one mask after another.
#pragma once
#include <algorithm>
#include <vector>

#include "../core/polygons.h"

namespace valor {

struct Interval {
  uint32_t begin, end;  // pixels, column by column
};

// Fills what lies between the crossings of edges with columns. Keeps its memory for the next edges.
template <class Edge>
class ColumnFill {
 public:
  void clear() { edges_.clear(), crossings_ = 0; }
  int64_t crossings() const { return crossings_; }

  // Adds the edges of a closed ring.
  void add_ring(const double* xy, int64_t vertices, int32_t width) {
    typename Edge::Point a = Edge::vertex(xy + 2 * (vertices - 1));
    for (int64_t i = 0; i < vertices; ++i) {
      const typename Edge::Point b = Edge::vertex(xy + 2 * i);
      Edge edge;
      if (edge.prepare(a, b, width)) {
        edges_.push_back(edge);
        crossings_ += edge.last - edge.first + 1;
      }
      a = b;
    }
  }

  // Appends the pixels inside, ascending.
  void append(int32_t height, std::vector<Interval>& out) {
    if (edges_.empty()) return;
    int32_t first = edges_[0].first, last = edges_[0].last;
    for (const Edge& edge : edges_) {
      first = std::min(first, edge.first);
      last = std::max(last, edge.last);
    }
    own_ = out.size();
    split(first, last, crossings_, height, out);
  }

 private:
  static constexpr int64_t kAtOnce = 1 << 20;  // crossings, and columns; a single column may have more

  // Fills columns by halves where there are so many that they would take much memory.
  void split(int32_t first, int32_t last, int64_t crossings, int32_t height, std::vector<Interval>& out) {
    if (crossings == 0) return;
    if ((crossings <= kAtOnce && last - first < kAtOnce) || first == last)
      return fill(first, last, crossings, height, out);
    const int32_t middle = first + (last - first) / 2;
    int64_t left = 0;
    for (const Edge& edge : edges_)
      left += std::max(0, std::min(edge.last, middle) - std::max(edge.first, first) + 1);
    split(first, middle, left, height, out);
    split(middle + 1, last, crossings - left, height, out);
  }

  void fill(int32_t first, int32_t last, int64_t crossings, int32_t height, std::vector<Interval>& out) {
    ends_.assign(last - first + 2, 0);
    if (static_cast<int64_t>(rows_.size()) < crossings) rows_.resize(crossings);
    for (const Edge& edge : edges_) {
      const int32_t from = std::max(edge.first, first), to = std::min(edge.last, last);
      if (from > to) continue;
      ++ends_[from - first];
      --ends_[to + 1 - first];
    }
    int32_t edges = 0, begin = 0;
    for (int32_t& end : ends_) {
      edges += end;
      end = begin;
      begin += edges;
    }
    for (const Edge& edge : edges_) {
      const int32_t to = std::min(edge.last, last);
      for (int32_t column = std::max(edge.first, first); column <= to; ++column)
        rows_[ends_[column - first]++] = edge.row(column, height);
    }
    begin = 0;
    for (int32_t column = first; column <= last; ++column) {
      const int32_t end = ends_[column - first];
      const uint32_t top = static_cast<uint32_t>(column) * static_cast<uint32_t>(height);
      if (end - begin > height && end - begin > 2)
        append_crowded(begin, end, top, height, out);
      else
        append_column(begin, end, top, out);
      begin = end;
    }
  }

  void append_column(int32_t begin, int32_t end, uint32_t top, std::vector<Interval>& out) {
    int32_t* const rows = rows_.data();
    if (end - begin == 2) {
      const int32_t a = rows[begin], b = rows[begin + 1];
      return append_rows(std::min(a, b), std::max(a, b), top, out);
    }
    std::sort(rows + begin, rows + end);
    for (int32_t i = begin; i < end; i += 2) append_rows(rows[i], rows[i + 1], top, out);
  }

  // A column with more crossings than rows: counting is faster than sorting.
  void append_crowded(int32_t begin, int32_t end, uint32_t top, int32_t height, std::vector<Interval>& out) {
    odd_.assign(static_cast<size_t>(height) + 1, 0);
    for (int32_t i = begin; i < end; ++i) odd_[rows_[i]] ^= 1;
    int32_t first = -1;
    for (int32_t row = 0; row <= height; ++row) {
      if (!odd_[row]) continue;
      if (first >= 0) append_rows(first, row, top, out);
      first = first >= 0 ? -1 : row;
    }
  }

  void append_rows(int32_t first, int32_t end, uint32_t top, std::vector<Interval>& out) {
    if (first == end) return;
    const Interval next{top + first, top + end};
    if (out.size() > own_ && out.back().end == next.begin)
      out.back().end = next.end;
    else
      out.push_back(next);
  }

  std::vector<Edge> edges_;
  std::vector<int32_t> ends_;  // of the crossings of each column in rows_
  std::vector<int32_t> rows_;
  std::vector<uint8_t> odd_;  // of each row, whether an odd number of crossings has it
  int64_t crossings_ = 0;
  size_t own_ = 0;  // intervals before this one are of other rings
};

// begin(), add_ring() for each ring, finish(); then begin() for the next mask. Memory is kept from mask to
// mask. What it needs grows with the number of vertices and of runs, not with coordinates. The size is at
// least 0 x 0 and has less than 2^31 pixels.
class Rasteriser {
 public:
  void begin(int32_t height, int32_t width, PolygonRule rule = kCocoRule) {
    height_ = height;
    width_ = width;
    rule_ = rule;
    intervals_.clear();
    rings_.assign(1, 0);
    limit_ = kIntervals;
    centre_.clear();
    crossings_ = 0;
  }

  // xy: x and y of each vertex, in pixels; the last one is joined to the first. A ring with a problem is not
  // added.
  RingProblem add_ring(const double* xy, int64_t vertices) {
    const RingProblem problem = check_ring(xy, vertices);
    if (problem != kGoodRing) return problem;
    if (height_ == 0 || width_ == 0) return kGoodRing;
    if (rule_ == kCentreRule) {
      centre_.add_ring(xy, vertices, width_);
      return centre_.crossings() > kMostCrossings ? kManyCrossings : kGoodRing;
    }
    coco_.clear();
    coco_.add_ring(xy, vertices, width_);
    crossings_ += coco_.crossings();
    if (crossings_ > kMostCrossings) return kManyCrossings;
    coco_.append(height_, intervals_);
    if (intervals_.size() > rings_.back()) rings_.push_back(intervals_.size());
    if (intervals_.size() > limit_) {
      unite();
      limit_ = std::max(kIntervals, 2 * intervals_.size());
    }
    return kGoodRing;
  }

  // Appends the runs of the mask: zeros first, as pycocotools writes them.
  void finish(std::vector<int32_t>& runs) {
    if (rule_ == kCentreRule) centre_.append(height_, intervals_);
    if (rings_.size() > 2) unite();
    const size_t old = runs.size();
    runs.resize(old + 2 * intervals_.size() + 1);
    int32_t* to = runs.data() + old;
    uint32_t at = 0;
    for (const Interval& interval : intervals_) {
      *to++ = static_cast<int32_t>(interval.begin - at);
      *to++ = static_cast<int32_t>(interval.end - interval.begin);
      at = interval.end;
    }
    const uint32_t pixels = static_cast<uint32_t>(height_) * static_cast<uint32_t>(width_);
    if (at < pixels || intervals_.empty()) *to++ = static_cast<int32_t>(pixels - at);
    runs.resize(static_cast<size_t>(to - runs.data()));
  }

 private:
  static constexpr size_t kIntervals = 1 << 20;  // that may wait before rings are united: bounds memory

  // Makes one ascending list of the lists of all rings: merges neighbours until one is left.
  void unite() {
    const auto earlier = [](const Interval& a, const Interval& b) { return a.begin < b.begin; };
    while (rings_.size() > 2) {
      merged_.resize(intervals_.size());
      size_t lists = 1;
      for (size_t i = 0; i + 1 < rings_.size(); i += 2) {
        const size_t end = rings_[std::min(i + 2, rings_.size() - 1)];
        const auto from = intervals_.begin();
        std::merge(from + rings_[i], from + rings_[i + 1], from + rings_[i + 1], from + end,
                   merged_.begin() + rings_[i], earlier);
        rings_[lists++] = end;
      }
      rings_.resize(lists);
      intervals_.swap(merged_);
    }
    join_touching();
    rings_.assign({0, intervals_.size()});
  }

  void join_touching() {
    size_t last = 0;
    for (size_t i = 1; i < intervals_.size(); ++i) {
      if (intervals_[i].begin <= intervals_[last].end)
        intervals_[last].end = std::max(intervals_[last].end, intervals_[i].end);
      else
        intervals_[++last] = intervals_[i];
    }
    if (!intervals_.empty()) intervals_.resize(last + 1);
  }

  int32_t height_ = 0, width_ = 0;
  PolygonRule rule_ = kCocoRule;
  ColumnFill<CocoEdge> coco_;
  ColumnFill<CentreEdge> centre_;
  std::vector<Interval> intervals_, merged_;
  std::vector<size_t> rings_{0};  // where the intervals of each ring begin, and their end
  size_t limit_ = kIntervals;
  int64_t crossings_ = 0;  // of columns with edges of this mask, by COCO's rule
};

}  // namespace valor
