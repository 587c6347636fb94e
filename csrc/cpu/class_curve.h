// Precision and recall of one class from its ordered records, in all settings at once. Included by one source
// alone: what no other can see is inlined as a whole.
#pragma once
#include <algorithm>
#include <vector>

#include "../core/curves.h"
#include "record_rows.h"

namespace valor {
namespace {

// One class: counters per setting, and per setting the largest precision of each recall bucket.
class ClassCurve {
 public:
  explicit ClassCurve(const Accumulation& run)
      : run_(run),
        shape_(run.shape),
        words_((shape_.settings() + 63) / 64),
        fp_area_(shape_.areas),
        fp_(shape_.settings()),
        tp_(shape_.settings()),
        tp_limit_(shape_.settings() * shape_.limits),
        best_(shape_.settings() * shape_.recalls),
        score_(run.full ? best_.size() : 0),
        reach_(shape_.areas * shape_.recalls),
        bucket_(shape_.areas),
        area_mask_(shape_.areas),
        area_of_(shape_.settings()),
        first_place_(shape_.recalls + 1, shape_.recalls) {
    for (int64_t r = shape_.recalls - 1; r >= 0; --r)
      first_place_[r] = std::min(first_place_[r + 1], run_.grid_places[r]);
    for (int64_t setting = 0; setting < shape_.settings(); ++setting)
      area_of_[setting] = static_cast<int32_t>(setting / shape_.thresholds);
    const uint64_t one_area = shape_.thresholds >= 64 ? ~0ull : (1ull << shape_.thresholds) - 1;
    for (int64_t a = 0; a < shape_.areas && words_ == 1; ++a)
      area_mask_[a] = one_area << (a * shape_.thresholds);
  }

  // Writes what counts of class k; the arrays hold -1 before.
  void run(int64_t k) {
    k_ = k;
    bool present = false;
    for (int64_t a = 0; a < shape_.areas; ++a) present |= positives(a) > 0;
    if (!present) return;
    prepare();
    for (int64_t m = run_.full ? 0 : shape_.limits - 1; m < shape_.limits; ++m) {
      count(m);
      write_samples(m);
    }
    write_recall();
  }

 private:
  // Records of a class lie all over memory: ask for one some steps before it is read.
  static constexpr int64_t kAhead = 12;
  void fetch(int64_t at, int64_t end) const {
    if (at < end) prefetch_record(record(at), shape_.row_bytes());
  }
  int64_t positives(int64_t a) const { return run_.positives_of(k_, a); }
  const uint8_t* record(int64_t at) const { return run_.record(at); }

  void prepare() {
    const int64_t rows = run_.offsets[k_ + 1] - run_.offsets[k_];
    for (int64_t a = 0; a < shape_.areas; ++a) {
      int64_t* reach = reach_.data() + a * shape_.recalls;
      const int64_t most = std::max(positives(a), rows);
      for (int64_t r = 0; r < shape_.recalls; ++r)
        reach[r] = reaching_index(positives(a), most, run_.recall_grid[r]);
      bucket_[a].resize(positives(a));
      int32_t r = -1;
      for (int64_t i = 0; i < positives(a); ++i) bucket_[a][i] = r = last_reached(a, r, i);
    }
  }

  // The last recall sample, from sample r on, that the true positive with this index reaches.
  int32_t last_reached(int64_t a, int32_t r, int64_t index) const {
    const int64_t* reach = reach_.data() + a * shape_.recalls;
    while (r + 1 < shape_.recalls && reach[r + 1] <= index) ++r;
    return r;
  }

  // Walks the records of the class within limit m, tie group by tie group.
  void count(int64_t m) {
    std::fill(fp_area_.begin(), fp_area_.end(), 0);
    std::fill(fp_.begin(), fp_.end(), 0);
    std::fill(tp_.begin(), tp_.end(), 0);
    std::fill(tp_limit_.begin(), tp_limit_.end(), 0);
    std::fill(best_.begin(), best_.end(), 0.0);
    std::fill(score_.begin(), score_.end(), 0.0);
    seen_ = 0;
    const int64_t end = run_.offsets[k_ + 1];
    if (run_.ties == kGiven && words_ == 1) return count_blocks(m, end);
    for (int64_t at = run_.offsets[k_], next; at < end; at = next) {
      fetch(at + kAhead, end);
      next = run_.ties == kGiven ? at + 1 : tie_end(at, end);
      if (run_.ties == kHighest) {
        for (int64_t i = at; i < next; ++i) add<true, false>(record(i), m);
        for (int64_t i = at; i < next; ++i) add<false, true>(record(i), m);
      } else if (run_.ties == kLowest) {
        for (int64_t i = at; i < next; ++i) add<false, true>(record(i), m);
        for (int64_t i = at; i < next; ++i) add<true, false>(record(i), m);
      } else {
        add<true, true>(record(at), m);
      }
    }
  }

