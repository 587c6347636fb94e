// CPU driver of the sweep: threads take tiles of columns and chunks of rows, whose counts stay in the cache.
#include "../core/sweep.h"

#include <algorithm>
#include <atomic>
#include <type_traits>
#include <vector>

#include "guard.h"
#include "pool.h"
#include "simd.h"

namespace valor {
namespace {

constexpr int64_t kStrip = 512;         // elements whose cells are found at once
constexpr int64_t kCounts = 32 << 10;   // bytes of counts that a tile should keep to
constexpr int64_t kAhead = 8;           // rows that are fetched before they are read
constexpr int64_t kCopies = 8;          // of a count, lest each waits for the one before
constexpr int64_t kLine = 64;           // bytes
constexpr int64_t kNarrow = 16;         // columns that a tile has at least: a line of float32
constexpr int64_t kRows = 1024;         // that one tile after another reads: few pages of memory
constexpr int64_t kGroups = 2;          // groups of tiles for each thread
constexpr int64_t kUnits = 4;           // pieces of work for each thread, where rows have to be cut for it
constexpr int64_t kWorth = 16;          // elements that a chunk has for each count that it leaves
constexpr int64_t kMostRows = 1 << 30;  // of a chunk, whose counts have 32 bits
constexpr int64_t kShare = 10;          // counts of all threads take no more than 1 / 10 of the scores
constexpr int64_t kLeastBytes = 2;      // of a score

template <class Real>
VALOR_HD void fill_cells(const Lookup<Real>& lookup, const Real* x, int64_t count, int32_t* cells) {
  switch (lookup.shape.spread) {
    case kEven:
      for (int64_t i = 0; i < count; ++i) cells[i] = lookup.template cell<kEven>(x[i]);
      break;
    case kFloatOrder:
      for (int64_t i = 0; i < count; ++i) cells[i] = lookup.template cell<kFloatOrder>(x[i]);
      break;
    default:
      for (int64_t i = 0; i < count; ++i) cells[i] = lookup.template cell<kMirrored>(x[i]);
  }
}
VALOR_CLONES void find_cells(const Lookup<float>& lookup, const float* x, int64_t count, int32_t* cells) {
  fill_cells(lookup, x, count, cells);
}
VALOR_CLONES void find_cells(const Lookup<double>& lookup, const double* x, int64_t count, int32_t* cells) {
  fill_cells(lookup, x, count, cells);
}

VALOR_CLONES void widen_half(const uint16_t* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = half_to_float(from[i]);
}
VALOR_CLONES void widen_bfloat16(const uint16_t* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = bfloat16_to_float(from[i]);
}

// `count` scores from `first` on; those of 16 bits go through `wide`.
const float* load(const SweepTask& task, int64_t first, int64_t count, float* wide) {
  const uint16_t* half = static_cast<const uint16_t*>(task.scores) + first;
  if (task.type == kFloat32) return static_cast<const float*>(task.scores) + first;
  if (task.type == kFloat16)
    widen_half(half, count, wide);
  else
    widen_bfloat16(half, count, wide);
  return wide;
}
const double* load(const SweepTask& task, int64_t first, int64_t, double*) {
  return static_cast<const double*>(task.scores) + first;
}

// Where elements are counted by their targets.
struct Places {
  int32_t positive,
      none;  // what positives add to the place of their column; the place of what does not count
};

template <class Int>
VALOR_HD bool shift_places(const Target& target, const Places& to, int64_t first, int64_t count,
                           int32_t* place) {
  const Int* values = static_cast<const Int*>(target.data) + first;
  const Int ignore = static_cast<Int>(target.ignore);
  const bool ignores = target.has_ignore && static_cast<int64_t>(ignore) == target.ignore;
  const int32_t positive = to.positive, none = to.none;
  int32_t bad = 0;
  for (int64_t i = 0; i < count; ++i) {
    const bool left_out = ignores & (values[i] == ignore),
               wrong = !left_out & (values[i] != 0) & (values[i] != 1);
    bad |= wrong;
    place[i] = left_out | wrong ? none : place[i] + (values[i] != 0 ? positive : 0);
  }
  return bad != 0;
}

// Moves the places of `count` elements from `first` on; returns whether a target is neither 0, 1 nor ignored.
VALOR_CLONES bool place_elements(const Target& target, const Places& to, int64_t first, int64_t count,
                                 int32_t* place) {
  switch (target.type) {
    case kInt8:
      return shift_places<int8_t>(target, to, first, count, place);
    case kInt16:
      return shift_places<int16_t>(target, to, first, count, place);
    case kInt32:
      return shift_places<int32_t>(target, to, first, count, place);
    case kInt64:
      return shift_places<int64_t>(target, to, first, count, place);
    default:
      return shift_places<uint8_t>(target, to, first, count, place);
  }
}

struct Output {
  void* histogram;  // [2, classes, thresholds + 1], int64 or with weights double; zero before
  FirstError* error;
  int64_t block;               // rows whose weights are summed on their own
  std::atomic<bool>* outside;  // null, or whether a score that counts lies outside [0, 1]: reading ends there

