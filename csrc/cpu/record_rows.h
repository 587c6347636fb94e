// What row tables say of themselves: labels, padding, counted and ignored ground truths.
#pragma once
#include "../core/curves.h"
#include "../core/match_batch.h"
#include "class_index.h"

namespace valor {

inline int32_t ground_truth_label(const uint8_t* row) {
  int32_t label;
  memcpy(&label, row, 4);
  return label;
}

// Of A area ranges: bit a counts in area range a, bit A is a real row, bit A + 1 a crowd or ignored one.
inline int ground_truth_bit(const uint8_t* row, int64_t bit) { return row[4 + bit / 8] >> (bit % 8) & 1; }

// Asks for a record some steps before it is read; a third of them lie on two lines of the cache.
inline void prefetch_record(const uint8_t* record, int64_t bytes) {
  __builtin_prefetch(record);
  __builtin_prefetch(record + bytes - 1);
}

// Notes the label of a row that is no padding; whether it is none.
inline bool note_detection(const uint8_t* row, LabelSet& seen) {
  if (record_bucket(row) == kPaddingBucket) return false;
  seen.note(record_label(row));
  return true;
}

inline bool note_ground_truth(const uint8_t* row, int64_t areas, LabelSet& seen) {
  if (!ground_truth_bit(row, areas)) return false;
  seen.note(ground_truth_label(row));
  return true;
}

// Adds up counts [K, A] of the area bits of ground-truth rows whose label is wanted.
inline void add_positives(const uint8_t* rows, int64_t count, int64_t row_bytes, const ClassIndex& index,
                          bool agnostic, int64_t areas, int64_t* counts) {
  for (int64_t i = 0; i < count; ++i, rows += row_bytes) {
    const int32_t k = agnostic ? 0 : index.of(ground_truth_label(rows));
    for (int64_t a = 0; k >= 0 && a < areas; ++a) counts[k * areas + a] += ground_truth_bit(rows, a);
  }
}

}  // namespace valor
