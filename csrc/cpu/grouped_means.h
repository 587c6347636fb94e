// Records of many groups of images, ordered once, and the curves of one group. Included by one source alone:
// what no other can see is inlined as a whole.
#pragma once
#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <vector>

#include "../core/resampled_means.h"
#include "image_order.h"
#include "pairwise.h"
#include "present_means.h"
#include "record_order.h"

namespace valor {

// What the op reads and writes; _Task in valor_gpu/ops/grouped_means/cpu.py has the same fields. A unit is
// an image that may belong to groups; units ascend in the order that breaks ties of scores.
struct GroupedTask {
  const uint8_t *detections, *ground_truths;
  const ImageRow* images;
  int64_t num_detections, num_images;
  const int64_t* units;  // rows of images
  int64_t num_units;
  const int64_t *group_offsets, *group_units;  // group g has the units from offset g to g + 1
  int64_t num_groups;
  const int64_t* labels;
  int64_t num_labels, agnostic, thresholds, areas, limits;
  const double* recall_grid;  // ascending
  const int64_t* grid_places;
  int64_t recalls;
  const MeanPick* picks;  // over classes
  const int64_t* pick_thresholds;
  int64_t num_picks;
  const MeanPick* class_picks;  // of each class
  const int64_t* class_thresholds;
  int64_t num_class_picks, full, threads;
  double *means, *class_means;  // [N, P], [N, K, Q]
};

namespace {

// Rows of each group by (class, score descending, unit, place in the image): one sort of all rows, dealt out
// in order.
class DealtRecords {
 public:
  explicit DealtRecords(const GroupedTask& task)
      : classes_(task.agnostic ? std::min<int64_t>(task.num_labels, 1) : task.num_labels),
        index_(task.labels, classes_),
        row_bytes_(CurveShape{task.thresholds, task.areas, 0, 0, 0}.row_bytes()) {
    find_units(task);
    offsets_.assign(task.num_groups + 1, 0);
    for (int64_t g = 0; g < task.num_groups; ++g) {
      offsets_[g + 1] = offsets_[g];
      for (int64_t i = task.group_offsets[g]; i < task.group_offsets[g + 1]; ++i)
        offsets_[g + 1] += lengths_[task.group_units[i]];
    }
    rows_.reset(new int64_t[offsets_.back()]);
    classes_of_.reset(new int32_t[offsets_.back()]);
    deal(task);
  }

  int64_t classes() const { return classes_; }
  const ClassIndex& index() const { return index_; }
  const int64_t* rows(int64_t g) const { return rows_.get() + offsets_[g]; }
  const int32_t* classes_of(int64_t g) const { return classes_of_.get() + offsets_[g]; }
  int64_t size(int64_t g) const { return ends_[g] - offsets_[g]; }
  // First ground truth of a unit.
  int64_t ground_truth(int64_t unit) const { return gt_starts_[unit]; }

 private:
  void find_units(const GroupedTask& task) {
    std::vector<int64_t> first(task.num_images), gt_first(task.num_images);
    int64_t row = 0, gt_row = 0;
    for (int64_t i = 0; i < task.num_images; ++i) {
      first[i] = row, gt_first[i] = gt_row;
      row += task.images[i].detections, gt_row += task.images[i].ground_truths;
    }
    for (int64_t u = 0; u < task.num_units; ++u) {
      starts_.push_back(first[task.units[u]]);
      lengths_.push_back(task.images[task.units[u]].detections);
      gt_starts_.push_back(gt_first[task.units[u]]);
    }
  }

