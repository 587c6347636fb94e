// Precision and recall of one class from its ordered records, in all settings at once.
#pragma once
#include <algorithm>
#include <vector>

#include "../core/curves.h"

namespace valor {

constexpr double kAbsent = -1.0;  // where no ground truth counts

// One class: counters per setting, and for each recall sample the largest precision in each setting. A row of
// samples has its settings in the order of the arrays, (threshold, area range), as `cells`.
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
        place_of_(shape_.settings()) {
    for (int64_t s = 0, T = shape_.thresholds; s < shape_.settings(); ++s)
      place_of_[s] = {static_cast<int32_t>(s / T), static_cast<int32_t>(s % T * shape_.areas + s / T)};
    for (int64_t r = 0; r < shape_.recalls; ++r) ascending_ &= run.grid_places[r] == r;
    const uint64_t one_area = shape_.thresholds >= 64 ? ~0ull : (1ull << shape_.thresholds) - 1;
    for (int64_t a = 0; a < shape_.areas && words_ == 1; ++a)
      area_mask_[a] = one_area << (a * shape_.thresholds);
  }

  // Writes all samples and recalls of class k.
  void run(int64_t k) {
    k_ = k;
    bool present = false;
    for (int64_t a = 0; a < shape_.areas; ++a) present |= positives(a) > 0;
    if (present) prepare();
    for (int64_t m = run_.full ? 0 : shape_.limits - 1; m < shape_.limits; ++m) {
      if (present) count(m);
      finish_samples();
      write_samples(run_.full ? m : 0);
    }
    write_recall();
  }

 private:
  struct Place {
    int32_t area, cell;
  };

  // Records of a class lie all over memory: ask for one some steps before it is read.
  static constexpr int64_t kAhead = 12;
  void fetch(int64_t at, int64_t end) const {
    if (at < end) __builtin_prefetch(record(at));
  }
  int64_t positives(int64_t a) const { return run_.positives_of(k_, a); }
  const uint8_t* record(int64_t at) const { return run_.record(at); }

  void prepare() {
    const int64_t rows = run_.offsets[k_ + 1] - run_.offsets[k_];
    for (int64_t a = 0; a < shape_.areas; ++a) {
      bucket_[a].resize(positives(a));
      if (positives(a) == 0) continue;
      int64_t* reach = reach_.data() + a * shape_.recalls;
      find_reaching(positives(a), std::max(positives(a), rows), reach);
      int32_t r = -1;
      for (int64_t i = 0; i < positives(a); ++i) bucket_[a][i] = r = last_reached(a, r, i);
    }
  }

