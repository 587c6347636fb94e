// Pairs of masks as run lengths on the CPU: areas and hashes of all masks first, everything else of the masks
// that may reach a partner.
#include "../core/run_pairs.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "../core/ragged.h"
#include "guard.h"
#include "intervals.h"
#include "pairs.h"
#include "pool.h"

namespace valor {
namespace {

constexpr int64_t kRunsPerChunk = 1 << 16;

// Area, hash if asked for, and bounds by the first and last run; false where the runs are none of a mask.
template <bool kHashed>
bool load_mask(const MaskRows& task, int64_t mask) {
  const MaskSide& side = task.side;
  if (!side.find_runs(mask)) return false;
  MaskRow& row = side.row(mask);
  const int32_t* const counts = side.begin(mask);
  const int64_t pixels = side.pixels(mask), pairs = row.runs / 2;
  int64_t sum = 0, area = 0;
  int32_t signs = 0;
  uint64_t hash = 0;
  for (int64_t k = 0; k < pairs; ++k) {
    const int32_t zeros = counts[2 * k], ones = counts[2 * k + 1];
    if (kHashed) hash += mix_runs(k, static_cast<uint32_t>(zeros), static_cast<uint32_t>(ones));
    sum += static_cast<int64_t>(zeros) + ones;
    area += ones;
    signs |= zeros | ones;
  }
  if (row.runs % 2) {
    const int32_t zeros = counts[row.runs - 1];
    if (kHashed) hash += mix_runs(pairs, static_cast<uint32_t>(zeros), 0);
    sum += zeros;
    signs |= zeros;
  }
  if (signs < 0 || pixels < 0 || (row.runs && sum != pixels)) {
    row.runs = 0;
    return false;
  }
  row.area = static_cast<uint32_t>(area);
  if (area) {
    const uint32_t height = side.height(mask);
    const uint32_t last = static_cast<uint32_t>(pixels - (row.runs % 2 ? counts[row.runs - 1] : 0)) - 1;
    row.box = RunBox{static_cast<uint32_t>(counts[0]) / height, 0, last / height + 1, height};
    row.exact = 0;
  }
  task.store(mask, row.area, mix_size(hash, side.height(mask), side.width(mask)));
  return true;
}

// Lists the intervals of a mask and returns how many there are.
int64_t list_intervals(const MaskSide& side, int64_t mask, uint32_t* ends) {
  uint32_t* at = ends;
  for_each_run(side.begin(mask), side.row(mask).runs, [&](uint32_t begin, uint32_t end) {
    *at++ = begin;
    *at++ = end;
  });
  return (at - ends) / 2;
}

// Masks of both sides. Bounds are made exact and intervals are listed when they are first asked for: the rows
// of an image belong to one thread.
class MaskPairs {
 public:
  MaskPairs(const MaskSide& masks, const MaskSide& gts, uint64_t serial, int listed)
      : masks_(masks), gts_(gts), serial_(serial), listed_(listed) {}

  bool may_reach(int64_t d, int64_t g, bool crowd, double lowest) const {
    MaskRow &mask = masks_.row(d), &gt = gts_.row(g);
    if (masks_.height(d) != gts_.height(g) || masks_.width(d) != gts_.width(g)) return false;
    if (!masks_may_reach(mask, gt, crowd, lowest)) return false;
    if (mask.exact && gt.exact) return true;
    make_exact(masks_, d);
    make_exact(gts_, g);
    return masks_may_reach(mask, gt, crowd, lowest);
  }

  double iou(int64_t d, int64_t g, bool crowd) const {
    make_exact(masks_, d);
    make_exact(gts_, g);
    const MaskRow &mask = masks_.row(d), &gt = gts_.row(g);
    if (!mask.box.meets(gt.box)) return 0.0;
    if (masks_.height(d) != gts_.height(g) || masks_.width(d) != gts_.width(g)) return -1.0;
    const uint32_t height = gts_.height(g);
    const uint32_t from = std::max(mask.box.left, gt.box.left) * height;
    const uint32_t to = std::min(mask.box.right, gt.box.right) * height;
    const uint32_t shared = shared_pixels(of_detection(d), of_gt(g), from, to);
    return mask_iou(shared, mask.area, gt.area, crowd);
  }

