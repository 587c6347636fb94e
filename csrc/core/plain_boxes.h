// Boxes of a batch as Python hands them to valor_assign_plain_cuda: this head, then the words of the images.
#pragma once
#include "load.h"
#include "match_batch.h"

namespace valor {

VALOR_HD int64_t int_bytes(IntType type) {
  return type == kInt64 ? 8 : type == kInt32 ? 4 : type == kInt16 ? 2 : 1;
}

// Every field is an int64. Behind them lie the Segments, [Segment::kFields, images], or the Batch of images
// with equal rows.
struct PlainBoxes {
  int64_t images, detections, ground_truths;  // rows of all images
  int64_t each, gt_each;                      // rows of every image; -1: Segments tell
  int64_t most;  // detections of the image with most of them; 0: the device alone knows how many count
  // FloatType or IntType of the columns in the order of Rule; 0 for an absent one.
  int64_t boxes_type, scores_type, labels_type, gt_boxes_type, gt_labels_type, gt_flags_type, gt_areas_type;
  // Where the copy of a column begins in the memory of inputs that are kept; -1: the column is absent.
  int64_t keep_boxes, keep_gt_boxes, keep_flags, keep_areas;
  int64_t keep_bytes;

  static constexpr int kFields = 18;
  bool equal() const { return each >= 0; }

  // Places the copies one after another, each at a multiple of 16 bytes.
  void place(bool flags, bool areas) {
    keep_bytes = 0;
    keep_boxes = room(4 * detections * float_bytes(static_cast<FloatType>(boxes_type)));
    keep_gt_boxes = room(4 * ground_truths * float_bytes(static_cast<FloatType>(gt_boxes_type)));
    keep_flags = flags ? room(ground_truths * int_bytes(static_cast<IntType>(gt_flags_type))) : -1;
    keep_areas = areas ? room(ground_truths * float_bytes(static_cast<FloatType>(gt_areas_type))) : -1;
  }
  int64_t room(int64_t bytes) {
    const int64_t begin = keep_bytes;
    keep_bytes += (bytes + 15) / 16 * 16;
    return begin;
  }
};
static_assert(sizeof(PlainBoxes) == 8 * PlainBoxes::kFields, "PlainBoxes holds int64 fields only");

}  // namespace valor
