// CPU driver of AUROC and AP of resampled rows: each class is sorted once, then read once for many replicates
// side by side. The numbers are, bit by bit, those of csrc/cpu/ranks.cpp of rows that stand as often as they
// are drawn, copies side by side.
#include <memory>

#include "guard.h"
#include "pool.h"
#include "rank_items.h"
#include "rank_tiles.h"
#include "simd.h"

namespace valor {
namespace {

constexpr int kWide = 16;             // replicates side by side
constexpr int64_t kAhead = 16;        // steps: rows of weights lie far apart where classes have other orders
constexpr int64_t kMostColumns = 16;  // read at a time
constexpr int64_t kTileBytes = 32 << 20;  // of elements that a thread holds at a time

// Fields are 64-bit words, packed by valor_gpu/ops/ranks/resampled.py.
struct ResampledCall {
  const uint8_t* draws;     // [units, lanes]
  int64_t lanes, per_unit;  // rows that follow each other belong to one unit
  int64_t average;          // 1: average precision, 0: AUROC
  double* values;           // [C, lanes]
  double* totals;           // [2, C, lanes] positives and negatives
};

// An element in descending order of scores.
struct Step {
  uint32_t unit;
  uint16_t positive;
  uint16_t last;  // of a tie group: 1, with a positive 2; else 0
};

template <class Key>
std::vector<Step> steps_of(const RankedRange<Key>& range, int64_t per_unit) {
  std::vector<Step> steps(range.count);
  bool some = false;
  for (int64_t i = 0; i < range.count; ++i) {
    const auto& item = range.items[i];
    const bool last = i + 1 == range.count || range.items[i + 1].down != item.down;
    some |= item.positive();
    steps[i] = {static_cast<uint32_t>(item.row() / per_unit), item.positive(),
                static_cast<uint16_t>(last ? 1 + some : 0)};
    if (last) some = false;
  }
  return steps;
}

// What a run over the steps counts, of kWide lanes.
struct Counts {
  uint32_t tp[kWide], fp[kWide];
  uint64_t lost[kWide];  // twice the pairs whose negative scores more, a tie once
  double average[kWide];
};

struct Lanes {
  const uint8_t* draws;  // of the first lane
  int64_t stride;
  int width;  // at most kWide
  VALOR_INLINE void read(uint32_t unit, uint8_t* to) const {
    const uint8_t* from = draws + unit * stride;
    if (width == kWide)
      memcpy(to, from, kWide);
    else
      for (int l = 0; l < width; ++l) to[l] = from[l];
  }
};

VALOR_FUSED_CLONES void count_areas(const std::vector<Step>& steps, const Lanes& lanes, Counts& found) {
  Counts at{};
  uint32_t group[kWide] = {}, before[kWide] = {};
  uint8_t weight[kWide] = {};
  const int64_t count = static_cast<int64_t>(steps.size());
  for (int64_t i = 0; i < count; ++i) {
    const Step& step = steps[i];
    __builtin_prefetch(lanes.draws + steps[std::min(i + kAhead, count - 1)].unit * lanes.stride);
    lanes.read(step.unit, weight);
    if (step.positive)
      for (int l = 0; l < kWide; ++l) group[l] += weight[l];
    else
      for (int l = 0; l < kWide; ++l) at.fp[l] += weight[l];
    if (step.last == 2)
      for (int l = 0; l < kWide; ++l) {
        at.lost[l] += uint64_t{group[l]} * (at.fp[l] + before[l]);
        at.tp[l] += group[l], group[l] = 0;
      }
    if (step.last)
      for (int l = 0; l < kWide; ++l) before[l] = at.fp[l];
  }
  found = at;
}

// Sums of precisions in kLanes parts, as LaneSum, of kWide lanes.
class Precisions {
 public:
  void add(const uint32_t* group, const double* precision) {
    for (int l = 0; l < kWide; ++l)
      for (uint32_t i = 0; i < group[l]; ++i) parts_[l][place_[l]++ % kLanes] += precision[l];
  }
  void totals(double* to) {
    for (int l = 0; l < kWide; ++l) {
      for (int half = kLanes / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) parts_[l][i] += parts_[l][i + half];
      to[l] = parts_[l][0];
    }
  }

 private:
  double parts_[kWide][kLanes] = {};
  uint32_t place_[kWide] = {};
};

VALOR_FUSED_CLONES void count_averages(const std::vector<Step>& steps, const Lanes& lanes, Counts& found) {
  Counts at{};
  Precisions precisions;
  uint32_t group[kWide] = {};
  uint8_t weight[kWide] = {};
  double precision[kWide];
  const int64_t count = static_cast<int64_t>(steps.size());
  for (int64_t i = 0; i < count; ++i) {
    const Step& step = steps[i];
    __builtin_prefetch(lanes.draws + steps[std::min(i + kAhead, count - 1)].unit * lanes.stride);
    lanes.read(step.unit, weight);
    if (step.positive)
      for (int l = 0; l < kWide; ++l) group[l] += weight[l];
    else
      for (int l = 0; l < kWide; ++l) at.fp[l] += weight[l];
    if (step.last != 2) continue;
    for (int l = 0; l < kWide; ++l) at.tp[l] += group[l];
    for (int l = 0; l < kWide; ++l)
      precision[l] = static_cast<double>(at.tp[l]) / static_cast<double>(at.tp[l] + at.fp[l]);
    precisions.add(group, precision);
    for (int l = 0; l < kWide; ++l) group[l] = 0;
  }
  found = at;
  precisions.totals(found.average);
}

template <class Order>
class ResampledWorker {
 public:
  using Key = typename Order::Key;

