// Precision and recall from detection records, sample by sample as pycocotools' COCOeval.accumulate defines
// them, without curves in memory: only true positives shape a curve, and a recall sample is a maximum over
// them.
#pragma once
#include "platform.h"
#include "sort.h"

namespace valor {

constexpr double kEpsilon = 2.220446049250313e-16;  // numpy.spacing(1)

// What a run of accumulation is made of. R recall thresholds are ascending; positives are counting ground
// truths.
struct CurveShape {
  int64_t thresholds, areas, limits, recalls, classes;

  VALOR_HD int64_t settings() const { return thresholds * areas; }
  VALOR_HD int64_t setting_bytes() const { return (settings() + 7) / 8; }
  VALOR_HD int64_t row_bytes() const { return 13 + 2 * setting_bytes(); }
};

// The order of tied scores: as given, true positives first (highest precision), or last (lowest).
enum TieOrder : int64_t { kGiven = 0, kHighest = 1, kLowest = 2 };

// The operands and their order are those of `tp / (fp + tp + np.spacing(1))`.
VALOR_HD double precision_at(int64_t tp, int64_t fp) {
  return static_cast<double>(tp) / (static_cast<double>(fp) + static_cast<double>(tp) + kEpsilon);
}

// Index of the true positive that reaches `recall`: numpy.searchsorted(arange(1, most + 1) / positives,
// recall). `most` exceeds the positives only where a ground truth may be matched twice (DetectionFlag kFree).
// Nothing reaches NaN, which numpy sorts last.
VALOR_HD int64_t reaching_index(int64_t positives, int64_t most, double recall) {
  const auto below = [=](int64_t index) {
    return !(static_cast<double>(index + 1) / static_cast<double>(positives) >= recall);
  };
  // The quotient is right but for rounding, so that few steps remain.
  const double near = recall * static_cast<double>(positives);  // NaN where all are below
  int64_t index = near <= 0 ? 0 : near < static_cast<double>(most) ? static_cast<int64_t>(near) : most;
  while (index > 0 && !below(index - 1)) --index;
  while (index < most && below(index)) ++index;
  return index;
}

VALOR_HD double record_score(const uint8_t* row) {
  double score;
  memcpy(&score, row, 8);
  return score;
}

VALOR_HD int32_t record_label(const uint8_t* row) {
  int32_t label;
  memcpy(&label, row + 8, 4);
  return label;
}

VALOR_HD int record_bucket(const uint8_t* row) { return row[12]; }

// Bits of up to 64 settings from bit `first`, a multiple of 8, of a bit field of `bytes` bytes.
VALOR_HD uint64_t load_bits(const uint8_t* field, int64_t bytes, int64_t first) {
  const uint8_t* from = field + first / 8;
  const int64_t left = bytes - first / 8;
  if (left >= 4) {  // two loads that overlap
    const int64_t last = left < 8 ? left - 4 : 4;
    uint32_t low, high;
    memcpy(&low, from, 4);
    memcpy(&high, from + last, 4);
    return low | static_cast<uint64_t>(high) << (8 * last);
  }
  uint64_t word = 0;
  for (int64_t i = 0; i < left; ++i) word |= static_cast<uint64_t>(from[i]) << (8 * i);
  return word;
}

// What all curves share: records in order, where samples lie in the ascending recall grid, where results go.
struct Accumulation {
  CurveShape shape;
  const uint8_t* records;
  const int64_t *order, *offsets, *positives;
  const double* recall_grid;   // ascending
  const int64_t* grid_places;  // place of each ascending sample in the caller's grid
  bool full;
  TieOrder ties;
  double *precision, *recall, *scores;

  VALOR_HD int64_t curves() const { return full ? shape.limits : 1; }
  VALOR_HD const uint8_t* record(int64_t at) const { return records + order[at] * shape.row_bytes(); }
  VALOR_HD int64_t positives_of(int64_t k, int64_t a) const { return positives[k * shape.areas + a]; }
  // Indices into precision and scores: of a curve's sample at place 0 of the caller's grid, and from place to
  // place.
  VALOR_HD int64_t first_sample(int64_t t, int64_t k, int64_t a, int64_t curve) const {
    return ((t * shape.recalls * shape.classes + k) * shape.areas + a) * curves() + curve;
  }
  VALOR_HD int64_t sample_stride() const { return shape.classes * shape.areas * curves(); }
  VALOR_HD int64_t recall_at(int64_t t, int64_t k, int64_t a, int64_t m) const {
    return ((t * shape.classes + k) * shape.areas + a) * shape.limits + m;
  }
};

}  // namespace valor
