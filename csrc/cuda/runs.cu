// Masks as run lengths on CUDA: a warp a mask to load, a warp a pair to intersect; the pairs of a batch by
// csrc/cuda/pairs.h.
#include "../core/ragged.h"
#include "../core/run_pairs.h"
#include "launch.h"
#include "pairs.h"

namespace valor {
namespace {

constexpr int kMaskThreads = 128;

// Loads one mask by the lanes of a warp: a lane a run of zeros with the run of ones that follows.
class MaskLoader {
 public:
  __device__ __forceinline__ MaskLoader(const MaskRows& task, int64_t mask) : task_(task), mask_(mask) {}

  // Whether the runs are those of a mask.
  __device__ __forceinline__ bool run() {
    bool good = false;
    int64_t first = 0, runs = 0;
    if (warp_.lane() == 0) {
      good = task_.side.find_runs(mask_);
      first = task_.side.row(mask_).first;
      runs = task_.side.row(mask_).runs;
    }
    good = warp_.from(good ? 1u : 0u, 0) != 0;
    first = static_cast<int64_t>(warp_.from(static_cast<unsigned long long>(first), 0));
    runs = static_cast<int64_t>(warp_.from(static_cast<unsigned long long>(runs), 0));
    if (good) walk(first, runs);
    const int64_t pixels = task_.side.pixels(mask_);
    const bool negative = warp_.ballot(negative_) != 0;
    const uint64_t sum = warp_.sum(sum_), hash = warp_.sum(hash_);
    good = good && pixels >= 0 && !negative && (runs == 0 || sum == static_cast<uint64_t>(pixels));
    store(first, good ? runs : 0, hash, good);
    return good;
  }

 private:
  // Lists the intervals of ones, those without pixels too, and measures them.
  __device__ __forceinline__ void walk(int64_t first, int64_t runs) {
    const int32_t* const counts = reinterpret_cast<const int32_t*>(task_.side.counts) + first;
    uint32_t* const ends = reinterpret_cast<uint32_t*>(task_.side.ends) + first;
    const uint32_t height = task_.side.height(mask_);
    uint32_t place = 0;
    VALOR_ROLLED for (int64_t base = 0; base < runs; base += 64) {
      const int64_t at = base + 2 * warp_.lane();
      const int32_t zeros = at < runs ? counts[at] : 0, ones = at + 1 < runs ? counts[at + 1] : 0;
      const uint32_t both = static_cast<uint32_t>(zeros) + static_cast<uint32_t>(ones);
      const uint32_t behind = place + warp_.running_sum(both);
      place = warp_.from(behind, 31);
      if (at < runs) {
        negative_ = negative_ || zeros < 0 || ones < 0;
        sum_ += static_cast<uint64_t>(zeros) + static_cast<uint64_t>(ones);
        hash_ += mix_runs(at / 2, static_cast<uint32_t>(zeros), static_cast<uint32_t>(ones));
      }
      if (at + 1 < runs) {
        ends[at] = behind - static_cast<uint32_t>(ones);
        ends[at + 1] = behind;
        if (ones > 0 && height > 0) add(behind - static_cast<uint32_t>(ones), behind, height);
      }
    }
  }

  // Of runs that are none of a mask the bounds are not read.
  __device__ __forceinline__ void add(uint32_t begin, uint32_t end, uint32_t height) {
    const uint32_t left = begin / height, right = (end - 1) / height;
    const uint32_t top = left == right ? begin - left * height : 0;
    const uint32_t bottom = left == right ? end - right * height : height;
    area_ += end - begin;
    left_ = min(left_, static_cast<int32_t>(left));
    right_ = max(right_, static_cast<int32_t>(right + 1));
    top_ = min(top_, static_cast<int32_t>(top));
    bottom_ = max(bottom_, static_cast<int32_t>(bottom));
  }
  __device__ __forceinline__ static int32_t min(int32_t a, int32_t b) { return a < b ? a : b; }
  __device__ __forceinline__ static int32_t max(int32_t a, int32_t b) { return a > b ? a : b; }

  __device__ __forceinline__ void store(int64_t first, int64_t runs, uint64_t hash, bool good) {
    const uint32_t area = warp_.sum(area_);
    const int32_t left = -warp_.max(-left_), right = warp_.max(right_);
    const int32_t top = -warp_.max(-top_), bottom = warp_.max(bottom_);
    if (warp_.lane() != 0) return;
    RunBox box{0, 0, 0, 0};
    if (good && area)
      box = RunBox{static_cast<uint32_t>(left), static_cast<uint32_t>(top), static_cast<uint32_t>(right),
                   static_cast<uint32_t>(bottom)};
    task_.side.row(mask_) = MaskRow{first, runs, runs / 2, box, good ? area : 0, 1};
    const MaskSide& side = task_.side;
    task_.store(mask_, good ? area : 0, good ? mix_size(hash, side.height(mask_), side.width(mask_)) : 0);
  }

