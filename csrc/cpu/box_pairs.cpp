// Upright boxes on the CPU as stored pairs: loading of rows, and the pairs of a batch.
#include "../core/box_pairs.h"

#include "guard.h"
#include "load_rows.h"
#include "pairs.h"

// Loads the rows of one side, see BoxRows in core/box_pairs.h. `error` keeps the smallest code it has met.
VALOR_API int32_t valor_load_boxes_cpu(const void* row_words, int64_t* error, int64_t threads) {
  return valor::guarded([&] {
    const valor::BoxRows& task = *static_cast<const valor::BoxRows*>(row_words);
    const auto load = [&](int64_t image, int64_t row) { return task.load(image, row); };
    valor::load_rows(task, load, 8192, error, threads);
  });
}

// Lists the pairs of a PairBatch over PairSides of Box, see csrc/cpu/pairs.h.
VALOR_API int32_t valor_box_pairs_cpu(const void* batch_words, int64_t* list, int64_t threads) {
  return valor::guarded([&] {
    const valor::PairBatch& batch = *static_cast<const valor::PairBatch*>(batch_words);
    valor::find_pairs(batch, valor::BoxSimilarity::of(batch), threads, list);
  });
}
