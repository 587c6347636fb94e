// Rotated boxes on CUDA: a thread a row to load, a thread a pair for all IoUs, and the pairs of a batch by
// csrc/cuda/pairs.h.
#include "../core/rotated.h"
#include "lane_quads.h"
#include "launch.h"
#include "pairs.h"

namespace valor {
namespace {

constexpr int kQuadThreads = 128;

// Similarity of csrc/cuda/pairs.h.
struct QuadsByLane : QuadSimilarity {
  static QuadsByLane of(const PairBatch& batch) { return {QuadSimilarity::of(batch)}; }
  __device__ __forceinline__ double by_lanes(const Warp& warp, int64_t detection, int64_t gt, bool crowd,
                                             bool wanted) const {
    return lane_iou<kPairThreads>(warp, quads + detection, gt_quads + gt, crowd, wanted);
  }
};

__global__ void __launch_bounds__(kQuadThreads)
    quad_iou_kernel(const Quad* quads1, const Quad* quads2, int64_t m, int64_t pairs, const uint8_t* crowd,
                    double* out) {
  const int64_t pair = static_cast<int64_t>(blockIdx.x) * kQuadThreads + threadIdx.x;
  const bool wanted = pair < pairs;
  const int64_t row = wanted ? pair / m : 0, column = wanted ? pair % m : 0;
  const double iou =
      lane_iou<kQuadThreads>(Warp(), quads1 + row, quads2 + column, wanted && crowd && crowd[column], wanted);
  if (wanted) out[pair] = iou;
}

unsigned quad_blocks(int64_t threads) {
  return static_cast<unsigned>((threads + kQuadThreads - 1) / kQuadThreads);
}

}  // namespace
}  // namespace valor

// Loads `rows` rows of one side, see QuadRows in core/rotated.h; `error` keeps the smallest code it has met.
VALOR_API int32_t valor_load_quads_cuda(const void* row_words, int64_t rows, int64_t* error, void* stream) {
  using namespace valor;
  if (rows == 0) return 0;
  const QuadRows& task = *static_cast<const QuadRows*>(row_words);
  return VALOR_LAUNCH(load_rows_kernel<QuadRows>, load_blocks(rows), kPairThreads, 0, stream, task, rows,
                      error);
}

// IoU of every quadrilateral with every other: out is [n, m]; crowd is [m] or null.
VALOR_API int32_t valor_quad_iou_cuda(const void* quads1, int64_t n, const void* quads2, int64_t m,
                                      const uint8_t* crowd, double* out, void* stream) {
  using namespace valor;
  if (n * m == 0) return 0;
  return VALOR_LAUNCH(quad_iou_kernel, quad_blocks(n * m), kQuadThreads, 0, stream,
                      static_cast<const Quad*>(quads1), static_cast<const Quad*>(quads2), m, n * m, crowd,
                      out);
}

// Finds the pairs of a PairBatch over PairSides of Quad; the table `firsts` lies on the device.
VALOR_API int32_t valor_rotated_pairs_cuda(const void* batch_words, int64_t detections, void* stream) {
  using namespace valor;
  const PairBatch& batch = *static_cast<const PairBatch*>(batch_words);
  return VALOR_LAUNCH(pairs_kernel<QuadsByLane>, pair_blocks(detections), kPairThreads, 0, stream, batch,
                      QuadsByLane::of(batch), detections);
}
