// COCO greedy matching of one detection against the ground truths of its cell, in all lanes at once.
// Definition: pycocotools/cocoeval.py, COCOeval.evaluateImg (Dollar and Lin, 2015).
#pragma once
#include "boxes.h"
#include "load.h"
#include "platform.h"

namespace valor {

// One image of a batch. Every field is an int64 so that the host can fill a table of them, field by field
// ([fields, images]); pointers are addresses.
struct Segment {
  int64_t boxes, scores, labels;              // [detections] rows
  int64_t areas, flags;                       // 0, or float64 [detections] areas, uint8 [detections] (kFree)
  int64_t true_boxes, true_labels;            // [truths] rows
  int64_t true_flags, true_areas;             // 0, or [truths] rows (kCrowd, ...)
  int64_t id, id_address;                     // the image id, or where an int64 id lies; has_id says whether
  int64_t has_id;
  int64_t detections, truths;                 // row counts: what shapes the output
  int64_t count_address, true_count_address;  // 0, or where the int64 count of valid rows lies (packed batches)
  int64_t first_detection, first_truth;       // first output row

  static constexpr int kFields = 18;
  VALOR_HD static Segment at(const int64_t* table, int64_t images, int64_t image) {
    int64_t fields[kFields];
    for (int f = 0; f < kFields; ++f) fields[f] = table[f * images + image];
    Segment segment;
    memcpy(&segment, fields, sizeof segment);
    return segment;
  }
};
static_assert(sizeof(Segment) == 8 * Segment::kFields, "Segment holds int64 fields only");

// Values of Segment::true_flags and Segment::flags.
enum TruthFlag : int64_t { kCrowd = 1, kIgnored = 2, kIdZero = 4 };
enum DetectionFlag : int64_t { kFree = 1 };  // leaves its ground truth free: cocoeval's effect of an id <= 0

// The choices of a run. Pointers are addresses, as in Segment.
struct Rule {
  int64_t thresholds, num_thresholds;  // float64 [T], already min(t, 1 - 1e-10)
  int64_t area_ranges, num_areas;      // float64 [A, 2], both ends included
  int64_t limits, num_limits;          // int64 [M], ascending max-detection limits
  int64_t box_format, true_box_format, options;
  int64_t box_type, score_type, label_type, true_box_type, true_label_type, true_flag_type, true_area_type;

  VALOR_HD const double* threshold() const { return reinterpret_cast<const double*>(thresholds); }
  VALOR_HD const double* area() const { return reinterpret_cast<const double*>(area_ranges); }
  VALOR_HD const int64_t* limit() const { return reinterpret_cast<const int64_t*>(limits); }
  VALOR_HD int64_t lanes() const { return num_thresholds * num_areas; }
  VALOR_HD int64_t lane_bytes() const { return (lanes() + 7) / 8; }
  VALOR_HD int64_t detection_bytes() const { return 13 + 2 * lane_bytes(); }
  VALOR_HD int64_t truth_bytes() const { return 4 + (num_areas + 2 + 7) / 8; }
  VALOR_HD int64_t max_detections() const { return limit()[num_limits - 1]; }
};

// Bits of Rule::options.
enum Option : int64_t {
  kAgnostic = 1,      // one cell an image, whatever the labels
  kHashed = 2,        // fill the hashes of the images table
  kCheckScores = 4,   // a NaN score is a problem
  kUserInput = 8,     // crowd flags are 0 or 1, and an area that is not positive means the area of the box
  kWantMatches = 16,  // note which ground truth each lane matched
};

// What is wrong with a row. A problem packs (image in batch, row, code) so that the smallest is the first.
enum Problem : int64_t {
  kFine = INT64_MAX,
  kNoProblem = 0,
  kBox = 1,
  kScore = 2,
  kLabel = 3,
  kTrueBox = 4,
  kTrueLabel = 5,
  kTrueArea = 6,
  kTrueFlag = 7,
  kCount = 8,
  kTrueCount = 9,
};
constexpr int kRowBits = 28, kCodeBits = 4;
VALOR_HD int64_t problem_at(int64_t image, int64_t row, int64_t code) {
  const int64_t last_row = (int64_t{1} << kRowBits) - 1;
  return ((image << kRowBits | (row < last_row ? row : last_row)) << kCodeBits) | code;
}

constexpr int kPaddingBucket = 255;
constexpr int kImageColumns = 6;

VALOR_HD uint64_t low_bits(int64_t count) {
  return count >= 64 ? ~0ull : count <= 0 ? 0ull : (1ull << count) - 1;
}

// Lanes [first, first + count) of a run as one word; L > 64 takes several chunks, which are independent of each other.
struct Chunk {
  int64_t first, count;
  uint64_t every;  // bits 0, T, 2T, ...

