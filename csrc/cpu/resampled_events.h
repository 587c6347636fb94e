// What the replicates of one class, area range and limit have in common: its records in order, reduced to
// false positives of every threshold and to events, which count at some threshold alone or are true.
#pragma once
#include <memory>
#include <vector>

#include "../core/resampled_means.h"
#include "present_means.h"
#include "record_rows.h"

namespace valor {

// What the op reads and writes; _Task in valor_gpu/ops/resampled_means/cpu.py has the same fields.
struct ResampledTask {
  const uint8_t* detections;
  const int64_t *order, *offsets;
  const int32_t* record_units;
  const uint8_t* truths;
  const int64_t* truth_offsets;
  const int32_t* truth_units;
  const uint8_t* weights;  // [units, replicates]
  int64_t units, replicates, classes, thresholds, areas, limits;
  const double* recall_grid;  // ascending
  const int64_t* grid_places;
  int64_t recalls;
  const MeanPick* picks;
  const int64_t* pick_thresholds;
  int64_t num_picks, full, threads;
  double *means, *class_precision, *class_recall;
};

inline CurveShape shape_of(const ResampledTask& task) {
  return {task.thresholds, task.areas, task.limits, task.recalls, task.classes};
}

enum EventKind : uint8_t { kNothing = 0, kHit = 1, kMiss = 2 };

// Of one record.
struct Event {
  int32_t unit, bucket;
  int32_t misses_before;  // false positives of every threshold that come before it
  int32_t run;            // events tied in one image that begin here; 0: one of an earlier run
};

// What replicates ask of every record: read once, since records of a class lie all over memory.
class RecordCodes {
 public:
  static constexpr uint8_t kKind = 3, kTied = 4;  // bits: EventKind, and tied with the record before it

  explicit RecordCodes(const ResampledTask& task)
      : task_(task),
        shape_(shape_of(task)),
        size_(task.offsets[task.classes]),
        codes_(new uint8_t[size_ * task.areas]) {}

  // Codes of the records from `begin` on in area range a.
  const uint8_t* of(int64_t a, int64_t begin) const { return codes_.get() + a * size_ + begin; }

  void read(int64_t k) {
    const int64_t begin = task_.offsets[k], end = task_.offsets[k + 1];
    double score = 0.0;
    for (int64_t at = begin; at < end; ++at) {
      if (at + kAhead < end) prefetch_record(record(at + kAhead), shape_.row_bytes());
      const double before = score;
      score = record_score(record(at));
      const bool tied =
          at > begin && tied_in_image(before, task_.record_units[at - 1], score, task_.record_units[at]);
      for (int64_t a = 0; a < shape_.areas; ++a)
        codes_[a * size_ + at] = static_cast<uint8_t>(kind_of(record(at), a) | (tied ? kTied : 0));
    }
  }

 private:
  static constexpr int64_t kAhead = 12;

  const uint8_t* record(int64_t at) const { return task_.detections + task_.order[at] * shape_.row_bytes(); }

  // Whether the record counts as a false positive at every threshold, or at none; else kHit.
  EventKind kind_of(const uint8_t* row, int64_t a) const {
    bool all = true, none = true;
    for (int64_t first = 0; first < shape_.thresholds; first += kWordThresholds) {
      const RecordKinds kinds = record_kinds(row, shape_, a, first);
      all &= kinds.misses == kind_mask(shape_, first);
      none &= (kinds.hits | kinds.misses) == 0;
    }
    return none ? kNothing : all ? kMiss : kHit;
  }

  const ResampledTask& task_;
  const CurveShape shape_;
  const int64_t size_;
  std::unique_ptr<uint8_t[]> codes_;  // [A, N]
};

class ClassEvents {
 public:
  ClassEvents(const ResampledTask& task, const RecordCodes& codes)
      : task_(task), shape_(shape_of(task)), codes_(codes) {}

