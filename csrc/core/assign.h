// Greedy assignment of detections to ground truths over candidates, in all settings at once; knows no
// geometry. A setting is one threshold of one area range.
// Definition: pycocotools/cocoeval.py, COCOeval.evaluateImg (Dollar and Lin, 2015).
#pragma once
#include "match_load.h"

namespace valor {

VALOR_HD uint64_t low_bits(int64_t count) {
  return count >= 64 ? ~0ull : count <= 0 ? 0ull : (1ull << count) - 1;
}

// Settings [first, first + count) of a run as one word; L > 64 takes several chunks, which are independent of
// each other.
struct Chunk {
  int32_t first, count;
  int32_t start;   // bit of the first setting whose threshold is number 0
  uint64_t every;  // bits 0, T, 2T, ...

  VALOR_HD static Chunk at(const Rule& rule, int64_t first) {
    const int64_t T = rule.num_thresholds, left = rule.settings() - first;
    Chunk chunk{static_cast<int32_t>(first), static_cast<int32_t>(left < 64 ? left : 64),
                static_cast<int32_t>((T - first % T) % T), 0};
    for (int64_t bit = 0; bit < 64; bit += T) chunk.every |= 1ull << bit;
    return chunk;
  }
  VALOR_HD uint64_t all() const { return low_bits(count); }
  VALOR_HD uint64_t of_area(const Rule& rule, int64_t a) const {
    const int64_t begin = a * rule.num_thresholds - first, end = begin + rule.num_thresholds;
    return low_bits(end < count ? end : count) & ~low_bits(begin);
  }
  // Settings whose threshold the IoU reaches. One comparison a threshold: thresholds may be unsorted or
  // repeat.
  VALOR_HD uint64_t reached(const Rule& rule, double iou) const {
    const int32_t T = static_cast<int32_t>(rule.num_thresholds);
    uint64_t settings = 0;
    for (int32_t t = 0; t < T; ++t) {
      const int32_t bit = start + t < T ? start + t : start + t - T;
      if (bit < 64 && iou >= rule.threshold()[t]) settings |= every << bit;
    }
    return settings & all();
  }
  // Settings whose area range the area lies outside of.
  VALOR_HD uint64_t outside(const Rule& rule, double area) const {
    uint64_t settings = 0;
    if (first == 0) {  // the usual single chunk: area ranges follow one another
      const uint64_t one = low_bits(rule.num_thresholds);
      for (int64_t a = 0, shift = 0; a < rule.num_areas && shift < 64; ++a, shift += rule.num_thresholds) {
#if defined(__CUDA_ARCH__)
        if (area < rule.area()[2 * a] || area > rule.area()[2 * a + 1]) settings |= one << shift;
#else  // no branch: sizes come in no order that a processor could guess
        const uint64_t is_outside = (area < rule.area()[2 * a]) | (area > rule.area()[2 * a + 1]);
        settings |= (one << shift) & (0 - is_outside);
#endif
      }
      return settings & all();
    }
    for (int64_t a = 0; a < rule.num_areas; ++a)
      if (area < rule.area()[2 * a] || area > rule.area()[2 * a + 1]) settings |= of_area(rule, a);
    return settings;
  }
};

struct Outcome {
  uint64_t matched, ignored;
};

VALOR_HD double lowest_threshold(const Rule& rule) {
  double lowest = rule.threshold()[0];
  for (int64_t t = 1; t < rule.num_thresholds; ++t)
    if (rule.threshold()[t] < lowest) lowest = rule.threshold()[t];
  return lowest;
}

// Writes, for each setting of the word, the position in the image of the ground truth that was matched.
VALOR_HD void note_matches(int32_t* matches, uint64_t settings, int32_t ground_truth) {
  for (int setting = 0; settings; ++setting, settings >>= 1)
    if (settings & 1) matches[setting] = ground_truth;
}

// The ground truths of an image under one chunk of settings, by position in the image.
struct GroundTruths {
  const uint8_t* flags;
  const uint64_t* counts;  // settings in which the ground truth counts
  uint64_t* taken;         // settings in which a detection holds it
};

// Candidates of a detection have size(), similarity(c) and ground_truth(c), a position in the image, by
// descending similarity, the later ground truth first on ties: every pair of the detection's class whose
// similarity reaches the lowest threshold, and perhaps others.

// The settings whose threshold a candidate reaches.
template <class Candidates>
VALOR_HD uint64_t reached(const Rule& rule, const Chunk& chunk, const Candidates& candidates, int32_t c) {
  return chunk.reached(rule, candidates.similarity(c));
}

// One pass over the candidates: the ground truths that count, or those that are ignored.
template <bool kIgnoredPass, class Group, class Candidates>
VALOR_HD void claim(const Group& group, const Rule& rule, const Chunk& chunk,
                    const GroundTruths& ground_truths, const Candidates& candidates, bool frees,
                    Outcome& outcome, uint64_t& hidden, int32_t* matches) {
  VALOR_ROLLED for (int32_t c = 0; c < candidates.size(); ++c) {
    const uint64_t open = reached(rule, chunk, candidates, c) & ~outcome.matched;
    if (!open) return;  // later candidates reach no setting that this one does not
    const int32_t j = candidates.ground_truth(c);
    uint64_t settings = open & (kIgnoredPass ? ~ground_truths.counts[j] : ground_truths.counts[j]);
    if (!(ground_truths.flags[j] & kCrowd)) settings &= ~ground_truths.taken[j];
    group.sync();  // every lane has read what one of them may change below
    if (!settings) continue;
    outcome.matched |= settings;
    if (kIgnoredPass) outcome.ignored |= settings;
    if (ground_truths.flags[j] & kIdZero) hidden |= settings;
    if (group.lane() == 0) {
      if (!frees) ground_truths.taken[j] |= settings;
      if (matches) note_matches(matches, settings, j);
    }
    group.sync();
  }
}

// Rule kCoco for one detection; `area` is its own area, `flags` are DetectionFlag. `matches` may be null.
template <class Group, class Candidates>
VALOR_HD Outcome assign_detection(const Group& group, const Rule& rule, const Chunk& chunk,
                                  const GroundTruths& ground_truths, const Candidates& candidates,
                                  double area, uint8_t flags, int32_t* matches) {
  Outcome outcome{0, 0};
  if (candidates.size() != 0) {  // nine detections in ten have none
    const bool frees = flags & kFree;
    uint64_t hidden = 0;  // settings matched to annotation id 0, which cocoeval stores as "no match"
    claim<false>(group, rule, chunk, ground_truths, candidates, frees, outcome, hidden, matches);
    claim<true>(group, rule, chunk, ground_truths, candidates, frees, outcome, hidden, matches);
    outcome.matched &= ~hidden;
  }
  const uint64_t without = (flags & kUnmatchedIgnored) ? chunk.all() : chunk.outside(rule, area);
  outcome.ignored |= without & ~outcome.matched;
  return outcome;
}

// Whether a ground truth counts in no setting.
VALOR_HD bool is_ignored(int64_t flags) {
  return (flags & kIgnored) || (flags & (kCrowd | kGroup)) == kCrowd;
}

// The kind of the first error with the stored pairs of a detection, 0 when there is none. `same_class` says
// of a ground truth whether it has the class of the detection.
template <class SameClass>
VALOR_HD int64_t stored_error(const Pairs& pairs, int64_t detection, int64_t ground_truths,
                              const SameClass& same_class) {
  const int64_t begin = pairs.offsets[detection], end = pairs.offsets[detection + 1];
  const int64_t count = pairs.counts[detection];
  if (begin < 0 || end < begin || end > pairs.size) return kPairOffsets;
  if (count < 0 || count > end - begin || count > ground_truths) return kPairCount;
  const int32_t* positions = pairs.ground_truths + begin;
  const double* similarities = pairs.similarities + begin;
  for (int64_t c = 0; c < count; ++c) {
    if (positions[c] < 0 || positions[c] >= ground_truths) return kPairGroundTruth;
    if (similarities[c] != similarities[c]) return kPairSimilarity;
    if (c > 0 && !(similarities[c - 1] > similarities[c] ||
                   (similarities[c - 1] == similarities[c] && positions[c - 1] > positions[c])))
      return kPairOrder;
    if (!same_class(positions[c])) return kPairClass;
  }
  return kGoodRow;
}

// Settings in which a ground truth counts.
VALOR_HD uint64_t counting_settings(const Rule& rule, const Chunk& chunk, int64_t flags, double area) {
  return is_ignored(flags) ? 0 : chunk.all() & ~chunk.outside(rule, area);
}

// The low `count` bytes of a word, 8 at most; rows are not aligned.
VALOR_HD void store_bits(uint8_t* bytes, uint64_t word, int64_t count) {
#if !defined(__CUDA_ARCH__)
  if (count >= 4) {  // two stores that overlap
    const uint32_t low = static_cast<uint32_t>(word), high = static_cast<uint32_t>(word >> (8 * (count - 4)));
    memcpy(bytes, &low, 4);
    memcpy(bytes + count - 4, &high, 4);
    return;
  }
#endif
  VALOR_ROLLED for (int64_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(word >> (8 * i));
}

// Row writers: see docs/design/001-detection-records.md.
VALOR_HD void write_detection(uint8_t* row, double score, int64_t label, int bucket) {
  const int32_t narrow = static_cast<int32_t>(label);
  memcpy(row, &score, 8);
  memcpy(row + 8, &narrow, 4);
  row[12] = static_cast<uint8_t>(bucket);
}

VALOR_HD void write_padding(const Rule& rule, uint8_t* row) {
  memset(row, 0, rule.detection_bytes());
  row[12] = kPaddingBucket;
}

VALOR_HD void write_settings(const Rule& rule, uint8_t* row, const Chunk& chunk, const Outcome& outcome) {
  const int64_t bytes = (chunk.count + 7) / 8;
  store_bits(row + 13 + chunk.first / 8, outcome.matched, bytes);
  store_bits(row + 13 + rule.setting_bytes() + chunk.first / 8, outcome.ignored, bytes);
}

VALOR_HD void write_ground_truth(const Rule& rule, uint8_t* row, int64_t label, int64_t flags, double area,
                                 bool real) {
  const int32_t narrow = static_cast<int32_t>(label);
  memcpy(row, &narrow, 4);
  const bool ignored = is_ignored(flags);
  uint32_t bits = 0;
  VALOR_ROLLED for (int64_t a = 0; a < rule.num_areas + 2; ++a) {
    bool bit = real;
    if (a < rule.num_areas)
      bit = real && !ignored && !(area < rule.area()[2 * a] || area > rule.area()[2 * a + 1]);
    else if (a == rule.num_areas + 1)
      bit = real && ignored;
    bits |= static_cast<uint32_t>(bit) << (a % 8);
    if (a % 8 != 7 && a != rule.num_areas + 1) continue;
    row[4 + a / 8] = static_cast<uint8_t>(bits);
    bits = 0;
  }
}

// Index of the first limit above the rank; M when the rank is beyond all of them.
VALOR_HD int bucket_of(const Rule& rule, int64_t rank) {
  int m = 0;
#if defined(__CUDA_ARCH__)
  while (m < rule.num_limits && rank >= rule.limit()[m]) ++m;
#else  // limits ascend: all comparisons, since a processor cannot guess where they end
  for (int64_t i = 0; i < rule.num_limits; ++i) m += rank >= rule.limit()[i];
#endif
  return m;
}

VALOR_HD int64_t pack_pair(uint32_t low, uint32_t high) {
  return static_cast<int64_t>(low | static_cast<uint64_t>(high) << 32);
}

// Without an id the image is named by its own content, so that no order of arrival can change a tie.
VALOR_HD void write_image(const Rule& rule, const Segment& segment, int64_t* row, uint64_t ground_truth_hash,
                          uint64_t record_hash, const BoxExtent& detections, const BoxExtent& ground_truths) {
  const uint64_t content = (rule.options & kHashed) ? mix(fold(ground_truth_hash, record_hash)) : 0;
  row[0] = !segment.has_id      ? static_cast<int64_t>(content)
           : segment.id_address ? *reinterpret_cast<const int64_t*>(segment.id_address)
                                : segment.id;
  row[1] = segment.has_id;
  row[2] = static_cast<int64_t>(ground_truth_hash);
  row[3] = static_cast<int64_t>(record_hash);
  row[4] = segment.detections;
  row[5] = segment.ground_truths;
  row[6] =
      pack_pair(static_cast<uint32_t>(detections.negative), static_cast<uint32_t>(ground_truths.negative));
  row[7] = pack_pair(bits_of(static_cast<float>(detections.reach)),
                     bits_of(static_cast<float>(ground_truths.reach)));
}

}  // namespace valor
