// Pairs of masks as run lengths, for matching: what is kept of each mask, bounds, and the IoU.
#pragma once
#include "error_codes.h"
#include "pairs.h"
#include "runs.h"

namespace valor {

// What is kept of a mask while pairs are searched.
struct MaskRow {
  int64_t first, runs;  // its runs are counts[first] to counts[first + runs - 1]
  int64_t intervals;    // of ones, once they are listed
  RunBox box;           // bounds of its pixels, exact where `exact`
  uint32_t area, exact;
};

// The masks of one side of a batch. Every field is 8 bytes so that the host can fill it.
struct MaskSide {
  int64_t counts, offsets, sizes;  // Runs of csrc/core/runs.h
  int64_t values;                  // how many runs there are in all
  int64_t rows;                    // MaskRow [N]
  int64_t ends;                    // uint32 [values] for intervals of all masks, or 0

  VALOR_HD MaskRow& row(int64_t mask) const { return reinterpret_cast<MaskRow*>(rows)[mask]; }
  VALOR_HD const int32_t* begin(int64_t mask) const {
    return reinterpret_cast<const int32_t*>(counts) + row(mask).first;
  }
  VALOR_HD uint32_t height(int64_t mask) const {
    return static_cast<uint32_t>(reinterpret_cast<const int32_t*>(sizes)[2 * mask]);
  }
  VALOR_HD uint32_t width(int64_t mask) const {
    return static_cast<uint32_t>(reinterpret_cast<const int32_t*>(sizes)[2 * mask + 1]);
  }
  // Height x width, or -1 where that is no size of a mask.
  VALOR_HD int64_t pixels(int64_t mask) const {
    const int64_t h = static_cast<int32_t>(height(mask)), w = static_cast<int32_t>(width(mask));
    return h < 0 || w < 0 || h * w > INT32_MAX ? -1 : h * w;
  }
  // Sets where the runs of a mask are; none where the offsets are no places.
  VALOR_HD bool find_runs(int64_t mask) const {
    const int64_t* const places = reinterpret_cast<const int64_t*>(offsets);
    const int64_t first = places[mask], end = places[mask + 1];
    const bool good = 0 <= first && first <= end && end <= values;
    row(mask) = MaskRow{good ? first : 0, good ? end - first : 0, 0, RunBox{0, 0, 0, 0}, 0, 1};
    return good;
  }
};

// Loads the masks of one side: rows, areas and hashes.
struct MaskRows {
  MaskSide side;
  int64_t firsts, counts, images, target;  // int64 [I + 1]; 0 or int64 [I]; target: these are ground truths
  int64_t areas, hashes;                   // float64 [N], int64 [N]; 0: not wanted

  VALOR_HD const int64_t* first() const { return reinterpret_cast<const int64_t*>(firsts); }
  VALOR_HD bool is_padding(int64_t image, int64_t mask) const {
    const int64_t size = first()[image + 1] - first()[image];
    return mask - first()[image] >= valid_rows(counts, image, size);
  }
  VALOR_HD void store(int64_t mask, uint32_t area, uint64_t hash) const {
    if (areas) reinterpret_cast<double*>(areas)[mask] = area;
    if (hashes) reinterpret_cast<uint64_t*>(hashes)[mask] = hash;
  }
  VALOR_HD int64_t error(int64_t image, int64_t mask) const {
    return box_error(image, mask - first()[image], kMaskRuns + (target ? 1 : 0));
  }
};

// The hash of a mask is mix_size(sum of mix_runs over its pairs of runs): the order of additions is free.
VALOR_HD uint64_t mix_runs(int64_t pair, uint32_t zeros, uint32_t ones) {
  const uint64_t word = zeros | static_cast<uint64_t>(ones) << 32;
  return mix(word + static_cast<uint64_t>(pair + 1) * 0x9e3779b97f4a7c15ull);
}
VALOR_HD uint64_t mix_size(uint64_t sum, uint32_t height, uint32_t width) {
  return mix(sum ^ mix(height | static_cast<uint64_t>(width) << 32));
}

// The geometry of a PairBatch.
struct MaskSides {
  MaskSide masks, gt_masks, boundaries, gt_boundaries;  // boundaries without rows: there are none
  double lowest;
};

// Whether the IoU of two masks of one size can reach `lowest`: they share no more than their boxes do, nor
// than the smaller area. The margin is far above what rounding does to either side.
VALOR_HD bool masks_may_reach(const MaskRow& d, const MaskRow& g, bool crowd, double lowest) {
  if (!d.box.meets(g.box)) return false;
  const RunBox &a = d.box, &b = g.box;
  const double w = static_cast<double>(a.right < b.right ? a.right : b.right) -
                   static_cast<double>(a.left > b.left ? a.left : b.left);
  const double h = static_cast<double>(a.bottom < b.bottom ? a.bottom : b.bottom) -
                   static_cast<double>(a.top > b.top ? a.top : b.top);
  const double area_d = d.area, area_g = g.area, smaller = area_d < area_g ? area_d : area_g;
  const double most = w * h < smaller ? w * h : smaller;
  return !(most * (1.0 + 1e-9) < lowest * (crowd ? area_d : area_d + area_g - most));
}

// Intersection over union, over the detection's area for a crowd. From integers, as in pycocotools.
VALOR_HD double mask_iou(uint32_t shared, uint32_t area, uint32_t gt_area, bool crowd) {
  return shared ? static_cast<double>(shared) / static_cast<double>(crowd ? area : area + gt_area - shared)
                : 0.0;
}

}  // namespace valor