  // Reads the records of class k within limit m in area range a.
  void read(int64_t k, int64_t a, int64_t m) {
    if (k == k_ && a == area_ && m == limit_) return;
    k_ = k, area_ = a, limit_ = m;
    events.clear(), long_runs.clear(), words_.clear();
    begin_ = task_.offsets[k];
    const int64_t size = task_.offsets[k + 1] - begin_;
    code_ = codes_.of(a, begin_);
    if (static_cast<int64_t>(misses.size()) < size) misses.resize(size);
    misses_ = 0;
    for (int64_t i = 0, next; i < size; i = next) {
      next = i + 1;
      if (next < size && (code_[next] & RecordCodes::kTied)) {
        while (next < size && (code_[next] & RecordCodes::kTied)) ++next;
        add_run(i, next);
      } else {
        add(i);
      }
    }
    spread_kinds();
  }

  // Kinds of all events at threshold t.
  const uint8_t* kinds_at(int64_t t) const { return kinds_.data() + t * events.size(); }

  std::vector<int32_t> misses;  // units of false positives of every threshold, and room for more
  std::vector<Event> events;
  std::vector<int32_t> long_runs;  // events that begin a run of more than one

 private:
  const uint8_t* record(int64_t i) const {
    return task_.detections + task_.order[begin_ + i] * shape_.row_bytes();
  }

  // Of record i of the class, within the limit.
  EventKind kind_of(int64_t i) const {
    if (limit_ < shape_.limits - 1 && record_bucket(record(i)) > limit_) return kNothing;
    return static_cast<EventKind>(code_[i] & RecordCodes::kKind);
  }

  void add(int64_t i) {
    const EventKind kind = kind_of(i);
    misses[misses_] = task_.record_units[begin_ + i];
    misses_ += kind == kMiss;
    if (kind == kHit) add_event(i, 1);
  }

  // Records whose order within the run matters become events, all of them.
  void add_run(int64_t begin, int64_t end) {
    int32_t size = 0;
    bool hit = false;
    for (int64_t i = begin; i < end; ++i) {
      const EventKind kind = kind_of(i);
      size += kind != kNothing;
      hit |= kind == kHit;
    }
    const bool run = hit && size > 1;
    if (run) long_runs.push_back(static_cast<int32_t>(events.size()));
    for (int64_t i = begin; i < end; ++i) {
      if (!run) {
        add(i);
      } else if (kind_of(i) != kNothing) {
        add_event(i, size);
        size = 0;
      }
    }
  }

  void add_event(int64_t i, int32_t run) {
    events.push_back({task_.record_units[begin_ + i], record_bucket(record(i)), misses_, run});
    for (int64_t first = 0; first < shape_.thresholds; first += kWordThresholds)
      words_.push_back(record_kinds(record(i), shape_, area_, first));
  }

  void spread_kinds() {
    const int64_t count = static_cast<int64_t>(events.size());
    const int64_t words = (shape_.thresholds + kWordThresholds - 1) / kWordThresholds;
    kinds_.resize(count * shape_.thresholds);
    for (int64_t t = 0; t < shape_.thresholds; ++t) {
      uint8_t* kinds = kinds_.data() + t * count;
      const RecordKinds* from = words_.data() + t / kWordThresholds;
      const int64_t bit = t % kWordThresholds;
      for (int64_t i = 0; i < count; ++i, from += words)
        kinds[i] = static_cast<uint8_t>((from->hits >> bit & 1) * kHit + (from->misses >> bit & 1) * kMiss);
    }
  }

  const ResampledTask& task_;
  const CurveShape shape_;
  const RecordCodes& codes_;
  int64_t k_ = -1, area_ = -1, limit_ = -1, begin_ = 0;
  const uint8_t* code_ = nullptr;
  int32_t misses_ = 0;
  std::vector<RecordKinds> words_;  // [events, words]
  std::vector<uint8_t> kinds_;      // [T, events] of EventKind
};

}  // namespace valor
