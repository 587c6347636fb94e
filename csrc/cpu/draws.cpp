// CPU driver of resampling: how often each unit, or what lies in each cell of a table of counts, is drawn.
#include <atomic>
#include <vector>

#include "guard.h"
#include "orders.h"
#include "pool.h"
#include "transpose.h"

namespace valor {
namespace {

constexpr int64_t kTableBytes = 16 << 20;  // of tables that are held at a time
constexpr int64_t kUnitGrain = 1 << 14;

// Fields are 64-bit words, packed by valor_gpu/stats/_draws_cpu.py.
struct DrawsCall {
  int64_t units, count, first;
  uint64_t seed;
  int64_t kind, groups;
};
static_assert(sizeof(DrawsCall) == 48, "valor_gpu/stats/_draws_cpu.py packs six words");

Replicate replicate(const DrawsCall& call, int64_t number) {
  return {call.seed, static_cast<uint32_t>(number), static_cast<uint32_t>(call.kind)};
}

// Adds the draws of a replicate to a table of zeros, unless one no longer fits: whether all do.
bool draw_units(const Replicate& from, uint32_t units, uint8_t* table) {
  uint32_t most = 0;
  for_draws(from, units, [&](uint32_t unit, int) { most |= ++table[unit] == 0; });
  return most == 0;
}

void draw_half(const Replicate& from, uint32_t units, uint8_t* table) {
  if (units < 2) return;
  const KeyedUnit last = last_of_half(from, units);
  for_keys(from, units, [&](uint64_t key, uint32_t unit) {
    table[unit] = key < last.key || (key == last.key && unit <= last.unit);
  });
}

// Weights of multinomial draws and of halves: tables of some replicates, then turned.
bool draw_tables(const DrawsCall& call, uint8_t* weights, int threads) {
  const int64_t at_once =
      std::max<int64_t>(8, std::min<int64_t>(64, kTableBytes / std::max<int64_t>(1, call.units)));
  std::vector<uint8_t> tables;
  std::atomic<bool> fits{true};
  for (int64_t done = 0; done < call.count; done += at_once) {
    const int64_t some = std::min(at_once, call.count - done);
    tables.assign(some * call.units, 0);
    auto draw = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Replicate from = replicate(call, call.first + done + i);
        uint8_t* table = tables.data() + i * call.units;
        if (call.kind == kHalf)
          draw_half(from, static_cast<uint32_t>(call.units), table);
        else if (!draw_units(from, static_cast<uint32_t>(call.units), table))
          fits = false;
      }
    };
    parallel_for(some, 1, threads, draw);
    auto turn = [&](int64_t begin, int64_t end) {
      transpose(tables.data() + begin, call.units, some, end - begin, weights + begin * call.count + done,
                call.count);
    };
    parallel_for(call.units, kUnitGrain, threads, turn);
  }
  return fits;
}

// Calls take(unit, share) for all units in a random order, which the shares take in turn.
template <class Take>
void for_shares(const DrawsCall& call, const Take& take) {
  const Replicate from = replicate(call, 0);
  const auto units = static_cast<uint32_t>(call.units);
  const KeyCounts counts(from, units);
  int64_t rank = 0;
  for (int64_t begin = 0, end; begin < KeyCounts::kValues; begin = end) {
    end = counts.range_end(begin);
    for (const KeyedUnit& keyed : sorted_keys(from, units, begin, end))
      take(keyed.unit, rank++ % call.groups);
  }
}

void delete_shares(const DrawsCall& call, uint8_t* weights) {
  std::fill(weights, weights + call.units * call.count, uint8_t{1});
  for_shares(call, [&](uint32_t unit, int64_t share) {
    const int64_t column = share - call.first;
    if (column >= 0 && column < call.count) weights[unit * call.count + column] = 0;
  });
}

