// CPU drivers of record ordering and of precision-recall accumulation: classes are split over threads.
#include "../core/curves.h"

#include <algorithm>
#include <vector>

#include "guard.h"
#include "pool.h"
#include "radix.h"

namespace valor {
namespace {

struct Keyed {
  uint64_t key;
  int64_t row;
};

// Class index of a label, -1 when it is not one of the ascending `labels`; a table when they lie close
// together.
class ClassIndex {
 public:
  ClassIndex(const int64_t* labels, int64_t count) : labels_(labels), count_(count) {
    if (count == 0) return;
    const uint64_t span = static_cast<uint64_t>(labels[count - 1]) - static_cast<uint64_t>(labels[0]);
    if (span >= (1u << 20)) return;
    table_.assign(span + 1, -1);
    for (int64_t k = 0; k < count; ++k) table_[labels[k] - labels[0]] = static_cast<int32_t>(k);
  }
  int32_t of(int64_t label) const {
    if (!table_.empty()) {
      const uint64_t at = static_cast<uint64_t>(label) - static_cast<uint64_t>(labels_[0]);
      return at < table_.size() ? table_[at] : -1;
    }
    const int64_t* found = std::lower_bound(labels_, labels_ + count_, label);
    return found < labels_ + count_ && *found == label ? static_cast<int32_t>(found - labels_) : -1;
  }

 private:
  const int64_t* labels_;
  int64_t count_;
  std::vector<int32_t> table_;
};

// One class: counters per lane, and per lane the largest precision of each recall bucket.
class ClassCurve {
 public:
  explicit ClassCurve(const Accumulation& run)
      : run_(run),
        shape_(run.shape),
        words_((shape_.lanes() + 63) / 64),
        fp_area_(shape_.areas),
        fp_(shape_.lanes()),
        tp_(shape_.lanes()),
        tp_limit_(shape_.lanes() * shape_.limits),
        best_(shape_.lanes() * shape_.recalls),
        score_(run.full ? best_.size() : 0),
        reach_(shape_.areas * shape_.recalls),
        bucket_(shape_.areas),
        area_mask_(shape_.areas),
        area_of_(shape_.lanes()) {
    for (int64_t lane = 0; lane < shape_.lanes(); ++lane)
      area_of_[lane] = static_cast<int32_t>(lane / shape_.thresholds);
    const uint64_t one_area = shape_.thresholds >= 64 ? ~0ull : (1ull << shape_.thresholds) - 1;
    for (int64_t a = 0; a < shape_.areas && words_ == 1; ++a)
      area_mask_[a] = one_area << (a * shape_.thresholds);
  }

  void run(int64_t k) {
    k_ = k;
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
    if (at < end) __builtin_prefetch(record(at));
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
    const int64_t bytes = shape_.lane_bytes();
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
      const uint64_t lanes = shape_.lanes() - 64 * w >= 64 ? ~0ull : (1ull << (shape_.lanes() - 64 * w)) - 1;
      if (kFalse) count_false(~matched & ~ignored & lanes, 64 * w);
      if (kTrue) count_true(matched & ~ignored & lanes, 64 * w, record_score(row), bucket);
    }
  }

  // Whether the word is a union of whole area ranges, as it is for almost every unmatched detection.
  bool whole_areas(uint64_t ignored) const {
    uint64_t areas = 0;
    for (uint64_t mask : area_mask_) areas |= (ignored & mask & (~mask + 1)) ? mask : 0;
    return areas == ignored;
  }

  void count_false(uint64_t lanes, int64_t first) {
    for (; lanes; lanes &= lanes - 1) ++fp_[first + __builtin_ctzll(lanes)];
  }

