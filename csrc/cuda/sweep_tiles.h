// Histograms of scores of up to 32 bits, counted in shared memory.
#pragma once
#include "../core/activation32.h"
#include "../core/sweep_keys.h"

namespace valor {

// What scores become before they are counted.
enum Reading : int64_t {
  kAsTheyAre = 0,
  kProbabilities = 1,  // nothing; where one lies outside [0, 1], that is noted, and counts do not matter
  kSigmoid = 2,
  kSoftmax = 3,
};

struct TileTask {
  SweepTask sweep;  // without weights
  Lookup<float> lookup;
  CellShape shape;
  KeyShape keys;
  const SweepCell* cells;  // with keys their leaves and groups
  uint8_t* flags;          // [rows] of scratch, of class indices alone
  int64_t* histogram;      // [2, classes, thresholds + 1], zero before
  int64_t* error;
  int64_t reading;         // a Reading
  const RowShare* shares;  // of the softmax: [rows + 1], the last one is anything
  uint32_t* outside;  // written by kProbabilities; others count only where it is not 0, unless it is null

  // Whether thresholds lie in cells or leaves, and the bytes of these, a multiple of 8.
  VALOR_HD bool has_cells() const { return shape.cells || keys.leaves; }
  VALOR_HD int64_t cell_bytes() const {
    if (keys.leaves) return key_bytes(keys.leaves, keys.groups);
    return (shape.cells + 1) * static_cast<int64_t>(sizeof(SweepCell));
  }

  VALOR_HD float raw(int64_t row, int64_t column) const {
    return load_float32(sweep.scores, row * sweep.target.classes + column,
                        static_cast<FloatType>(sweep.type));
  }
  // Of one element: what is counted, and what is wrong; kNoError if nothing is.
  VALOR_HD float value(int64_t row, int64_t column) const {
    const FloatType type = static_cast<FloatType>(sweep.type);
    const float x = raw(row, column);
    if (reading == kSigmoid) return round_to(short_sigmoid(x), type);
    return reading == kSoftmax ? round_to(short_softmax(x, shares[row]), type) : x;
  }
  VALOR_HD int64_t error_of(int64_t row, int64_t column) const {
    const Truth truth = sweep.target.at(row, column);
    if (truth == kIgnored) return kNoError;
    if (truth == kBadTruth) return value_error(row, column, kTarget);
    const float x = value(row, column);
    if (x == x) return kNoError;
    return value_error(row, reading == kSoftmax ? first_nan(row) : column, kNanScore);
  }
  // The column of the NaN that makes a softmax of NaN; 0 if infinite logits do.
  VALOR_HD int64_t first_nan(int64_t row) const {
    for (int64_t c = 0; c < sweep.target.classes; ++c) {
      const float x = raw(row, c);
      if (x != x) return c;
    }
    return 0;
  }
  // The histogram of the first class as if NaN had a count before it.
  VALOR_HD unsigned long long* totals() const { return reinterpret_cast<unsigned long long*>(histogram) - 1; }
};

VALOR_HD bool lies_outside(float x) { return x < 0.0f || x > 1.0f; }

// Whether the tiles of a task fit; if so, `status` is what the launch gave. The first counts scores as they
// are; the second what `task.reading` makes of logits, and if `task.outside` is given only where a score lies
// outside [0, 1], else scores as they are.
bool launch_tiles(const TileTask& task, void* stream, int32_t* status);
bool launch_activated_tiles(const TileTask& task, void* stream, int32_t* status);

// Parts of both: the flags of rows of class indices, with `sides` their classes; and counts of the rows from
// `first` on, which make no wide one.
int32_t launch_flags(const TileTask& task, bool sides, void* stream);
int32_t launch_rest(const TileTask& task, int64_t first, bool positives_too, void* stream);

}  // namespace valor
