// Means of accumulation over many groups of images: group by group, each in an order made once for all.
#include "grouped_means.h"

#include <memory>

#include "guard.h"
#include "pool.h"

namespace valor {
namespace {

// The numbers of one group after another.
class GroupNumbers {
 public:
  GroupNumbers(const GroupedTask& task, const DealtRecords& records)
      : task_(task),
        records_(records),
        curves_(task),
        positives_(records.classes() * task.areas),
        row_bytes_(CurveShape{task.thresholds, task.areas, 0, 0, 0}.row_bytes()) {}

  void run(int64_t g) {
    g_ = g;
    count_positives();
    find_cells();
    std::fill_n(task_.means + g * task_.num_picks, task_.num_picks, kNaN);
    double* each = task_.class_means + g * records_.classes() * task_.num_class_picks;
    std::fill_n(each, records_.classes() * task_.num_class_picks, kNaN);
    for (int64_t a = 0; a < task_.areas; ++a)
      for (int64_t m = 0; m < task_.limits; ++m)
        if (wanted(a, m)) run_range(a, m);
    for (const Cell& cell : cells_) std::fill_n(&positives_[cell.k * task_.areas], task_.areas, 0);
  }

 private:
  static constexpr int64_t kAhead = 12;

  // A class with ground truths in some area range, and its rows among the copies.
  struct Cell {
    int64_t k, begin, end;
  };

  void count_positives() {
    const int64_t row_bytes = 4 + (task_.areas + 2 + 7) / 8;
    cells_.clear();
    for (int64_t i = task_.group_offsets[g_]; i < task_.group_offsets[g_ + 1]; ++i) {
      const int64_t unit = task_.group_units[i];
      const uint8_t* row = task_.ground_truths + records_.ground_truth(unit) * row_bytes;
      for (int64_t j = 0; j < task_.images[task_.units[unit]].ground_truths; ++j, row += row_bytes)
        count_row(row);
    }
    std::sort(cells_.begin(), cells_.end(), [](const Cell& a, const Cell& b) { return a.k < b.k; });
  }

  void count_row(const uint8_t* row) {
    if (records_.classes() == 0) return;
    const int64_t k = task_.agnostic ? 0 : records_.index().of(ground_truth_label(row));
    if (k < 0) return;
    int64_t *counts = positives_.data() + k * task_.areas, any = 0, bits = 0;
    for (int64_t a = 0; a < task_.areas; ++a) {
      const int bit = ground_truth_bit(row, a);
      any |= counts[a], bits |= bit;
      counts[a] += bit;
    }
    if (any == 0 && bits != 0) cells_.push_back({k, 0, 0});
  }

  // Copies the rows of the cells side by side, since each area range walks over them.
  void find_cells() {
    const int32_t* classes = records_.classes_of(g_);
    const int64_t *numbers = records_.rows(g_), size = records_.size(g_);
    rows_.resize(std::max<int64_t>(rows_.size(), size * row_bytes_));
    int64_t at = 0, kept = 0;
    for (Cell& cell : cells_) {
      while (at < size && classes[at] < cell.k) ++at;
      cell.begin = kept;
      for (; at < size && classes[at] == cell.k; ++at, ++kept) {
        if (at + kAhead < size)
          prefetch_record(task_.detections + numbers[at + kAhead] * row_bytes_, row_bytes_);
        memcpy(&rows_[kept * row_bytes_], task_.detections + numbers[at] * row_bytes_, row_bytes_);
      }
      cell.end = kept;
    }
  }

  // Recall within every limit comes from the walk within the last.
  int64_t limit_of(const MeanPick& pick) const {
    return task_.full && !pick.of_recall ? pick.limit : task_.limits - 1;
  }

  bool reads(const MeanPick& pick, int64_t a, int64_t m) const {
    return pick.area == a && limit_of(pick) == m;
  }

  bool wanted(int64_t a, int64_t m) const {
    const auto is = [&](const MeanPick& pick) { return reads(pick, a, m); };
    return std::any_of(task_.picks, task_.picks + task_.num_picks, is) ||
           std::any_of(task_.class_picks, task_.class_picks + task_.num_class_picks, is);
  }

  void run_range(int64_t a, int64_t m) {
    present_.clear();
    for (const Cell& cell : cells_)
      if (positives(cell, a) > 0) present_.push_back(cell);
    const int64_t count = static_cast<int64_t>(present_.size());
    samples_.resize(std::max<int64_t>(samples_.size(), count * task_.thresholds * task_.recalls));
    recalls_.resize(count * task_.thresholds * task_.limits);
    for (int64_t i = 0; i < count; ++i) {
      const Cell& cell = present_[i];
      curves_.walk(rows_.data() + cell.begin * row_bytes_, cell.end - cell.begin, a, m);
      for (int64_t t = 0; t < task_.thresholds; ++t) {
        curves_.write_samples(t, positives(cell, a), samples(i, t));
        curves_.write_recall(t, positives(cell, a), &recall(i, 0, t), task_.thresholds);
      }
      take_class_means(i, a, m);
    }
    turned_ = false;
    for (int64_t p = 0; p < task_.num_picks; ++p)
      if (reads(task_.picks[p], a, m))
        task_.means[g_ * task_.num_picks + p] = mean(task_.picks[p], task_.pick_thresholds);
  }

