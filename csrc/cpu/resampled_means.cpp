// Means of replicates on the CPU: class by class into samples, then lane by lane into means.
#include <algorithm>
#include <memory>
#include <mutex>
#include <numeric>
#include <vector>

#include "guard.h"
#include "pairwise.h"
#include "pool.h"
#include "resampled_lanes.h"

namespace valor {
namespace {

constexpr int64_t kSampleBytes = 22 << 20;  // of a sweep; 32 replicates of 80 classes under COCO's choices
// A sweep has no fewer: a group of vectors costs the same with empty lanes. 78 MB with the classes of LVIS.
constexpr int64_t kLeastLanes = 8;

// Replicates first .. first + lanes, in groups of W.
struct Sweep {
  int64_t first, lanes, groups;
};

template <int W>
class Replicates {
 public:
  explicit Replicates(const ResampledTask& task)
      : task_(task),
        shape_(shape_of(task)),
        codes_(task),
        by_size_(task.classes),
        stop_(task.recalls + 1, task.recalls) {
    std::iota(by_size_.begin(), by_size_.end(), 0);
    std::stable_sort(by_size_.begin(), by_size_.end(),
                     [&](int64_t a, int64_t b) { return rows(a) > rows(b); });
    for (int64_t r = task.recalls - 1; r >= 0; --r) {
      stop_[r] = std::min(stop_[r + 1], task.grid_places[r]);
      ascending_ &= task.grid_places[r] == r;
    }
  }

  void run(int64_t most_lanes) {
    auto classes = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) codes_.read(by_size_[i]);
    };
    parallel_for(task_.classes, 1, static_cast<int>(task_.threads), classes);
    const int64_t room = std::min(most_lanes, task_.replicates);
    samples_.reset(new double[room * lane_samples()]);
    recalls_.resize(room * lane_recalls());
    present_.resize(room * task_.classes);
    for (int64_t first = 0; first < task_.replicates; first += room) {
      const int64_t lanes = std::min(room, task_.replicates - first);
      sweep_ = {first, lanes, (lanes + W - 1) / W};
      copy_weights();
      for (int64_t a = 0; a < shape_.areas; ++a)
        for (int64_t m = 0; m < shape_.limits; ++m)
          if (wanted(a, m)) sweep_range(a, m);
    }
  }

 private:
  // What one thread works with.
  struct Room {
    Room(const ResampledTask& task, const RecordCodes& codes)
        : events(task, codes),
          reaching(W * (task.recalls + 1)),
          tp_limit(task.limits * W),
          values(task.thresholds * task.recalls) {}
    ClassEvents events;
    Steps<W> steps;
    std::vector<int32_t> reaching, tp_limit;
    std::vector<double> values;
  };

  // Rooms that no thread uses now; the caller keeps them from loop to loop.
  class Rooms {
   public:
    std::unique_ptr<Room> take(const ResampledTask& task, const RecordCodes& codes) {
      std::lock_guard<std::mutex> lock(mutex_);
      if (rooms_.empty()) return std::unique_ptr<Room>(new Room(task, codes));
      std::unique_ptr<Room> room = std::move(rooms_.back());
      rooms_.pop_back();
      return room;
    }
    void give(std::unique_ptr<Room> room) {
      std::lock_guard<std::mutex> lock(mutex_);
      rooms_.push_back(std::move(room));
    }

   private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<Room>> rooms_;
  };

  int64_t rows(int64_t k) const { return task_.offsets[k + 1] - task_.offsets[k]; }
  int64_t lane_samples() const { return shape_.thresholds * shape_.classes * shape_.recalls; }
  int64_t lane_recalls() const { return shape_.limits * shape_.thresholds * shape_.classes; }
  double* samples(int64_t lane, int64_t t, int64_t k) {
    return samples_.get() + lane * lane_samples() + (t * shape_.classes + k) * shape_.recalls;
  }
  double& recall(int64_t lane, int64_t m, int64_t t, int64_t k) {
    return recalls_[lane * lane_recalls() + (m * shape_.thresholds + t) * shape_.classes + k];
  }

  int64_t limit_of(const MeanPick& pick) const {
    return task_.full && !pick.of_recall ? pick.limit : shape_.limits - 1;
  }

  bool wanted(int64_t a, int64_t m) const {
    if (a == 0 && m == shape_.limits - 1) return true;
    return std::any_of(task_.picks, task_.picks + task_.num_picks,
                       [&](const MeanPick& pick) { return pick.area == a && limit_of(pick) == m; });
  }

