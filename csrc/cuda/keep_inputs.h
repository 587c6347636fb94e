// The first launch of an update of plain boxes: it copies the error that kernels lower, and boxes, flags and
// areas as they were given, which a metric keeps for the files that it can write.
#pragma once
#include "../core/plain_boxes.h"
#include "assign_plan.h"
#include "copy_bytes.h"
#include "launch.h"

namespace valor {

constexpr int kImagesByValue = 16;  // as many images' fields travel in the kernel's parameters

// A column in one piece; without it `to` is null.
struct KeptColumn {
  uint8_t* to;
  int64_t row_bytes;
};

struct KeepTask {
  int64_t* error;
  const int64_t* error_before;
  KeptColumn boxes, gt_boxes, flags, areas;
  int64_t images, each, gt_each;  // rows of each image, if they are equal; else -1
  const int64_t* table;           // as of AssignTask, likewise `words`
  int64_t words[kImageFields * kImagesByValue];

  __device__ __forceinline__ Segment segment(int64_t at) const {
    if (each < 0) return Segment::at(table ? table : words, images, at);
    Batch batch;
    memcpy(&batch, words, sizeof batch);
    return batch.segment(at, at * each, each, at * gt_each, gt_each);
  }
};
static_assert(sizeof(KeepTask) <= 4096, "kernel parameters are limited to 4 KiB");
static_assert(sizeof(Batch) <= sizeof(KeepTask::words), "the words of Batch have room");

__device__ __forceinline__ void keep_rows(const Warp& warp, const KeptColumn& column, int64_t from,
                                          int64_t first, int64_t rows) {
  if (!column.to) return;
  copy_anywhere(warp, column.to + first * column.row_bytes, reinterpret_cast<const uint8_t*>(from),
                rows * column.row_bytes);
}

// A block takes an image, each of its warps a column.
__global__ void __launch_bounds__(128) keep_inputs_kernel(const __grid_constant__ KeepTask task) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *task.error = *task.error_before;
  if (!task.boxes.to) return;
  const Warp warp;
  const Segment s = task.segment(blockIdx.x);
  const int column = threadIdx.x / 32;
  if (column == 0) keep_rows(warp, task.boxes, s.boxes, s.first_detection, s.detections);
  if (column == 1) keep_rows(warp, task.gt_boxes, s.gt_boxes, s.first_ground_truth, s.ground_truths);
  if (column == 2) keep_rows(warp, task.flags, s.gt_flags, s.first_ground_truth, s.ground_truths);
  if (column == 3) keep_rows(warp, task.areas, s.gt_areas, s.first_ground_truth, s.ground_truths);
}

// `kept` has head.keep_bytes, or is null; `table` lies on the host and, of more than 16 images,
// `device_table` on the device; both are as for valor_assign_cuda.
inline int32_t keep_inputs(const PlainBoxes& head, const int64_t* table, const int64_t* device_table,
                           uint8_t* kept, const int64_t* error_before, int64_t* error, void* stream) {
  KeepTask task = {};
  task.error = error;
  task.error_before = error_before;
  if (kept) {
    const auto column = [&](int64_t begin, int64_t row_bytes) {
      return begin < 0 ? KeptColumn{} : KeptColumn{kept + begin, row_bytes};
    };
    task.boxes = column(head.keep_boxes, 4 * float_bytes(static_cast<FloatType>(head.boxes_type)));
    task.gt_boxes = column(head.keep_gt_boxes, 4 * float_bytes(static_cast<FloatType>(head.gt_boxes_type)));
    task.flags = column(head.keep_flags, int_bytes(static_cast<IntType>(head.gt_flags_type)));
    task.areas = column(head.keep_areas, float_bytes(static_cast<FloatType>(head.gt_areas_type)));
  }
  task.images = head.images;
  task.each = head.each;
  task.gt_each = head.gt_each;
  task.table = device_table;
  if (!device_table) memcpy(task.words, table, head.equal() ? sizeof(Batch) : 8 * kImageFields * head.images);
  return VALOR_LAUNCH(keep_inputs_kernel, static_cast<unsigned>(kept ? head.images : 1), kept ? 128u : 32u, 0,
                      stream, task);
}

}  // namespace valor