  // reaching_index of every recall sample. A walk takes fewer steps than searches where ground truths are
  // few.
  void find_reaching(int64_t positives, int64_t most, int64_t* reach) const {
    const double* grid = run_.recall_grid;
    const auto count = static_cast<double>(positives);
    const bool walk =
        positives <= 8 * shape_.recalls && shape_.recalls > 0 && grid[shape_.recalls - 1] <= 1.0;
    int64_t index = 0;
    double recall = 1.0 / count;
    for (int64_t r = 0; r < shape_.recalls; ++r) {
      for (; walk && index < most && recall < grid[r]; ++index)
        recall = static_cast<double>(index + 2) / count;
      reach[r] = walk ? index : reaching_index(positives, most, grid[r]);
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

  template <bool kTrue, bool kFalse>
  void add(const uint8_t* row, int64_t m) {
    const int bucket = record_bucket(row);
    if (bucket > m) return;
    if (kTrue && seen_++ == 0) first_score_ = record_score(row);
    const uint8_t* field = row + 13;
    const int64_t bytes = shape_.setting_bytes();
    if (words_ == 1) {
      const uint64_t matched = load_bits(field, bytes, 0), ignored = load_bits(field + bytes, bytes, 0);
      if (matched == 0 && whole_areas(ignored)) {
        for (int64_t a = 0; kFalse && a < shape_.areas; ++a) fp_area_[a] += (ignored & area_mask_[a]) == 0;
        return;
      }
    }
    for (int64_t w = 0; w < words_; ++w) {
      const uint64_t matched = load_bits(field, bytes, 64 * w),
                     ignored = load_bits(field + bytes, bytes, 64 * w);
      const uint64_t settings =
          shape_.settings() - 64 * w >= 64 ? ~0ull : (1ull << (shape_.settings() - 64 * w)) - 1;
      if (kFalse) count_false(~matched & ~ignored & settings, 64 * w);
      if (kTrue) count_true(matched & ~ignored & settings, 64 * w, record_score(row), bucket);
    }
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
    const Place* place = place_of_.data();
    double* best = best_.data();
    const int64_t row = shape_.settings(), limits = shape_.limits;
    for (; settings; settings &= settings - 1) {
      const int64_t setting = first + __builtin_ctzll(settings), index = tp[setting]++;
      const int32_t a = place[setting].area, cell = place[setting].cell;
      ++tp_limit[setting * limits];
      const std::vector<int32_t>& bucket_of = bucket_[a];
      const bool usual = index < static_cast<int64_t>(bucket_of.size());
      const int32_t r = usual ? bucket_of[index] : bucket_of.empty() ? -1 : last_reached(a, -1, index);
      if (r < 0) continue;
      const double value = precision_at(index + 1, fp_area[a] + fp[setting]);
      double& top = best[r * row + cell];
      top = value > top ? value : top;
      if (run_.full) note_score(cell, a, r, index, score);
    }
  }

  // Samples that this very true positive reaches first carry its score.
  void note_score(int64_t cell, int64_t a, int32_t r, int64_t index, double score) {
    const int64_t* reach = reach_.data() + a * shape_.recalls;
    for (; r >= 0 && reach[r] == index; --r) score_[r * shape_.settings() + cell] = score;
  }

  // From the largest precision of each bucket to samples, which are maxima over all buckets from theirs on.
  void finish_samples() {
    const int64_t row = shape_.settings();
    for (int64_t at = (shape_.recalls - 1) * row - 1; at >= 0; --at)
      best_[at] = std::max(best_[at], best_[at + row]);
    for (int64_t r = 0; run_.full && r < shape_.recalls && run_.recall_grid[r] <= 0; ++r)
      std::fill_n(score_.begin() + r * row, row, seen_ > 0 ? first_score_ : 0.0);
    for (int64_t s = 0; s < row; ++s) {
      if (positives(place_of_[s].area) == 0)
        fill_from(place_of_[s].cell, 0, kAbsent);
      else if (!ascending_)
        fill_from(place_of_[s].cell, first_missed(s), 0.0);
    }
  }

  // cocoeval fills the caller's grid in its own order and stops at the first recall that is not reached. (In
  // an ascending grid no sample beyond that one has a value.)
  int64_t first_missed(int64_t setting) const {
    int64_t stop = shape_.recalls;
    for (int64_t r = 0; r < shape_.recalls; ++r) {
      const int64_t reach = reach_[place_of_[setting].area * shape_.recalls + r];
      const bool reached = run_.recall_grid[r] <= 0 ? seen_ > 0 : reach < tp_[setting];
      if (!reached) stop = std::min(stop, run_.grid_places[r]);
    }
    return stop;
  }

  // Sets the samples of a cell from a place in the caller's grid on.
  void fill_from(int64_t cell, int64_t place, double value) {
    for (int64_t r = 0; r < shape_.recalls; ++r) {
      if (run_.grid_places[r] < place) continue;
      best_[r * shape_.settings() + cell] = value;
      if (run_.full) score_[r * shape_.settings() + cell] = value;
    }
  }

  void write_samples(int64_t slot) const {
    for (int64_t r = 0; r < shape_.recalls; ++r) {
      const int64_t from = r * shape_.settings(), place = run_.grid_places[r] * run_.sample_stride();
      for (int64_t t = 0; t < shape_.thresholds; ++t) {
        const int64_t cell = from + t * shape_.areas, out = run_.first_sample(t, k_, 0, slot) + place;
        for (int64_t a = 0; a < shape_.areas; ++a) run_.precision[out + a * run_.curves()] = best_[cell + a];
        for (int64_t a = 0; run_.full && a < shape_.areas; ++a)
          run_.scores[out + a * run_.curves()] = score_[cell + a];
      }
    }
  }

  void write_recall() {
    for (int64_t setting = 0; setting < shape_.settings(); ++setting) {
      const int64_t a = place_of_[setting].area, t = setting % shape_.thresholds;
      const bool absent = positives(a) == 0;
      int64_t tp = 0;
      for (int64_t m = 0; m < shape_.limits; ++m) {
        tp += tp_limit_[setting * shape_.limits + m];
        run_.recall[run_.recall_at(t, k_, a, m)] =
            absent ? kAbsent : static_cast<double>(tp) / static_cast<double>(positives(a));
      }
    }
  }

  const Accumulation& run_;
  const CurveShape shape_;
  const int64_t words_;
  std::vector<int64_t> fp_area_, fp_, tp_, tp_limit_;
  std::vector<double> best_, score_;          // [R, cells]
  std::vector<int64_t> reach_;                // [A, R] true positive index that reaches each sample
  std::vector<std::vector<int32_t>> bucket_;  // [A][positives] last sample that a true positive index reaches
  std::vector<uint64_t> area_mask_;
  std::vector<Place> place_of_;  // [settings]
  bool ascending_ = true;        // the recall grid as the caller gave it
  int64_t k_ = 0, seen_ = 0;
  double first_score_ = 0.0;
};

}  // namespace valor
