// Rotated boxes on CUDA: a thread a row to load, a thread a pair for all IoUs, and a warp a detection to find
// the pairs of a batch. A detection has room for every ground truth of its image, so that nothing is counted
// beforehand and the host waits for nothing.
#include "../core/ragged.h"
#include "../core/rotated.h"
#include "../core/sort.h"
#include "launch.h"

namespace valor {
namespace {

constexpr int kQuadThreads = 128;

__global__ void __launch_bounds__(kQuadThreads)
    load_quads_kernel(QuadRows task, int64_t rows, int64_t* error) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kQuadThreads + threadIdx.x;
  if (row >= rows) return;
  const int64_t code = task.load(segment_of(task.first(), task.images, row), row);
  if (code != kNoError) atomicMin(reinterpret_cast<long long*>(error), static_cast<long long>(code));
}

__global__ void __launch_bounds__(kQuadThreads)
    quad_iou_kernel(const Quad* quads1, const Quad* quads2, int64_t m, int64_t pairs, const uint8_t* crowd,
                    double* out) {
  const int64_t pair = static_cast<int64_t>(blockIdx.x) * kQuadThreads + threadIdx.x;
  if (pair >= pairs) return;
  const int64_t column = pair % m;
  out[pair] = quad_iou(quads1[pair / m], quads2[column], crowd && crowd[column]);
}

// The pairs of one detection, by the lanes of a warp. They are put together in the room of the detection.
class DetectionPairs {
 public:
  __device__ __forceinline__ DetectionPairs(const QuadBatch& batch, int64_t row) : batch_(batch), row_(row) {
    const int64_t image = segment_of(batch.first_detections(), batch.images, row);
    const int64_t position = row - batch.first_detections()[image];
    const int64_t gts = batch.first_gts()[image + 1] - batch.first_gts()[image];
    const int64_t rows = batch.first_detections()[image + 1] - batch.first_detections()[image];
    first_gt_ = batch.first_gts()[image];
    room_ = batch.first_pairs()[image] + position * gts;
    const bool valid = position < valid_rows(batch.counts, image, rows);
    gts_ = valid ? static_cast<int32_t>(valid_rows(batch.gt_counts, image, gts)) : 0;
  }

  __device__ __forceinline__ void run() {
    const int32_t used = measure(candidates());
    if (used > 1) sort(used);
    if (warp_.lane() == 0) {
      batch_.offset()[row_] = room_;
      batch_.used_rooms()[row_] = used;
    }
  }

 private:
  __device__ __forceinline__ uint32_t below() const { return (1u << warp_.lane()) - 1; }

  // Notes the ground truths of the detection's class that bounds do not rule out; returns how many.
  __device__ __forceinline__ int32_t candidates() const {
    int32_t count = 0;
    for (int32_t base = 0; base < gts_; base += 32) {
      const int32_t j = base + warp_.lane();
      const bool keep = j < gts_ && batch_.label(row_) == batch_.gt_label(first_gt_ + j) &&
                        may_reach(batch_.quad(row_), batch_.gt_quad(first_gt_ + j),
                                  batch_.is_crowd(first_gt_ + j), batch_.lowest);
      const uint32_t kept = warp_.ballot(keep);
      if (keep) *batch_.ground_truth(room_ + count + count_bits(kept & below())) = j;
      count += count_bits(kept);
    }
    warp_.sync();
    return count;
  }

  // Keeps those that reach the lowest threshold; returns how many.
  __device__ __forceinline__ int32_t measure(int32_t count) const {
    int32_t used = 0;
    for (int32_t base = 0; base < count; base += 32) {
      const int32_t at = base + warp_.lane();
      int32_t j = 0;
      double similarity = 0.0;
      if (at < count) {
        j = *batch_.ground_truth(room_ + at);
        similarity =
            quad_iou(batch_.quad(row_), batch_.gt_quad(first_gt_ + j), batch_.is_crowd(first_gt_ + j));
      }
      const bool keep = at < count && similarity >= batch_.lowest;
      const uint32_t kept = warp_.ballot(keep);
      warp_.sync();  // every lane has read its candidate: those kept move to before base + 32
      if (keep) {
        const int64_t pair = room_ + used + count_bits(kept & below());
        *batch_.ground_truth(pair) = j;
        *batch_.similarity(pair) = similarity;
      }
      used += count_bits(kept);
      warp_.sync();
    }
    return used;
  }

  // By similarity descending, later ground truth first.
  __device__ __forceinline__ void sort(int32_t used) const {
    int32_t* const gts = batch_.ground_truth(room_);
    double* const similarities = batch_.similarity(room_);
    const auto exchange = [=](uint32_t low, uint32_t high) {
      const double first = similarities[low], second = similarities[high];
      if (first > second || (first == second && gts[low] > gts[high])) return;
      similarities[low] = second;
      similarities[high] = first;
      const int32_t gt = gts[low];
      gts[low] = gts[high];
      gts[high] = gt;
    };
    exchange_network(warp_, static_cast<uint32_t>(used), exchange);
  }

  const Warp warp_{};
  const QuadBatch& batch_;
  const int64_t row_;
  int64_t first_gt_, room_;
  int32_t gts_;
};

__global__ void __launch_bounds__(kQuadThreads)
    rotated_pairs_kernel(const __grid_constant__ QuadBatch batch, int64_t detections) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (kQuadThreads / 32) + threadIdx.x / 32;
  if (row == 0 && threadIdx.x == 0) batch.offset()[detections] = batch.first_pairs()[batch.images];
  if (row < detections) DetectionPairs(batch, row).run();
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
  return VALOR_LAUNCH(load_quads_kernel, quad_blocks(rows), kQuadThreads, 0, stream, task, rows, error);
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

// Finds the pairs of a QuadBatch, whose table `firsts` lies on the device.
VALOR_API int32_t valor_rotated_pairs_cuda(const void* batch_words, int64_t detections, void* stream) {
  using namespace valor;
  const QuadBatch& batch = *static_cast<const QuadBatch*>(batch_words);
  const unsigned blocks = quad_blocks(32 * (detections > 0 ? detections : 1));
  return VALOR_LAUNCH(rotated_pairs_kernel, blocks, kQuadThreads, 0, stream, batch, detections);
}
