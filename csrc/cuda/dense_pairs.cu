// Pairs of dense masks on CUDA: a block packs a ground truth, then a block a detection reads its pixels once,
// packs them in registers and counts what they share with the ground truths of its class; csrc/cuda/pairs.h
// makes pairs of the counts. Packed detections are never written.
#include "../core/dense_pairs.h"
#include "early_launch.h"
#include "pack_masks.h"
#include "pairs.h"

namespace valor {
namespace {

constexpr int kDenseThreads = 256, kDenseWarps = kDenseThreads / 32;
constexpr int kPackThreads = 512, kPackWarps = kPackThreads / 32;  // two blocks an SM: ground truths are few
constexpr int kHeld = WarpPacker::kRows;  // words that a lane holds while it looks at the ground truths
constexpr int64_t kTileWords = WarpPacker::kWords;

__device__ __forceinline__ void add_facts(MaskFacts& to, const MaskFacts& from) {
  to.area += from.area;
  to.content += from.content;
  if (to.first > from.first) to.first = from.first;
  if (to.last < from.last) to.last = from.last;
}

// Facts of the lanes of a block of `kWarps` in `facts[0]`, after a barrier; all threads take part.
template <int kWarps>
__device__ __forceinline__ void gather_facts(MaskFacts* facts, const MaskFacts& own) {
  const Warp warp;
  MaskFacts all = own;
  for (int offset = 16; offset; offset >>= 1) {
    const int other = warp.lane() ^ offset;
    add_facts(all, MaskFacts{warp.from(all.area, other), warp.from(all.content, other),
                             warp.from(all.first, other), warp.from(all.last, other)});
  }
  if (warp.lane() == 0) facts[threadIdx.x / 32] = all;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int w = 1; w < kWarps; ++w) add_facts(facts[0], facts[w]);
}

__global__ void __launch_bounds__(kPackThreads, 2)
    pack_gts_kernel(const __grid_constant__ PairBatch batch, const __grid_constant__ DenseMasks masks,
                    int64_t first_row) {
  VALOR_SHARED(uint64_t, stage, [kPackWarps][WarpPacker::kHalves / 4]);
  VALOR_SHARED(MaskFacts, facts, [kPackWarps]);
  let_next_begin();
  const Warp warp;
  const int64_t row = first_row + blockIdx.x;
  const DenseRow at = DenseRow::of(batch, true, row);
  if (at.position >= at.valid) {
    if (threadIdx.x == 0) masks.clear_gt(row);
    return;
  }
  const int64_t pixels = masks.pixels(at.image), count = mask_words(pixels);
  const uint8_t* const mask = masks.gt_mask(at.image, at.position);
  uint64_t* const words = masks.gt_words(at.image, at.position);
  const WarpPacker packer(reinterpret_cast<uint16_t*>(stage[threadIdx.x / 32]));
  MaskFacts own = no_facts();
  for (int64_t first = WarpPacker::kWords * (threadIdx.x / 32); first < count;
       first += WarpPacker::kWords * kPackWarps) {
    uint64_t tile[WarpPacker::kRows];
    packer.tile(mask, pixels, first, tile);
    VALOR_UNROLLED for (int q = 0; q < WarpPacker::kRows; ++q) {
      const int64_t j = first + 32 * q + warp.lane();
      if (j < count) words[j] = tile[q];
      own.add(tile[q], j);
    }
  }
  gather_facts<kPackWarps>(facts, own);
  if (threadIdx.x == 0) masks.note_gt(at.image, row, facts[0]);
}

// One detection, by a block; up to 32 ground truths of its class at a time, one of which each lane counts
// for. Where an image has more of a class, the pixels are read again for the next 32.
class DenseOverlap {
 public:
  __device__ __forceinline__ DenseOverlap(const PairBatch& batch, const DenseMasks& masks, int64_t row,
                                          uint16_t* stage, int32_t* listed)
      : batch_(batch),
        masks_(masks),
        row_(row),
        at_(DenseRow::of(batch, false, row)),
        packer_(stage),
        listed_(listed) {
    first_gt_ = batch.first_gts()[at_.image];
    const int64_t gts = batch.first_gts()[at_.image + 1] - first_gt_;
    gts_ = static_cast<int32_t>(valid_rows(batch.gt_counts, at_.image, gts));
    pixels_ = masks.pixels(at_.image);
    words_ = mask_words(pixels_);
  }
  __device__ __forceinline__ bool is_padding() const { return at_.position >= at_.valid; }
  __device__ __forceinline__ int64_t image() const { return at_.image; }

  // By one warp: lists the next ground truths of the class, from `next` on; returns how many.
  __device__ __forceinline__ int32_t list(int32_t& next) const {
    int32_t count = 0;
    for (; next < gts_; next += 32) {
      const int32_t j = next + warp_.lane();
      const bool wanted = j < gts_ && batch_.label(row_) == batch_.gt_label(first_gt_ + j);
      const uint32_t found = warp_.ballot(wanted);
      if (count + count_bits(found) > 32) break;
      if (wanted) listed_[count + count_bits(found & ((1u << warp_.lane()) - 1))] = j;
      count += count_bits(found);
    }
    return count;
  }