  VALOR_HD static Chunk at(const Rule& rule, int64_t first) {
    Chunk chunk{first, rule.lanes() - first < 64 ? rule.lanes() - first : 64, 0};
    for (int64_t bit = 0; bit < 64; bit += rule.num_thresholds) chunk.every |= 1ull << bit;
    return chunk;
  }
  VALOR_HD uint64_t all() const { return low_bits(count); }
  VALOR_HD uint64_t of_area(const Rule& rule, int64_t a) const {
    const int64_t begin = a * rule.num_thresholds - first, end = begin + rule.num_thresholds;
    return low_bits(end < count ? end : count) & ~low_bits(begin);
  }
  // Lanes whose threshold the IoU reaches. One comparison a threshold: thresholds may be unsorted or repeat.
  VALOR_HD uint64_t reached(const Rule& rule, double iou) const {
    const int64_t T = rule.num_thresholds, start = (T - first % T) % T;
    uint64_t lanes = 0;
    for (int64_t t = 0; t < T; ++t) {
      const int64_t bit = start + t < T ? start + t : start + t - T;
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
  int64_t size;
};

struct Outcome {
  uint64_t matched, ignored;
};

// The largest (IoU, position) below the given one: candidates come in descending IoU, later ground truth first on
// ties, with no buffer that could overflow. False when none reaches `lowest`.
template <class Group>
VALOR_HD bool next_candidate(const Group& group, const Cell& cell, double lowest, double& iou, int64_t& position) {
  double best = -1.0;
  int64_t where = -1;
  for (int64_t j = group.lane(); j < cell.size; j += group.width()) {
    const double value = cell.ious[j];
    const bool below = value < iou || (value == iou && j < position);
    if (below && value >= best) best = value, where = j;
  }
  const double top = group.max(best);
  where = group.max(best == top ? where : int64_t{-1});
  iou = top, position = where;
  return where >= 0 && top >= lowest;
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
                    double lowest, Outcome& outcome, uint64_t& hidden, int32_t* matches, const int32_t* names) {
  double iou = 2.0;
  int64_t j = cell.size;
  while (next_candidate(group, cell, lowest, iou, j)) {
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
  double best = -1.0;
  for (int64_t j = group.lane(); j < cell.size; j += group.width()) {
    const double iou = box_iou(box, cell.boxes[j], cell.flags[j] & kCrowd);
    cell.ious[j] = iou;
    if (iou > best) best = iou;
  }
  group.sync();
  Outcome outcome{0, 0};
  uint64_t hidden = 0;  // lanes matched to annotation id 0, which cocoeval stores as "no match"
  if (group.max(best) >= lowest) {
    claim<false>(group, rule, chunk, cell, frees, lowest, outcome, hidden, matches, names);
    claim<true>(group, rule, chunk, cell, frees, lowest, outcome, hidden, matches, names);
  }
  outcome.matched &= ~hidden;
  outcome.ignored |= chunk.outside(rule, area) & ~outcome.matched;
  return outcome;
}

// Lanes in which a ground truth counts.
VALOR_HD uint64_t counting_lanes(const Rule& rule, const Chunk& chunk, int64_t flags, double area) {
  return (flags & (kCrowd | kIgnored)) ? 0 : chunk.all() & ~chunk.outside(rule, area);
}

VALOR_HD void store_bits(uint8_t* bytes, uint64_t word, int64_t count) {
  for (int64_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(word >> (8 * i));
}

// Row writers: see docs/design/001-detection-records.md.
VALOR_HD void write_detection(uint8_t* row, double score, int64_t label, int bucket) {
  const int32_t narrow = static_cast<int32_t>(label);
  memcpy(row, &score, 8);
  memcpy(row + 8, &narrow, 4);
  row[12] = static_cast<uint8_t>(bucket);
}

VALOR_HD void write_lanes(const Rule& rule, uint8_t* row, const Chunk& chunk, const Outcome& outcome) {
  const int64_t bytes = (chunk.count + 7) / 8;
  store_bits(row + 13 + chunk.first / 8, outcome.matched, bytes);
  store_bits(row + 13 + rule.lane_bytes() + chunk.first / 8, outcome.ignored, bytes);
}

VALOR_HD void write_truth(const Rule& rule, uint8_t* row, int64_t label, int64_t flags, double area, bool real) {
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

// A row's content folded into one word, position by position.
VALOR_HD uint64_t fold(uint64_t hash, uint64_t word) { return (hash ^ word) * 0x9e3779b97f4a7c15ull + (hash >> 29); }

VALOR_HD uint64_t hash_box(uint64_t seed, const Box& box, uint64_t tail) {
  uint64_t hash = fold(fold(seed, bits_of(box.x)), bits_of(box.y));
  hash = fold(fold(hash, bits_of(box.w)), bits_of(box.h));
  return mix(fold(hash, tail));
}

VALOR_HD uint64_t hash_detection(int64_t row, const Box& box, double score, int64_t label) {
  return hash_box(mix(static_cast<uint64_t>(row) + 1), box, fold(bits_of(score), static_cast<uint64_t>(label)));
}

VALOR_HD uint64_t hash_truth(const Box& box, int64_t label, int64_t flags, double area) {
  return hash_box(0x51afd7ed558ccd6dull, box, fold(bits_of(area), static_cast<uint64_t>(label) << 3 | (flags & 7)));
}

VALOR_HD bool finite(const Box& box) {
  const double total = (box.x - box.x) + (box.y - box.y) + (box.w - box.w) + (box.h - box.h);
  return total == 0.0;  // inf - inf and nan - nan are nan
}

VALOR_HD bool fits_int32(int64_t value) { return value >= INT32_MIN && value <= INT32_MAX; }

struct LoadedDetection {
  Box box;
  double score;
  int64_t label;
  int64_t problem;  // a code, 0 when fine
};

VALOR_HD LoadedDetection load_detection(const Rule& rule, const Segment& segment, int64_t row) {
  LoadedDetection d;
  d.box = load_box(reinterpret_cast<const void*>(segment.boxes), row, static_cast<FloatType>(rule.box_type),
                   static_cast<BoxFormat>(rule.box_format));
  d.score = load_float64(reinterpret_cast<const void*>(segment.scores), row, static_cast<FloatType>(rule.score_type));
  d.label = load_int(reinterpret_cast<const void*>(segment.labels), row, static_cast<IntType>(rule.label_type));
  const bool bad_score = (rule.options & kCheckScores) && d.score != d.score;
  d.problem = !finite(d.box) ? kBox : bad_score ? kScore : !fits_int32(d.label) ? kLabel : kNoProblem;
  return d;
}

struct LoadedTruth {
  Box box;
  int64_t label, flags;
  double area;
  int64_t problem;
};

// User input (kUserInput) has crowd flags of 0 or 1 and, as in torchmetrics, an area that is not positive stands for
// the area of the box; without that check flags are TruthFlag words and areas are taken as they are.
VALOR_HD LoadedTruth load_truth(const Rule& rule, const Segment& segment, int64_t row) {
  LoadedTruth t;
  t.box = load_box(reinterpret_cast<const void*>(segment.true_boxes), row,
                   static_cast<FloatType>(rule.true_box_type), static_cast<BoxFormat>(rule.true_box_format));
  t.label = load_int(reinterpret_cast<const void*>(segment.true_labels), row,
                     static_cast<IntType>(rule.true_label_type));
  t.flags = segment.true_flags ? load_int(reinterpret_cast<const void*>(segment.true_flags), row,
                                          static_cast<IntType>(rule.true_flag_type))
                               : 0;
  t.area = t.box.w * t.box.h;
  bool bad_area = false;
  if (segment.true_areas) {
    const double given = load_float64(reinterpret_cast<const void*>(segment.true_areas), row,
                                    static_cast<FloatType>(rule.true_area_type));
    bad_area = given != given;
    if (given > 0.0 || !(rule.options & kUserInput)) t.area = given;
  }
  const bool bad_flag = (rule.options & kUserInput) && (t.flags < 0 || t.flags > 1);
  t.problem = !finite(t.box) ? kTrueBox
              : !fits_int32(t.label) ? kTrueLabel
              : bad_area ? kTrueArea
              : bad_flag ? kTrueFlag
                         : kNoProblem;
  return t;
}

VALOR_HD double detection_area(const Segment& segment, const Box& box, int64_t row) {
  return segment.areas ? reinterpret_cast<const double*>(segment.areas)[row] : box.w * box.h;
}

VALOR_HD bool frees(const Segment& segment, int64_t row) {
  return segment.flags && (reinterpret_cast<const uint8_t*>(segment.flags)[row] & kFree);
}

// Without an id the image is named by its own content, so that no order of arrival can change a tie.
VALOR_HD void write_image(const Rule& rule, const Segment& segment, int64_t* row, uint64_t truth_hash,
                          uint64_t record_hash) {
  const uint64_t content = (rule.options & kHashed) ? mix(fold(truth_hash, record_hash)) : 0;
  row[0] = !segment.has_id       ? static_cast<int64_t>(content)
           : segment.id_address  ? *reinterpret_cast<const int64_t*>(segment.id_address)
                                 : segment.id;
  row[1] = segment.has_id;
  row[2] = static_cast<int64_t>(truth_hash);
  row[3] = static_cast<int64_t>(record_hash);
  row[4] = segment.detections;
  row[5] = segment.truths;
}

}  // namespace valor
