// Dense masks of ragged images: what loading them leaves, and the similarity of pairs by pixels in both.
#pragma once
#include "masks.h"
#include "pairs.h"
#include "ragged.h"

namespace valor {

// The masks of a batch, one byte per pixel; every image has a size of its own. The host fills it: pointers
// are addresses.
struct DenseMasks {
  int64_t images;
  int64_t masks, gt_masks;    // int64 [I]: where the first mask of an image lies; the next follow it
  int64_t heights, widths;    // int64 [I]
  int64_t first_words;        // int64 [I]: where in `packed` the ground truths of an image begin
  int64_t packed;             // uint64: words of the ground truths of some images
  int64_t spans;              // int64 [G, 2]: MaskFacts::first and ::last
  int64_t overlaps;           // int32 [P]: pixels in both, of the pairs of a class alone
  int64_t areas, gt_areas;    // float64 [D], [G]
  int64_t hashes, gt_hashes;  // uint64 [D], [G]

  static VALOR_HD int64_t at(int64_t table, int64_t image) {
    return reinterpret_cast<const int64_t*>(table)[image];
  }
  VALOR_HD int64_t pixels(int64_t image) const { return at(heights, image) * at(widths, image); }
  VALOR_HD const uint8_t* mask(int64_t image, int64_t position) const {
    return reinterpret_cast<const uint8_t*>(at(masks, image)) + position * pixels(image);
  }
  VALOR_HD const uint8_t* gt_mask(int64_t image, int64_t position) const {
    return reinterpret_cast<const uint8_t*>(at(gt_masks, image)) + position * pixels(image);
  }
  VALOR_HD uint64_t* gt_words(int64_t image, int64_t position) const {
    return reinterpret_cast<uint64_t*>(packed) + at(first_words, image) +
           position * mask_words(pixels(image));
  }
  VALOR_HD int64_t* span(int64_t gt) const { return reinterpret_cast<int64_t*>(spans) + 2 * gt; }
  VALOR_HD int32_t* overlap(int64_t pair) const { return reinterpret_cast<int32_t*>(overlaps) + pair; }
  VALOR_HD void note(int64_t image, int64_t row, const MaskFacts& facts) const {
    reinterpret_cast<double*>(areas)[row] = static_cast<double>(facts.area);
    reinterpret_cast<uint64_t*>(hashes)[row] =
        hash_mask(facts.content, at(heights, image), at(widths, image));
  }
  VALOR_HD void note_gt(int64_t image, int64_t gt, const MaskFacts& facts) const {
    reinterpret_cast<double*>(gt_areas)[gt] = static_cast<double>(facts.area);
    reinterpret_cast<uint64_t*>(gt_hashes)[gt] =
        hash_mask(facts.content, at(heights, image), at(widths, image));
    span(gt)[0] = facts.first;
    span(gt)[1] = facts.last;
  }
  // Of a row of padding.
  VALOR_HD void clear(int64_t row) const {
    reinterpret_cast<double*>(areas)[row] = 0.0;
    reinterpret_cast<uint64_t*>(hashes)[row] = 0;
  }
  VALOR_HD void clear_gt(int64_t gt) const {
    reinterpret_cast<double*>(gt_areas)[gt] = 0.0;
    reinterpret_cast<uint64_t*>(gt_hashes)[gt] = 0;
  }
};

// Where a row of one side lies.
struct DenseRow {
  int64_t image, position, valid;  // valid: rows of its image that are no padding

  VALOR_HD static DenseRow of(const PairBatch& batch, bool is_gt, int64_t row) {
    const int64_t* const firsts = is_gt ? batch.first_gts() : batch.first_detections();
    const int64_t image = segment_of(firsts, batch.images, row);
    const int64_t rows = firsts[image + 1] - firsts[image];
    return {image, row - firsts[image], valid_rows(is_gt ? batch.gt_counts : batch.counts, image, rows)};
  }
  // The first pair of a detection; one for each ground truth of the image follows.
  VALOR_HD int64_t first_pair(const PairBatch& batch) const {
    return batch.first_pairs()[image] + position * (batch.first_gts()[image + 1] - batch.first_gts()[image]);
  }
};

// Pixels in both and areas, from which similarities are made: of masks, and of their boundaries where
// `layers` is 2. The host fills it.
struct DenseOverlaps {
  int64_t firsts, images, layers;              // the table of the batch
  int64_t overlaps[2], areas[2], gt_areas[2];  // int32 [P], float64 [D], [G]
};

// Pixels in both over pixels in any, over those of the detection against a crowd; 0 where none is in both.
// With boundaries the smaller one of masks and boundaries, against a crowd that of masks.
struct DenseSimilarity {
  DenseOverlaps given;
  double lowest;

  static DenseSimilarity of(const PairBatch& batch) {  // on the host alone
    return {*reinterpret_cast<const DenseOverlaps*>(batch.geometry), batch.lowest};
  }
  VALOR_HD double operator()(int64_t detection, int64_t gt, bool crowd) const {
    const int64_t* const firsts = reinterpret_cast<const int64_t*>(given.firsts);
    const int64_t* const gts = firsts + given.images + 1;
    const int64_t image = segment_of(firsts, given.images, detection);
    const int64_t pair = gts[given.images + 1 + image] +
                         (detection - firsts[image]) * (gts[image + 1] - gts[image]) + gt - gts[image];
    double least = 1.0;
    VALOR_ROLLED for (int64_t k = 0; k < (crowd ? 1 : given.layers); ++k) {
      const double both = reinterpret_cast<const int32_t*>(given.overlaps[k])[pair];
      const double area = reinterpret_cast<const double*>(given.areas[k])[detection];
      const double gt_area = reinterpret_cast<const double*>(given.gt_areas[k])[gt];
      const double part = both == 0.0 ? 0.0 : both / (crowd ? area : area + gt_area - both);
      least = part < least ? part : least;
    }
    return least;
  }
  VALOR_HD bool may_reach(int64_t detection, int64_t gt, bool crowd) const {
    return lowest <= 0.0 || (*this)(detection, gt, crowd) >= lowest;
  }
};

}  // namespace valor