  const Warp warp_{};
  const MaskRows& task_;
  const int64_t mask_;
  uint64_t sum_ = 0, hash_ = 0;
  uint32_t area_ = 0;
  int32_t left_ = INT32_MAX, right_ = 0, top_ = INT32_MAX, bottom_ = 0;
  bool negative_ = false;
};

__global__ void __launch_bounds__(kMaskThreads)
    load_runs_kernel(const __grid_constant__ MaskRows task, int64_t masks, int64_t* error) {
  const int64_t mask = static_cast<int64_t>(blockIdx.x) * (kMaskThreads / 32) + threadIdx.x / 32;
  if (mask >= masks) return;
  const int64_t image = segment_of(task.first(), task.images, mask);
  if (task.is_padding(image, mask)) {
    if (threadIdx.x % 32 == 0) {
      task.side.row(mask) = MaskRow{0, 0, 0, RunBox{0, 0, 0, 0}, 0, 1};
      task.store(mask, 0, 0);
    }
    return;
  }
  if (!MaskLoader(task, mask).run() && threadIdx.x % 32 == 0)
    atomicMin(reinterpret_cast<long long*>(error), static_cast<long long>(task.error(image, mask)));
}

// Similarity of csrc/core/pairs.h, by all lanes of a warp together.
class RunSimilarity {
 public:
  static RunSimilarity of(const PairBatch& batch) {
    return RunSimilarity(*reinterpret_cast<const MaskSides*>(batch.geometry));
  }

  __device__ __forceinline__ bool may_reach(int64_t d, int64_t g, bool crowd) const {
    const MaskSide &masks = sides_.masks, &gts = sides_.gt_masks;
    return sides_.lowest <= 0.0 ||
           (same_size(masks, d, gts, g) && masks_may_reach(masks.row(d), gts.row(g), crowd, sides_.lowest));
  }
  __device__ __forceinline__ double by_warp(const Warp& warp, int64_t d, int64_t g, bool crowd) const {
    const MaskSide *masks = &sides_.masks, *gts = &sides_.gt_masks;
    double least = 1.0;
    VALOR_ROLLED for (int kind = 0;; ++kind) {  // a loop: the code is there once
      const double iou = iou_of(warp, *masks, d, *gts, g, crowd);
      if (iou < least) least = iou;
      if (kind > 0 || !sides_.boundaries.rows || crowd || iou < sides_.lowest) return least;
      masks = &sides_.boundaries;
      gts = &sides_.gt_boundaries;
    }
  }

 private:
  explicit RunSimilarity(const MaskSides& sides) : sides_(sides) {}

  __device__ __forceinline__ static bool same_size(const MaskSide& masks, int64_t d, const MaskSide& gts,
                                                   int64_t g) {
    return masks.height(d) == gts.height(g) && masks.width(d) == gts.width(g);
  }
  __device__ __forceinline__ static Intervals intervals(const MaskSide& side, const MaskRow& row) {
    return Intervals{reinterpret_cast<const uint32_t*>(side.ends) + row.first, row.intervals};
  }

  __device__ __forceinline__ static double iou_of(const Warp& warp, const MaskSide& masks, int64_t d,
                                                  const MaskSide& gts, int64_t g, bool crowd) {
    const MaskRow mask = masks.row(d), gt = gts.row(g);
    if (!mask.box.meets(gt.box)) return 0.0;
    if (!same_size(masks, d, gts, g)) return -1.0;
    const uint32_t height = gts.height(g);
    const uint32_t left = mask.box.left > gt.box.left ? mask.box.left : gt.box.left;
    const uint32_t right = mask.box.right < gt.box.right ? mask.box.right : gt.box.right;
    const uint32_t shared = warp.sum(
        lane_pixels(warp, intervals(masks, mask), intervals(gts, gt), left * height, right * height));
    return mask_iou(shared, mask.area, gt.area, crowd);
  }

  // What this lane's intervals of `a` share with all of `b`.
  __device__ __forceinline__ static uint32_t lane_pixels(const Warp& warp, const Intervals& a,
                                                         const Intervals& b, uint32_t from, uint32_t to) {
    uint32_t total = 0;
    VALOR_ROLLED for (int64_t i = a.after(from) + warp.lane(); i < a.size; i += 32) {
      const uint32_t begin = a.ends[2 * i], end = a.ends[2 * i + 1];
      if (begin >= to) break;
      VALOR_ROLLED for (int64_t j = b.after(begin); j < b.size && b.ends[2 * j] < end; ++j) {
        const uint32_t first = b.ends[2 * j] > begin ? b.ends[2 * j] : begin;
        const uint32_t last = b.ends[2 * j + 1] < end ? b.ends[2 * j + 1] : end;
        total += last > first ? last - first : 0;
      }
    }
    return total;
  }

  const MaskSides sides_;
};

}  // namespace
}  // namespace valor

// Loads `masks` masks of one side, see MaskRows in core/run_pairs.h; `error` keeps the smallest code it has
// met.
VALOR_API int32_t valor_load_runs_cuda(const void* row_words, int64_t masks, int64_t* error, void* stream) {
  using namespace valor;
  if (masks == 0) return 0;
  constexpr int64_t kWarps = kMaskThreads / 32;
  const unsigned blocks = static_cast<unsigned>((masks + kWarps - 1) / kWarps);
  return VALOR_LAUNCH(load_runs_kernel, blocks, kMaskThreads, 0, stream,
                      *static_cast<const MaskRows*>(row_words), masks, error);
}

// Finds the pairs of a PairBatch over MaskSides; the table `firsts` lies on the device.
VALOR_API int32_t valor_run_pairs_cuda(const void* batch_words, int64_t detections, void* stream) {
  using namespace valor;
  const PairBatch& batch = *static_cast<const PairBatch*>(batch_words);
  return VALOR_LAUNCH(pairs_kernel<RunSimilarity>, pair_blocks(detections), kPairThreads, 0, stream, batch,
                      RunSimilarity::of(batch), detections);
}