  bool ended() const { return outside && outside->load(std::memory_order_relaxed); }
};

template <class Real>
VALOR_HD bool any_outside(const Real* x, int64_t count) {
  int32_t found = 0;
  for (int64_t i = 0; i < count; ++i) found |= (x[i] < 0) | (x[i] > 1);
  return found != 0;
}
VALOR_CLONES bool has_outside(const float* x, int64_t count) { return any_outside(x, count); }
VALOR_CLONES bool has_outside(const double* x, int64_t count) { return any_outside(x, count); }

// Counts of some columns. Each column, or copy of it, has slots of negatives and then of positives; behind
// all of them lie those of what does not count.
template <class Real, class Count>
class Tile {
 public:
  Tile(const SweepTask& task, const Lookup<Real>& lookup, const Output& out, int64_t column, int64_t width,
       bool shared)
      : task_(task), lookup_(lookup), out_(out), column_(column), width_(width), shared_(shared) {
    slots_ = lookup.shape.thresholds + 2;
    rows_ = width == classes() ? std::max<int64_t>(1, kStrip / width) : 1;
    const int64_t fits = kCounts / (2 * slots_ * width * static_cast<int64_t>(sizeof(Count)));
    copies_ = kWeighted ? 1 : std::max<int64_t>(1, std::min({rows_, kCopies / width, fits}));
    to_ = {static_cast<int32_t>(slots_), static_cast<int32_t>(2 * slots_ * width * copies_)};
    counts_.resize(to_.none + slots_);
    for (int64_t i = 0; i < rows_ * width; ++i)
      base_.push_back(static_cast<int32_t>(2 * slots_ * (i % (width * copies_))));
    place_.resize(base_.size());
    cells_.resize(base_.size());
    wide_.resize(base_.size());
    if (kWeighted) amounts_.resize(base_.size());
  }

  void read(int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end && !out_.ended(); row += rows_)
      strip(row, std::min(rows_, end - row));
  }

  // Adds the counts to the histogram and looks for a error if there is one.
  void flush(int64_t begin, int64_t end) {
    using Total = std::conditional_t<kWeighted, double, int64_t>;
    const int64_t buckets = slots_ - 1;
    Total* positives = static_cast<Total*>(out_.histogram) + column_ * buckets;
    for (int64_t copy = 0; copy < copies_; ++copy)
      for (int64_t c = 0; c < width_; ++c) {
        const Count* negative = counts_.data() + 2 * slots_ * (copy * width_ + c);
        bad_ |= negative[0] != 0 || negative[slots_] != 0;
        join(positives + c * buckets, negative + slots_ + 1, buckets);
        join(positives + (classes() + c) * buckets, negative + 1, buckets);
      }
    std::fill(counts_.begin(), counts_.end(), Count{0});
    if (bad_) report(begin, end);
    bad_ = false;
  }

 private:
  static constexpr bool kWeighted = std::is_same<Count, double>::value;
  int64_t classes() const { return task_.target.classes; }

  void strip(int64_t row, int64_t rows) {
    const int64_t count = rows * width_, first = row * classes() + column_;
    if (rows_ == 1) fetch(row + kAhead);
    memcpy(place_.data(), base_.data(), count * sizeof(int32_t));
    if (task_.target.per_element)
      bad_ |= place_elements(task_.target, to_, first, count, place_.data());
    else
      place_rows(row, rows);
    if (kWeighted) weigh(row, rows);
    const Real* x = load(task_, first, count, wide_.data());
    if (out_.outside && has_outside(x, count) && counts_outside(x, row, rows)) *out_.outside = true;
    find_cells(lookup_, x, count, cells_.data());
    if (lookup_.shape.steps == 1)
      add<true>(x, count);
    else
      add<false>(x, count);
  }

  bool counts_outside(const Real* x, int64_t row, int64_t rows) const {
    for (int64_t i = 0; i < rows * width_; ++i)
      if ((x[i] < 0 || x[i] > 1) && task_.target.at(row + i / width_, column_ + i % width_) != kIgnored)
        return true;
    return false;
  }

