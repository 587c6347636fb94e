// A few replicates at a time, side by side: the lanes of one vector. W of them share every loop below.
// Included by one source alone: what no other can see is inlined as a whole.
#pragma once
#include <algorithm>
#include <vector>

#include "resampled_events.h"
#include "simd.h"

namespace valor {
namespace {

// Weights of the lanes at the records of one class, range and limit.
template <int W>
struct Steps {
  std::vector<int32_t> event;   // which event each step is
  std::vector<int32_t> misses;  // [steps, W] weights of false positives of every threshold that come before
  std::vector<uint8_t> weight;  // [steps, W]

  void resize(int64_t steps) {
    event.resize(steps), misses.resize(steps * W), weight.resize(steps * W);
  }
};

template <int W>
VALOR_INLINE void add_rows(const uint8_t* weights, const int32_t* units, int64_t count, int32_t* sums) {
  int32_t sum[W];
  for (int l = 0; l < W; ++l) sum[l] = sums[l];
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t* row = weights + int64_t{units[i]} * W;
    for (int l = 0; l < W; ++l) sum[l] += row[l];
  }
  for (int l = 0; l < W; ++l) sums[l] = sum[l];
}

// Writes a step for every event and every copy of a run. weights: [units, W].
template <int W>
VALOR_INLINE void write_steps(const ClassEvents& of, const uint8_t* weights, Steps<W>& steps) {
  int32_t misses[W] = {}, before = 0;
  int64_t step = 0;
  const int32_t size = static_cast<int32_t>(of.events.size());
  for (int32_t i = 0; i < size;) {
    const Event& event = of.events[i];
    add_rows<W>(weights, of.misses.data() + before, event.misses_before - before, misses);
    before = event.misses_before;
    const uint8_t* row = weights + int64_t{event.unit} * W;
    const int copies = event.run > 1 ? std::max<int>(1, *std::max_element(row, row + W)) : 1;
    for (int copy = 0; copy < copies; ++copy) {
      for (int32_t j = i; j < i + event.run; ++j, ++step) {
        steps.event[step] = j;
        for (int l = 0; l < W; ++l) steps.misses[step * W + l] = misses[l];
        for (int l = 0; l < W; ++l)
          steps.weight[step * W + l] = event.run > 1 ? static_cast<uint8_t>(row[l] > copy) : row[l];
      }
    }
    i += event.run;
  }
}

template <int W>
int64_t count_steps(const ClassEvents& of, const uint8_t* weights) {
  int64_t steps = static_cast<int64_t>(of.events.size());
  for (const int32_t first : of.long_runs) {
    const Event& event = of.events[first];
    const uint8_t* row = weights + int64_t{event.unit} * W;
    steps += int64_t{event.run} * (std::max<int>(1, *std::max_element(row, row + W)) - 1);
  }
  return steps;
}

// Where the samples of one class, range and threshold go, and when they are reached.
struct LaneSamples {
  const int32_t* reaching;       // [W, R + 1]: counts that reach each sample, ascending, after one never reached
  const int32_t* positives;      // [W]
  const int64_t *places, *stop;  // [R] in the caller's grid, and [R + 1] where it ends: null for an ascending grid
  int64_t recalls;
  double* const* out;  // [W]
};

// Number of samples that `count` true positives reach. Writes 0 to the others.
inline int32_t begin_samples(const LaneSamples& to, int lane, int32_t count) {
  if (to.positives[lane] == 0) return 0;
  const int32_t* reaching = to.reaching + lane * (to.recalls + 1) + 1;
  const int64_t reached = std::upper_bound(reaching, reaching + to.recalls, count) - reaching;
  std::fill(to.out[lane] + (to.places ? 0 : reached), to.out[lane] + to.recalls, 0.0);
  return static_cast<int32_t>(reached);
}

// Walks the steps from the last to the first: the largest precision so far is that of all samples which
// true positives from here on reach. Copies of one step add up to its last: precision grows with each.
// tp_limit: [M, W] true positives by bucket.
template <int W>
VALOR_INLINE void walk(const Steps<W>& steps, int64_t count, const ClassEvents& of, const uint8_t* kinds,
                       const LaneSamples& to, int32_t* tp_limit) {
  const int32_t* events = steps.event.data();
  int32_t fp[W] = {}, tp[W] = {}, next[W], need[W], limit_of[W];
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t* weight = steps.weight.data() + i * W;
    const EventKind kind = static_cast<EventKind>(kinds[events[i]]);
    if (kind == kHit) {
      int32_t* sums = tp_limit + int64_t{of.events[events[i]].bucket} * W;
      for (int l = 0; l < W; ++l) sums[l] += weight[l], tp[l] += weight[l];
    } else if (kind == kMiss) {
      for (int l = 0; l < W; ++l) fp[l] += weight[l];
    }
  }
  for (int l = 0; l < W; ++l) {
    limit_of[l] = next[l] = begin_samples(to, l, tp[l]);
    need[l] = to.reaching[l * (to.recalls + 1) + next[l]];
  }
  double top[W] = {};
  for (int64_t i = count - 1; i >= 0; --i) {
    const uint8_t* weight = steps.weight.data() + i * W;
    const int32_t* misses = steps.misses.data() + i * W;
    const EventKind kind = static_cast<EventKind>(kinds[events[i]]);
    if (kind == kMiss) {
      for (int l = 0; l < W; ++l) fp[l] -= weight[l];
    } else if (kind == kHit) {
      uint8_t crossed[W];
      // A lane of weight 0 repeats the true positive before it, with as many false ones or more.
      for (int l = 0; l < W; ++l) {
        const double value = weighted_precision(tp[l], misses[l] + fp[l]);
        top[l] = value > top[l] ? value : top[l];
      }
      for (int l = 0; l < W; ++l) {
        tp[l] -= weight[l];
        crossed[l] = tp[l] < need[l];
      }
      for (int part = 0; part < W; part += 8) {
        uint64_t lanes;
        for (memcpy(&lanes, crossed + part, 8); lanes; lanes &= lanes - 1) {
          const int l = part + __builtin_ctzll(lanes) / 8;
          const int32_t* reaching = to.reaching + l * (to.recalls + 1);
          int32_t r = next[l];
          do {
            --r;
            if (!to.places)
              to.out[l][r] = top[l];
            else if (to.places[r] < to.stop[limit_of[l]])
              to.out[l][to.places[r]] = top[l];
          } while (tp[l] < reaching[r]);
          next[l] = r;
          need[l] = reaching[r];
        }
      }
    }
  }
}

