// Rows of the images table, and the keys that order them.
#pragma once
#include "order_task.h"

namespace valor {

enum ImageColumn : int { kId = 0, kHasId = 1, kDetections = 4, kNegative = 6, kReach = 7 };

VALOR_HD const int64_t* image_row(const OrderTask& task, int64_t image) {
  return task.images + image * kImageColumns;
}

// What orders an image among those of a run: images without an id come first, by their hash; copies by
// arrival.
VALOR_HD SortKey image_key(int64_t id, bool has_id, int64_t image) {
  const uint64_t ascending = static_cast<uint64_t>(id) ^ 1ull << 63;
  return {static_cast<uint64_t>(has_id) << 63 | ascending >> 1,
          ascending << 63 | static_cast<uint64_t>(image)};
}
VALOR_HD int64_t image_of(const SortKey& key) { return static_cast<int64_t>(key.low & INT32_MAX); }
VALOR_HD bool same_id(const SortKey& a, const SortKey& b) {
  return a.high >> 63 && a.high == b.high && a.low >> 63 == b.low >> 63;
}

// Writes the keys of the images of one of the first blocks, sorted, and sums up what the boxes of those of a
// warp look like.
__device__ __forceinline__ void note_images(const Ordering& run, SortKey* strip) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  const bool there = i < run.task.num_images;
  const int64_t* row = image_row(run.task, there ? i : 0);
  static_assert(kThreads == kStrip, "a block writes a strip");
  write_strip(image_key(row[kId], row[kHasId] != 0, i), there, run.tables.images.now + blockIdx.x * kStrip,
              strip);
  const uint64_t negative = there ? static_cast<uint64_t>(row[kNegative]) : 0,
                 reach = there ? static_cast<uint64_t>(row[kReach]) : 0;
  for (int side = 0; side < 2; ++side) {
    const uint64_t sum = Warp().sum(negative >> (32 * side) & 0xffffffffu);
    const int32_t most = Warp().max(static_cast<int32_t>(reach >> (32 * side)));
    if (Warp().lane() != 0) continue;
    int64_t* words = run.task.words + side;
    if (sum)
      atomicAdd(reinterpret_cast<unsigned long long*>(words + kNegativeWord),
                static_cast<unsigned long long>(sum));
    if (most > 0) atomicMax(reinterpret_cast<long long*>(words + kReachWord), static_cast<long long>(most));
  }
}

}  // namespace valor