 private:
  static void make_exact(const MaskSide& side, int64_t mask) {
    MaskRow& row = side.row(mask);
    if (row.exact) return;
    RunMeasure measure(static_cast<int32_t>(side.height(mask)));
    for_each_run(side.begin(mask), row.runs, [&](uint32_t begin, uint32_t end) { measure.add(begin, end); });
    row.box = measure.box();
    row.exact = 1;
  }

  // A detection is compared with one ground truth after another: its intervals are those of the last call.
  Intervals of_detection(int64_t d) const {
    struct Listed {
      uint64_t serial = 0;
      int64_t mask = 0, intervals = 0;
      std::vector<uint32_t> ends;
    };
    thread_local Listed kinds[2];  // masks and boundaries
    Listed& listed = kinds[listed_];
    if (listed.serial != serial_ || listed.mask != d) {
      listed.serial = 0;  // should the next line throw
      listed.ends.resize(static_cast<size_t>(masks_.row(d).runs));
      listed.intervals = list_intervals(masks_, d, listed.ends.data());
      listed.mask = d;
      listed.serial = serial_;
    }
    return Intervals{listed.ends.data(), listed.intervals};
  }

  Intervals of_gt(int64_t g) const {
    MaskRow& row = gts_.row(g);
    uint32_t* const ends = reinterpret_cast<uint32_t*>(gts_.ends) + row.first;
    if (!row.intervals) row.intervals = list_intervals(gts_, g, ends);
    return Intervals{ends, row.intervals};
  }

  const MaskSide masks_, gts_;
  const uint64_t serial_;
  const int listed_;
};

uint64_t next_serial() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

// Similarity of csrc/core/pairs.h.
class RunSimilarity {
 public:
  explicit RunSimilarity(const MaskSides& sides, uint64_t serial = next_serial())
      : masks_(sides.masks, sides.gt_masks, serial, 0),
        boundaries_(sides.boundaries, sides.gt_boundaries, serial, 1),
        has_boundaries_(sides.boundaries.rows != 0),
        lowest_(sides.lowest) {}
  static RunSimilarity of(const PairBatch& batch) {
    return RunSimilarity(*reinterpret_cast<const MaskSides*>(batch.geometry));
  }

  bool may_reach(int64_t d, int64_t g, bool crowd) const {
    return lowest_ <= 0.0 || masks_.may_reach(d, g, crowd, lowest_);
  }
  double operator()(int64_t d, int64_t g, bool crowd) const {
    const double iou = masks_.iou(d, g, crowd);
    if (!has_boundaries_ || crowd || iou < lowest_) return iou;
    return std::min(iou, boundaries_.iou(d, g, false));
  }

 private:
  const MaskPairs masks_, boundaries_;
  const bool has_boundaries_;
  const double lowest_;
};

}  // namespace
}  // namespace valor

// Loads the masks of one side, see MaskRows in core/run_pairs.h. `error` keeps the smallest code it has met.
VALOR_API int32_t valor_load_runs_cpu(const void* row_words, int64_t* error, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const MaskRows& task = *static_cast<const MaskRows*>(row_words);
    if (task.images == 0) return;
    const int64_t masks = task.first()[task.images];
    const auto load = task.hashes ? load_mask<true> : load_mask<false>;
    FirstError first(*error);
    auto body = [&](int64_t begin, int64_t end) {
      if (begin == end) return;
      for (int64_t image = segment_of(task.first(), task.images, begin); begin < end; ++image)
        for (; begin < std::min(end, task.first()[image + 1]); ++begin) {
          task.side.row(begin) = MaskRow{0, 0, 0, {0, 0, 0, 0}, 0, 1};
          task.store(begin, 0, 0);
          if (!task.is_padding(image, begin) && !load(task, begin)) first.note(task.error(image, begin));
        }
    };
    const int64_t grain = std::max<int64_t>(16, kRunsPerChunk * masks / (task.side.values + masks + 1));
    parallel_for(masks, grain, static_cast<int>(threads), body);
    *error = first.code();
  });
}

// Lists the pairs of a PairBatch over MaskSides, see csrc/cpu/pairs.h.
VALOR_API int32_t valor_run_pairs_cpu(const void* batch_words, int64_t* list, int64_t threads) {
  return valor::guarded([&] {
    const valor::PairBatch& batch = *static_cast<const valor::PairBatch*>(batch_words);
    valor::find_pairs(batch, valor::RunSimilarity::of(batch), threads, list);
  });
}
