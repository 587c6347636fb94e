// Histograms of scores of up to 32 bits, counted in shared memory by csrc/cuda/sweep_tiles.cu.
#pragma once
#include "../core/sweep_cells.h"

namespace valor {

struct TileTask {
  SweepTask sweep;  // without weights
  Lookup<float> lookup;
  CellShape shape;
  const SweepCell* cells;
  uint8_t* flags;      // [rows] of scratch, of class indices alone
  int64_t* histogram;  // [2, classes, thresholds + 1], zero before
  int64_t* error;

  VALOR_HD float score(int64_t index) const {
    return load_float32(sweep.scores, index, static_cast<FloatType>(sweep.type));
  }
  // The histogram of the first class as if NaN had a count before it.
  VALOR_HD unsigned long long* totals() const { return reinterpret_cast<unsigned long long*>(histogram) - 1; }
};

// Whether the tiles of a task fit; if so, `status` is what the launch gave.
bool launch_tiles(const TileTask& task, void* stream, int32_t* status);

}  // namespace valor