  int64_t tie_end(int64_t at, int64_t end) const {
    const double score = record_score(record(at));
    int64_t next = at + 1;
    while (next < end && record_score(record(next)) == score) ++next;
    return next;
  }

  // A record of up to 64 settings.
  struct Loaded {
    double score;
    uint64_t matched, ignored;
    int32_t bucket;
  };

  Loaded load(const uint8_t* row) const {
    const int64_t bytes = shape_.setting_bytes();
    return {record_score(row), load_bits(row + 13, bytes, 0), load_bits(row + 13 + bytes, bytes, 0),
            record_bucket(row)};
  }

  // Loads many records before it counts one, so that waits for memory overlap: no branch lies between them.
  void count_blocks(int64_t m, int64_t end) {
    constexpr int64_t kBlock = 256;
    Loaded block[kBlock];
    for (int64_t at = run_.offsets[k_]; at < end; at += kBlock) {
      const int64_t size = std::min(kBlock, end - at);
      for (int64_t i = 0; i < size; ++i) block[i] = load(record(at + i));
      for (int64_t i = 0; i < size; ++i) add_word<true, true>(block[i], m);
    }
  }

  template <bool kTrue, bool kFalse>
  void add_word(const Loaded& record, int64_t m) {
    if (record.bucket > m) return;
    if (kTrue && seen_++ == 0) first_score_ = record.score;
    if (record.matched == 0 && whole_areas(record.ignored)) {
      for (int64_t a = 0; kFalse && a < shape_.areas; ++a)
        fp_area_[a] += (record.ignored & area_mask_[a]) == 0;
      return;
    }
    add_settings<kTrue, kFalse>(record, 0);
  }

  // Counts one word of settings, from setting `first` on.
  template <bool kTrue, bool kFalse>
  void add_settings(const Loaded& word, int64_t first) {
    const int64_t left = shape_.settings() - first;
    const uint64_t settings = left >= 64 ? ~0ull : (1ull << left) - 1;
    if (kFalse) count_false(~word.matched & ~word.ignored & settings, first);
    if (kTrue) count_true(word.matched & ~word.ignored & settings, first, word.score, word.bucket);
  }

  template <bool kTrue, bool kFalse>
  void add(const uint8_t* row, int64_t m) {
    if (words_ == 1) return add_word<kTrue, kFalse>(load(row), m);
    const int bucket = record_bucket(row);
    if (bucket > m) return;
    const double score = record_score(row);
    if (kTrue && seen_++ == 0) first_score_ = score;
    const uint8_t* field = row + 13;
    const int64_t bytes = shape_.setting_bytes();
    for (int64_t first = 0; first < shape_.settings(); first += 64)
      add_settings<kTrue, kFalse>(
          {score, load_bits(field, bytes, first), load_bits(field + bytes, bytes, first), bucket}, first);
  }

  // Whether the word is a union of whole area ranges, as it is for almost every unmatched detection.
  bool whole_areas(uint64_t ignored) const {
    uint64_t areas = 0;
    for (uint64_t mask : area_mask_) areas |= (ignored & mask & (~mask + 1)) ? mask : 0;
    return areas == ignored;
  }

  void count_false(uint64_t settings, int64_t first) {
    for (; settings; settings &= settings - 1) ++fp_[first + __builtin_ctzll(settings)];
  }

