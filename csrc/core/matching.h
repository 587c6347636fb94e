// COCO greedy matching of one detection against the boxes of its cell, in all settings at once.
#pragma once
#include "assign.h"

namespace valor {

// The ground truths of one (image, class) cell, in input order.
struct Cell {
  const Box* boxes;
  const uint8_t* flags;
  const uint64_t* counts;  // settings in which the ground truth counts
  uint64_t* taken;         // settings in which a detection holds it
  double* ious;            // scratch
  int32_t size;
};

// The largest (IoU, position) below the given one: candidates come in descending IoU, later ground truth
// first on ties, with no buffer that could overflow.
template <class Group>
VALOR_HD void next_candidate(const Group& group, const Cell& cell, double& iou, int32_t& position) {
  double best = -1.0;
  int32_t where = -1;
  VALOR_ROLLED for (int32_t j = group.lane(); j < cell.size; j += group.width()) {
    const double value = cell.ious[j];
    const bool below = value < iou || (value == iou && j < position);
    if (below && value >= best) best = value, where = j;
  }
  const double top = group.max(best);
  position = group.max(best == top ? where : -1);
  iou = top;
}

// One pass over the candidates: the counting ground truths, or the ignored ones.
template <bool kIgnoredPass, class Group>
VALOR_HD void claim_cell(const Group& group, const Rule& rule, const Chunk& chunk, const Cell& cell,
                         bool frees, uint32_t candidates, Outcome& outcome, uint64_t& hidden,
                         int32_t* matches, const int32_t* names) {
  double iou = 2.0;
  int32_t j = cell.size;
  for (; candidates > 0; --candidates) {
    next_candidate(group, cell, iou, j);
    const uint64_t open = chunk.reached(rule, iou) & ~outcome.matched;
    if (!open) return;  // later candidates reach no setting that this one does not
    const bool crowd = cell.flags[j] & kCrowd;
    uint64_t settings = open & (kIgnoredPass ? ~cell.counts[j] : cell.counts[j]);
    if (!crowd) settings &= ~cell.taken[j];
    group.sync();
    if (!settings) continue;
    outcome.matched |= settings;
    if (kIgnoredPass) outcome.ignored |= settings;
    if (cell.flags[j] & kIdZero) hidden |= settings;
    if (group.lane() == 0) {
      if (!frees) cell.taken[j] |= settings;
      if (matches) note_matches(matches, settings, names[j]);
    }
    group.sync();
  }
}

// Matches one detection; `area` is its own area, `frees` is kFree of its flags. `matches` may be null.
template <class Group>
VALOR_HD Outcome match_detection(const Group& group, const Rule& rule, const Chunk& chunk, const Cell& cell,
                                 const Box& box, double area, bool frees, double lowest, int32_t* matches,
                                 const int32_t* names) {
  uint32_t candidates = 0;
  VALOR_ROLLED for (int32_t j = group.lane(); j < cell.size; j += group.width()) {
    cell.ious[j] = box_iou<true>(box, cell.boxes[j], cell.flags[j] & kCrowd);
    candidates += cell.ious[j] >= lowest;
  }
  candidates = group.sum(candidates);
  group.sync();
  Outcome outcome{0, 0};
  uint64_t hidden = 0;  // settings matched to annotation id 0, which cocoeval stores as "no match"
  claim_cell<false>(group, rule, chunk, cell, frees, candidates, outcome, hidden, matches, names);
  claim_cell<true>(group, rule, chunk, cell, frees, candidates, outcome, hidden, matches, names);
  outcome.matched &= ~hidden;
  outcome.ignored |= chunk.outside(rule, area) & ~outcome.matched;
  return outcome;
}

}  // namespace valor