  int64_t positives(const Cell& cell, int64_t a) const { return positives_[cell.k * task_.areas + a]; }
  double* samples(int64_t i, int64_t t) {
    return samples_.data() + (i * task_.thresholds + t) * task_.recalls;
  }
  double& recall(int64_t i, int64_t m, int64_t t) {
    return recalls_[(i * task_.limits + m) * task_.thresholds + t];
  }

  void take_class_means(int64_t i, int64_t a, int64_t m) {
    double* out = task_.class_means + (g_ * records_.classes() + present_[i].k) * task_.num_class_picks;
    for (int64_t q = 0; q < task_.num_class_picks; ++q) {
      const MeanPick& pick = task_.class_picks[q];
      if (!reads(pick, a, m)) continue;
      const double* from = pick.of_recall ? &recall(i, pick.limit, 0) : samples(i, 0);
      out[q] = mean_of_blocks(from, pick.of_recall ? 1 : task_.recalls, pick, task_.class_thresholds);
    }
  }

  // Over the classes that are present.
  double mean(const MeanPick& pick, const int64_t* thresholds) {
    const int64_t count = static_cast<int64_t>(present_.size());
    if (!pick.of_recall) {
      if (!turned_) turn();
      return mean_of_blocks(turned_samples_.data(), count * task_.recalls, pick, thresholds);
    }
    chosen_.clear();
    for (int64_t j = 0; j < pick.count; ++j)
      for (int64_t i = 0; i < count; ++i)
        chosen_.push_back(recall(i, pick.limit, thresholds[pick.first + j]));
    return mean_of(chosen_.data(), static_cast<int64_t>(chosen_.size()));
  }

  // The mean of blocks [T, size], those of the thresholds of a pick.
  double mean_of_blocks(const double* blocks, int64_t size, const MeanPick& pick, const int64_t* all) {
    const int64_t* thresholds = all + pick.first;
    bool together = true;
    for (int64_t i = 1; i < pick.count; ++i) together &= thresholds[i] == thresholds[i - 1] + 1;
    if (together) return mean_of(pick.count ? blocks + thresholds[0] * size : blocks, pick.count * size);
    chosen_.clear();
    for (int64_t i = 0; i < pick.count; ++i)
      chosen_.insert(chosen_.end(), blocks + thresholds[i] * size, blocks + (thresholds[i] + 1) * size);
    return mean_of(chosen_.data(), pick.count * size);
  }

  // Makes [T, R, present classes] of [present classes, T, R]: the order in which numpy adds up.
  void turn() {
    turned_ = true;
    constexpr int64_t kTile = 8;
    const int64_t count = static_cast<int64_t>(present_.size()), recalls = task_.recalls;
    turned_samples_.resize(std::max<int64_t>(turned_samples_.size(), count * task_.thresholds * recalls));
    for (int64_t t = 0; t < task_.thresholds; ++t) {
      double* to = turned_samples_.data() + t * recalls * count;
      for (int64_t first = 0; first < recalls; first += kTile) {
        const int64_t end = std::min(first + kTile, recalls);
        for (int64_t i = 0; i < count; ++i) {
          const double* from = samples(i, t);
          for (int64_t r = first; r < end; ++r) to[r * count + i] = from[r];
        }
      }
    }
  }

  const GroupedTask& task_;
  const DealtRecords& records_;
  CellCurves curves_;
  std::vector<int64_t> positives_;  // [K, A], 0 between groups
  const int64_t row_bytes_;
  std::vector<uint8_t> rows_;  // of the cells
  std::vector<Cell> cells_, present_;
  std::vector<double> samples_, turned_samples_, recalls_, chosen_;  // recalls: [present, M, T]
  bool turned_ = false;
  int64_t g_ = 0;
};

}  // namespace
}  // namespace valor

// Fills means and class_means.
VALOR_API int32_t valor_grouped_means_cpu(const valor::GroupedTask* task) {
  return valor::guarded([&] {
    using namespace valor;
    const DealtRecords records(*task);
    auto body = [&](int64_t begin, int64_t end) {
      GroupNumbers numbers(*task, records);
      for (int64_t g = begin; g < end; ++g) numbers.run(g);
    };
    const int64_t grain = std::max<int64_t>(1, task->num_groups / (8 * std::max<int64_t>(task->threads, 1)));
    parallel_for(task->num_groups, grain, static_cast<int>(task->threads), body);
  });
}
