// Distances between the boundaries of label maps and masks on the CPU. Each direction of each image and class
// is a task of a thread, which works inside the box around both boundaries: distances along columns first,
// then along planes, then along the rows that have pixels to ask for.
#include "../core/surface.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "boundary_lists.h"
#include "guard.h"
#include "line_envelope.h"
#include "pool.h"
#include "simd.h"

namespace valor {
namespace {

// The part of an image that holds the boundaries of both sides; its columns are stored row by row, the planes
// of a row side by side.
struct Box {
  int32_t first[3], last[3];

  Box(const BoundaryList& a, const BoundaryList& b) {
    std::fill(first, first + 3, std::numeric_limits<int32_t>::max());
    std::fill(last, last + 3, -1);
    for (const BoundaryList* list : {&a, &b})
      for (const BoundaryPixel& pixel : *list) {
        const int32_t place[3] = {pixel.plane, pixel.row, pixel.column};
        for (int axis = 0; axis < 3; ++axis) {
          first[axis] = std::min(first[axis], place[axis]);
          last[axis] = std::max(last[axis], place[axis]);
        }
      }
  }
  int64_t size(int axis) const { return int64_t{last[axis]} - first[axis] + 1; }
  int64_t line() const { return size(kPlanes) * size(kColumns); }
  int64_t place(const BoundaryPixel& pixel) const {
    return int64_t{pixel.row - first[kRows]} * line() +
           int64_t{pixel.plane - first[kPlanes]} * size(kColumns) + (pixel.column - first[kColumns]);
  }
};

// Counts of steps along a column, in the least type that holds the height and what stands for none.
template <class Steps>
constexpr Steps kNoSteps = static_cast<Steps>(Steps(~Steps(0)) / 2);

template <class Steps>
VALOR_CLONES void sweep_columns(Steps* steps, int64_t line, int64_t rows) {
  for (int64_t y = 1; y < rows; ++y) {
    Steps* const row = steps + y * line;
    for (int64_t x = 0; x < line; ++x) {
      const Steps next = static_cast<Steps>(row[x - line] + 1);
      row[x] = next < row[x] ? next : row[x];
    }
  }
  for (int64_t y = rows - 2; y >= 0; --y) {
    Steps* const row = steps + y * line;
    for (int64_t x = 0; x < line; ++x) {
      const Steps next = static_cast<Steps>(row[x + line] + 1);
      row[x] = next < row[x] ? next : row[x];
    }
  }
}

// Finds the distances of one list of boundary pixels to another.
template <class Rule, class Steps>
class Finder {
 public:
  using Cost = typename Rule::Cost;

  Finder(const Rule& rule, const Box& box) : rule_(rule), box_(box) {}

  // out[i] is the distance of from[i] to the nearest of `to`; neither is empty.
  void find(const BoundaryList& from, const BoundaryList& to, std::vector<double>& out) {
    const int64_t rows = box_.size(kRows), line = box_.line(), columns = box_.size(kColumns);
    steps_.assign(rows * line, kNoSteps<Steps>);
    for (const BoundaryPixel& pixel : to) steps_[box_.place(pixel)] = 0;
    sweep_columns(steps_.data(), line, rows);
    order_rows(from);
    out.resize(from.size());
    for (size_t begin = 0, end; begin < from.size(); begin = end) {
      const BoundaryPixel& first = from[order_[begin]];
      for (end = begin + 1; end < from.size() && from[order_[end]].row == first.row; ++end) {
      }
      const Steps* const steps = steps_.data() + int64_t{first.row - box_.first[kRows]} * line;
      const auto columns_cost = [&](int64_t x) { return column_cost(steps[x]); };
      if (box_.size(kPlanes) == 1) {
        ask_row(from, begin, end, columns_cost, out);
        continue;
      }
      join_planes(columns_cost);
      for (size_t i = begin, next; i < end; i = next) {
        const int32_t plane = from[order_[i]].plane;
        for (next = i + 1; next < end && from[order_[next]].plane == plane; ++next) {
        }
        const Cost* const costs = costs_.data() + int64_t{plane - box_.first[kPlanes]} * columns;
        ask_row(from, i, next, [&](int64_t x) { return costs[x]; }, out);
      }
    }
  }

 private:
  Cost column_cost(Steps steps) const {
    return steps >= kNoSteps<Steps> ? Rule::none() : rule_.step(kRows, steps);
  }

  // The pixels row by row; those of a row in the order of planes and columns, as they came.
  void order_rows(const BoundaryList& from) {
    const int64_t rows = box_.size(kRows);
    starts_.assign(rows + 1, 0);
    for (const BoundaryPixel& pixel : from) ++starts_[pixel.row - box_.first[kRows] + 1];
    for (int64_t y = 0; y < rows; ++y) starts_[y + 1] += starts_[y];
    order_.resize(from.size());
    for (size_t i = 0; i < from.size(); ++i) order_[starts_[from[i].row - box_.first[kRows]]++] = i;
  }

  // From the costs along the columns of a row to those over its planes as well.
  template <class Line>
  void join_planes(const Line& line) {
    const int64_t planes = box_.size(kPlanes), columns = box_.size(kColumns);
    costs_.resize(planes * columns);
    for (int64_t x = 0; x < columns; ++x) {
      const auto across = [&](int64_t z) { return line(z * columns + x); };
      Lookup along(*this, across, planes, kPlanes, true);
      for (int64_t z = 0; z < planes; ++z) costs_[z * columns + x] = along.at(z);
    }
  }