// reaching [W, R + 1] of LaneSamples.
template <int W>
VALOR_INLINE void write_reaching(const double* grid, int64_t recalls, const int32_t* positives, int32_t* reaching) {
  for (int l = 0; l < W; ++l) {
    int32_t* to = reaching + l * (recalls + 1);
    to[0] = INT32_MIN;
    for (int64_t r = 0; r < recalls; ++r) to[r + 1] = reaching_count(positives[l], grid[r]);
  }
}

// Weights of the ground truths that count in an area range.
template <int W>
VALOR_INLINE void add_truths(const ResampledTask& task, int64_t k, int64_t area, const uint8_t* weights,
                             int32_t* positives) {
  const int64_t bytes = (task.areas + 2 + 7) / 8;
  int32_t sum[W] = {};
  for (int64_t i = task.truth_offsets[k]; i < task.truth_offsets[k + 1]; ++i) {
    const int32_t counts = task.truths[i * bytes + area / 8] >> (area % 8) & 1;
    const uint8_t* row = weights + int64_t{task.truth_units[i]} * W;
    for (int l = 0; l < W; ++l) sum[l] += counts * row[l];
  }
  for (int l = 0; l < W; ++l) positives[l] = sum[l];
}

// Vectors of every processor; a template has no clones.
#define VALOR_LANES(W)                                                                                       \
  VALOR_CLONES void steps_of(const ClassEvents& of, const uint8_t* weights, Steps<W>& steps) {               \
    write_steps<W>(of, weights, steps);                                                                      \
  }                                                                                                          \
  VALOR_CLONES void walk_back(const Steps<W>& steps, int64_t count, const ClassEvents& of,                   \
                              const uint8_t* kinds, const LaneSamples& to, int32_t* tp_limit) {              \
    walk<W>(steps, count, of, kinds, to, tp_limit);                                                          \
  }                                                                                                          \
  VALOR_CLONES void positives_of(const ResampledTask& task, int64_t k, int64_t area, const uint8_t* weights, \
                                 int32_t(&positives)[W]) {                                                   \
    add_truths<W>(task, k, area, weights, positives);                                                        \
  }                                                                                                          \
  VALOR_CLONES void reaching_of(const double* grid, int64_t recalls, const int32_t(&positives)[W],           \
                                int32_t* reaching) {                                                         \
    write_reaching<W>(grid, recalls, positives, reaching);                                                   \
  }
VALOR_LANES(8)
VALOR_LANES(16)
#undef VALOR_LANES

}  // namespace
}  // namespace valor