  void deal(const GroupedTask& task) {
    const ImageRows images{starts_.data(), lengths_.data(), task.num_units};
    const int64_t total = images.total();
    const std::unique_ptr<int64_t[]> order(new int64_t[total]);
    std::vector<int64_t> by_class(classes_ + 1);
    const RecordOrder ordered(task.detections, row_bytes_, task.limits, images, index_, classes_,
                              task.agnostic, by_class.data(), order.get(), task.threads);
    auto body = [&](int64_t begin, int64_t end) {
      RecordOrder::Room room;
      for (int64_t k = begin; k < end; ++k) ordered.sort(k, room);
    };
    parallel_for(classes_, 1, static_cast<int>(task.threads), body);

    const std::unique_ptr<int32_t[]> unit_of(new int32_t[task.num_detections]);
    for (int64_t u = 0; u < task.num_units; ++u)
      std::fill_n(unit_of.get() + starts_[u], lengths_[u], static_cast<int32_t>(u));
    const std::vector<int64_t> group_ends = groups_by_unit(task);
    ends_.assign(offsets_.begin(), offsets_.end() - 1);
    for (int64_t k = 0; k < classes_; ++k) {
      for (int64_t at = by_class[k]; at < by_class[k + 1]; ++at) {
        const int32_t unit = unit_of[order[at]];
        for (int64_t i = unit ? group_ends[unit - 1] : 0; i < group_ends[unit]; ++i) {
          const int64_t to = ends_[groups_[i]]++;
          rows_[to] = order[at], classes_of_[to] = static_cast<int32_t>(k);
        }
      }
    }
  }

  // Fills groups_, and returns where those of each unit end.
  std::vector<int64_t> groups_by_unit(const GroupedTask& task) {
    const int64_t size = task.group_offsets[task.num_groups];
    std::vector<int64_t> at(task.num_units + 1, 0);
    for (int64_t i = 0; i < size; ++i) ++at[task.group_units[i] + 1];
    std::partial_sum(at.begin(), at.end(), at.begin());
    groups_.resize(size);
    for (int64_t g = 0; g < task.num_groups; ++g)
      for (int64_t i = task.group_offsets[g]; i < task.group_offsets[g + 1]; ++i)
        groups_[at[task.group_units[i]]++] = g;
    return at;
  }

  const int64_t classes_;
  const ClassIndex index_;
  const int64_t row_bytes_;
  std::vector<int64_t> starts_, lengths_, gt_starts_;  // of units
  std::vector<int64_t> offsets_, ends_, groups_;
  std::unique_ptr<int64_t[]> rows_;
  std::unique_ptr<int32_t[]> classes_of_;
};

VALOR_CLONES void read_samples(const double* precision, const int32_t* reach, int64_t count,
                               double* samples) {
  for (int64_t r = 0; r < count; ++r) samples[r] = precision[reach[r]];
}

// The curves of one class in one area range within one limit.
class CellCurves {
 public:
  explicit CellCurves(const GroupedTask& task)
      : task_(task),
        shape_{task.thresholds, task.areas, task.limits, task.recalls, 0},
        misses_(task.thresholds),
        found_(task.thresholds * task.limits),
        precision_(task.thresholds),
        stop_(task.recalls + 1, task.recalls) {
    for (int64_t r = task.recalls - 1; r >= 0; --r) {
      stop_[r] = std::min(stop_[r + 1], task.grid_places[r]);
      ascending_ &= task.grid_places[r] == r;
    }
  }

  // Walks rows that follow one another in order; those beyond limit m are left out.
  void walk(const uint8_t* rows, int64_t count, int64_t a, int64_t m) {
    std::fill(misses_.begin(), misses_.end(), 0);
    std::fill(found_.begin(), found_.end(), 0);
    for (std::vector<double>& values : precision_) values.clear();
    seen_ = 0;
    const int64_t step = shape_.row_bytes();
    for (int64_t i = 0; i < count; ++i) seen_ += record_bucket(rows + i * step) <= m;
    for (int64_t first = 0; first < shape_.thresholds; first += kWordThresholds)
      walk_word(rows, count, a, first, m);
    for (std::vector<double>& values : precision_)
      for (int64_t i = static_cast<int64_t>(values.size()) - 1; i > 0; --i)
        values[i - 1] = std::max(values[i - 1], values[i]);
  }

