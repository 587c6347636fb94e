// Keypoints on CUDA: a thread a row to load, a thread a pair for all similarities, and the pairs of a batch
// by csrc/cuda/pairs.h.
#include "../core/keypoints.h"
#include "../core/ragged.h"
#include "launch.h"
#include "pairs.h"

namespace valor {
namespace {

constexpr int kKeypointThreads = 128;
static_assert(kKeypointThreads == kPairThreads, "LaneSums has the threads of either kernel in mind");

// Sums of a thread, see LocalSums, in shared memory: an array that is indexed would lie in local memory.
struct LaneSums {
  double* first;

  __device__ __forceinline__ double& operator[](int p) const { return first[p * kKeypointThreads]; }
  __device__ __forceinline__ double& left(int step) const { return (*this)[8 + step]; }
  // Of a block, for means of up to `count` values.
  static size_t bytes(int64_t count) { return (8 + halvings(count)) * kKeypointThreads * sizeof(double); }
};

// Similarity of csrc/core/pairs.h, with LaneSums in the dynamic shared memory of the block.
struct KeypointsByLane : KeypointSimilarity {
  static KeypointsByLane of(const KeypointSimilarity& similarity) { return {similarity}; }
  __device__ __forceinline__ double operator()(int64_t detection, int64_t gt, bool) const {
    VALOR_DYNAMIC_SHARED(double, sums);
    return measure(detection, gt, LaneSums{sums + threadIdx.x});
  }
};

__global__ void __launch_bounds__(kKeypointThreads)
    load_keypoints_kernel(const __grid_constant__ KeypointRows task, int64_t rows, int64_t* error) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kKeypointThreads + threadIdx.x;
  if (row >= rows) return;
  const int64_t code = task.load(segment_of(task.first(), task.images, row), row);
  if (code != kNoError) atomicMin(reinterpret_cast<long long*>(error), static_cast<long long>(code));
}

__global__ void __launch_bounds__(kKeypointThreads)
    keypoint_similarity_kernel(const __grid_constant__ KeypointsByLane similarity, int64_t m, int64_t pairs,
                               double* out) {
  const int64_t pair = static_cast<int64_t>(blockIdx.x) * kKeypointThreads + threadIdx.x;
  if (pair < pairs) out[pair] = similarity(pair / m, pair % m, false);
}

unsigned keypoint_blocks(int64_t threads) {
  return static_cast<unsigned>((threads + kKeypointThreads - 1) / kKeypointThreads);
}

}  // namespace
}  // namespace valor

// Loads `rows` rows of one side, see KeypointRows in core/keypoints.h; `error` keeps the smallest code it has
// met.
VALOR_API int32_t valor_load_keypoints_cuda(const void* row_words, int64_t rows, int64_t* error,
                                            void* stream) {
  using namespace valor;
  if (rows == 0) return 0;
  const KeypointRows& task = *static_cast<const KeypointRows*>(row_words);
  return VALOR_LAUNCH(load_keypoints_kernel, keypoint_blocks(rows), kKeypointThreads, 0, stream, task, rows,
                      error);
}

// Finds the pairs of a PairBatch over a KeypointSimilarity; the table `firsts` lies on the device.
VALOR_API int32_t valor_keypoint_pairs_cuda(const void* batch_words, int64_t detections, void* stream) {
  using namespace valor;
  const PairBatch& batch = *static_cast<const PairBatch*>(batch_words);
  const KeypointSimilarity& similarity = KeypointSimilarity::of(batch);
  return VALOR_LAUNCH((pairs_kernel<KeypointsByLane, 8>), pair_blocks(detections), kPairThreads,
                      LaneSums::bytes(similarity.keypoints), stream, batch, KeypointsByLane::of(similarity),
                      detections);
}

// The similarity of every row of keypoints with every ground truth: out is [n, m].
VALOR_API int32_t valor_keypoint_similarity_cuda(const void* geometry, int64_t n, int64_t m, double* out,
                                                 void* stream) {
  using namespace valor;
  if (n * m == 0) return 0;
  const KeypointSimilarity& similarity = *static_cast<const KeypointSimilarity*>(geometry);
  return VALOR_LAUNCH(keypoint_similarity_kernel, keypoint_blocks(n * m), kKeypointThreads,
                      LaneSums::bytes(similarity.keypoints), stream, KeypointsByLane::of(similarity), m,
                      n * m, out);
}
