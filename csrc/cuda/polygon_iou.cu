// Polygons on CUDA: a warp a pair, a lane a row of edges; the pairs of a batch by csrc/cuda/pairs.h.
#include "../core/polygon_area.h"
#include "launch.h"
#include "pairs.h"

namespace valor {
namespace {

constexpr int kPolygonThreads = 128;

__global__ void __launch_bounds__(kPolygonThreads)
    polygon_iou_kernel(const __grid_constant__ PolygonSides sides, int64_t m, int64_t pairs,
                       const uint8_t* crowd, double* out) {
  const int64_t pair = static_cast<int64_t>(blockIdx.x) * (kPolygonThreads / 32) + threadIdx.x / 32;
  if (pair >= pairs) return;
  const Warp warp;
  const int64_t column = pair % m;
  const double iou = polygon_iou<true>(warp, sides.rows.view(pair / m), sides.gt_rows.view(column),
                                       crowd != nullptr && crowd[column] != 0);
  if (warp.lane() == 0) out[pair] = iou;
}

// Similarity of csrc/core/pairs.h, by all lanes of a warp together.
class PolygonSimilarity : public PolygonReach {
 public:
  using PolygonReach::PolygonReach;
  __device__ __forceinline__ double by_warp(const Warp& warp, int64_t detection, int64_t gt,
                                            bool crowd) const {
    return polygon_iou<true>(warp, rows.view(detection), gt_rows.view(gt), crowd);
  }
};

}  // namespace
}  // namespace valor

// IoU of every polygon of a side with every one of another: out is [n, m]; crowd is [m] or null.
VALOR_API int32_t valor_polygon_iou_cuda(const void* side_words, int64_t n, int64_t m, const uint8_t* crowd,
                                         double* out, void* stream) {
  using namespace valor;
  if (n * m == 0) return 0;
  constexpr int64_t kWarps = kPolygonThreads / 32;
  const unsigned blocks = static_cast<unsigned>((n * m + kWarps - 1) / kWarps);
  return VALOR_LAUNCH(polygon_iou_kernel, blocks, kPolygonThreads, 0, stream,
                      *static_cast<const PolygonSides*>(side_words), m, n * m, crowd, out);
}

// Finds the pairs of a PairBatch over PolygonSides; the table `firsts` lies on the device.
VALOR_API int32_t valor_polygon_pairs_cuda(const void* batch_words, int64_t detections, void* stream) {
  using namespace valor;
  const PairBatch& batch = *static_cast<const PairBatch*>(batch_words);
  return VALOR_LAUNCH(pairs_kernel<PolygonSimilarity>, pair_blocks(detections), kPairThreads, 0, stream,
                      batch, PolygonSimilarity(batch), detections);
}
