// COCO greedy matching of one detection against the ground truths of its cell, in all lanes at once.
// Definition: pycocotools/cocoeval.py, COCOeval.evaluateImg (Dollar and Lin, 2015).
#pragma once
#include "match_load.h"

namespace valor {

VALOR_HD uint64_t low_bits(int64_t count) {
  return count >= 64 ? ~0ull : count <= 0 ? 0ull : (1ull << count) - 1;
}

// Lanes [first, first + count) of a run as one word; L > 64 takes several chunks, which are independent of
// each other.
struct Chunk {
  int32_t first, count;
  int32_t start;   // bit of the first lane whose threshold is number 0
  uint64_t every;  // bits 0, T, 2T, ...

  VALOR_HD static Chunk at(const Rule& rule, int64_t first) {
    const int64_t T = rule.num_thresholds, left = rule.lanes() - first;
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
  // Lanes whose threshold the IoU reaches. One comparison a threshold: thresholds may be unsorted or repeat.
  VALOR_HD uint64_t reached(const Rule& rule, double iou) const {
    const int32_t T = static_cast<int32_t>(rule.num_thresholds);
    uint64_t lanes = 0;
    for (int32_t t = 0; t < T; ++t) {
      const int32_t bit = start + t < T ? start + t : start + t - T;
      if (bit < 64 && iou >= rule.threshold()[t]) lanes |= every << bit;
    }
    return lanes & all();
  }
  // Lanes whose area range the area lies outside of.
  VALOR_HD uint64_t outside(const Rule& rule, double area) const {
    uint64_t lanes = 0;
    if (first == 0) {  // the usual single chunk: area ranges follow one another
      const uint64_t one = low_bits(rule.num_thresholds);
      for (int64_t a = 0, shift = 0; a < rule.num_areas && shift < 64; ++a, shift += rule.num_thresholds)
        if (area < rule.area()[2 * a] || area > rule.area()[2 * a + 1]) lanes |= one << shift;
      return lanes & all();
    }
    for (int64_t a = 0; a < rule.num_areas; ++a)
      if (area < rule.area()[2 * a] || area > rule.area()[2 * a + 1]) lanes |= of_area(rule, a);
    return lanes;
  }
};

// The ground truths of one (image, class) cell, in input order.
struct Cell {
  const Box* boxes;
  const uint8_t* flags;
  const uint64_t* counts;  // lanes in which the ground truth counts
  uint64_t* taken;         // lanes in which a detection holds it
  double* ious;            // scratch
  int32_t size;
};

struct Outcome {
  uint64_t matched, ignored;
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

VALOR_HD double lowest_threshold(const Rule& rule) {
  double lowest = rule.threshold()[0];
  for (int64_t t = 1; t < rule.num_thresholds; ++t)
    if (rule.threshold()[t] < lowest) lowest = rule.threshold()[t];
  return lowest;
}

// Writes, for each lane of the word, the position in the image of the ground truth that was matched.
VALOR_HD void note_matches(int32_t* matches, uint64_t lanes, int32_t truth) {
  for (int lane = 0; lanes; ++lane, lanes >>= 1)
    if (lanes & 1) matches[lane] = truth;
}

// One pass over the candidates: the counting ground truths, or the ignored ones.
template <bool kIgnoredPass, class Group>
VALOR_HD void claim(const Group& group, const Rule& rule, const Chunk& chunk, const Cell& cell, bool frees,
                    uint32_t candidates, Outcome& outcome, uint64_t& hidden, int32_t* matches,
                    const int32_t* names) {
  double iou = 2.0;
  int32_t j = cell.size;
  for (; candidates > 0; --candidates) {
    next_candidate(group, cell, iou, j);
    const uint64_t open = chunk.reached(rule, iou) & ~outcome.matched;
    if (!open) return;  // later candidates reach no lane that this one does not
    const bool crowd = cell.flags[j] & kCrowd;
    uint64_t lanes = open & (kIgnoredPass ? ~cell.counts[j] : cell.counts[j]);
    if (!crowd) lanes &= ~cell.taken[j];
    group.sync();
    if (!lanes) continue;
    outcome.matched |= lanes;
    if (kIgnoredPass) outcome.ignored |= lanes;
    if (cell.flags[j] & kIdZero) hidden |= lanes;
    if (group.lane() == 0) {
      if (!frees) cell.taken[j] |= lanes;
      if (matches) note_matches(matches, lanes, names[j]);
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
  uint64_t hidden = 0;  // lanes matched to annotation id 0, which cocoeval stores as "no match"
  claim<false>(group, rule, chunk, cell, frees, candidates, outcome, hidden, matches, names);
  claim<true>(group, rule, chunk, cell, frees, candidates, outcome, hidden, matches, names);
  outcome.matched &= ~hidden;
  outcome.ignored |= chunk.outside(rule, area) & ~outcome.matched;
  return outcome;
}

// Lanes in which a ground truth counts.
VALOR_HD uint64_t counting_lanes(const Rule& rule, const Chunk& chunk, int64_t flags, double area) {
  return (flags & (kCrowd | kIgnored)) ? 0 : chunk.all() & ~chunk.outside(rule, area);
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

VALOR_HD void write_lanes(const Rule& rule, uint8_t* row, const Chunk& chunk, const Outcome& outcome) {
  const int64_t bytes = (chunk.count + 7) / 8;
  store_bits(row + 13 + chunk.first / 8, outcome.matched, bytes);
  store_bits(row + 13 + rule.lane_bytes() + chunk.first / 8, outcome.ignored, bytes);
}

VALOR_HD void write_truth(const Rule& rule, uint8_t* row, int64_t label, int64_t flags, double area,
                          bool real) {
  const int32_t narrow = static_cast<int32_t>(label);
  memcpy(row, &narrow, 4);
  const bool ignored = flags & (kCrowd | kIgnored);
  for (int64_t a = 0; a < rule.num_areas + 2; ++a) {
    if (a % 8 == 0) row[4 + a / 8] = 0;
    bool bit = real;
    if (a < rule.num_areas)
      bit = real && !ignored && !(area < rule.area()[2 * a] || area > rule.area()[2 * a + 1]);
    else if (a == rule.num_areas + 1)
      bit = real && ignored;
    if (bit) row[4 + a / 8] |= static_cast<uint8_t>(1 << (a % 8));
  }
}

// Index of the first limit above the rank; M when the rank is beyond all of them.
VALOR_HD int bucket_of(const Rule& rule, int64_t rank) {
  int m = 0;
  while (m < rule.num_limits && rank >= rule.limit()[m]) ++m;
  return m;
}

VALOR_HD int64_t pack_pair(uint32_t low, uint32_t high) {
  return static_cast<int64_t>(low | static_cast<uint64_t>(high) << 32);
}

// Without an id the image is named by its own content, so that no order of arrival can change a tie.
VALOR_HD void write_image(const Rule& rule, const Segment& segment, int64_t* row, uint64_t truth_hash,
                          uint64_t record_hash, const BoxExtent& detections, const BoxExtent& truths) {
  const uint64_t content = (rule.options & kHashed) ? mix(fold(truth_hash, record_hash)) : 0;
  row[0] = !segment.has_id      ? static_cast<int64_t>(content)
           : segment.id_address ? *reinterpret_cast<const int64_t*>(segment.id_address)
                                : segment.id;
  row[1] = segment.has_id;
  row[2] = static_cast<int64_t>(truth_hash);
  row[3] = static_cast<int64_t>(record_hash);
  row[4] = segment.detections;
  row[5] = segment.truths;
  row[6] = pack_pair(static_cast<uint32_t>(detections.negative), static_cast<uint32_t>(truths.negative));
  row[7] =
      pack_pair(bits_of(static_cast<float>(detections.reach)), bits_of(static_cast<float>(truths.reach)));
}

}  // namespace valor
