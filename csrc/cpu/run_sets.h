// Measures, IoU and merging of masks that are all in memory as run lengths.
#pragma once
#include <algorithm>
#include <vector>

#include "../core/runs.h"
#include "intervals.h"

namespace valor {

struct Measured {
  Intervals intervals;
  uint32_t area;
  RunBox box;
};

// Measures of all masks, with the intervals of ones in one array.
class MeasuredMasks {
 public:
  explicit MeasuredMasks(const Runs& runs) : masks_(runs.masks), ends_(runs.offsets[runs.masks]) {
    for (int64_t mask = 0; mask < runs.masks; ++mask) {
      uint32_t* const ends = ends_.data() + runs.offsets[mask];
      RunMeasure measure(runs.height(mask));
      int64_t at = 0;
      for_each_run(runs.begin(mask), runs.size(mask), [&](uint32_t begin, uint32_t end) {
        measure.add(begin, end);
        ends[at++] = begin;
        ends[at++] = end;
      });
      masks_[mask] = Measured{{ends, at / 2}, measure.area(), measure.box()};
    }
  }
  const Measured& operator[](int64_t mask) const { return masks_[mask]; }

 private:
  std::vector<Measured> masks_;
  std::vector<uint32_t> ends_;
};

inline double run_iou(const Measured& d, const Measured& g, bool same_size, bool crowd, uint32_t height) {
  if (!d.box.meets(g.box)) return 0.0;
  if (!same_size) return -1.0;
  const uint32_t from = std::max(d.box.left, g.box.left) * height;
  const uint32_t to = std::min(d.box.right, g.box.right) * height;
  const uint32_t shared = shared_pixels(d.intervals, g.intervals, from, to);
  return static_cast<double>(shared) / static_cast<double>(crowd ? d.area : d.area + g.area - shared);
}

// One mask of two, whose runs each add up to `pixels`; runs of length 0 stay where they are.
inline void merge_two(const std::vector<int32_t>& a, const int32_t* b, int64_t runs_b, int64_t pixels,
                      bool intersect, std::vector<int32_t>& out) {
  const int64_t runs_a = static_cast<int64_t>(a.size());
  out.resize(static_cast<size_t>(runs_a + runs_b));
  int32_t* to = out.data();
  int64_t i = 1, j = 1, place = 0;
  int32_t left_a = a[0], left_b = b[0], run = 0;
  bool in_a = false, in_b = false, in = false;
  for (;;) {
    const int32_t step = std::min(left_a, left_b);
    run += step;
    place += step;
    left_a -= step;
    left_b -= step;
    if (!left_a && i < runs_a) left_a = a[i++], in_a = !in_a;
    if (!left_b && j < runs_b) left_b = b[j++], in_b = !in_b;
    const bool now = intersect ? in_a && in_b : in_a || in_b, done = place == pixels;
    if (now != in || done) *to++ = run, run = 0;
    if (done) break;
    in = now;
  }
  out.resize(static_cast<size_t>(to - out.data()));
}

// The runs of a mask; of one without runs, one run of zeros.
inline const int32_t* runs_or_zeros(const Runs& runs, int64_t mask, int32_t* zeros, int64_t* size) {
  *size = runs.size(mask);
  if (*size) return runs.begin(mask);
  *zeros = static_cast<int32_t>(runs.pixels(mask));
  *size = 1;
  return zeros;
}

inline void merge_group(const Runs& runs, int64_t first, int64_t end, bool intersect,
                        std::vector<int32_t>& out) {
  if (end - first == 1) {
    out.insert(out.end(), runs.begin(first), runs.begin(first) + runs.size(first));
    return;
  }
  thread_local std::vector<int32_t> merged, next;
  int32_t zeros;
  int64_t size;
  const int32_t* counts = runs_or_zeros(runs, first, &zeros, &size);
  merged.assign(counts, counts + size);
  for (int64_t mask = first + 1; mask < end; ++mask) {
    counts = runs_or_zeros(runs, mask, &zeros, &size);
    merge_two(merged, counts, size, runs.pixels(first), intersect, next);
    merged.swap(next);
  }
  out.insert(out.end(), merged.begin(), merged.end());
}

}  // namespace valor