  // Weights [groups, units, W] of the lanes of the sweep; those of lanes beyond the last replicate are 0.
  void copy_weights() {
    weights_.assign(sweep_.groups * task_.units * W, 0);
    for (int64_t unit = 0; unit < task_.units; ++unit)
      for (int64_t group = 0; group < sweep_.groups; ++group)
        memcpy(weights_.data() + (group * task_.units + unit) * W,
               task_.weights + unit * task_.replicates + sweep_.first + group * W,
               std::min<int64_t>(W, sweep_.lanes - group * W));
  }

  void sweep_range(int64_t a, int64_t m) {
    auto classes = [&](int64_t begin, int64_t end) {
      std::unique_ptr<Room> room = rooms_.take(task_, codes_);
      for (int64_t item = begin; item < end; ++item)
        run_class(*room, by_size_[item / sweep_.groups], a, m, item % sweep_.groups);
      rooms_.give(std::move(room));
    };
    parallel_for(task_.classes * sweep_.groups, 1, static_cast<int>(task_.threads), classes);
    auto lanes = [&](int64_t begin, int64_t end) {
      std::vector<double> values;
      for (int64_t lane = begin; lane < end; ++lane) take_means(lane, a, m, values);
    };
    parallel_for(sweep_.lanes, 1, static_cast<int>(task_.threads), lanes);
  }

  void run_class(Room& room, int64_t k, int64_t a, int64_t m, int64_t group) {
    const uint8_t* weights = weights_.data() + group * task_.units * W;
    const int64_t lanes = std::min<int64_t>(W, sweep_.lanes - group * W);
    alignas(64) int32_t positives[W];
    positives_of(task_, k, a, weights, positives);
    for (int64_t l = 0; l < lanes; ++l) present_[(group * W + l) * task_.classes + k] = positives[l] > 0;
    room.events.read(k, a, m);
    const int64_t count = count_steps<W>(room.events, weights);
    room.steps.resize(count);
    steps_of(room.events, weights, room.steps);
    reaching_of(task_.recall_grid, shape_.recalls, positives, room.reaching.data());
    double* out[W] = {};
    const LaneSamples to{room.reaching.data(), positives,      ascending_ ? nullptr : task_.grid_places,
                         stop_.data(),         shape_.recalls, out};
    for (int64_t t = 0; t < shape_.thresholds; ++t) {
      for (int64_t l = 0; l < lanes; ++l) out[l] = samples(group * W + l, t, k);
      std::fill(room.tp_limit.begin(), room.tp_limit.end(), 0);
      walk_back(room.steps, count, room.events, room.events.kinds_at(t), shape_.limits, to,
                room.tp_limit.data());
      for (int64_t l = 0; l < lanes; ++l) write_recalls(room, group * W + l, t, k, positives[l], l);
    }
    if (a > 0 || m < shape_.limits - 1) return;
    for (int64_t l = 0; l < lanes; ++l) write_class_means(room.values, group * W + l, k, positives[l] > 0);
  }

  void write_recalls(const Room& room, int64_t lane, int64_t t, int64_t k, int32_t positives, int64_t l) {
    int64_t tp = 0;
    for (int64_t m = 0; m < shape_.limits; ++m) {
      tp += room.tp_limit[m * W + l];
      recall(lane, m, t, k) = static_cast<double>(tp) / static_cast<double>(positives);
    }
  }

  void write_class_means(std::vector<double>& values, int64_t lane, int64_t k, bool present) {
    const int64_t at = (sweep_.first + lane) * shape_.classes + k, recalls = shape_.recalls;
    task_.class_precision[at] = task_.class_recall[at] = kNaN;
    if (!present) return;
    for (int64_t t = 0; t < shape_.thresholds; ++t)
      std::copy_n(samples(lane, t, k), recalls, values.data() + t * recalls);
    task_.class_precision[at] = mean_of(values.data(), shape_.thresholds * recalls);
    double each[SumNode::kBlock];
    std::vector<double> many(shape_.thresholds > SumNode::kBlock ? shape_.thresholds : 0);
    double* last = many.empty() ? each : many.data();
    for (int64_t t = 0; t < shape_.thresholds; ++t) last[t] = recall(lane, shape_.limits - 1, t, k);
    task_.class_recall[at] = mean_of(last, shape_.thresholds);
  }

