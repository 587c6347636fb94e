// Pairwise IoU of ragged boxes on CUDA: one thread per pair, so that segments of any sizes fill the device
// evenly.
#include "../core/boxes.h"
#include "../core/ragged.h"
#include "launch.h"

namespace valor {

constexpr int kBoxIouThreads = 256;

__global__ void __launch_bounds__(kBoxIouThreads) box_iou_kernel(BoxPairs task, int64_t pairs) {
  const int64_t pair = static_cast<int64_t>(blockIdx.x) * kBoxIouThreads + threadIdx.x;
  if (pair >= pairs) return;
  const int64_t segment = segment_of(task.pairs(), task.segments, pair);
  const int64_t columns = task.rows2()[segment + 1] - task.rows2()[segment];
  const int64_t local = pair - task.pairs()[segment];
  const int64_t row1 = task.rows1()[segment] + local / columns;
  const int64_t row2 = task.rows2()[segment] + local % columns;
  task.out[pair] = box_iou(task.box1(row1), task.box2(row2), task.is_crowd(row2));
}

}  // namespace valor

// The arguments are the fields of BoxPairs, see core/boxes.h; `pairs` is the size of `out`.
VALOR_API int32_t valor_box_iou_cuda(const void* boxes1, const void* boxes2, int32_t type1, int32_t type2,
                                     int32_t format, const uint8_t* crowd, const int64_t* offsets,
                                     int64_t segments, double* out, int64_t pairs, void* stream) {
  using namespace valor;
  const BoxPairs task = BoxPairs::of(boxes1, boxes2, type1, type2, format, crowd, offsets, segments, out);
  if (pairs == 0) return 0;
  const unsigned blocks = static_cast<unsigned>((pairs + kBoxIouThreads - 1) / kBoxIouThreads);
  return VALOR_LAUNCH(box_iou_kernel, blocks, kBoxIouThreads, 0, stream, task, pairs);
}
