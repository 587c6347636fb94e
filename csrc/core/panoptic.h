// Panoptic segmentation: what a task holds, what a segment is, and when two segments match.
//
// A value of a map (a category, or the id of a segment) is looked up in a table of the caller. What is not
// there is void. Of an entry "with instances" each instance is a segment of its own, else the entry is one.
#pragma once
#include "pixel_counts.h"

namespace valor {

enum SegmentType : int { kRgb24 = 8 };  // beyond WideIntType: three bytes, red + 256 green + 65536 blue

struct Rgb24 {
  uint8_t red, green, blue;
  VALOR_HD operator int64_t() const { return red | green << 8 | blue << 16; }
};

enum EntryFlag : int64_t {
  kInstances = 1,  // instances are told apart
  kCrowd = 2,      // neither matched nor missed
  kExcuses = 4,    // predictions of its category that lie mostly on it are no false positives
};
constexpr int kEntryBits = 3;

// What values that no entry has are.
enum Unknown : int64_t { kVoid = 0, kBad = 1, kBadButZero = 2 };

constexpr int64_t kMostSegmentPixels = INT32_MAX;  // of an image, so that 32 bits number segments

struct PanopticSide {
  PixelMap map;             // of categories or ids
  int64_t instance_stride;  // from a category to its instance; 0: there are none
  const int64_t* keys;      // [entries], ascending
  const int64_t* values;    // [entries] category << kEntryBits | flags
  int64_t entries;
  int64_t unknown;  // an Unknown
  int64_t* areas;   // [entries] pixels, written where it is not null; for one image

  // The entry of a value, -1 where there is none.
  VALOR_HD int64_t find(int64_t key) const {
    int64_t low = 0, high = entries;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (keys[middle] < key)
        low = middle + 1;
      else
        high = middle;
    }
    return low < entries && keys[low] == key ? low : -1;
  }
  VALOR_HD bool is_bad(int64_t key) const { return unknown == kBad || (unknown == kBadButZero && key != 0); }
};

// The fields are 64-bit words: Python packs them.
struct PanopticTask {
  PanopticSide preds, target;
  int64_t images, rows, columns;
  int64_t classes;
  int64_t modified;       // categories from here on are scored without a threshold
  int64_t ignores_voids;  // void of a prediction is ignored as that of the ground truth

  VALOR_HD int64_t pixels() const { return rows * columns; }
};
static_assert(sizeof(PanopticTask) == 8 * 28, "valor_gpu/ops/panoptic/cpu.py packs 28 words");

// Rows of an image's table [kCells, classes]. The sum of IoUs is exact: three words of 32 bits a term, in
// units of 2^-32, 2^-64 and 2^-96.
enum PanopticCell : int {
  kTruePositives,
  kFalsePositives,
  kFalseNegatives,
  kPredicted,  // segments
  kTrue,       // segments but crowds
  kIouHigh,
  kIouMiddle,
  kIouLow,
  kCells
};

struct FixedIou {
  int64_t words[3];

  // The quotient rounded to a double, of at least 2^-43, has no bit below 2^-96.
  VALOR_HD FixedIou(int64_t intersection, int64_t together) {
    double rest = static_cast<double>(intersection) / static_cast<double>(together);
    for (int i = 0; i < 3; ++i) {
      rest *= 4294967296.0;
      words[i] = static_cast<int64_t>(rest);
      rest -= static_cast<double>(words[i]);
    }
  }
};

VALOR_HD bool is_match(int64_t intersection, int64_t together) { return 2 * intersection > together; }
VALOR_HD bool is_mostly(int64_t part, int64_t area) { return 2 * part > area; }

}  // namespace valor