  // By a warp: its share of the tiles. Lane k returns the pixels that these have in common with ground truth
  // k of the list. The facts of the mask are added to `own` where they are wanted.
  __device__ __forceinline__ int32_t count(int32_t listed, bool want_facts, MaskFacts& own) const {
    const uint8_t* const mask = masks_.mask(at_.image, at_.position);
    uint32_t mine = 0;
    for (int64_t tile = kTileWords * (threadIdx.x / 32); tile < words_; tile += kTileWords * kDenseWarps) {
      uint64_t held[kHeld];
      packer_.tile(mask, pixels_, tile, held);
      if (want_facts)
        VALOR_UNROLLED for (int q = 0; q < kHeld; ++q) own.add(held[q], tile + 32 * q + warp_.lane());
      wait_for_kernel_ahead();  // for the ground truths
      VALOR_ROLLED for (int32_t k = 0; k < listed; ++k) {
        const int64_t* const span = masks_.span(first_gt_ + listed_[k]);
        if (span[1] <= tile || span[0] >= tile + kTileWords) continue;
        const uint32_t sum = warp_.sum(common(held, masks_.gt_words(at_.image, listed_[k]), tile));
        if (warp_.lane() == k) mine += sum;
      }
    }
    return static_cast<int32_t>(mine);
  }

  __device__ __forceinline__ void store(int32_t k, int32_t shared) const {
    *masks_.overlap(at_.first_pair(batch_) + listed_[k]) = shared;
  }

 private:
  __device__ __forceinline__ uint32_t common(const uint64_t* held, const uint64_t* gt, int64_t tile) const {
    uint32_t bits = 0;
    VALOR_UNROLLED for (int q = 0; q < kHeld; ++q) {
      const int64_t j = tile + 32 * q + warp_.lane();
      if (j < words_) bits += count_bits(held[q] & gt[j]);
    }
    return bits;
  }

  const Warp warp_{};
  const PairBatch& batch_;
  const DenseMasks& masks_;
  const int64_t row_;
  const DenseRow at_;
  const WarpPacker packer_;
  int32_t* const listed_;
  int64_t first_gt_, pixels_, words_;
  int32_t gts_;
};

// Adds up what the warps have counted of the listed ground truths.
__device__ __forceinline__ void store_shares(const DenseOverlap& overlap, const int32_t (*shares)[32],
                                             int32_t count) {
  if (static_cast<int32_t>(threadIdx.x) >= count) return;
  int32_t shared = 0;
  for (int v = 0; v < kDenseWarps; ++v) shared += shares[v][threadIdx.x];
  overlap.store(threadIdx.x, shared);
}

// Reads its first pixels while ground truths are packed.
__global__ void __launch_bounds__(kDenseThreads, 5)
    dense_overlaps_kernel(const __grid_constant__ PairBatch batch, const __grid_constant__ DenseMasks masks,
                          int64_t first_row) {
  VALOR_SHARED(uint64_t, stage, [kDenseWarps][WarpPacker::kHalves / 4]);
  VALOR_SHARED(MaskFacts, facts, [kDenseWarps]);
  VALOR_SHARED(int32_t, listed, [32]);
  VALOR_SHARED(int32_t, shares, [kDenseWarps][32]);
  VALOR_SHARED(int32_t, listed_count);
  const Warp warp;
  const int64_t row = first_row + blockIdx.x;
  const int w = threadIdx.x / 32;
  const DenseOverlap overlap(batch, masks, row, reinterpret_cast<uint16_t*>(stage[w]), listed);
  if (overlap.is_padding()) {
    wait_for_kernel_ahead();
    if (threadIdx.x == 0) masks.clear(row);
    return;
  }
  int32_t next = 0;
  const auto list = [&] {
    if (w == 0) {
      const int32_t count = overlap.list(next);
      if (warp.lane() == 0) listed_count = count;
    }
    __syncthreads();
    return listed_count;
  };
  MaskFacts own = no_facts();
  int32_t count = list();
  bool first = true;
  do {
    shares[w][warp.lane()] = overlap.count(count, first, own);
    wait_for_kernel_ahead();  // also where a warp has no tile
    if (first) {
      gather_facts<kDenseWarps>(facts, own);
      if (threadIdx.x == 0) masks.note(overlap.image(), row, facts[0]);
    }
    __syncthreads();
    store_shares(overlap, shares, count);
    __syncthreads();
    count = list();
    first = false;
  } while (count);
}

}  // namespace
}  // namespace valor

// Loads images of a DenseMasks, whose tables lie on the device: areas, hashes, and the overlaps of pairs of a
// class. These are `gts` ground truths from row `first_gt` on, and `detections` from row `first` on.
VALOR_API int32_t valor_dense_overlaps_cuda(const void* batch_words, const void* mask_words, int64_t first_gt,
                                            int64_t gts, int64_t first, int64_t detections, void* stream) {
  using namespace valor;
  const PairBatch& batch = *static_cast<const PairBatch*>(batch_words);
  const DenseMasks& masks = *static_cast<const DenseMasks*>(mask_words);
  int32_t status = 0;
  if (gts)
    status = VALOR_LAUNCH(pack_gts_kernel, static_cast<unsigned>(gts), kPackThreads, 0, stream, batch, masks,
                          first_gt);
  if (status != 0 || !detections) return status;
  const unsigned grid = static_cast<unsigned>(detections);
  if (!gts)  // what is ahead may write the tables
    return VALOR_LAUNCH(dense_overlaps_kernel, grid, kDenseThreads, 0, stream, batch, masks, first);
  return VALOR_LAUNCH_EARLY(dense_overlaps_kernel, grid, kDenseThreads, 0, stream, batch, masks, first);
}

// Finds the pairs of a PairBatch over DenseOverlaps; the table `firsts` lies on the device.
VALOR_API int32_t valor_dense_pairs_cuda(const void* batch_words, int64_t detections, void* stream) {
  using namespace valor;
  const PairBatch& batch = *static_cast<const PairBatch*>(batch_words);
  return VALOR_LAUNCH(pairs_kernel<DenseSimilarity>, pair_blocks(detections), kPairThreads, 0, stream, batch,
                      DenseSimilarity::of(batch), detections);
}