  void fetch(int64_t row) const {
    const int64_t size = float_bytes(static_cast<FloatType>(task_.type));
    const char* at = static_cast<const char*>(task_.scores) + (row * classes() + column_) * size;
    if (row < task_.rows)
      for (int64_t byte = 0; byte < width_ * size; byte += kLine) __builtin_prefetch(at + byte);
  }

  void place_rows(int64_t row, int64_t rows) {
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t found = task_.target.row_class(row + r);
      if (found < 0) {
        std::fill_n(place_.data() + r * width_, width_, to_.none);
        bad_ |= found == kBadRow;
      } else if (found >= column_ && found < column_ + width_) {
        place_[r * width_ + found - column_] += to_.positive;
      }
    }
  }

  void weigh(int64_t row, int64_t rows) {
    for (int64_t r = 0; r < rows; ++r) {
      const bool good = task_.good_row(row + r);
      std::fill_n(amounts_.data() + r * width_, width_, good ? task_.weight[row + r] : 0.0);
      bad_ |= !good;
    }
  }

  template <bool kOneStep>
  void add(const Real* x, int64_t count) {
    const int32_t *first = lookup_.first, *cells = cells_.data(), *place = place_.data();
    const Real* bounds = lookup_.bounds;
    Count* counts = counts_.data();
    for (int64_t i = 0; i < count; ++i) {
      int32_t slot = first[cells[i]];
      if (kOneStep)
        slot += x[i] >= bounds[slot];
      else
        slot = lookup_.slot(x[i], cells[i]);
      counts[place[i] + slot] += kWeighted ? static_cast<Count>(amounts_[i]) : Count{1};
      if (kWeighted) bad_ |= slot == 0;  // NaN of weight 0 leaves no count
    }
  }

  template <class Total>
  void join(Total* total, const Count* counts, int64_t buckets) const {
    for (int64_t b = 0; b < buckets; ++b) {
      if (!shared_)
        total[b] += static_cast<Total>(counts[b]);
      else if (counts[b] != 0)
        reinterpret_cast<std::atomic<int64_t>*>(total)[b].fetch_add(static_cast<int64_t>(counts[b]),
                                                                    std::memory_order_relaxed);
    }
  }

  void report(int64_t begin, int64_t end) const {
    for (int64_t row = begin; row < end; ++row)
      for (int64_t c = column_; c < column_ + width_; ++c) {
        const int64_t found = task_.error(row, c);
        if (found == kNoError) continue;
        out_.error->note(found);
        return;
      }
  }

  const SweepTask& task_;
  const Lookup<Real>& lookup_;
  const Output& out_;
  const int64_t column_, width_;
  const bool shared_;  // whether others add to the same totals
  int64_t slots_, rows_, copies_;
  Places to_;
  std::vector<Count> counts_;
  std::vector<int32_t> base_, place_, cells_;
  std::vector<Real> wide_;
  std::vector<double> amounts_;
  bool bad_ = false;
};

// How the elements are divided: units are groups of tiles of columns, and chunks of rows.
struct Division {
  int64_t width, tiles, groups, rows, chunks;

  Division(const SweepTask& task, int64_t slots, int64_t count_bytes, bool whole, int threads) {
    const int64_t classes = task.target.classes, sides = task.target.per_element ? 2 : 1;
    const int64_t fit = kCounts / (sides * slots * count_bytes) / kNarrow * kNarrow;
    width = std::min(classes, std::clamp(fit, kNarrow, kStrip));
    tiles = (classes + width - 1) / width;
    const int64_t tables = 2 * classes * slots * count_bytes, scores = task.rows * classes * kLeastBytes;
    const int64_t small = kShare * threads * tables / std::max<int64_t>(1, scores);
    groups = std::min<int64_t>(tiles, std::max<int64_t>(kGroups * threads, small));
    const int64_t wanted = whole || groups >= threads ? 1 : (kUnits * threads + groups - 1) / groups;
    const int64_t least = kWorth * slots * std::max<int64_t>(1, kCopies / width);
    rows = std::clamp<int64_t>((task.rows + wanted - 1) / wanted, least, kMostRows);
    if (whole) rows = std::max<int64_t>(1, task.rows);
    chunks = (task.rows + rows - 1) / rows;
  }
};