  // The distances of the pixels [begin, end) of the order, which are of one row of one plane.
  template <class Line>
  void ask_row(const BoundaryList& from, size_t begin, size_t end, const Line& line,
               std::vector<double>& out) {
    const int64_t columns = box_.size(kColumns);
    int64_t visits = 0;
    for (size_t i = begin; i < end && !kSearches; ++i) {
      const Cost cost = line(from[order_[i]].column - box_.first[kColumns]);
      visits += cost >= Rule::none() ? columns : std::min<int64_t>(columns, Rule::distance(cost));
    }
    Lookup along(*this, line, columns, kColumns, visits > kVisits * columns);
    for (size_t i = begin; i < end; ++i) {
      const size_t pixel = order_[i];
      out[pixel] = Rule::distance(along.at(from[pixel].column - box_.first[kColumns]));
    }
  }

  // Least costs along a line, for pixels in ascending order: searched, or with `all` by an envelope.
  template <class Line>
  class Lookup {
   public:
    Lookup(Finder& finder, const Line& line, int64_t length, int axis, bool all)
        : finder_(finder), line_(line), length_(length), axis_(axis), all_(all && !kSearches) {
      if constexpr (!kSearches)
        if (all_) finder_.envelope_.build(line, length);
    }
    Cost at(int64_t pixel) {
      if constexpr (!kSearches)
        if (all_) return finder_.envelope_.at(pixel);
      return search_line(finder_.rule_, axis_, line_, length_, pixel);
    }

   private:
    Finder& finder_;
    const Line& line_;
    const int64_t length_;
    const int axis_;
    const bool all_;
  };

  // Where an envelope of float64 costs turns from one part to the next would be rounded: there each pixel
  // searches as far as its distance.
  static constexpr bool kSearches = !std::is_same<Cost, int64_t>::value;
  static constexpr int64_t kVisits = 8;  // an envelope takes as long as so many visits a pixel of the line

  const Rule& rule_;
  const Box& box_;
  std::vector<Steps> steps_;
  std::vector<Cost> costs_;
  std::vector<int64_t> starts_;
  std::vector<size_t> order_;
  LineEnvelope<Rule> envelope_;
};

void find_distances(const SurfaceTask& task, const BoundaryList& from, const BoundaryList& to,
                    std::vector<double>& out) {
  const Box box(from, to);
  with_rule(task, [&](const auto& rule) {
    using Rule = std::decay_t<decltype(rule)>;
    if (box.size(kRows) < kNoSteps<uint16_t>)
      Finder<Rule, uint16_t>(rule, box).find(from, to, out);
    else
      Finder<Rule, uint32_t>(rule, box).find(from, to, out);
  });
}

double sum_of(const std::vector<double>& values) {
  double lanes[kSumLanes] = {};
  for (size_t i = 0; i < values.size(); ++i) lanes[i % kSumLanes] += values[i];
  for (int by = kSumLanes / 2; by; by /= 2)
    for (int i = 0; i < by; ++i) lanes[i] += lanes[i + by];
  return lanes[0];
}

// Reorders the values.
double percentile_of(std::vector<double>& values, double quantile) {
  const PercentileRank rank(static_cast<int64_t>(values.size()), quantile);
  const auto lower = values.begin() + rank.lower;
  std::nth_element(values.begin(), lower, values.end());
  if (rank.last) return *lower;
  return rank.between(*lower, *std::min_element(lower + 1, values.end()));
}

// One direction of one image and class: counts [2], statistics [3].
void measure(const SurfaceTask& task, const BoundaryList& from, const BoundaryList& to, int64_t* counts,
             double* statistics) {
  counts[0] = static_cast<int64_t>(from.size()), counts[1] = 0;
  std::fill(statistics, statistics + 3, std::numeric_limits<double>::quiet_NaN());
  if (from.empty() || to.empty()) return;
  std::vector<double> values;
  find_distances(task, from, to, values);
  for (const double value : values) counts[1] += value <= task.tolerance;
  statistics[0] = sum_of(values);
  statistics[1] = *std::max_element(values.begin(), values.end());
  statistics[2] = percentile_of(values, task.quantile);
}

}  // namespace
}  // namespace valor

// counts: [images, kept classes, 2 sides, 2], boundary pixels and those within the tolerance of the other
// side. statistics: [images, kept classes, 2 sides, 3], sum, largest and percentile of the distances to the
// other side, NaN where there are none. task_words are a SurfaceTask.
VALOR_API int32_t valor_surface_distances_cpu(const void* task_words, int64_t* counts, double* statistics,
                                              int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const SurfaceTask& task = *static_cast<const SurfaceTask*>(task_words);
    const std::vector<BoundaryList> lists = list_boundaries(task, static_cast<int>(threads));
    auto measure_range = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        measure(task, lists[i], lists[i ^ 1], counts + 2 * i, statistics + 3 * i);
    };
    parallel_for(2 * task.pairs(), 1, static_cast<int>(threads), measure_range);
  });
}