  // Writes samples [R] of threshold t in the order of the caller's grid.
  void write_samples(int64_t t, int64_t positives, double* out) {
    const std::vector<double>& precision = precision_[t];
    const std::vector<int32_t>& reach = reach_of(positives);
    const auto size = static_cast<int64_t>(precision.size());
    const int64_t reached = partition_point(shape_.recalls, [&](int64_t r) { return reach[r] < size; });
    if (ascending_) {
      read_samples(precision.data(), reach.data(), reached, out);
      std::fill(out + reached, out + shape_.recalls, 0.0);
      return;
    }
    const int64_t known = partition_point(
        shape_.recalls, [&](int64_t r) { return task_.recall_grid[r] <= 0 ? seen_ > 0 : r < reached; });
    for (int64_t r = 0; r < shape_.recalls; ++r) {
      const int64_t place = task_.grid_places[r];
      out[place] = place < stop_[known] && r < reached ? precision[reach[r]] : 0.0;
    }
  }

  // Writes recall at threshold t within each limit, `stride` numbers apart.
  void write_recall(int64_t t, int64_t positives, double* out, int64_t stride) const {
    int64_t tp = 0;
    for (int64_t m = 0; m < shape_.limits; ++m) {
      tp += found_[t * shape_.limits + m];
      out[m * stride] = static_cast<double>(tp) / static_cast<double>(positives);
    }
  }

 private:
  // Counts the thresholds from `first` on that record_kinds would tell of.
  void walk_word(const uint8_t* rows, int64_t count, int64_t a, int64_t first, int64_t m) {
    const int64_t setting = a * shape_.thresholds + first, bytes = shape_.setting_bytes();
    const int64_t byte = setting / 8 * 8, shift = setting % 8, step = shape_.row_bytes();
    const uint64_t mask = kind_mask(shape_, first);
    int64_t misses_of_all = 0;
    for (const uint8_t *row = rows, *end = rows + count * step; row < end; row += step) {
      if (record_bucket(row) > m) continue;
      const uint64_t matched = load_bits(row + 13, bytes, byte) >> shift;
      const uint64_t counts = ~(load_bits(row + 13 + bytes, bytes, byte) >> shift) & mask;
      const uint64_t misses = ~matched & counts;
      if (misses == mask)
        ++misses_of_all;
      else if (counts)
        add(misses, matched & counts, first, misses_of_all, record_bucket(row));
    }
  }

  void add(uint64_t misses, uint64_t hits, int64_t first, int64_t misses_of_all, int bucket) {
    for (; misses; misses &= misses - 1) ++misses_[first + __builtin_ctzll(misses)];
    for (; hits; hits &= hits - 1) {
      const int64_t t = first + __builtin_ctzll(hits);
      std::vector<double>& values = precision_[t];
      values.push_back(precision_at(static_cast<int64_t>(values.size()) + 1, misses_of_all + misses_[t]));
      ++found_[t * shape_.limits + bucket];
    }
  }

  // The index of the true positive that reaches each sample of the ascending grid; beyond all of them where
  // none does.
  const std::vector<int32_t>& reach_of(int64_t positives) {
    std::vector<int32_t>& reach = reach_[positives];
    if (static_cast<int64_t>(reach.size()) == shape_.recalls) return reach;
    for (int64_t r = 0; r < shape_.recalls; ++r)
      reach.push_back(static_cast<int32_t>(reaching_index(positives, INT32_MAX, task_.recall_grid[r])));
    return reach;
  }

  const GroupedTask& task_;
  const CurveShape shape_;
  std::vector<int64_t> misses_, found_;         // [T] false positives but of all of a word; [T, M] true ones
  std::vector<std::vector<double>> precision_;  // [T] at each true positive; after walk() or later
  std::vector<int64_t> stop_;                   // [R + 1] as first_place_ of ClassCurve
  std::unordered_map<int64_t, std::vector<int32_t>> reach_;  // by positives
  bool ascending_ = true;
  int64_t seen_ = 0;
};

}  // namespace
}  // namespace valor