  // The means of one replicate over one area range and limit.
  void take_means(int64_t lane, int64_t a, int64_t m, std::vector<double>& values) {
    std::vector<int64_t> present;
    for (int64_t k = 0; k < shape_.classes; ++k)
      if (present_[lane * shape_.classes + k]) present.push_back(k);
    bool turned = false;
    for (int64_t p = 0; p < task_.num_picks; ++p) {
      const MeanPick& pick = task_.picks[p];
      if (pick.area != a || limit_of(pick) != m) continue;
      if (!pick.of_recall && !turned) turn(lane, present, values), turned = true;
      task_.means[(sweep_.first + lane) * task_.num_picks + p] =
          pick.of_recall ? mean_recall(lane, pick, present, values)
                         : mean_precision(lane, pick, present, values);
    }
  }

  // Makes [T, K, R] of a lane [T, R, present classes], in place: the order in which numpy adds up.
  void turn(int64_t lane, const std::vector<int64_t>& present, std::vector<double>& values) {
    const int64_t count = static_cast<int64_t>(present.size()), recalls = shape_.recalls;
    constexpr int64_t kTile = 8;
    values.resize(std::max<int64_t>(values.size(), count * recalls));
    for (int64_t t = 0; t < shape_.thresholds; ++t) {
      for (int64_t first = 0; first < recalls; first += kTile) {
        const int64_t end = std::min(first + kTile, recalls);
        for (int64_t i = 0; i < count; ++i) {
          const double* from = samples(lane, t, present[i]);
          for (int64_t r = first; r < end; ++r) values[r * count + i] = from[r];
        }
      }
      std::copy_n(values.data(), count * recalls, samples(lane, 0, 0) + t * count * recalls);
    }
  }

  double mean_precision(int64_t lane, const MeanPick& pick, const std::vector<int64_t>& present,
                        std::vector<double>& values) {
    const int64_t block = static_cast<int64_t>(present.size()) * shape_.recalls;
    const int64_t* thresholds = task_.pick_thresholds + pick.first;
    const double* from = samples(lane, 0, 0);
    bool together = true;
    for (int64_t i = 1; i < pick.count; ++i) together &= thresholds[i] == thresholds[i - 1] + 1;
    if (together) return mean_of(pick.count ? from + thresholds[0] * block : from, pick.count * block);
    values.resize(std::max<int64_t>(values.size(), pick.count * block));
    for (int64_t i = 0; i < pick.count; ++i)
      std::copy_n(from + thresholds[i] * block, block, values.data() + i * block);
    return mean_of(values.data(), pick.count * block);
  }

  double mean_recall(int64_t lane, const MeanPick& pick, const std::vector<int64_t>& present,
                     std::vector<double>& values) {
    const int64_t block = static_cast<int64_t>(present.size());
    values.resize(std::max<int64_t>(values.size(), pick.count * block));
    double* to = values.data();
    for (int64_t i = 0; i < pick.count; ++i)
      for (const int64_t k : present)
        *to++ = recall(lane, pick.limit, task_.pick_thresholds[pick.first + i], k);
    return mean_of(values.data(), pick.count * block);
  }

  const ResampledTask& task_;
  const CurveShape shape_;
  RecordCodes codes_;
  std::vector<int64_t> by_size_;  // classes, the largest first
  std::vector<int64_t> stop_;     // [R + 1] first place in the caller's grid that a sample from r on has
  bool ascending_ = true;
  Sweep sweep_{};
  std::vector<uint8_t> weights_, present_;  // of the sweep; present: [lanes, K]
  std::unique_ptr<double[]> samples_;       // [lanes, T, K, R]
  std::vector<double> recalls_;             // [lanes, M, T, K]
  Rooms rooms_;
};

}  // namespace
}  // namespace valor

// Fills means, class_precision and class_recall.
VALOR_API int32_t valor_resampled_means_cpu(const valor::ResampledTask* task) {
  return valor::guarded([&] {
    const int64_t each = task->thresholds * task->classes * task->recalls * 8;
    const int64_t lanes = valor::kSampleBytes / std::max<int64_t>(each, 1);
    if (lanes >= 16)
      valor::Replicates<16>(*task).run(lanes / 16 * 16);
    else
      valor::Replicates<valor::kLeastLanes>(*task).run(valor::kLeastLanes);
  });
}
