// Keypoints on the CPU: loading of rows, the similarity of all pairs, and the pairs of a batch for matching.
#include "../core/keypoints.h"

#include <algorithm>
#include <vector>

#include "guard.h"
#include "load_rows.h"
#include "pairs.h"
#include "pool.h"

namespace valor {
namespace {

// A KeypointSimilarity that is not computed where a bound by simpler terms rules a pair out: most pairs are
// of different people.
class NearKeypoints {
 public:
  explicit NearKeypoints(const PairBatch& batch)
      : exact_(KeypointSimilarity::of(batch)),
        lowest_(batch.lowest),
        weights_(static_cast<size_t>(exact_.keypoints)) {
    for (int64_t k = 0; k < exact_.keypoints; ++k) weights_[k] = 0.5 / exact_.variance(k);
  }

  // No exp(-e) is above 1 / (1 + e + e * e / 2). The margin is far above what rounding does to either side.
  bool may_reach(int64_t detection, int64_t gt, bool) const {
    if (!(lowest_ > 0.0)) return true;
    const double* const point =
        reinterpret_cast<const double*>(exact_.points) + 3 * exact_.keypoints * detection;
    const double* const gt_point =
        reinterpret_cast<const double*>(exact_.gt_points) + 3 * exact_.keypoints * gt;
    const double scale = 1.0 / (reinterpret_cast<const double*>(exact_.gt_areas)[gt] + 0x1p-52);
    double most = 0.0, visible = 0.0;
    for (int64_t k = 0; k < exact_.keypoints; ++k) {
      const double x = point[3 * k] - gt_point[3 * k], y = point[3 * k + 1] - gt_point[3 * k + 1];
      const double error = (x * x + y * y) * weights_[k] * scale;
      const double counts = gt_point[3 * k + 2] > 0.0 ? 1.0 : 0.0;
      most += counts / (1.0 + error * (1.0 + 0.5 * error));
      visible += counts;
    }
    return visible == 0.0 || !(most * (1.0 + 1e-9) < lowest_ * visible);
  }

  double operator()(int64_t detection, int64_t gt, bool crowd) const { return exact_(detection, gt, crowd); }

 private:
  const KeypointSimilarity& exact_;
  const double lowest_;
  std::vector<double> weights_;
};

}  // namespace
}  // namespace valor

// Loads the rows of one side, see KeypointRows in core/keypoints.h. `error` keeps the smallest code it has
// met. Hashes are made where there is room for them.
VALOR_API int32_t valor_load_keypoints_cpu(const void* row_words, int64_t* error, int64_t threads) {
  return valor::guarded([&] {
    const valor::KeypointRows& task = *static_cast<const valor::KeypointRows*>(row_words);
    const auto hashed = [&](int64_t image, int64_t row) { return task.load(image, row); };
    const auto plain = [&](int64_t image, int64_t row) { return task.load<false>(image, row); };
    if (task.hashes)
      valor::load_rows(task, hashed, 256, error, threads);
    else
      valor::load_rows(task, plain, 256, error, threads);
  });
}

// Lists the pairs of a PairBatch over a KeypointSimilarity, see csrc/cpu/pairs.h.
VALOR_API int32_t valor_keypoint_pairs_cpu(const void* batch_words, int64_t* list, int64_t threads) {
  return valor::guarded([&] {
    const valor::PairBatch& batch = *static_cast<const valor::PairBatch*>(batch_words);
    valor::find_pairs(batch, valor::NearKeypoints(batch), threads, list);
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
