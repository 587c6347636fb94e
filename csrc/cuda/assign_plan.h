// How the images of an assignment are laid out and in which order they start, worked out on the host.
#pragma once
#include <algorithm>
#include <vector>

#include "assign_image.h"

namespace valor {

constexpr int64_t kMostShared = 16 << 10;  // bytes of shared memory an image may take; others work in global

// Fields of an image in the table that the kernel reads: those of Segment, its number, and where its working
// memory begins in the workspace (-1: shared memory).
constexpr int kImageNumber = Segment::kFields, kWorkspace = kImageNumber + 1, kImageFields = kWorkspace + 1;

struct AssignPlan {
  int64_t workspace_bytes, shared_bytes;
  int64_t large;  // so many images, the first of the table, have to work in global memory

  // Adds an image; returns where its working memory begins, or -1.
  int64_t add(const Rule& rule, int64_t detections, int64_t ground_truths, int64_t box_bytes) {
    const int64_t shared = ImageMemory::shared_bytes(rule, detections, ground_truths, box_bytes);
    if (shared <= kMostShared) {
      shared_bytes = std::max(shared_bytes, shared);
      return -1;
    }
    ++large;
    const int64_t begin = workspace_bytes;
    workspace_bytes += ImageMemory::bytes(detections, ground_truths, box_bytes);
    return begin;
  }
};

// A rank in 256 that grows with the work of an image, to within a quarter.
inline int rank_of_work(int64_t detections, int64_t ground_truths) {
  const uint64_t work = static_cast<uint64_t>(detections) * static_cast<uint64_t>(ground_truths + 8) + 4;
  const int high = 63 - __builtin_clzll(work);
  return 4 * high + static_cast<int>(work >> (high - 2) & 3);
}

// Fills `out` [kImageFields, images] from Segments [Segment::kFields, images]: images that work in global
// memory first, then by descending work, since the last to start decides when all are done.
inline AssignPlan plan_images(const Rule& rule, const int64_t* segments, int64_t images, int64_t box_bytes,
                              int64_t* out) {
  AssignPlan plan{};
  std::vector<int64_t> begins(images);
  std::vector<int> ranks(images);
  int64_t places[258] = {};
  for (int64_t i = 0; i < images; ++i) {
    const Segment s = Segment::at(segments, images, i);
    begins[i] = plan.add(rule, s.detections, s.ground_truths, box_bytes);
    ranks[i] = begins[i] >= 0 ? 0 : 256 - rank_of_work(s.detections, s.ground_truths);
    ++places[ranks[i] + 1];
  }
  for (int rank = 1; rank < 258; ++rank) places[rank] += places[rank - 1];
  for (int64_t i = 0; i < images; ++i) {
    const int64_t to = places[ranks[i]]++;
    for (int field = 0; field < Segment::kFields; ++field)
      out[field * images + to] = segments[field * images + i];
    out[kImageNumber * images + to] = i;
    out[kWorkspace * images + to] = begins[i];
  }
  return plan;
}

// Images of equal size.
inline AssignPlan plan_equal(const Rule& rule, int64_t images, int64_t detections, int64_t ground_truths,
                             int64_t box_bytes) {
  AssignPlan plan{};
  if (images > 0) plan.add(rule, detections, ground_truths, box_bytes);
  plan.workspace_bytes *= images;
  plan.large *= images;
  return plan;
}

}  // namespace valor