  ResampledWorker(const RankInput& input, const RowClasses& classes, FirstError& error,
                  const ResampledCall& call)
      : input_(input), call_(call), tile_(new RankTile<Order>(input, classes, error)) {}

  // Columns [begin, end), the lanes of each on so many threads.
  void run(int64_t begin, int64_t end, int threads) {
    const int64_t room = std::max<int64_t>(1, input_.rows * static_cast<int64_t>(sizeof(Ranked<Key>)));
    const int64_t step = std::max<int64_t>(1, std::min(kMostColumns, kTileBytes / room));
    for (int64_t c = begin; c < end; c += step) some(c, std::min(step, end - c), threads);
  }

 private:
  void some(int64_t column, int64_t width, int threads) {
    constexpr int64_t kRows = RankTile<Order>::kRows;
    Columns<Key> columns(width, input_.rows);
    for (int64_t row = 0; row < input_.rows; row += kRows) {
      const int64_t count = std::min(kRows, input_.rows - row);
      tile_->read(row, count, column, width, true);
      for (int64_t j = 0; j < width; ++j) columns.add(j, row, tile_->keys(j), tile_->positive(j), count);
    }
    for (int64_t j = 0; j < width; ++j) {
      const RankedRange<Key> range = columns.sorted(j);
      if (input_.weight)
        weigh(column + j, range, threads);
      else
        count(column + j, range, threads);
    }
  }

  void write(int64_t c, int64_t lane, double value, double positives, double negatives) const {
    const int64_t lanes = call_.lanes, C = input_.target.classes;
    call_.values[c * lanes + lane] = value;
    call_.totals[c * lanes + lane] = positives, call_.totals[(C + c) * lanes + lane] = negatives;
  }

  void count(int64_t c, const RankedRange<Key>& range, int threads) const {
    const std::vector<Step> steps = steps_of(range, call_.per_unit);
    auto body = [&](int64_t begin, int64_t end) {
      for (int64_t lane = begin * kWide; lane < std::min(end * kWide, call_.lanes); lane += kWide) {
        const int width = static_cast<int>(std::min<int64_t>(kWide, call_.lanes - lane));
        const Lanes lanes{call_.draws + lane, call_.lanes, width};
        Counts found;
        call_.average ? count_averages(steps, lanes, found) : count_areas(steps, lanes, found);
        for (int l = 0; l < width; ++l) {
          const int64_t tp = found.tp[l], fp = found.fp[l];
          const int64_t wins = 2 * tp * fp - static_cast<int64_t>(found.lost[l]);
          write(c, lane + l, call_.average ? average_of(found.average[l], tp) : auc_of(wins, tp, fp),
                static_cast<double>(tp), static_cast<double>(fp));
        }
      }
    };
    parallel_for((call_.lanes + kWide - 1) / kWide, 1, threads, body);
  }

  // With weights the parts of sums depend on the number of copies: each replicate is written out.
  void weigh(int64_t c, const RankedRange<Key>& range, int threads) const {
    auto body = [&](int64_t begin, int64_t end) {
      std::vector<Ranked<Key>> copies;
      for (int64_t lane = begin; lane < end; ++lane) {
        copies.clear();
        for (int64_t i = 0, end; i < range.count; i = end) {
          end = end_of_unit(range, i);
          const int64_t unit = range.items[i].row() / call_.per_unit;
          for (int copy = call_.draws[unit * call_.lanes + lane]; copy > 0; --copy)
            copies.insert(copies.end(), range.items + i, range.items + end);
        }
        const RankedRange<Key> drawn{copies.data(), static_cast<int64_t>(copies.size())};
        const auto found = weighted_auroc_and_ap(drawn, input_.weight);
        write(c, lane, call_.average ? found.average : found.auc, found.positives, found.negatives);
      }
    };
    parallel_for(call_.lanes, 1, threads, body);
  }

  // Elements of equal scores of one unit are copied together.
  int64_t end_of_unit(const RankedRange<Key>& range, int64_t begin) const {
    const int64_t unit = range.items[begin].row() / call_.per_unit;
    int64_t end = begin + 1;
    while (end < range.count && range.items[end].down == range.items[begin].down &&
           range.items[end].row() / call_.per_unit == unit)
      ++end;
    return end;
  }

  const RankInput& input_;
  const ResampledCall& call_;
  const std::unique_ptr<RankTile<Order>> tile_;
};

}  // namespace
}  // namespace valor

// Fills values and totals of every class and replicate. `words`: RankInput; `resampled`: ResampledCall.
VALOR_API int32_t valor_resampled_ranks_cpu(const void* words, const void* resampled, int64_t* error,
                                            int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const RankInput& input = *static_cast<const RankInput*>(words);
    const ResampledCall& call = *static_cast<const ResampledCall*>(resampled);
    FirstError first;
    check_weights(input, first);
    const RowClasses classes(input, first);
    const int64_t C = input.target.classes;
    const bool alone = C < threads;
    with_order(input.type, [&](auto order) {
      auto body = [&](int64_t begin, int64_t end) {
        ResampledWorker<decltype(order)>(input, classes, first, call)
            .run(begin, end, alone ? static_cast<int>(threads) : 1);
      };
      parallel_for(C, alone ? C : std::max<int64_t>(1, std::min(kMostColumns, C / threads)),
                   static_cast<int>(threads), body);
    });
    *error = first.code();
  });
}
