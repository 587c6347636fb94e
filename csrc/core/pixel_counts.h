// Label maps and maps of class logits as counts of classes or of pairs of classes: what a task holds, where
// its pixels lie, and what a label says.
#pragma once
#include "error_codes.h"
#include "labels.h"

namespace valor {

// Types of labels beyond IntType.
enum WideIntType : int { kUInt16 = 6, kUInt32 = 7 };

// One value a pixel. Strides count elements.
struct PixelMap {
  const void* data;
  int64_t type;  // an IntType or WideIntType; of logits a FloatType
  int64_t image_stride, row_stride, pixel_stride;

  template <class T>
  VALOR_HD const T* at(int64_t image, int64_t row, int64_t column) const {
    return static_cast<const T*>(data) + image * image_stride + row * row_stride + column * pixel_stride;
  }
};

// The fields are 64-bit words: Python packs them. Images, rows and columns are those of the memory layout,
// merged where strides allow it; with a table of each image the first is that of the caller.
struct PixelTask {
  PixelMap preds, target;
  int64_t channel_stride;  // between the logits of a pixel; 0: preds are labels
  int64_t images, rows, columns;
  int64_t code_pixels;  // pixels of what error codes call a row
  int64_t classes;
  int64_t has_ignore, ignore;  // a value of the target
  int64_t per_image;           // a table of each image, or one of all
  int64_t pairs;               // tables [C, C] of true and predicted class, or [3, C] as ClassCells

  VALOR_HD int64_t tables() const { return per_image ? images : 1; }
  VALOR_HD int64_t table_pixels() const { return (per_image ? 1 : images) * rows * columns; }
  VALOR_HD int64_t table_size() const { return (pairs ? classes : 3) * classes; }
  VALOR_HD int64_t error_at(int64_t pixel, ValueError kind) const {
    return value_error(pixel / code_pixels, pixel % code_pixels, kind);
  }
};
static_assert(sizeof(PixelTask) == 160, "valor_gpu/ops/pixel_counts/cpu.py packs 20 words");

// Calls visit with a value of the type of a map of labels.
template <class Visit>
VALOR_HD auto with_label(int64_t type, Visit visit) {
  switch (type) {
    case kInt8:
      return visit(int8_t());
    case kInt16:
      return visit(int16_t());
    case kInt32:
      return visit(int32_t());
    case kInt64:
      return visit(int64_t());
    case kUInt16:
      return visit(uint16_t());
    case kUInt32:
      return visit(uint32_t());
    default:
      return visit(uint8_t());
  }
}

// A pixel, and the one after it.
struct PixelPlace {
  int64_t image, row, column;

  PixelPlace() = default;
  template <class Task>
  VALOR_HD PixelPlace(const Task& task, int64_t pixel) {
    const int64_t line = pixel / task.columns;
    column = pixel % task.columns, image = line / task.rows, row = line % task.rows;
  }
  template <class Task>
  VALOR_HD void advance(const Task& task, int64_t by) {  // to the end of the line at most
    column += by;
    if (column < task.columns) return;
    column = 0;
    if (++row == task.rows) row = 0, ++image;
  }
};

// Ascends as torch.argmax ranks: every NaN above all numbers.
template <class Bits>
VALOR_HD typename Bits::Word argmax_key(typename Bits::Word bits) {
  return Bits::is_nan(bits) ? Bits::kMagnitude : Bits::key(bits);
}

}  // namespace valor