template <class Real, class Count>
void count_unit(const SweepTask& task, const Lookup<Real>& lookup, const Output& out, const Division& cut,
                int64_t unit) {
  const int64_t group = unit % cut.groups, chunk = unit / cut.groups;
  std::vector<Tile<Real, Count>> tiles;
  tiles.reserve(cut.tiles / cut.groups + 1);
  for (int64_t t = cut.tiles * group / cut.groups; t < cut.tiles * (group + 1) / cut.groups; ++t) {
    const int64_t column = t * cut.width, width = std::min(cut.width, task.target.classes - column);
    tiles.emplace_back(task, lookup, out, column, width, cut.chunks > 1);
  }
  const int64_t last = std::min((chunk + 1) * cut.rows, task.rows);
  const int64_t step = std::is_same<Count, double>::value ? out.block : cut.rows;
  // Counts move through the cache as well: they have to be worth it.
  const int64_t at_once = std::max(kRows, 4 * lookup.shape.thresholds);
  for (int64_t begin = chunk * cut.rows; begin < last; begin += step) {
    const int64_t end = std::min(begin + step, last);
    for (int64_t row = begin; row < end; row += at_once)
      for (auto& tile : tiles) tile.read(row, std::min(row + at_once, end));
    if (out.ended()) return;
    for (auto& tile : tiles) tile.flush(begin, end);
  }
}

template <class Real, class Count>
void count(const SweepTask& task, const Lookup<Real>& lookup, const Output& out, int threads) {
  const Division cut(task, lookup.shape.thresholds + 2, sizeof(Count), std::is_same<Count, double>::value,
                     threads);
  auto body = [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) count_unit<Real, Count>(task, lookup, out, cut, unit);
  };
  parallel_for(cut.groups * cut.chunks, 1, threads, body);
}

// Negatives become all.
template <class Total>
void add_positives(Total* histogram, int64_t cells) {
  for (int64_t i = 0; i < cells; ++i) histogram[cells + i] += histogram[i];
}

template <class Real>
void sweep(const SweepTask& task, const double* thresholds, int64_t count_thresholds, const Output& out,
           int threads) {
  std::vector<Real> bounds(lookup_bounds(count_thresholds));
  std::vector<int32_t> first(lookup_cells(count_thresholds) + 1);
  const LookupShape shape = build_lookup(thresholds, count_thresholds, bounds.data(), first.data());
  const Lookup<Real> lookup = {shape, bounds.data(), first.data()};
  const int64_t cells = task.target.classes * (count_thresholds + 1);
  if (task.weight) {
    count<Real, double>(task, lookup, out, threads);
    add_positives(static_cast<double*>(out.histogram), cells);
  } else {
    count<Real, uint32_t>(task, lookup, out, threads);
    add_positives(static_cast<int64_t*>(out.histogram), cells);
  }
}

// Of scores of any type; the error is written to `code`.
void sweep_any(const SweepTask& task, const double* thresholds, int64_t count, const Output& to,
               int64_t* code, int64_t threads) {
  FirstError first;
  const Output out = {to.histogram, &first, to.block, to.outside};
  if (task.type == kFloat64)
    sweep<double>(task, thresholds, count, out, static_cast<int>(threads));
  else
    sweep<float>(task, thresholds, count, out, static_cast<int>(threads));
  *code = first.code();
}

}  // namespace
}  // namespace valor

// `histogram` [2, classes, thresholds + 1], int64 or with weights double, is zero before; sums of weights run
// over blocks of so many rows.
VALOR_API int32_t valor_sweep_cpu(const void* scores, int64_t type, int64_t rows, const void* target,
                                  const double* thresholds, int64_t count, const double* weight,
                                  int64_t block, void* histogram, int64_t* error, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const SweepTask task = {scores, type, rows, *static_cast<const Target*>(target), weight};
    sweep_any(task, thresholds, count, {histogram, nullptr, block, nullptr}, error, threads);
  });
}

// Likewise; `outside` becomes whether a score that counts lies outside [0, 1]. If one does, reading ends
// there, and the histogram and the error say nothing.
VALOR_API int32_t valor_sweep_probabilities_cpu(const void* scores, int64_t type, int64_t rows,
                                                const void* target, const double* thresholds, int64_t count,
                                                const double* weight, int64_t block, void* histogram,
                                                int64_t* error, int64_t* outside, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const SweepTask task = {scores, type, rows, *static_cast<const Target*>(target), weight};
    std::atomic<bool> seen{false};
    sweep_any(task, thresholds, count, {histogram, nullptr, block, &seen}, error, threads);
    *outside = seen;
  });
}
