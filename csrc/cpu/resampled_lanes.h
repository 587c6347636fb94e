// A few replicates at a time, side by side: the lanes of one vector. W of them share every loop below.
// Included by one source alone: what no other can see is inlined as a whole.
#pragma once
#include <algorithm>
#include <vector>

#include "resampled_events.h"
#include "simd.h"

namespace valor {
namespace {

// Vectors by name: a compiler left to itself keeps counts in memory, one by one.
using Counts = int32_t __attribute__((vector_size(16)));
using Values = double __attribute__((vector_size(32)));
constexpr int kStrip = 4;  // lanes of a vector

VALOR_INLINE Counts load_counts(const int32_t* from) {
  Counts counts;
  memcpy(&counts, from, sizeof counts);
  return counts;
}

// Weights of the lanes at the records of one class, range and limit.
template <int W>
struct Steps {
  std::vector<int32_t> event;  // which event each step is
  // [steps, 2, W]: its weights, and those of the false positives of every threshold that come before
  std::vector<int32_t> weights;

  void resize(int64_t steps) {
    if (static_cast<int64_t>(event.size()) < steps) event.resize(steps), weights.resize(steps * 2 * W);
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
        int32_t* to = steps.weights.data() + step * 2 * W;
        for (int l = 0; l < W; ++l) to[l] = event.run > 1 ? row[l] > copy : row[l];
        for (int l = 0; l < W; ++l) to[W + l] = misses[l];
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

// Takes one sample after another that `count` true positives of a lane no longer reach; the next reached one.
VALOR_INLINE int32_t take_samples(const LaneSamples& to, int lane, int32_t next, int64_t stop, int32_t count,
                                  double value) {
  const int32_t* reaching = to.reaching + lane * (to.recalls + 1);
  double* out = to.out[lane];
  do {
    --next;
    if (!to.places)
      out[next] = value;
    else if (to.places[next] < stop)
      out[to.places[next]] = value;
  } while (count < reaching[next]);
  return next;
}

// True and false positives of all steps that are events at one threshold; tp_limit [M, W]: true ones by bucket.
template <int W>
VALOR_INLINE void add_steps(const Steps<W>& steps, int64_t count, const ClassEvents& of, const uint8_t* kinds,
                            Counts* fp, int32_t* tp_limit) {
  for (int64_t i = 0; i < count; ++i) {
    const int32_t event = steps.event[i], *weights = steps.weights.data() + i * 2 * W;
    if (kinds[event] == kHit) {
      int32_t* sums = tp_limit + int64_t{of.events[event].bucket} * W;
      for (int l = 0; l < W; l += kStrip) {
        const Counts sum = load_counts(sums + l) + load_counts(weights + l);
        memcpy(sums + l, &sum, sizeof sum);
      }
    } else if (kinds[event] == kMiss) {
      for (int s = 0; s < W / kStrip; ++s) fp[s] += load_counts(weights + s * kStrip);
    }
  }
}

// Walks the steps from the last to the first: the largest precision so far is that of all samples which
// true positives from here on reach. Copies of one step add up to its last: precision grows with each.
template <int W>
VALOR_INLINE void walk(const Steps<W>& steps, int64_t count, const ClassEvents& of, const uint8_t* kinds,
                       int64_t limits, const LaneSamples& to, int32_t* tp_limit) {
  constexpr int kStrips = W / kStrip;
  Counts fp[kStrips] = {}, tp[kStrips] = {}, need[kStrips];
  Values top[kStrips] = {};
  int32_t next[W];
  int64_t stop[W];
  add_steps<W>(steps, count, of, kinds, fp, tp_limit);
  for (int64_t m = 0; m < limits; ++m)
    for (int s = 0; s < kStrips; ++s) tp[s] += load_counts(tp_limit + m * W + s * kStrip);
  for (int l = 0; l < W; ++l) {
    next[l] = begin_samples(to, l, tp[l / kStrip][l % kStrip]);
    need[l / kStrip][l % kStrip] = to.reaching[l * (to.recalls + 1) + next[l]];
    stop[l] = to.stop[next[l]];
  }
  const int32_t* weights = steps.weights.data() + (count - 1) * 2 * W;
  for (int64_t i = count - 1; i >= 0; --i, weights -= 2 * W) {
    const uint8_t kind = kinds[steps.event[i]];
    if (kind == kMiss) {
      for (int s = 0; s < kStrips; ++s) fp[s] -= load_counts(weights + s * kStrip);
    } else if (kind == kHit) {
      Counts crossed = {};
      // A lane of weight 0 repeats the true positive before it, with as many false ones or more.
      for (int s = 0; s < kStrips; ++s) {
        const Values hits = __builtin_convertvector(tp[s], Values);
        const Values misses = __builtin_convertvector(fp[s] + load_counts(weights + W + s * kStrip), Values);
        const Values value = hits / (misses + hits + kEpsilon);  // precision_at
        top[s] = value > top[s] ? value : top[s];
        tp[s] -= load_counts(weights + s * kStrip);
        crossed |= (tp[s] < need[s]) & (Counts{1, 2, 4, 8} << s * kStrip);
      }
      uint64_t halves[2];
      memcpy(halves, &crossed, sizeof crossed);
      const uint64_t both = halves[0] | halves[1];
      for (uint32_t lanes = static_cast<uint32_t>(both | both >> 32); lanes; lanes &= lanes - 1) {
        const int l = __builtin_ctz(lanes), s = l / kStrip, at = l % kStrip;
        next[l] = take_samples(to, l, next[l], stop[l], tp[s][at], top[s][at]);
        need[s][at] = to.reaching[l * (to.recalls + 1) + next[l]];
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
                              const uint8_t* kinds, int64_t limits, const LaneSamples& to,                   \
                              int32_t* tp_limit) {                                                           \
    walk<W>(steps, count, of, kinds, limits, to, tp_limit);                                                  \
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
