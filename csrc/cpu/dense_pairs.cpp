// Pairs of dense masks on the CPU: ground truths are packed once, a detection is packed into scratch and
// intersected there at once, so that its pixels are read once and its words stay in the cache.
#include "../core/dense_pairs.h"

#include <algorithm>
#include <vector>

#include "guard.h"
#include "pack_masks.h"
#include "pairs.h"
#include "pool.h"
#include "simd.h"

namespace valor {
namespace {

VALOR_CLONES int64_t common_bits(const uint64_t* a, const uint64_t* b, int64_t count) {
  int64_t total = 0;
  for (int64_t j = 0; j < count; ++j) total += count_bits(a[j] & b[j]);
  return total;
}

// Rows [begin, end) of one side of images [first, last), by threads; a chunk is about 256 KiB of pixels.
template <class Fn>
void each_row(const DenseMasks& masks, const int64_t* firsts, int64_t first, int64_t last, int64_t threads,
              Fn fn) {
  int64_t pixels = 0;
  for (int64_t image = first; image < last; ++image)
    pixels += masks.pixels(image) * (firsts[image + 1] - firsts[image]);
  const int64_t rows = firsts[last] - firsts[first];
  const int64_t grain = std::clamp<int64_t>(rows * (1 << 18) / (pixels + 1), 1, 4096);
  auto body = [&](int64_t begin, int64_t end) { fn(firsts[first] + begin, firsts[first] + end); };
  parallel_for(rows, grain, static_cast<int>(threads), body);
}

void pack_gts(const PairBatch& batch, const DenseMasks& masks, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const DenseRow at = DenseRow::of(batch, true, row);
    if (at.position >= at.valid)
      masks.clear_gt(row);
    else
      masks.note_gt(at.image, row,
                    pack_mask(masks.gt_mask(at.image, at.position), masks.pixels(at.image),
                              masks.gt_words(at.image, at.position)));
  }
}

void overlap_row(const PairBatch& batch, const DenseMasks& masks, int64_t row, std::vector<uint64_t>& words) {
  const DenseRow at = DenseRow::of(batch, false, row);
  if (at.position >= at.valid) return masks.clear(row);
  const int64_t pixels = masks.pixels(at.image), first_gt = batch.first_gts()[at.image];
  words.resize(std::max<size_t>(words.size(), mask_words(pixels)));
  const MaskFacts facts = pack_mask(masks.mask(at.image, at.position), pixels, words.data());
  masks.note(at.image, row, facts);
  const int64_t gts = valid_rows(batch.gt_counts, at.image, batch.first_gts()[at.image + 1] - first_gt);
  const int64_t label = gts ? batch.label(row) : 0, pair = at.first_pair(batch);
  for (int64_t j = 0; j < gts; ++j) {
    if (batch.gt_label(first_gt + j) != label) continue;
    const int64_t* const span = masks.span(first_gt + j);
    const int64_t from = std::max(facts.first, span[0]), to = std::min(facts.last, span[1]);
    const uint64_t* const gt_words = masks.gt_words(at.image, j);
    *masks.overlap(pair + j) =
        from < to ? static_cast<int32_t>(common_bits(words.data() + from, gt_words + from, to - from)) : 0;
  }
}

}  // namespace
}  // namespace valor

// Loads images [first, last) of a DenseMasks: areas, hashes, and the overlaps of pairs of a class. `packed`
// has room for the ground truths of these images. Each thread holds one packed mask.
VALOR_API int32_t valor_dense_overlaps_cpu(const void* batch_words, const void* mask_words, int64_t first,
                                           int64_t last, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const PairBatch& batch = *static_cast<const PairBatch*>(batch_words);
    const DenseMasks& masks = *static_cast<const DenseMasks*>(mask_words);
    each_row(masks, batch.first_gts(), first, last, threads,
             [&](int64_t begin, int64_t end) { pack_gts(batch, masks, begin, end); });
    each_row(masks, batch.first_detections(), first, last, threads, [&](int64_t begin, int64_t end) {
      std::vector<uint64_t> words;
      for (int64_t row = begin; row < end; ++row) overlap_row(batch, masks, row, words);
    });
  });
}

// Lists the pairs of a PairBatch over DenseOverlaps, see csrc/cpu/pairs.h.
VALOR_API int32_t valor_dense_pairs_cpu(const void* batch_words, int64_t* list, int64_t threads) {
  return valor::guarded([&] {
    const valor::PairBatch& batch = *static_cast<const valor::PairBatch*>(batch_words);
    valor::find_pairs(batch, valor::DenseSimilarity::of(batch), threads, list);
  });
}
