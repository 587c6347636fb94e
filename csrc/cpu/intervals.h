// Intersections of runs of ones on the CPU.
#pragma once
#include <algorithm>

#include "../core/runs.h"
#include "simd.h"

namespace valor {

constexpr int64_t kIntervalBlock = 8;

// Pixels that intervals of `a` share with those of `b` at the same index, for a block of them; -1 where one
// of them may share pixels with another index. Reads one interval behind the block. Places are below 2^31.
VALOR_INLINE int32_t paired_pixels(const uint32_t* a, const uint32_t* b) {
  int32_t total = 0, crossed = 0;
  for (int64_t k = 0; k < kIntervalBlock; ++k) {
    const int32_t begin_a = static_cast<int32_t>(a[2 * k]), end_a = static_cast<int32_t>(a[2 * k + 1]);
    const int32_t begin_b = static_cast<int32_t>(b[2 * k]), end_b = static_cast<int32_t>(b[2 * k + 1]);
    const int32_t next_a = static_cast<int32_t>(a[2 * k + 2]), next_b = static_cast<int32_t>(b[2 * k + 2]);
    crossed |= (next_b - end_a) | (next_a - end_b);  // negative where one reaches into the other's next
    const int32_t begin = begin_a > begin_b ? begin_a : begin_b, end = end_a < end_b ? end_a : end_b;
    total += end > begin ? end - begin : 0;
  }
  return crossed < 0 ? -1 : total;
}

// Pixels of both between two places. Masks of similar shape have their intervals in the same columns, so that
// blocks of them pair up; where they do not, two pointers walk on, without a branch that depends on the data.
VALOR_CLONES inline uint32_t shared_pixels(const Intervals& a, const Intervals& b, uint32_t from,
                                           uint32_t to) {
  uint32_t total = 0;
  int64_t i = a.after(from), j = b.after(from);
  const int64_t end_i = a.after(to - 1),
                end_j = b.after(to - 1);  // the last ones that begin before `to`, or behind
  const int64_t last_i = std::min(end_i + 1, a.size), last_j = std::min(end_j + 1, b.size);
  while (i < last_i && j < last_j) {
    while (i + kIntervalBlock < last_i && j + kIntervalBlock < last_j) {
      const int32_t pixels = paired_pixels(a.ends + 2 * i, b.ends + 2 * j);
      if (pixels < 0) break;
      total += static_cast<uint32_t>(pixels);
      i += kIntervalBlock;
      j += kIntervalBlock;
    }
    for (int64_t step = 0; step < kIntervalBlock && i < last_i && j < last_j; ++step) {
      const uint32_t begin = std::max(a.ends[2 * i], b.ends[2 * j]);
      const uint32_t end_a = a.ends[2 * i + 1], end_b = b.ends[2 * j + 1], end = std::min(end_a, end_b);
      total += end > begin ? end - begin : 0;
      i += end_a <= end_b;
      j += end_b <= end_a;
    }
  }
  return total;
}

}  // namespace valor