// Cells of a table of counts, by the units that lie in them; empty cells hold none.
class Cells {
 public:
  Cells(const int64_t* counts, int64_t cells) {
    int64_t end = 0;
    for (int64_t c = 0; c < cells; ++c)
      if (counts[c] > 0) cell_.push_back(c), ends_.push_back(static_cast<uint32_t>(end += counts[c]));
    const int64_t room = std::min<int64_t>(kMostGuides, std::max<int64_t>(kFewGuides, 4 * filled()));
    for (shift_ = 0; (end >> shift_) >= room;) ++shift_;
    int64_t at = 0;
    for (int64_t unit = 0; unit < end; unit += int64_t{1} << shift_) {
      while (ends_[at] <= unit) ++at;
      guide_.push_back(static_cast<uint32_t>(at));
    }
  }
  int64_t filled() const { return static_cast<int64_t>(cell_.size()); }
  int64_t cell(int64_t at) const { return cell_[at]; }
  // Of filled cells.
  uint32_t place(uint32_t unit) const {
    uint32_t at = guide_[unit >> shift_];
    while (unit >= ends_[at]) ++at;
    return at;
  }

 private:
  static constexpr int64_t kFewGuides = 1 << 12, kMostGuides = 1 << 22;
  std::vector<int64_t> cell_;
  std::vector<uint32_t> ends_, guide_;
  int shift_ = 0;
};

// Tables of few cells stand side by side, so that draws of one cell in succession do not wait for each other.
constexpr int64_t kFewCells = 1 << 13;

void draw_cells(const Replicate& from, uint32_t units, const Cells& cells, uint32_t* table) {
  const int64_t stride = cells.filled() <= kFewCells ? cells.filled() : 0;
  for_draws(from, units, [&](uint32_t unit, int place) { ++table[place * stride + cells.place(unit)]; });
}

void draw_half_cells(const Replicate& from, uint32_t units, const Cells& cells, uint32_t* table) {
  if (units < 2) return;
  const KeyedUnit last = last_of_half(from, units);
  for_keys(from, units, [&](uint64_t key, uint32_t unit) {
    if (key < last.key || (key == last.key && unit <= last.unit)) ++table[cells.place(unit)];
  });
}

void draw_tables_of_cells(const DrawsCall& call, const Cells& cells, int64_t* found, int threads) {
  const auto units = static_cast<uint32_t>(call.units);
  auto draw = [&](int64_t begin, int64_t end) {
    const int64_t tables = cells.filled() <= kFewCells ? kWords : 1;
    std::vector<uint32_t> table;
    for (int64_t column = begin; column < end; ++column) {
      const Replicate from = replicate(call, call.first + column);
      table.assign(tables * cells.filled(), 0);
      call.kind == kHalf ? draw_half_cells(from, units, cells, table.data())
                         : draw_cells(from, units, cells, table.data());
      for (int64_t at = 0; at < cells.filled(); ++at)
        for (int64_t t = 0; t < tables; ++t)
          found[cells.cell(at) * call.count + column] += table[t * cells.filled() + at];
    }
  };
  parallel_for(call.count, 1, threads, draw);
}

void delete_shares_of_cells(const DrawsCall& call, const Cells& cells, const int64_t* counts,
                            int64_t* found) {
  for (int64_t at = 0; at < cells.filled(); ++at) {
    int64_t* row = found + cells.cell(at) * call.count;
    std::fill(row, row + call.count, counts[cells.cell(at)]);
  }
  for_shares(call, [&](uint32_t unit, int64_t share) {
    const int64_t column = share - call.first;
    if (column >= 0 && column < call.count) --found[cells.cell(cells.place(unit)) * call.count + column];
  });
}

}  // namespace
}  // namespace valor

// Fills `weights` [units, count]; `fits` is 0 where a unit is drawn too often for a byte. `words`: DrawsCall.
VALOR_API int32_t valor_draw_weights_cpu(const void* words, uint8_t* weights, int64_t* fits,
                                         int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const DrawsCall& call = *static_cast<const DrawsCall*>(words);
    *fits = 1;
    if (call.kind == kDelete)
      delete_shares(call, weights);
    else
      *fits = draw_tables(call, weights, static_cast<int>(threads));
  });
}

// Adds what is drawn of each of `cells` cells, whose `counts` add up to the units, to `found` [cells, count],
// which is 0. `words`: DrawsCall.
VALOR_API int32_t valor_draw_cells_cpu(const void* words, const int64_t* counts, int64_t cells,
                                       int64_t* found, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const DrawsCall& call = *static_cast<const DrawsCall*>(words);
    const Cells table(counts, cells);
    if (call.kind == kDelete)
      delete_shares_of_cells(call, table, counts, found);
    else
      draw_tables_of_cells(call, table, found, static_cast<int>(threads));
  });
}