  void count_true(uint64_t lanes, int64_t first, double score, int bucket) {
    // Local pointers: a store may not alias the members that hold them.
    int64_t *tp = tp_.data(), *tp_limit = tp_limit_.data() + bucket;
    const int64_t *fp = fp_.data(), *fp_area = fp_area_.data();
    const int32_t* area = area_of_.data();
    double* best = best_.data();
    const int64_t recalls = shape_.recalls, limits = shape_.limits;
    for (; lanes; lanes &= lanes - 1) {
      const int64_t lane = first + __builtin_ctzll(lanes), a = area[lane], index = tp[lane]++;
      ++tp_limit[lane * limits];
      const std::vector<int32_t>& bucket_of = bucket_[a];
      const bool usual = index < static_cast<int64_t>(bucket_of.size());
      const int32_t r = usual ? bucket_of[index] : last_reached(a, -1, index);
      if (r < 0) continue;
      const double value = precision_at(index + 1, fp_area[a] + fp[lane]);
      double& top = best[lane * recalls + r];
      top = value > top ? value : top;
      if (run_.full) note_score(lane, a, r, index, score);
    }
  }

  // Samples that this very true positive reaches first carry its score.
  void note_score(int64_t lane, int64_t a, int32_t r, int64_t index, double score) {
    const int64_t* reach = reach_.data() + a * shape_.recalls;
    for (; r >= 0 && reach[r] == index; --r) score_[lane * shape_.recalls + r] = score;
  }

  bool reached(int64_t lane, int64_t a, int64_t r) const {
    return run_.recall_grid[r] <= 0 ? seen_ > 0 : reach_[a * shape_.recalls + r] < tp_[lane];
  }

  void write_samples(int64_t m) {
    const int64_t slot = run_.full ? m : 0;
    for (int64_t lane = 0; lane < shape_.lanes(); ++lane) {
      const int64_t a = lane / shape_.thresholds;
      if (positives(a) == 0) continue;
      double* best = best_.data() + lane * shape_.recalls;
      for (int64_t r = shape_.recalls - 2; r >= 0; --r) best[r] = std::max(best[r], best[r + 1]);
      // cocoeval fills the caller's grid in its own order and stops at the first recall that is not reached
      int64_t stop = shape_.recalls;
      for (int64_t r = 0; r < shape_.recalls; ++r)
        if (!reached(lane, a, r)) stop = std::min(stop, run_.grid_places[r]);
      write_curve(lane, run_.first_sample(lane % shape_.thresholds, k_, a, slot), stop);
    }
  }

  void write_curve(int64_t lane, int64_t first, int64_t stop) {
    const double *best = best_.data() + lane * shape_.recalls, *score = score_.data() + lane * shape_.recalls;
    const int64_t stride = run_.sample_stride();
    for (int64_t r = 0; r < shape_.recalls; ++r) {
      const int64_t place = run_.grid_places[r], out = first + place * stride;
      const bool filled = place < stop;
      run_.precision[out] = filled ? best[r] : 0.0;
      if (run_.full) run_.scores[out] = !filled ? 0.0 : run_.recall_grid[r] <= 0 ? first_score_ : score[r];
    }
  }

