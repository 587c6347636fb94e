// Which of many ascending thresholds a score reaches: a table of cells, then exact comparisons within a cell.
#pragma once
#include <type_traits>

#include "targets.h"

namespace valor {

// How cells follow the scores. Every way keeps their order, which is all that exactness needs.
enum Spread : int64_t {
  kEven = 0,        // cells of one width
  kFloatOrder = 1,  // cells of as many floats each
  kMirrored = 2,    // likewise up to 1/2, and from there as their distance from 1 shrinks
};

VALOR_HD int32_t ordered_bits(float value) {
  int32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits ^ (bits >> 31 & INT32_MAX);
}

VALOR_HD int64_t ordered_bits(double value) {
  int64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits ^ (bits >> 63 & INT64_MAX);
}

// The least number of this type that is not below the value: a score of the type reaches both or none.
VALOR_HD void round_up(double value, double* to) { *to = value == 0.0 ? -0.0 : value; }
VALOR_HD void round_up(double value, float* to) {
  float near = static_cast<float>(value);
  if (static_cast<double>(near) < value) {  // the next one: ordered bits have no gaps
    const int32_t bits = ordered_bits(near) + 1;
    near = float_from_bits(static_cast<uint32_t>(bits ^ (bits >> 31 & INT32_MAX)));
  }
  *to = near == 0.0f ? -0.0f : near;  // both zeros reach it, and its bits are the lower ones
}

// Numbers of a lookup; Python hands the 64 bytes on.
struct LookupShape {
  int64_t thresholds, cells, spread;
  int64_t steps;   // a cell has fewer than 2^steps bounds
  int64_t shift;   // bits of a float that a cell does not tell apart
  int64_t origin;  // ordered bits of the first threshold
  double low, scale;
};

template <class Real>
struct Lookup {
  using Bits = decltype(ordered_bits(Real{}));
  using Unsigned = std::make_unsigned_t<Bits>;

  LookupShape shape;
  const Real* bounds;    // [2 T + 2]: -inf, the thresholds, then NaN, which nothing reaches
  const int32_t* first;  // [cells + 1]: how many bounds lie in the cells before

  // Rank of x among the floats from the first threshold on; if mirrored, floats above 1/2 rank by how near 1
  // they are, up to 2^-25.
  template <int64_t kSpread>
  VALOR_HD Unsigned rank(Real x) const {
    const Unsigned origin = static_cast<Unsigned>(shape.origin);
    const Unsigned own = static_cast<Unsigned>(ordered_bits(x)) - origin;
    if (kSpread == kFloatOrder) return own;
    constexpr Real kHalf = static_cast<Real>(0.5), kLeast = static_cast<Real>(0x1p-25);
    const Real rest = 1 - x;
    const Unsigned mirrored = 2 * static_cast<Unsigned>(ordered_bits(kHalf)) - origin -
                              static_cast<Unsigned>(ordered_bits(rest > kLeast ? rest : kLeast));
    return x > kHalf ? mirrored : own;
  }

  // 0 below the first threshold and for NaN, else from 1 to `cells`.
  template <int64_t kSpread>
  VALOR_HD int32_t cell(Real x) const {
    const Real low = static_cast<Real>(shape.low);
    const int32_t end = static_cast<int32_t>(shape.cells) - 1;
    int32_t found;
    if (kSpread == kEven) {
      const Real at = (x - low) * static_cast<Real>(shape.scale), most = static_cast<Real>(end);
      found = static_cast<int32_t>(at < most ? (at > 0 ? at : 0) : most);
    } else {
      const Unsigned at = rank<kSpread>(x) >> shape.shift;
      found = at < static_cast<Unsigned>(end) ? static_cast<int32_t>(at) : end;
    }
    return x >= low ? found + 1 : 0;
  }

  VALOR_HD int32_t cell(Real x) const {
    return shape.spread == kEven         ? cell<kEven>(x)
           : shape.spread == kFloatOrder ? cell<kFloatOrder>(x)
                                         : cell<kMirrored>(x);
  }

