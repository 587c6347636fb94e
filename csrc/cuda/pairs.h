// Finds the pairs of a batch on CUDA by any similarity, see csrc/core/pairs.h: a warp a detection, a lane a
// pair. A detection has room for every ground truth of its image, so that nothing is counted beforehand and
// the host waits for nothing.
#pragma once
#include <type_traits>

#include "../core/error_codes.h"
#include "../core/pairs.h"
#include "../core/ragged.h"
#include "../core/sort.h"

namespace valor {

constexpr int kPairThreads = 128;

// A similarity with `double by_warp(const Warp&, detection, gt, crowd) const` in place of operator() is
// called by all lanes for one pair after another, and gives all of them the same.
template <class Similarity, class = void>
struct TakesWarp : std::false_type {};
template <class Similarity>
struct TakesWarp<Similarity, std::void_t<decltype(&Similarity::by_warp)>> : std::true_type {};

// One with `double by_lanes(const Warp&, detection, gt, crowd, bool wanted) const` is called by all lanes at
// once, each for a pair of its own where that is wanted.
template <class Similarity, class = void>
struct TakesLanes : std::false_type {};
template <class Similarity>
struct TakesLanes<Similarity, std::void_t<decltype(&Similarity::by_lanes)>> : std::true_type {};

// segment_of by all lanes, which get the same: a step looks at 32 boundaries and waits for one load.
__device__ __forceinline__ int64_t segment_of(const Warp& warp, const int64_t* offsets, int64_t segments,
                                              int64_t row) {
  int64_t low = 0, high = segments;  // offsets[low] <= row < offsets[high]
  while (high - low > 1) {
    const int64_t step = (high - low + 31) >> 5, at = low + step * warp.lane();
    const bool begun = at < high && offsets[at] <= row;  // of lane 0 always, then up to some lane
    low += step * (count_bits(warp.ballot(begun)) - 1);
    high = low + step < high ? low + step : high;
  }
  return low;
}

// The pairs of one detection, by the lanes of a warp. They are put together in the room of the detection.
template <class Similarity>
class DetectionPairs {
 public:
  __device__ __forceinline__ DetectionPairs(const PairBatch& batch, const Similarity& similarity, int64_t row)
      : batch_(batch), similarity_(similarity), row_(row) {
    const int64_t image = segment_of(warp_, batch.first_detections(), batch.images, row);
    const int64_t position = row - batch.first_detections()[image];
    const int64_t gts = batch.first_gts()[image + 1] - batch.first_gts()[image];
    const int64_t rows = batch.first_detections()[image + 1] - batch.first_detections()[image];
    first_gt_ = batch.first_gts()[image];
    room_ = batch.first_pairs()[image] + position * gts;
    const bool valid = position < valid_rows(batch.counts, image, rows);
    gts_ = valid ? static_cast<int32_t>(valid_rows(batch.gt_counts, image, gts)) : 0;
  }

  __device__ __forceinline__ void run() {
    const int32_t count = candidates();
    int32_t used;
    if constexpr (TakesWarp<Similarity>::value)
      used = measure_together(count);
    else
      used = measure(count);
    if (used > 1) sort(used);
    if (warp_.lane() == 0) {
      batch_.offset()[row_] = room_;
      batch_.used_rooms()[row_] = used;
    }
  }

 private:
  __device__ __forceinline__ uint32_t below() const { return (1u << warp_.lane()) - 1; }

  // Notes the ground truths of the detection's class that bounds do not rule out; returns how many.
  __device__ __forceinline__ int32_t candidates() const {
    int32_t count = 0;
    for (int32_t base = 0; base < gts_; base += 32) {
      const int32_t j = base + warp_.lane();
      const bool keep = j < gts_ && batch_.label(row_) == batch_.gt_label(first_gt_ + j) &&
                        similarity_.may_reach(row_, first_gt_ + j, batch_.is_crowd(first_gt_ + j));
      const uint32_t kept = warp_.ballot(keep);
      if (keep) *batch_.ground_truth(room_ + count + count_bits(kept & below())) = j;
      count += count_bits(kept);
    }
    warp_.sync();
    return count;
  }

