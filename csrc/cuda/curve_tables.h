// Working memory of precision-recall accumulation on CUDA, and how kernels find their way in it.
#pragma once
#include "../core/curves.h"
#include "table_layout.h"

namespace valor {

// How many samples of an ascending grid are not above `recall`, which is not NaN. NaN, which numpy sorts
// last, is above all. Where samples are evenly spaced from 0 to 1, two of them are looked at.
VALOR_HD int32_t samples_up_to(const double* grid, int32_t recalls, double recall) {
  const int32_t near = recall < 1 ? static_cast<int32_t>(recall * (recalls - 1)) : recalls;
  if (near + 1 < recalls && grid[near] <= recall && !(grid[near + 1] <= recall)) return near + 1;
  return partition_point(recalls, [=](int32_t r) { return grid[r] <= recall; });
}

constexpr int kGroups = 8;           // groups of 32 records in a tile
constexpr int kTile = 32 * kGroups;  // threads of a block, too
constexpr int kPass = 64;            // settings that one pass takes

// `settings` are those of one pass.
struct CurveTables {
  int32_t* totals;   // [K, M, L] true positives within each limit
  int32_t* classes;  // [tiles] the class of the tile's records, -1: none
  int32_t* counts;   // [tiles, M + C, settings] true, then false positives; scanned: those of tiles before
  uint32_t* masks;   // [tiles, groups, 2, settings] true, then false positives
  uint32_t* kept;    // [tiles, groups, M] records within each limit
  uint32_t* starts;  // [tiles, groups] records whose score differs from the one before
};

struct CurveTask {
  Accumulation run;
  CurveTables tables;
  const int64_t* stops;     // [R + 1] by samples reached: first place of the caller's grid that is not filled
  int64_t unconditional;    // samples at recall 0 or below, which the first record within the limit reaches
  const uint8_t* end;       // of the records, as far as the order says how many they are
  int64_t tiles;            // no more than these are in use
  int32_t first, settings;  // of this pass

  // Tiles of class k begin here: never fewer than its records need lie before the next class.
  VALOR_HD int64_t first_tile(int64_t k) const { return run.offsets[k] / kTile + k; }
  VALOR_HD int64_t records_of(int64_t k) const { return run.offsets[k + 1] - run.offsets[k]; }
  VALOR_HD int64_t tiles_of(int64_t k) const { return (records_of(k) + kTile - 1) / kTile; }
  VALOR_HD int64_t limits() const { return run.shape.limits; }
  // Samples that so many true positives reach; those at recall 0 or below only if there is one. The quotient
  // is that of reaching_index.
  VALOR_HD int32_t samples_reached(int64_t tp, int64_t positives) const {
    const double recall = static_cast<double>(tp) / static_cast<double>(positives);
    return tp == 0 ? 0 : samples_up_to(run.recall_grid, static_cast<int32_t>(run.shape.recalls), recall);
  }
  VALOR_HD int64_t slots() const { return limits() + run.curves(); }
  VALOR_HD int64_t limit_of(int64_t curve) const { return run.full ? curve : limits() - 1; }

  VALOR_HD int32_t& count(int64_t tile, int64_t slot, int64_t setting) const {
    return tables.counts[(tile * slots() + slot) * settings + setting];
  }
  VALOR_HD uint32_t& mask(int64_t group, int kind, int64_t setting) const {
    return tables.masks[(group * 2 + kind) * settings + setting];
  }
  VALOR_HD uint32_t& kept(int64_t group, int64_t m) const { return tables.kept[group * limits() + m]; }
  VALOR_HD int32_t& total(int64_t k, int64_t m, int64_t setting) const {
    return tables.totals[(k * limits() + m) * run.shape.settings() + setting];
  }
};

// Numbers of one call: T, A, M, R, K, and how many records `order` has.
struct CurveSizes {
  int64_t thresholds, areas, limits, recalls, classes, records;

  CurveShape shape() const { return {thresholds, areas, limits, recalls, classes}; }
  int64_t tiles() const { return records / kTile + classes; }
};

// Places the tables of a call; returns the bytes that they take.
inline int64_t place_tables(const CurveSizes& sizes, bool full, bool ties, void* base, CurveTables& tables) {
  const int64_t settings = sizes.shape().settings(), pass = settings < kPass ? settings : kPass,
                tiles = sizes.tiles();
  TableLayout layout(base);
  layout.place(tables.totals, sizes.classes * sizes.limits * settings);
  layout.place(tables.classes, tiles);
  layout.place(tables.counts, tiles * (sizes.limits + (full ? sizes.limits : 1)) * pass);
  layout.place(tables.masks, tiles * kGroups * 2 * pass);
  layout.place(tables.kept, tiles * kGroups * sizes.limits);
  layout.place(tables.starts, ties ? tiles * kGroups : 0);
  return layout.bytes();
}

}  // namespace valor