  // 0 for NaN, else 1 + how many thresholds x reaches; `cell` is that of x.
  VALOR_HD int32_t slot(Real x, int32_t cell) const {
    int32_t found = first[cell];
    for (int64_t step = int64_t{1} << shape.steps >> 1; step; step >>= 1)
      found += x >= bounds[found + step - 1] ? static_cast<int32_t>(step) : 0;
    return found;
  }
  VALOR_HD int32_t slot(Real x) const { return slot(x, cell(x)); }
};

// Cells for so many thresholds: two or more each, so that even ones have a cell of their own.
VALOR_HD int64_t lookup_cells(int64_t thresholds) {
  int64_t cells = 64;
  while (cells < 2 * thresholds && cells < 1 << 16) cells *= 2;
  return cells;
}

// Elements of a histogram that is counted.
struct SweepTask {
  const void* scores;  // [rows, classes]
  int64_t type;        // a FloatType
  int64_t rows;
  Target target;
  const double* weight;  // [rows] or nullptr

  VALOR_HD bool good_row(int64_t row) const { return !weight || good_weight(weight[row]); }

  // What is wrong with one element; kNoError if nothing is.
  VALOR_HD int64_t error(int64_t row, int64_t column) const {
    const Truth truth = target.at(row, column);
    if (truth == kIgnored) return kNoError;
    if (truth == kBadTruth) return value_error(row, column, kTarget);
    const double score = load_float64(scores, row * target.classes + column, static_cast<FloatType>(type));
    if (score != score) return value_error(row, column, kNanScore);
    return good_row(row) ? kNoError : value_error(row, column, kWeight);
  }
};

// ---------------------------------------------------------------------------- building a lookup, on the host

VALOR_HD int64_t lookup_bounds(int64_t thresholds) { return 2 * thresholds + 2; }

// Lays the cells out by one spread; returns the most thresholds that share a cell, INT64_MAX if it does not
// do.
template <class Real>
int64_t lay_out(Lookup<Real>& made, Spread spread) {
  LookupShape& s = made.shape;
  const Real *grid = made.bounds + 1, last = grid[s.thresholds - 1];
  s.spread = spread;
  if (spread == kEven) {
    const Real width = last - static_cast<Real>(s.low);
    const Real scale = static_cast<Real>(s.cells - 1) / width;
    if (!(scale > 0 && scale - scale == 0 && width - width == 0)) return INT64_MAX;
    s.scale = static_cast<double>(scale);
  } else {
    if (spread == kMirrored && s.low > 0.5) return INT64_MAX;
    const auto range =
        spread == kMirrored ? made.template rank<kMirrored>(last) : made.template rank<kFloatOrder>(last);
    for (s.shift = 0; range >> s.shift >= static_cast<decltype(range)>(s.cells);) ++s.shift;
  }
  int64_t most = 0;
  for (int64_t i = 0, begin = 0; i < s.thresholds; ++i) {
    if (made.cell(grid[i]) != made.cell(grid[begin])) begin = i;
    if (i - begin + 1 > most) most = i - begin + 1;
  }
  return most;
}

// Fills `bounds` [lookup_bounds(T)] and `first` [lookup_cells(T) + 1] by the spread that shares cells least.
template <class Real>
LookupShape build_lookup(const double* thresholds, int64_t count, Real* bounds, int32_t* first) {
  Lookup<Real> made = {{count, lookup_cells(count), kFloatOrder, 1, 0, 0, 0.0, 1.0}, bounds, first};
  const Real infinity = static_cast<Real>(__builtin_inf());
  bounds[0] = -infinity;
  for (int64_t i = 0; i < count; ++i) round_up(thresholds[i], bounds + 1 + i);
  for (int64_t i = count + 1; i < lookup_bounds(count); ++i) bounds[i] = static_cast<Real>(__builtin_nan(""));
  const Real low = count ? bounds[1] : infinity;
  made.shape.low = static_cast<double>(low);
  made.shape.origin = ordered_bits(low);
  if (count) {
    int64_t least = INT64_MAX;
    Spread best = kFloatOrder;
    for (const Spread spread : {kEven, kFloatOrder, kMirrored}) {
      const int64_t most = lay_out(made, spread);
      if (most < least) least = most, best = spread;
    }
    lay_out(made, best);
    while (least >> made.shape.steps) ++made.shape.steps;
  }
  int64_t i = 0;
  for (int64_t cell = 0; cell <= made.shape.cells; ++cell) {
    while (i < count && made.cell(bounds[1 + i]) < cell) ++i;
    first[cell] = static_cast<int32_t>(cell ? i + 1 : 0);
  }
  return made.shape;
}

}  // namespace valor