  // Keeps those that reach the lowest threshold; returns how many.
  __device__ __forceinline__ int32_t measure(int32_t count) const {
    int32_t used = 0;
    for (int32_t base = 0; base < count; base += 32) {
      const int32_t at = base + warp_.lane();
      const int32_t j = at < count ? *batch_.ground_truth(room_ + at) : 0;
      const double value = lane_value(at < count, j);
      const bool keep = at < count && value >= batch_.lowest;
      const uint32_t kept = warp_.ballot(keep);
      warp_.sync();  // every lane has read its candidate: those kept move to before base + 32
      if (keep) {
        const int64_t pair = room_ + used + count_bits(kept & below());
        *batch_.ground_truth(pair) = j;
        *batch_.similarity(pair) = value;
      }
      used += count_bits(kept);
      warp_.sync();
    }
    return used;
  }

  __device__ __forceinline__ double lane_value(bool wanted, int32_t j) const {
    const bool crowd = wanted && batch_.is_crowd(first_gt_ + j);
    if constexpr (TakesLanes<Similarity>::value)
      return similarity_.by_lanes(warp_, row_, first_gt_ + j, crowd, wanted);
    else
      return wanted ? similarity_(row_, first_gt_ + j, crowd) : 0.0;
  }

  __device__ __forceinline__ int32_t measure_together(int32_t count) const {
    int32_t used = 0;
    for (int32_t at = 0; at < count; ++at) {
      const int32_t j = *batch_.ground_truth(room_ + at);
      const double value = similarity_.by_warp(warp_, row_, first_gt_ + j, batch_.is_crowd(first_gt_ + j));
      warp_.sync();  // every lane has read its candidate: those kept move to before `at`
      if (!(value >= batch_.lowest)) continue;
      if (warp_.lane() == 0) {
        *batch_.ground_truth(room_ + used) = j;
        *batch_.similarity(room_ + used) = value;
      }
      ++used;
    }
    warp_.sync();
    return used;
  }

  // By similarity descending, later ground truth first.
  __device__ __forceinline__ void sort(int32_t used) const {
    int32_t* const gts = batch_.ground_truth(room_);
    double* const similarities = batch_.similarity(room_);
    const auto exchange = [=](uint32_t low, uint32_t high) {
      const double first = similarities[low], second = similarities[high];
      if (first > second || (first == second && gts[low] > gts[high])) return;
      similarities[low] = second;
      similarities[high] = first;
      const int32_t gt = gts[low];
      gts[low] = gts[high];
      gts[high] = gt;
    };
    exchange_network(warp_, static_cast<uint32_t>(used), exchange);
  }

  const Warp warp_{};
  const PairBatch& batch_;
  const Similarity& similarity_;
  const int64_t row_;
  int64_t first_gt_, room_;
  int32_t gts_;
};

// With kBlocks registers are few enough for so many blocks of a multiprocessor at once.
template <class Similarity, int kBlocks = 0>
__global__ void __launch_bounds__(kPairThreads, kBlocks)
    pairs_kernel(const __grid_constant__ PairBatch batch, const __grid_constant__ Similarity similarity,
                 int64_t detections) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (kPairThreads / 32) + threadIdx.x / 32;
  if (row == 0 && threadIdx.x == 0) batch.offset()[detections] = batch.first_pairs()[batch.images];
  if (row < detections) DetectionPairs<Similarity>(batch, similarity, row).run();
}

// Loads the rows of one side, see SideRows; `error` keeps the smallest code.
template <class Rows>
__global__ void __launch_bounds__(kPairThreads)
    load_rows_kernel(const __grid_constant__ Rows task, int64_t rows, int64_t* error) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kPairThreads + threadIdx.x;
  if (row >= rows) return;
  const int64_t code = task.load(segment_of(task.first(), task.images, row), row);
  if (code != kNoError) atomicMin(reinterpret_cast<long long*>(error), static_cast<long long>(code));
}

inline unsigned load_blocks(int64_t rows) {
  return static_cast<unsigned>((rows + kPairThreads - 1) / kPairThreads);
}

// Blocks for `detections`: one at least, which writes the end of the rooms.
inline unsigned pair_blocks(int64_t detections) {
  const int64_t threads = 32 * (detections > 0 ? detections : 1);
  return static_cast<unsigned>((threads + kPairThreads - 1) / kPairThreads);
}

}  // namespace valor
