// The rule of Open Images: single objects first, then groups; no detection has a second choice.
// Definition: Open Images Challenge, evaluation of the object detection track
// (https://storage.googleapis.com/openimages/web/evaluation.html#object_detection_eval).
#pragma once
#include "assign.h"

namespace valor {

// Among the candidates that are groups (or single objects), the one of largest similarity, -1 if there is
// none. Of equal ones it is the earliest ground truth, which candidates list last.
template <bool kGroups, class Candidates>
VALOR_HD int32_t best_candidate(const GroundTruths& ground_truths, const Candidates& candidates) {
  int32_t best = -1;
  VALOR_ROLLED for (int32_t c = 0; c < candidates.size(); ++c) {
    const bool is_group = ground_truths.flags[candidates.ground_truth(c)] & kCrowd;
    if (is_group != kGroups) continue;
    if (best >= 0 && candidates.similarity(c) != candidates.similarity(best)) break;
    best = c;
  }
  return best;
}

// Compares a detection with single objects, or with groups where no single object took it. The first
// detection of a ground truth that counts is matched; a further one stays open if it is of a single object
// and is ignored in a group, as is every detection of a ground truth that does not count.
template <bool kGroups, class Group, class Candidates>
VALOR_HD void take_best(const Group& group, const Rule& rule, const Chunk& chunk,
                        const GroundTruths& ground_truths, const Candidates& candidates, bool frees,
                        Outcome& outcome, int32_t* matches) {
  const int32_t c = best_candidate<kGroups>(ground_truths, candidates);
  if (c < 0) return;
  const int32_t j = candidates.ground_truth(c);
  const uint64_t open = chunk.reached(rule, candidates.similarity(c)) & ~outcome.matched;
  const uint64_t first = open & ground_truths.counts[j] & ~ground_truths.taken[j];
  const uint64_t ignored = open & (kGroups ? ~first : ~ground_truths.counts[j]);
  group.sync();  // every lane has read what one of them may change below
  outcome.matched |= first | ignored;
  outcome.ignored |= ignored;
  if (group.lane() == 0) {
    if (!frees) ground_truths.taken[j] |= first;
    if (matches) note_matches(matches, first | ignored, j);
  }
  group.sync();
}

// Rule kGroupOf for one detection; the arguments are those of assign_detection.
template <class Group, class Candidates>
VALOR_HD Outcome assign_detection_group(const Group& group, const Rule& rule, const Chunk& chunk,
                                        const GroundTruths& ground_truths, const Candidates& candidates,
                                        double area, uint8_t flags, int32_t* matches) {
  Outcome outcome{0, 0};
  if (candidates.size() != 0) {
    const bool frees = flags & kFree;
    take_best<false>(group, rule, chunk, ground_truths, candidates, frees, outcome, matches);
    take_best<true>(group, rule, chunk, ground_truths, candidates, frees, outcome, matches);
  }
  const uint64_t without = (flags & kUnmatchedIgnored) ? chunk.all() : chunk.outside(rule, area);
  outcome.ignored |= without & ~outcome.matched;
  return outcome;
}

// One detection by the rule of a run, which is known where the kernel is compiled.
template <RuleKind kKind, class Group, class Candidates>
VALOR_HD Outcome assign_by_rule(const Group& group, const Rule& rule, const Chunk& chunk,
                                const GroundTruths& ground_truths, const Candidates& candidates, double area,
                                uint8_t flags, int32_t* matches) {
  if constexpr (kKind == kGroupOf)
    return assign_detection_group(group, rule, chunk, ground_truths, candidates, area, flags, matches);
  else
    return assign_detection(group, rule, chunk, ground_truths, candidates, area, flags, matches);
}

}  // namespace valor
