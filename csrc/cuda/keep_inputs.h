// The first launch of an update of plain boxes: it copies the error that kernels lower, and boxes, flags and
// areas as they were given, which a metric keeps for the files that it can write.
#pragma once
#include <algorithm>

#include "../core/plain_boxes.h"
#include "assign_plan.h"
#include "copy_bytes.h"
#include "launch.h"

namespace valor {

constexpr int kImagesByValue = 16;  // as many images' fields travel in the kernel's parameters

// A column in one piece.
struct KeptColumn {
  uint8_t* to;  // null: the column is absent
  int64_t row_bytes, each;
  int32_t from, rows, first;  // fields of Segment that say where it lies, how many rows and where they go
};

struct KeepTask {
  int64_t* error;
  const int64_t* error_before;
  KeptColumn columns[4];
  int64_t images;
  const int64_t* table;  // as of AssignTask, likewise `words`
  int64_t words[kImageFields * kImagesByValue];
};
static_assert(sizeof(KeepTask) <= 4096, "kernel parameters are limited to 4 KiB");
static_assert(sizeof(Batch) <= sizeof(KeepTask::words), "the words of Batch have room");

// A block takes an image, each of its warps a column.
__global__ void __launch_bounds__(128) keep_inputs_kernel(const __grid_constant__ KeepTask task) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *task.error = *task.error_before;
  const KeptColumn& column = task.columns[threadIdx.x / 32];
  if (!column.to) return;
  int64_t rows = column.each, first = blockIdx.x * rows, from;
  if (rows >= 0) {
    from = task.words[column.from] + first * column.row_bytes;
  } else {
    const int64_t* const image = (task.table ? task.table : task.words) + blockIdx.x;
    from = image[column.from * task.images];
    rows = image[column.rows * task.images];
    first = image[column.first * task.images];
  }
  copy_anywhere(Warp{}, column.to + first * column.row_bytes, reinterpret_cast<const uint8_t*>(from),
                rows * column.row_bytes);
}

// Number of a field of Segment, and of one of BatchColumns in Batch.
inline int32_t field_of(int64_t Segment::* field) {
  Segment segment{};
  segment.*field = 1;
  int64_t fields[Segment::kFields];
  memcpy(fields, &segment, sizeof fields);
  return static_cast<int32_t>(std::find(fields, fields + Segment::kFields, 1) - fields);
}

// `kept` has head.keep_bytes, or is null; `table` lies on the host and, of more than 16 images,
// `device_table` on the device; both are as for valor_assign_cuda.
inline int32_t keep_inputs(const PlainBoxes& head, const int64_t* table, const int64_t* device_table,
                           uint8_t* kept, const int64_t* error_before, int64_t* error, void* stream) {
  KeepTask task = {};
  task.error = error;
  task.error_before = error_before;
  if (kept) {
    const int32_t rows = field_of(&Segment::detections), first = field_of(&Segment::first_detection),
                  gt_rows = field_of(&Segment::ground_truths),
                  gt_first = field_of(&Segment::first_ground_truth);
    const auto place = [&](int64_t begin) { return begin < 0 ? nullptr : kept + begin; };
    const auto floats = [](int64_t type) { return float_bytes(static_cast<FloatType>(type)); };
    const int64_t flag_bytes = int_bytes(static_cast<IntType>(head.gt_flags_type));
    task.columns[0] = {place(head.keep_boxes),
                       4 * floats(head.boxes_type),
                       head.each,
                       field_of(&Segment::boxes),
                       rows,
                       first};
    task.columns[1] = {place(head.keep_gt_boxes),
                       4 * floats(head.gt_boxes_type),
                       head.gt_each,
                       field_of(&Segment::gt_boxes),
                       gt_rows,
                       gt_first};
    task.columns[2] = {place(head.keep_flags),       flag_bytes, head.gt_each,
                       field_of(&Segment::gt_flags), gt_rows,    gt_first};
    task.columns[3] = {place(head.keep_areas),
                       floats(head.gt_areas_type),
                       head.gt_each,
                       field_of(&Segment::gt_areas),
                       gt_rows,
                       gt_first};
  }
  task.images = head.images;
  task.table = device_table;
  if (!device_table) memcpy(task.words, table, head.equal() ? sizeof(Batch) : 8 * kImageFields * head.images);
  return VALOR_LAUNCH(keep_inputs_kernel, static_cast<unsigned>(kept ? head.images : 1), kept ? 128u : 32u, 0,
                      stream, task);
}

}  // namespace valor