  void count_true(uint64_t settings, int64_t first, double score, int bucket) {
    // Local pointers: a store may not alias the members that hold them.
    int64_t *tp = tp_.data(), *tp_limit = tp_limit_.data() + bucket;
    const int64_t *fp = fp_.data(), *fp_area = fp_area_.data();
    const int32_t* area = area_of_.data();
    double* best = best_.data();
    const int64_t recalls = shape_.recalls, limits = shape_.limits;
    for (; settings; settings &= settings - 1) {
      const int64_t setting = first + __builtin_ctzll(settings), a = area[setting], index = tp[setting]++;
      ++tp_limit[setting * limits];
      const std::vector<int32_t>& bucket_of = bucket_[a];
      const bool usual = index < static_cast<int64_t>(bucket_of.size());
      const int32_t r = usual ? bucket_of[index] : last_reached(a, -1, index);
      if (r < 0) continue;
      const double value = precision_at(index + 1, fp_area[a] + fp[setting]);
      double& top = best[setting * recalls + r];
      top = value > top ? value : top;
      if (run_.full) note_score(setting, a, r, index, score);
    }
  }

  // Samples that this very true positive reaches first carry its score.
  void note_score(int64_t setting, int64_t a, int32_t r, int64_t index, double score) {
    const int64_t* reach = reach_.data() + a * shape_.recalls;
    for (; r >= 0 && reach[r] == index; --r) score_[setting * shape_.recalls + r] = score;
  }

  bool reached(int64_t setting, int64_t a, int64_t r) const {
    return run_.recall_grid[r] <= 0 ? seen_ > 0 : reach_[a * shape_.recalls + r] < tp_[setting];
  }

  void write_samples(int64_t m) {
    const int64_t slot = run_.full ? m : 0;
    for (int64_t setting = 0; setting < shape_.settings(); ++setting) {
      const int64_t a = setting / shape_.thresholds;
      if (positives(a) == 0) continue;
      double* best = best_.data() + setting * shape_.recalls;
      double top = 0.0;  // carried, since what was just stored is slow to load
      for (int64_t r = shape_.recalls - 1; r >= 0; --r) best[r] = top = std::max(best[r], top);
      const int64_t stop =
          first_place_[partition_point(shape_.recalls, [&](int64_t r) { return reached(setting, a, r); })];
      write_curve(setting, run_.first_sample(setting % shape_.thresholds, k_, a, slot), stop);
    }
  }

  void write_curve(int64_t setting, int64_t first, int64_t stop) {
    const double *best = best_.data() + setting * shape_.recalls,
                 *score = score_.data() + setting * shape_.recalls;
    const int64_t stride = run_.sample_stride();
    for (int64_t r = 0; r < shape_.recalls; ++r) {
      const int64_t place = run_.grid_places[r], out = first + place * stride;
      const bool filled = place < stop;
      run_.precision[out] = filled ? best[r] : 0.0;
      if (run_.full) run_.scores[out] = !filled ? 0.0 : run_.recall_grid[r] <= 0 ? first_score_ : score[r];
    }
  }

  void write_recall() {
    for (int64_t setting = 0; setting < shape_.settings(); ++setting) {
      const int64_t a = setting / shape_.thresholds, t = setting % shape_.thresholds;
      if (positives(a) == 0) continue;
      int64_t tp = 0;
      for (int64_t m = 0; m < shape_.limits; ++m) {
        tp += tp_limit_[setting * shape_.limits + m];
        run_.recall[run_.recall_at(t, k_, a, m)] =
            static_cast<double>(tp) / static_cast<double>(positives(a));
      }
    }
  }

  const Accumulation& run_;
  const CurveShape shape_;
  const int64_t words_;
  std::vector<int64_t> fp_area_, fp_, tp_, tp_limit_;
  std::vector<double> best_, score_;
  std::vector<int64_t> reach_;                // [A, R] true positive index that reaches each sample
  std::vector<std::vector<int32_t>> bucket_;  // [A][positives] last sample that a true positive index reaches
  std::vector<uint64_t> area_mask_;
  std::vector<int32_t> area_of_;  // [settings]
  // [R + 1] the first place in the caller's grid that a sample from r on has: cocoeval fills that grid in its
  // own order and stops at the first recall that is not reached.
  std::vector<int64_t> first_place_;
  int64_t k_ = 0, seen_ = 0;
  double first_score_ = 0.0;
};

// Nothing counts anywhere.
inline void clear_curves(const Accumulation& run) {
  const CurveShape& s = run.shape;
  const int64_t samples = s.settings() * s.recalls * s.classes * run.curves();
  std::fill_n(run.precision, samples, -1.0);
  if (run.full) std::fill_n(run.scores, samples, -1.0);
  std::fill_n(run.recall, s.settings() * s.classes * s.limits, -1.0);
}

}  // namespace
}  // namespace valor
