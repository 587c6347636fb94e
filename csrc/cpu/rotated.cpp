// Rotated boxes on the CPU: loading of rows, IoU of all pairs, and the pairs of a batch for matching.
#include "../core/rotated.h"

#include <algorithm>

#include "guard.h"
#include "load_rows.h"
#include "pairs.h"
#include "pool.h"

// Loads the rows of one side, see QuadRows in core/rotated.h. `error` keeps the smallest code it has met.
VALOR_API int32_t valor_load_quads_cpu(const void* row_words, int64_t* error, int64_t threads) {
  return valor::guarded([&] {
    const valor::QuadRows& task = *static_cast<const valor::QuadRows*>(row_words);
    const auto load = [&](int64_t image, int64_t row) { return task.load(image, row); };
    valor::load_rows(task, load, 2048, error, threads);
  });
}

// Lists the pairs of a PairBatch over PairSides of Quad, see csrc/cpu/pairs.h.
VALOR_API int32_t valor_rotated_pairs_cpu(const void* batch_words, int64_t* list, int64_t threads) {
  return valor::guarded([&] {
    const valor::PairBatch& batch = *static_cast<const valor::PairBatch*>(batch_words);
    valor::find_pairs(batch, valor::QuadSimilarity::of(batch), threads, list);
  });
}

// IoU of every quadrilateral with every other: out is [n, m]; crowd is [m] or null.
VALOR_API int32_t valor_quad_iou_cpu(const void* quads1, int64_t n, const void* quads2, int64_t m,
                                     const uint8_t* crowd, double* out, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const Quad* const rows = static_cast<const Quad*>(quads1);
    const Quad* const columns = static_cast<const Quad*>(quads2);
    auto body = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t j = 0; j < m; ++j) out[i * m + j] = quad_iou(rows[i], columns[j], crowd && crowd[j]);
    };
    parallel_for(n, std::clamp<int64_t>(4096 / (m + 1), 1, 4096), static_cast<int>(threads), body);
  });
}
