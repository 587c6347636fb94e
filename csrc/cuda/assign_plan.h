// How the images of an assignment are laid out and in which order they start, worked out on the host.
#pragma once
#include <algorithm>
#include <vector>

#include "assign_image.h"
#include "shared_room.h"

namespace valor {

constexpr int64_t kUsualShared = 16 << 10;  // bytes of shared memory a padded image may take in any batch
constexpr int64_t kFixedShared = 1 << 10;   // room for the static shared memory of the kernel

// Fields of an image in the table that the kernel reads: those of Segment, its number, and where its working
// memory begins in the workspace (-1: shared memory).
constexpr int kImageNumber = Segment::kFields, kWorkspace = kImageNumber + 1, kImageFields = kWorkspace + 1;

// What an image takes, in bytes: working memory, and all of it in shared memory.
struct ImageNeed {
  int64_t memory, shared;

  ImageNeed(const Rule& rule, int64_t detections, int64_t ground_truths, int64_t box_bytes)
      : memory(ImageMemory::bytes(detections, ground_truths, box_bytes)),
        shared(ImageMemory::shared_bytes(memory, rule, detections)) {}
};

struct AssignPlan {
  int64_t workspace_bytes, shared_bytes;
  int64_t large;  // so many images, the first of a table, have to work in global memory

  // Adds an image, which may take `most` bytes of shared memory; returns where its working memory begins in
  // the workspace, or -1.
  int64_t add(const ImageNeed& need, int64_t most) {
    if (need.shared <= most) {
      shared_bytes = std::max(shared_bytes, need.shared);
      return -1;
    }
    ++large;
    const int64_t begin = workspace_bytes;
    workspace_bytes += need.memory;
    return begin;
  }
};

// How much shared memory images of known sizes may take: more for each leaves less of them at work at once,
// and what it does not suffice for works in global memory, in a launch ahead of the others.
class SharedChoice {
 public:
  explicit SharedChoice(const SharedRoom& room) : room_(room) {}

  void add(int64_t need) { ++images_[std::min(room_.blocks(need, kFixedShared), kMostBlocks)]; }

  // The bytes that take the least time.
  int64_t bytes() const {
    int64_t all = 0, large = images_[0], best = 1;
    for (const int64_t images : images_) all += images;
    double least = time(all, large, 1);
    for (int64_t blocks = 2; blocks <= kMostBlocks; ++blocks) {
      large += images_[blocks - 1];
      if (const double other = time(all, large, blocks); other < least) least = other, best = blocks;
    }
    return room_.of_each(best, kFixedShared);
  }

 private:
  // As many blocks of a multiprocessor as registers let work at once: 96 of 65,536 for each thread.
  static constexpr int64_t kMostBlocks = 21;

  // In the time of a usual image. A large one has about twice the pairs, and an access to global memory takes
  // about twice as long as one to shared memory.
  double time(int64_t all, int64_t large, int64_t blocks) const {
    constexpr double kLargeTime = 4.0, kLargeBlocks = 16.0;
    const double together = static_cast<double>(room_.multiprocessors);
    const double usual = std::max(1.0, static_cast<double>(all - large) / (together * blocks));
    if (large == 0) return usual;
    return usual + kLargeTime * std::max(1.0, static_cast<double>(large) / (together * kLargeBlocks));
  }

  const SharedRoom room_;
  int64_t images_[kMostBlocks + 1] = {};  // by how many of their kind have room in a multiprocessor at once
};

// Likewise for images that are padded, whose sizes the host does not know.
inline int64_t most_shared(const SharedRoom& room, int64_t images) {
  const int64_t together = (images + room.multiprocessors - 1) / room.multiprocessors;
  return std::max(kUsualShared, room.of_each(std::max<int64_t>(1, together), kFixedShared));
}

// A rank in 256 that grows with the work of an image, to within a quarter.
inline int rank_of_work(int64_t detections, int64_t ground_truths) {
  const uint64_t work = static_cast<uint64_t>(detections) * static_cast<uint64_t>(ground_truths + 8) + 4;
  const int high = 63 - __builtin_clzll(work);
  return 4 * high + static_cast<int>(work >> (high - 2) & 3);
}

// Fills `out` [kImageFields, images] from Segments [Segment::kFields, images]: images that work in global
// memory first, then by descending work, since the last to start decides when all are done.
inline AssignPlan plan_images(const Rule& rule, const int64_t* segments, int64_t images, int64_t box_bytes,
                              const SharedRoom& room, int64_t* out) {
  AssignPlan plan{};
  SharedChoice choice(room);
  std::vector<ImageNeed> needs;
  std::vector<int> ranks(images);
  needs.reserve(images);
  for (int64_t i = 0; i < images; ++i) {
    const Segment s = Segment::at(segments, images, i);
    needs.emplace_back(rule, s.detections, s.ground_truths, box_bytes);
    choice.add(needs[i].shared);
    ranks[i] = 256 - rank_of_work(s.detections, s.ground_truths);
  }
  const int64_t most = choice.bytes();
  std::vector<int64_t> begins(images);
  int64_t places[258] = {};
  for (int64_t i = 0; i < images; ++i) {
    begins[i] = plan.add(needs[i], most);
    if (begins[i] >= 0) ranks[i] = 0;
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

// Images of equal size. With a workspace those whose counts are small work in shared memory still.
inline AssignPlan plan_equal(const Rule& rule, int64_t images, int64_t detections, int64_t ground_truths,
                             int64_t box_bytes, const SharedRoom& room) {
  AssignPlan plan{};
  const int64_t most = most_shared(room, images);
  if (images > 0) plan.add(ImageNeed(rule, detections, ground_truths, box_bytes), most);
  if (plan.workspace_bytes) plan.shared_bytes = most;
  plan.workspace_bytes *= images;
  plan.large *= images;
  return plan;
}

}  // namespace valor
