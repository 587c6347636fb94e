// What the replicates of one class, area range and limit have in common: its records in order, reduced to
// false positives of every threshold and to events, which count at some threshold alone or are true.
#pragma once
#include <vector>

#include "../core/resampled_means.h"
#include "present_means.h"
#include "record_rows.h"

namespace valor {

// What the op reads and writes; _Task in valor_gpu/ops/_resampled_means_cpu.py has the same fields.
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

class ClassEvents {
 public:
  explicit ClassEvents(const ResampledTask& task) : task_(task), shape_(shape_of(task)) {}

  // Reads the records of class k within limit m in area range a.
  void read(int64_t k, int64_t a, int64_t m) {
    if (k == k_ && a == area_ && m == limit_) return;
    k_ = k, area_ = a, limit_ = m;
    misses.clear(), events.clear(), long_runs.clear(), words_.clear();
    const int64_t end = task_.offsets[k + 1];
    for (int64_t at = task_.offsets[k], next; at < end; at = next) {
      if (at + kAhead < end) prefetch_record(record(at + kAhead), shape_.row_bytes());
      next = run_end(at, end);
      if (next == at + 1)
        add(at);
      else
        add_run(at, next);
    }
    spread_kinds();
  }

  // Kinds of all events at threshold t.
  const uint8_t* kinds_at(int64_t t) const { return kinds_.data() + t * events.size(); }

  std::vector<int32_t> misses;  // units of false positives of every threshold
  std::vector<Event> events;
  std::vector<int32_t> long_runs;  // events that begin a run of more than one

 private:
  static constexpr int64_t kAhead = 12;  // records of a class lie all over memory

  const uint8_t* record(int64_t at) const {
    return task_.detections + task_.order[at] * shape_.row_bytes();
  }

  int64_t run_end(int64_t at, int64_t end) const {
    const int32_t* units = task_.record_units;
    int64_t next = at + 1;
    while (next < end && units[next] == units[at] &&
           tied_in_image(record_score(record(at)), units[at], record_score(record(next)), units[next]))
      ++next;
    return next;
  }

  // Whether the record counts as a false positive at every threshold, or (kNothing) at none; else kHit.
  EventKind kind_of(int64_t at) const {
    if (record_bucket(record(at)) > limit_) return kNothing;
    bool all = true, none = true;
    for (int64_t first = 0; first < shape_.thresholds; first += kWordThresholds) {
      const RecordKinds kinds = record_kinds(record(at), shape_, area_, first);
      all &= kinds.misses == kind_mask(shape_, first);
      none &= (kinds.hits | kinds.misses) == 0;
    }
    return none ? kNothing : all ? kMiss : kHit;
  }

  void add(int64_t at) {
    const EventKind kind = kind_of(at);
    if (kind == kMiss) misses.push_back(task_.record_units[at]);
    if (kind == kHit) add_event(at, 1);
  }

  // Records whose order within the run matters become events, all of them.
  void add_run(int64_t begin, int64_t end) {
    int32_t size = 0;
    bool hit = false;
    for (int64_t at = begin; at < end; ++at) {
      const EventKind kind = kind_of(at);
      size += kind != kNothing;
      hit |= kind == kHit;
    }
    const bool run = hit && size > 1;
    if (run) long_runs.push_back(static_cast<int32_t>(events.size()));
    for (int64_t at = begin; at < end; ++at) {
      if (!run) {
        add(at);
      } else if (kind_of(at) != kNothing) {
        add_event(at, size);
        size = 0;
      }
    }
  }

  void add_event(int64_t at, int32_t run) {
    events.push_back({task_.record_units[at], record_bucket(record(at)), static_cast<int32_t>(misses.size()), run});
    for (int64_t first = 0; first < shape_.thresholds; first += kWordThresholds)
      words_.push_back(record_kinds(record(at), shape_, area_, first));
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
  int64_t k_ = -1, area_ = -1, limit_ = -1;
  std::vector<RecordKinds> words_;  // [events, words]
  std::vector<uint8_t> kinds_;      // [T, events] of EventKind
};

}  // namespace valor
