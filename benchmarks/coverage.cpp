// Numbers of many weightings of the units at once: what benchmarks/coverage_pools.py asks thousands of times.
//
// A unit of weight w counts as w adjacent copies of itself. Weights are uint8 [units][lanes], lanes a
// multiple of 32.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace {

constexpr int kLanes = 32;
constexpr int kThresholds = 10;
constexpr float kRounding =
    3e-5f;  // less than 1 / ground truths of a class, more than the error of 100 x recall

struct Points {
  std::vector<float> precision, found;  // [points][kLanes]
};

void add_weights(const uint8_t* weights, float* sums) {
  for (int lane = 0; lane < kLanes; ++lane) sums[lane] += weights[lane];
}

void append(Points& points, float* found, const float* seen, const float* ignored, const uint8_t* weights) {
  const size_t size = points.found.size();
  points.found.resize(size + kLanes);
  points.precision.resize(size + kLanes);
  for (int lane = 0; lane < kLanes; ++lane) {
    found[lane] += weights[lane];
    points.found[size + lane] = found[lane];
    points.precision[size + lane] = found[lane] / std::max(seen[lane] - ignored[lane], 1.0f);
  }
}

// Adds the mean over 101 recall thresholds of the largest precision at that recall or above.
void add_area(const Points& points, const float* truths, float* sums) {
  float best[kLanes] = {}, scale[kLanes], area[kLanes] = {};
  for (int lane = 0; lane < kLanes; ++lane) scale[lane] = 100.0f / std::max(truths[lane], 1.0f);
  for (int64_t k = static_cast<int64_t>(points.found.size()) - kLanes; k >= 0; k -= kLanes) {
    const float* precision = &points.precision[k];
    const float* found = &points.found[k];
    const float* before = k ? found - kLanes : nullptr;
    for (int lane = 0; lane < kLanes; ++lane) {
      const int reached = static_cast<int>(found[lane] * scale[lane] + kRounding);
      const int earlier = before ? static_cast<int>(before[lane] * scale[lane] + kRounding) : -1;
      best[lane] = std::max(best[lane], precision[lane]);
      area[lane] += best[lane] * static_cast<float>(reached - earlier);
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) sums[lane] += area[lane] / 101.0f;
}

}  // namespace

// AP and AR of each class, float32 [classes][lanes]; NaN without a weighted ground truth. Records of a class
// are by descending score; bit t of `matched` and `ignored` is that of IoU threshold t.
extern "C" void class_numbers(int64_t classes, const int64_t* starts, const int32_t* units,
                              const uint16_t* matched, const uint16_t* ignored, const int64_t* gt_starts,
                              const int32_t* gt_units, const uint8_t* weights, int64_t lanes,
                              float* precision, float* recall) {
  std::vector<Points> points(kThresholds);
  for (int64_t first = 0; first < lanes; first += kLanes) {
    for (int64_t c = 0; c < classes; ++c) {
      float truths[kLanes] = {}, seen[kLanes] = {}, area[kLanes] = {}, hits[kLanes] = {};
      float found[kThresholds][kLanes] = {}, without[kThresholds][kLanes] = {};
      for (Points& some : points) some.found.clear(), some.precision.clear();
      for (int64_t g = gt_starts[c]; g < gt_starts[c + 1]; ++g)
        add_weights(weights + gt_units[g] * lanes + first, truths);
      for (int64_t i = starts[c]; i < starts[c + 1]; ++i) {
        const uint8_t* row = weights + units[i] * lanes + first;
        add_weights(row, seen);
        for (uint32_t bits = ignored[i]; bits; bits &= bits - 1)
          add_weights(row, without[__builtin_ctz(bits)]);
        for (uint32_t bits = matched[i]; bits; bits &= bits - 1) {
          const int t = __builtin_ctz(bits);
          append(points[t], found[t], seen, without[t], row);
        }
      }
      for (int t = 0; t < kThresholds; ++t) {
        add_area(points[t], truths, area);
        for (int lane = 0; lane < kLanes; ++lane) hits[lane] += found[t][lane];
      }
      for (int lane = 0; lane < kLanes; ++lane) {
        const int64_t cell = c * lanes + first + lane;
        const bool none = truths[lane] == 0.0f;
        precision[cell] = none ? NAN : area[lane] / kThresholds;
        recall[cell] = none ? NAN : hits[lane] / (truths[lane] * kThresholds);
      }
    }
  }
}

// AUROC and AP, float64 [lanes], of rows by descending score without ties; NaN without rows of both kinds.
extern "C" void curve_numbers(int64_t rows, const int32_t* units, const uint8_t* positive,
                              const uint8_t* weights, int64_t lanes, double* auroc,
                              double* average_precision) {
  for (int64_t first = 0; first < lanes; first += kLanes) {
    double found[kLanes] = {}, wrong[kLanes] = {}, below[kLanes] = {}, area[kLanes] = {};
    for (int64_t i = 0; i < rows; ++i) {
      const uint8_t* row = weights + units[i] * lanes + first;
      if (!positive[i]) {
        for (int lane = 0; lane < kLanes; ++lane) wrong[lane] += row[lane];
        continue;
      }
      for (int lane = 0; lane < kLanes; ++lane) {
        const double weight = row[lane];
        found[lane] += weight;
        below[lane] += weight * wrong[lane];
        area[lane] += weight * found[lane] / std::max(found[lane] + wrong[lane], 1.0);
      }
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      auroc[first + lane] = 1.0 - below[lane] / (found[lane] * wrong[lane]);
      average_precision[first + lane] = area[lane] / found[lane];
    }
  }
}
