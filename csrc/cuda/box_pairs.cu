// Upright boxes on CUDA as stored pairs: a thread a row to load, and the pairs of a batch by
// csrc/cuda/pairs.h.
#include "../core/box_pairs.h"
#include "launch.h"
#include "pairs.h"

// Loads `rows` rows of one side, see BoxRows in core/box_pairs.h; `error` keeps the smallest code it has met.
VALOR_API int32_t valor_load_boxes_cuda(const void* row_words, int64_t rows, int64_t* error, void* stream) {
  using namespace valor;
  if (rows == 0) return 0;
  const BoxRows& task = *static_cast<const BoxRows*>(row_words);
  return VALOR_LAUNCH(load_rows_kernel<BoxRows>, load_blocks(rows), kPairThreads, 0, stream, task, rows,
                      error);
}

// Finds the pairs of a PairBatch over PairSides of Box; the table `firsts` lies on the device.
VALOR_API int32_t valor_box_pairs_cuda(const void* batch_words, int64_t detections, void* stream) {
  using namespace valor;
  const PairBatch& batch = *static_cast<const PairBatch*>(batch_words);
  return VALOR_LAUNCH(pairs_kernel<BoxSimilarity>, pair_blocks(detections), kPairThreads, 0, stream, batch,
                      BoxSimilarity::of(batch), detections);
}
