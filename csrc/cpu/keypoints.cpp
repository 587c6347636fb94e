// Keypoints on the CPU: loading of rows, the similarity of all pairs, and the pairs of a batch for matching.
#include "../core/keypoints.h"

#include <algorithm>

#include "guard.h"
#include "load_rows.h"
#include "pairs.h"
#include "pool.h"

// Loads the rows of one side, see KeypointRows in core/keypoints.h. `error` keeps the smallest code it has
// met.
VALOR_API int32_t valor_load_keypoints_cpu(const void* row_words, int64_t* error, int64_t threads) {
  return valor::guarded(
      [&] { valor::load_rows(*static_cast<const valor::KeypointRows*>(row_words), 256, error, threads); });
}

// Sizes the rooms of a PairBatch over a KeypointSimilarity, see csrc/cpu/pairs.h.
VALOR_API int32_t valor_keypoint_rooms_cpu(const void* batch_words, int64_t threads) {
  return valor::guarded([&] {
    const valor::PairBatch& batch = *static_cast<const valor::PairBatch*>(batch_words);
    valor::size_rooms(batch, valor::KeypointSimilarity::of(batch), threads);
  });
}

// Fills the rooms.
VALOR_API int32_t valor_keypoint_pairs_cpu(const void* batch_words, int64_t threads) {
  return valor::guarded([&] {
    const valor::PairBatch& batch = *static_cast<const valor::PairBatch*>(batch_words);
    valor::fill_rooms(batch, valor::KeypointSimilarity::of(batch), threads);
  });
}

// The similarity of every row of keypoints with every ground truth: out is [n, m].
VALOR_API int32_t valor_keypoint_similarity_cpu(const void* geometry, int64_t n, int64_t m, double* out,
                                                int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const KeypointSimilarity& similarity = *static_cast<const KeypointSimilarity*>(geometry);
    auto body = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t j = 0; j < m; ++j) out[i * m + j] = similarity(i, j, false);
    };
    parallel_for(n, std::clamp<int64_t>(512 / (m + 1), 1, 512), static_cast<int>(threads), body);
  });
}
