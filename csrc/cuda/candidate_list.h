// The candidates of an image's detections on CUDA: all lanes of a warp find the pairs that reach the lowest
// threshold, so that what has to go one after another touches only these.
#pragma once
#include "../core/assign.h"
#include "../core/sort.h"

namespace valor {

// A pair of a detection and a ground truth.
struct Candidate {
  uint64_t word;         // bits of the similarity, later the settings whose threshold it reaches
  int32_t detection;     // by class and rank
  int32_t ground_truth;  // position in the image

  VALOR_HD double similarity() const { return double_of(word); }
  // The order in which they are tried.
  VALOR_HD bool operator<(const Candidate& other) const {
    if (detection != other.detection) return detection < other.detection;
    const double mine = similarity(), others = other.similarity();
    return mine != others ? mine > others : ground_truth > other.ground_truth;
  }
};

// The candidates of one detection: a part of the list.
class ListedCandidates {
 public:
  VALOR_HD ListedCandidates(const Candidate* first, int32_t size) : first_(first), size_(size) {}
  VALOR_HD int32_t size() const { return size_; }
  VALOR_HD int32_t ground_truth(int32_t c) const { return first_[c].ground_truth; }
  VALOR_HD double similarity(int32_t c) const { return first_[c].similarity(); }

 protected:
  const Candidate* first_;

 private:
  int32_t size_;
};

// The same once similarities have become settings.
class KnownCandidates : public ListedCandidates {
 public:
  using ListedCandidates::ListedCandidates;
  double similarity(int32_t) const = delete;
  VALOR_HD uint64_t reached(int32_t c) const { return first_[c].word; }
};

VALOR_HD uint64_t reached(const Rule&, const Chunk&, const KnownCandidates& candidates, int32_t c) {
  return candidates.reached(c);
}

// Candidates by detection, filled by the warp 32 pairs at a time. A full list is worked off and goes on with
// the candidates of the one detection that may have more: with room for those of one detection and for 32
// others nothing is ever dropped.
class CandidateList {
 public:
  static constexpr int64_t kLeast = 128;  // val2017: 11 an image, 64 for one in a hundred, 108 at most
  VALOR_HD static int64_t capacity(int64_t ground_truths) {
    const int64_t need = ground_truths + 32;
    return need > kLeast ? need : kLeast;
  }

  __device__ __forceinline__ CandidateList(Candidate* items, int64_t ground_truths)
      : items_(items), capacity_(static_cast<int32_t>(capacity(ground_truths))) {}

  __device__ __forceinline__ const Candidate& operator[](int32_t at) const { return items_[at]; }
  __device__ __forceinline__ bool has_room(uint32_t more) const {
    return count_ + static_cast<int32_t>(more) <= capacity_;
  }
  // Lane by lane, those whose bit is set in `kept`.
  __device__ __forceinline__ void add(const Warp& warp, uint32_t kept, const Candidate& item) {
    if (kept >> warp.lane() & 1) items_[count_ + count_bits(kept & ((1u << warp.lane()) - 1))] = item;
    count_ += count_bits(kept);
  }
  // How many belong to detections before `end`.
  __device__ __forceinline__ int32_t before(int32_t end) const {
    return partition_point(count_, [this, end](int32_t at) { return items_[at].detection < end; });
  }
  // Puts the first `size` in order.
  __device__ __forceinline__ void sort(const Warp& warp, int32_t size) {
    bool several = false;  // nine in ten of the detections that have candidates have one
    for (int32_t at = 1 + warp.lane(); at < size; at += 32)
      several |= items_[at - 1].detection == items_[at].detection;
    if (warp.ballot(several)) sort_network(warp, items_, static_cast<uint32_t>(size));
  }
  // Turns the similarities of the first `size` into settings.
  __device__ __forceinline__ void find_settings(const Warp& warp, const Rule& rule, const Chunk& chunk,
                                                int32_t size) {
    for (int32_t at = warp.lane(); at < size; at += 32)
      items_[at].word = chunk.reached(rule, items_[at].similarity());
    warp.sync();
  }
  // Takes the first `size` away.
  __device__ __forceinline__ void drop(const Warp& warp, int32_t size) {
    warp.sync();
    for (int32_t to = 0; size < count_ && to < count_ - size; to += 32) {
      const int32_t at = to + warp.lane();
      Candidate item{};
      if (at + size < count_) item = items_[at + size];
      warp.sync();
      if (at + size < count_) items_[at] = item;
      warp.sync();
    }
    count_ -= size;
  }

 private:
  Candidate* items_;
  int32_t capacity_, count_ = 0;
};

}  // namespace valor
