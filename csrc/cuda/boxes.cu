// Pairwise IoU of ragged boxes on CUDA: some lanes take a row of the first boxes, so that the segment is
// looked up and the box is loaded once for all pairs of the row, and neighbours write neighbouring pairs.
// Where the rows are few, several blocks share the columns of each.
#include "../core/boxes.h"
#include "../core/ragged.h"
#include "launch.h"

namespace valor {
namespace {

constexpr int kThreads = 256;
constexpr int kRows = 4;  // that the same lanes take one after another
constexpr int64_t kBlocks =
    1024;  // of fewer, several share columns: an H200 holds 8 on each of its 132 processors
constexpr int64_t kColumns = 16;  // that a lane takes at least before they are shared

struct IouTask {
  BoxPairs boxes;
  int64_t rows;  // of the first boxes
  int lanes;     // of a row: a power of two
};

// Rows of float32 in the format xyxy by one load.
template <bool kSingle>
__device__ __forceinline__ Box load_row(const void* base, uint32_t row, FloatType type, BoxFormat format) {
  if (!kSingle) return load_box(base, row, type, format);
  float values[4];
  const uint8_t* from = static_cast<const uint8_t*>(base) + uint64_t{row} * sizeof values;
  memcpy(values, __builtin_assume_aligned(from, 16), sizeof values);
  return to_xywh(values, kXyxy);
}

template <bool kSingle, bool kCrowd>
__global__ void __launch_bounds__(kThreads) box_iou_kernel(const __grid_constant__ IouTask task) {
  const BoxPairs& boxes = task.boxes;
  const int groups = kThreads / task.lanes, lane = static_cast<int>(threadIdx.x) & (task.lanes - 1);
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * groups * kRows;
  const int64_t end = begin + groups * kRows < task.rows ? begin + groups * kRows : task.rows;
  const int64_t low = segment_of(boxes.rows1(), task.boxes.segments, begin);
  const int64_t high = segment_of(boxes.rows1(), task.boxes.segments, end - 1);
  VALOR_ROLLED
  for (int64_t row = begin + threadIdx.x / task.lanes; row < end; row += groups) {
    const int64_t segment = low + segment_of(boxes.rows1() + low, high - low + 1, row);
    const int64_t first = boxes.rows2()[segment];
    const uint32_t columns = static_cast<uint32_t>(boxes.rows2()[segment + 1] - first);
    const Box box = boxes.box1(row);
    double* out = boxes.out + boxes.pairs()[segment] + (row - boxes.rows1()[segment]) * columns;
    const uint8_t* others =
        static_cast<const uint8_t*>(boxes.boxes2) + first * (4 * float_bytes(boxes.type2));
    VALOR_ROLLED
    for (uint32_t column = blockIdx.y * task.lanes + lane; column < columns; column += gridDim.y * task.lanes)
      out[uint64_t{column}] = box_iou(box, load_row<kSingle>(others, column, boxes.type2, boxes.format),
                                      kCrowd && boxes.is_crowd(first + column));
  }
}

bool is_single(const BoxPairs& boxes) {
  return boxes.type2 == kFloat32 && boxes.format == kXyxy &&
         reinterpret_cast<uintptr_t>(boxes.boxes2) % 16 == 0;
}

// How many blocks share the columns of a row.
unsigned column_parts(int64_t pairs, int64_t rows, int64_t lanes, int64_t blocks) {
  const int64_t wanted = (kBlocks + blocks - 1) / blocks, most = pairs / (rows * lanes * kColumns);
  return static_cast<unsigned>(wanted < most ? wanted : most > 1 ? most : 1);
}

}  // namespace
}  // namespace valor

// The arguments are the fields of BoxPairs, see core/boxes.h; then the rows of boxes1 and the size of `out`.
// A segment has less than 2^31 rows of boxes2.
VALOR_API int32_t valor_box_iou_cuda(const void* boxes1, const void* boxes2, int32_t type1, int32_t type2,
                                     int32_t format, const uint8_t* crowd, const int64_t* offsets,
                                     int64_t segments, double* out, int64_t rows, int64_t pairs,
                                     void* stream) {
  using namespace valor;
  if (pairs == 0) return 0;
  IouTask task{BoxPairs::of(boxes1, boxes2, type1, type2, format, crowd, offsets, segments, out), rows, 1};
  while (task.lanes < 32 && task.lanes * rows < pairs) task.lanes *= 2;
  const int64_t a_block = kThreads / task.lanes * kRows, blocks = (rows + a_block - 1) / a_block;
  if (blocks > INT32_MAX) return 9;  // cudaErrorInvalidConfiguration
  const bool single = is_single(task.boxes);
  const auto kernel = crowd ? (single ? box_iou_kernel<true, true> : box_iou_kernel<false, true>)
                            : (single ? box_iou_kernel<true, false> : box_iou_kernel<false, false>);
  const dim3 grid(static_cast<unsigned>(blocks), column_parts(pairs, rows, task.lanes, blocks));
  return VALOR_LAUNCH(kernel, grid, kThreads, 0, stream, task);
}