  void write_recall() {
    for (int64_t lane = 0; lane < shape_.lanes(); ++lane) {
      const int64_t a = lane / shape_.thresholds, t = lane % shape_.thresholds;
      if (positives(a) == 0) continue;
      int64_t tp = 0;
      for (int64_t m = 0; m < shape_.limits; ++m) {
        tp += tp_limit_[lane * shape_.limits + m];
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
  std::vector<int32_t> area_of_;  // [lanes]
  int64_t k_ = 0, seen_ = 0;
  double first_score_ = 0.0;
};

}  // namespace
}  // namespace valor

// Orders records by (class, score descending, place in the given image order, index in image). `order` has
// room for all rows; rows beyond every limit, padding and labels that are not wanted are left out. K + 1
// offsets.
VALOR_API int32_t valor_order_records_cpu(const uint8_t* records, int64_t row_bytes, int64_t num_limits,
                                          const int64_t* starts, const int64_t* lengths, int64_t num_images,
                                          const int64_t* labels, int64_t num_classes, int64_t agnostic,
                                          int64_t* order, int64_t* offsets, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const ClassIndex index(labels, num_classes);
    const int32_t pooled = num_classes > 0 ? 0 : -1;
    int64_t total = 0;
    for (int64_t i = 0; i < num_images; ++i) total += lengths[i];
    std::vector<int32_t> classes(total);
    std::fill(offsets, offsets + num_classes + 1, 0);
    for (int64_t i = 0, at = 0; i < num_images; ++i) {
      const uint8_t* row = records + starts[i] * row_bytes;
      for (int64_t j = 0; j < lengths[i]; ++j, ++at, row += row_bytes) {
        const int32_t k = record_bucket(row) >= num_limits ? -1
                          : agnostic                       ? pooled
                                                           : index.of(record_label(row));
        classes[at] = k;
        if (k >= 0) ++offsets[k + 1];
      }
    }
    for (int64_t k = 0; k < num_classes; ++k) offsets[k + 1] += offsets[k];
    std::vector<int64_t> next(offsets, offsets + num_classes);
    for (int64_t i = 0, at = 0; i < num_images; ++i)
      for (int64_t j = 0; j < lengths[i]; ++j, ++at)
        if (classes[at] >= 0) order[next[classes[at]]++] = starts[i] + j;
    auto body = [&](int64_t begin, int64_t end) {
      std::vector<Keyed> items, spare;  // of one class: fresh memory costs more than the sort
      for (int64_t k = begin; k < end; ++k) {
        const int64_t size = offsets[k + 1] - offsets[k];
        int64_t* rows = order + offsets[k];
        items.resize(std::max<size_t>(items.size(), size));
        spare.resize(items.size());
        for (int64_t i = 0; i < size; ++i) {
          if (i + 16 < size) __builtin_prefetch(records + rows[i + 16] * row_bytes);
          items[i] = Keyed{descending_key(record_score(records + rows[i] * row_bytes)), rows[i]};
        }
        radix_sort(items.data(), spare.data(), size, [](const Keyed& item) { return item.key; });
        for (int64_t i = 0; i < size; ++i) rows[i] = items[i].row;
      }
    };
    parallel_for(num_classes, 1, static_cast<int>(threads), body);
  });
}

// Adds up counts [K, A], zero at first, of the area bits of ground-truth rows whose label is wanted.
VALOR_API int32_t valor_count_ground_truths_cpu(const uint8_t* truths, int64_t rows, int64_t row_bytes,
                                                const int64_t* labels, int64_t num_classes, int64_t num_areas,
                                                int64_t agnostic, int64_t* counts) {
  return valor::guarded([&] {
    using namespace valor;
    const ClassIndex index(labels, num_classes);
    for (int64_t i = 0; i < rows; ++i) {
      const uint8_t* row = truths + i * row_bytes;
      int32_t label;
      memcpy(&label, row, 4);
      const int32_t k = agnostic ? 0 : index.of(label);
      if (k < 0) continue;
      for (int64_t a = 0; a < num_areas; ++a) counts[k * num_areas + a] += row[4 + a / 8] >> (a % 8) & 1;
    }
  });
}

// Fills precision [T, R, K, A, M or 1] (and scores, when full) and recall [T, K, A, M], all preset to -1 by
// the caller.
VALOR_API int32_t valor_precision_recall_cpu(const uint8_t* records, const int64_t* order,
                                             const int64_t* offsets, const int64_t* positives,
                                             const int64_t* sizes, const double* recall_grid,
                                             const int64_t* grid_places, int64_t full, int64_t ties,
                                             double* precision, double* recall, double* scores,
                                             int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const CurveShape shape{sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]};
    const Accumulation run{shape,       records,   order,
                           offsets,     positives, recall_grid,
                           grid_places, full != 0, static_cast<TieOrder>(ties),
                           precision,   recall,    scores};
    auto body = [&](int64_t begin, int64_t end) {
      ClassCurve curve(run);
      for (int64_t k = begin; k < end; ++k) {
        bool any = false;
        for (int64_t a = 0; a < shape.areas; ++a) any |= positives[k * shape.areas + a] > 0;
        if (any) curve.run(k);
      }
    };
    parallel_for(shape.classes, 1, static_cast<int>(threads), body);
  });
}
