// What a block does with a tile of records of a class: the sample of each true positive in each setting is
// raised to its precision.
#pragma once
#include "curve_tables.h"

namespace valor {

enum Kind : int { kTrue = 0, kFalse = 1 };

VALOR_HD uint32_t below(int bit) { return (1u << bit) - 1; }
VALOR_HD uint32_t up_to(int bit) { return 0xffffffffu >> (31 - bit); }
__device__ __forceinline__ int first_bit(uint32_t word) { return __ffs(static_cast<int>(word)) - 1; }
__device__ __forceinline__ int last_bit(uint32_t word) { return 31 - __clz(static_cast<int>(word)); }

// The true positives among 32 records of a class in one setting and curve; kTied if tied scores change
// places.
template <bool kTied>
struct Group {
  const CurveTask& task;
  int64_t k, group, setting, curve;
  uint32_t trues, falses;  // those within the limit of the curve
  int32_t tp, fp;          // how many of each the class has before the group

  // True positives that may raise a sample. Where another follows at once in the given order, that one has
  // the higher precision, and no lower recall.
  VALOR_HD static uint32_t raising(uint32_t trues) { return kTied ? trues : trues & ~(trues >> 1); }

  // Raises the sample of a true positive.
  __device__ __forceinline__ void run(int bit) const {
    const Accumulation& all = task.run;
    const int32_t thresholds = static_cast<int32_t>(all.shape.thresholds);
    const int32_t at = task.first + static_cast<int32_t>(setting), a = at / thresholds;
    const int64_t positives = all.positives_of(k, a);
    if (positives == 0) return;
    const int64_t index = tp + __popc(trues & below(bit));
    const int32_t r = task.samples_reached(index + 1, positives) - 1;
    if (r < 0) return;
    const int64_t out = all.first_sample(at - a * thresholds, k, a, curve);
    if (raising(trues) >> bit & 1) raise(out, r, precision_at(index + 1, false_at(bit)));
    if (all.full) note_score(out, r, task.samples_reached(index, positives), bit);
  }

  // False positives of the class before another group.
  __device__ __forceinline__ int32_t false_before(int64_t other) const {
    int32_t sum = task.count(other / kGroups, task.limits() + curve, setting);
    for (int64_t g = other / kGroups * kGroups; g < other; ++g) sum += __popc(false_in(g));
    return sum;
  }
  __device__ __forceinline__ uint32_t false_in(int64_t other) const {
    return task.mask(other, kFalse, setting) & task.kept(other, task.limit_of(curve));
  }

  // False positives before a true positive; those with its score come all after it, or all before it, where
  // the run asks for the highest, or the lowest, precision.
  __device__ __forceinline__ int64_t false_at(int bit) const {
    if (!kTied) return fp + __popc(falses & below(bit));
    const bool highest = task.run.ties == kHighest;
    const uint32_t starts = task.tables.starts[group];
    const uint32_t inside = starts & (highest ? up_to(bit) : ~up_to(bit));
    if (inside) return fp + __popc(falses & below(highest ? last_bit(inside) : first_bit(inside)));
    return highest ? false_before_tie() : false_after_tie();
  }

  // The score that the first record here has begins in a group before.
  __device__ __forceinline__ int64_t false_before_tie() const {
    int64_t g = group - 1;
    while (task.tables.starts[g] == 0) --g;  // the first record of a class starts one
    return false_before(g) + __popc(false_in(g) & below(last_bit(task.tables.starts[g])));
  }

  // The score that the last record here has ends in a group behind, or with the class.
  __device__ __forceinline__ int64_t false_after_tie() const {
    const int64_t last = task.first_tile(k) * kGroups + (task.records_of(k) - 1) / 32;
    int64_t g = group + 1;
    while (g <= last && task.tables.starts[g] == 0) ++g;
    const uint32_t ended = g <= last ? below(first_bit(task.tables.starts[g])) : 0xffffffffu;
    g = g <= last ? g : last;
    return false_before(g) + __popc(false_in(g) & ended);
  }

  // Bits of doubles that are not negative are in the order of their values.
  __device__ __forceinline__ void raise(int64_t out, int64_t r, double value) const {
    double* sample = task.run.precision + out + task.run.grid_places[r] * task.run.sample_stride();
    atomicMax(reinterpret_cast<unsigned long long*>(sample), static_cast<unsigned long long>(bits_of(value)));
  }

  // Samples that this very true positive reaches first carry its score: from `before` to `r`.
  __device__ __forceinline__ void note_score(int64_t out, int32_t r, int32_t before, int bit) const {
    if (r < before) return;
    const int64_t at = (group - task.first_tile(k) * kGroups) * 32 + bit;
    const double score = record_score(task.run.record(task.run.offsets[k] + at));
    for (; r >= before; --r)
      task.run.scores[out + task.run.grid_places[r] * task.run.sample_stride()] = score;
  }
};

constexpr int kShare = 32;  // settings that a block raises samples in, at most

// What the groups of a tile have in up to kShare settings, by kind.
struct TileWords {
  uint32_t words[kGroups][2][kShare];
  int32_t before[kGroups][2][kShare];
  uint32_t listed;
  uint16_t list[kTile * kShare];  // record * kShare + setting of true positives, in no order
};

// Lists the true positives of this thread's record that have something to do.
template <bool kTied>
__device__ __forceinline__ void list_own(const CurveTask& task, int share, TileWords& tile) {
  const Warp warp;
  const int lane = warp.lane(), own = static_cast<int>(threadIdx.x) / 32;
  uint32_t settings = 0;
  for (int i = 0; i < share; ++i) {
    const uint32_t trues = tile.words[own][kTrue][i];
    settings |= ((task.run.full ? trues : Group<kTied>::raising(trues)) >> lane & 1) << i;
  }
  const uint32_t count = static_cast<uint32_t>(__popc(settings)), upto = warp.running_sum(count);
  uint32_t first = lane == 31 && upto ? atomicAdd(&tile.listed, upto) : 0;
  first = warp.from(first, 31) + upto - count;
  for (; settings; settings &= settings - 1)
    tile.list[first++] = static_cast<uint16_t>(threadIdx.x * kShare + first_bit(settings));
}

}  // namespace valor
