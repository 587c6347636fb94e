// Outcomes of detections by class, bin of the score and setting: what is left of records once the order
// inside a bin is given up. Bins follow the order of floats, so many to every power of two.
#pragma once
#include "curves.h"

namespace valor {

// Scores below 2^-octaves are bin 0, scores of 1 and above the last one.
struct ScoreBins {
  int64_t octaves, bits;  // 2^bits bins to a power of two

  VALOR_HD int64_t count() const { return (octaves << bits) + 2; }
  VALOR_HD int64_t of(double score) const {
    if (!(score > 0)) return 0;
    int64_t word;  // of positive floats, in their order
    memcpy(&word, &score, 8);
    const int64_t above = word - ((1023 - octaves) << 52);
    if (above < 0) return 0;
    const int64_t bin = 1 + (above >> (52 - bits));
    return bin < count() ? bin : count() - 1;
  }
};

// What a run adds up. valor_gpu/ops/outcome_counts/op.py has the same fields.
struct OutcomeTask {
  const uint8_t* records;
  const int32_t* classes;  // [D], negative: counts nowhere
  int64_t rows, num_classes, limits, settings;
  ScoreBins bins;
  int64_t *counts, *recalled;  // [C, B, 2, S] hits and all that count, [C, M, S] hits

  VALOR_HD int64_t setting_bytes() const { return (settings + 7) / 8; }
  VALOR_HD const uint8_t* record(int64_t row) const { return records + row * (13 + 2 * setting_bytes()); }
  // Where the record of a row is counted; false: nowhere.
  VALOR_HD bool find(int64_t row, int64_t** cell, int64_t** hits) const {
    const int64_t k = classes[row];
    const int bucket = record_bucket(record(row));
    if (k < 0 || k >= num_classes || bucket >= limits) return false;
    *cell = counts + (k * bins.count() + bins.of(record_score(record(row)))) * 2 * settings;
    *hits = recalled + (k * limits + bucket) * settings;
    return true;
  }
};

}  // namespace valor
