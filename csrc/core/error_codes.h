// Error codes: what kernels report of bad values. A code holds its place, so that the smallest is the first
// in reading order; valor_gpu/ops/error_codes.py packs the same way and has the messages.
#pragma once
#include <atomic>

#include "platform.h"

namespace valor {

constexpr int64_t kNoError = INT64_MAX;  // larger than every code

// Kinds of errors in a table of values.
enum ValueError : int64_t {
  kTarget = 1,      // out of range, and not the index to ignore
  kNanScore = 2,    // a score is NaN
  kWeight = 3,      // a weight is negative, NaN or too large
  kPrediction = 4,  // a predicted class is out of range
};

// Kinds of errors in a row of an image.
enum BoxError : int64_t {
  kGoodRow = 0,
  kBox = 1,
  kScore = 2,
  kLabel = 3,
  kGtBox = 4,
  kGtLabel = 5,
  kGtArea = 6,
  kGtFlag = 7,
  kCount = 8,
  kGtCount = 9,
  // Stored pairs, by detection row.
  kPairOffsets = 10,      // the room does not lie in the pairs, or ends before it begins
  kPairCount = 11,        // more pairs than there is room for, or fewer than 0
  kPairGroundTruth = 12,  // not a ground truth of the image
  kPairSimilarity = 13,   // NaN
  kPairOrder = 14,        // not by similarity descending, later ground truth first
  kPairClass = 15,        // a ground truth of another class
  // Quadrilaterals.
  kNegativeSize = 16,  // of a detection; 17: of a ground truth
  kNotConvex = 18,     // likewise 19
  kMaskRuns = 20,      // of a detection; 21: of a ground truth
  // Keypoints.
  kKeypoints = 24,    // not finite
  kGtKeypoints = 25,  // likewise
  kNegativeArea = 26,
  kNotPositiveArea = 27,
};

constexpr int kKindBits = 4, kColumnBits = 32;
constexpr int kBoxKindBits = 5, kBoxBits = 28;
constexpr int64_t kLastRow = (int64_t{1} << 27) - 1;  // stands for itself and for all rows after it

VALOR_HD int64_t value_error(int64_t row, int64_t column, ValueError kind) {
  const int64_t shown = row < kLastRow ? row : kLastRow;
  return (shown << kColumnBits | column) << kKindBits | kind;
}

VALOR_HD int64_t box_error(int64_t image, int64_t row, int64_t kind) {
  const int64_t last_row = (int64_t{1} << kBoxBits) - 1;
  return ((image << kBoxBits | (row < last_row ? row : last_row)) << kBoxKindBits) | kind;
}

// The smallest code that any thread has met.
class FirstError {
 public:
  explicit FirstError(int64_t code = kNoError) : first_(code) {}
  void note(int64_t code) {
    int64_t seen = first_.load(std::memory_order_relaxed);
    while (code < seen && !first_.compare_exchange_weak(seen, code)) {
    }
  }
  int64_t code() const { return first_.load(); }

 private:
  std::atomic<int64_t> first_;
};

}  // namespace valor
