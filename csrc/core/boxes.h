// Boxes: loading any dtype and format as float64 xywh, and intersection over union as pycocotools computes
// it.
#pragma once
#include "load.h"
#include "platform.h"

namespace valor {

struct Box {
  double x, y, w, h;
};

enum BoxFormat : int { kXyxy = 0, kXywh = 1, kCxcywh = 2 };

// C99 fmin and fmax, which pass over a NaN operand; unlike a libm call these vectorise.
VALOR_HD double min_number(double a, double b) { return (a < b || b != b) ? a : b; }
VALOR_HD double max_number(double a, double b) { return (a > b || b != b) ? a : b; }

// Length that [a, a + size_a] and [b, b + size_b] share; negative when they are apart.
template <bool kFinite>
VALOR_HD double overlap(double a, double size_a, double b, double size_b) {
  const double end_a = size_a + a, end_b = size_b + b;
  if (kFinite) return (end_a < end_b ? end_a : end_b) - (a > b ? a : b);
  return min_number(end_a, end_b) - max_number(a, b);
}

// Operations and their order are those of bbIou in pycocotools' maskApi.c, so that no bit differs. kFinite
// promises boxes without NaN and infinity, for which two instructions fewer a comparison give the same.
template <bool kFinite = false>
VALOR_HD double box_iou(const Box& detection, const Box& gt, bool crowd) {
  const double w = overlap<kFinite>(detection.x, detection.w, gt.x, gt.w);
  if (w <= 0) return 0;
  const double h = overlap<kFinite>(detection.y, detection.h, gt.y, gt.h);
  if (h <= 0) return 0;
  const double intersection = w * h;
  const double area = detection.w * detection.h;
  return intersection / (crowd ? area : area + gt.w * gt.h - intersection);
}

// Arithmetic in Float, step by step as torchvision.ops.box_convert, then widened: xyxy -> xywh is a
// subtraction, cxcywh goes through xyxy.
template <class Float>
VALOR_HD Box to_xywh(const Float* row, BoxFormat format) {
  Float x = row[0], y = row[1], w = row[2], h = row[3];
  if (format == kCxcywh) {
    const Float half_w = Float(0.5) * w, half_h = Float(0.5) * h;
    const Float right = x + half_w, bottom = y + half_h;
    x -= half_w;
    y -= half_h;
    w = right - x;
    h = bottom - y;
  } else if (format == kXyxy) {
    w -= x;
    h -= y;
  }
  return Box{static_cast<double>(x), static_cast<double>(y), static_cast<double>(w), static_cast<double>(h)};
}

// Row `row` of a contiguous [N, 4] tensor.
VALOR_HD Box load_box(const void* base, int64_t row, FloatType type, BoxFormat format) {
  if (type == kFloat64) return to_xywh(static_cast<const double*>(base) + 4 * row, format);
  float values[4];
  for (int i = 0; i < 4; ++i) values[i] = load_float32(base, 4 * row + i, type);
  return to_xywh(values, format);
}

// Boxes of two ragged batches, every pair inside a segment, as kernels receive them.
struct BoxPairs {
  const void *boxes1, *boxes2;  // [N, 4] and [M, 4]
  FloatType type1, type2;
  BoxFormat format;
  const uint8_t* crowd;    // [M] or null
  const int64_t* offsets;  // [3, segments + 1]: rows of boxes1, rows of boxes2, pairs
  int64_t segments;
  double* out;  // [pairs], a segment row by row

  // From the arguments of the C functions, where enumerations are int32.
  static BoxPairs of(const void* boxes1, const void* boxes2, int32_t type1, int32_t type2, int32_t format,
                     const uint8_t* crowd, const int64_t* offsets, int64_t segments, double* out) {
    return {boxes1,   boxes2, FloatType(type1), FloatType(type2), BoxFormat(format), crowd, offsets,
            segments, out};
  }

  VALOR_HD const int64_t* rows1() const { return offsets; }
  VALOR_HD const int64_t* rows2() const { return offsets + segments + 1; }
  VALOR_HD const int64_t* pairs() const { return offsets + 2 * (segments + 1); }
  VALOR_HD Box box1(int64_t row) const { return load_box(boxes1, row, type1, format); }
  VALOR_HD Box box2(int64_t row) const { return load_box(boxes2, row, type2, format); }
  VALOR_HD bool is_crowd(int64_t row) const { return crowd != nullptr && crowd[row] != 0; }
};

}  // namespace valor
