// What the kernels share that count the labels of detection records and order them: the task as Python packs
// it, the tables in between, and the table of labels.
#pragma once
#include "../core/curves.h"
#include "../core/match_batch.h"
#include "launch.h"
#include "merging.h"
#include "sorting.h"
#include "table_layout.h"

namespace valor {

constexpr int kThreads = 256;
constexpr int64_t kMostMerged = 1 << 17;  // rows that are sorted by merging, more of them by radix
constexpr int kScoreBits = 32;            // of a key, below its class, unless scores are float64

// Words that the host reads in the end; valor_gpu/ops/accumulate/cuda.py lists the same.
enum Word : int {
  kErrorWord,                      // the error code that the state holds
  kRepeatedWord,                   // 1: an image id came more than once, so that nothing else holds
  kWideWord,                       // 1: float32 does not hold every score, so that the order does not hold
  kInvalidWord,                    // 1: the images do not hold as many rows as there are
  kFullWord,                       // 1: there are more labels than the table of labels takes
  kLabelsWord,                     // distinct labels
  kDetectionsWord,                 // rows that are no padding
  kGroundTruthsWord,               // likewise
  kIgnoredWord,                    // ground truths that are crowds or ignored
  kRankedWord,                     // detections within a max-detection limit
  kNegativeWord,                   // boxes of negative size: detections, then ground truths
  kReachWord = kNegativeWord + 2,  // largest absolute coordinate, float32 bits: likewise
  kWords = kReachWord + 2,
};

#if defined(__CUDACC__)
// Sets a word to 1, which many threads of a launch may do.
__device__ __forceinline__ void set_word(int64_t* words, Word word) {
  if (words[word] == 0) atomicOr(reinterpret_cast<unsigned long long*>(words + word), 1ull);
}
#endif

// Fields are 64-bit words. Everything but the task itself is on the device.
struct OrderTask {
  const uint8_t *detections, *ground_truths;
  const int64_t *images, *error;  // error: null for none
  int64_t num_detections, num_ground_truths, num_images;
  int64_t thresholds, areas, limits;
  int64_t agnostic;         // one class, whatever the labels
  int64_t by_key;           // images are ordered by their key, not by arrival
  int64_t wide;             // scores are float64
  int64_t capacity;         // of `labels`, and of classes unless agnostic
  int64_t slots;            // of the table of labels: a power of two, more than twice the capacity
  const int64_t* wanted;    // [num_wanted] ascending labels, all others left out; null: those that rows have
  int64_t num_wanted;       // the capacity, or 0
  int64_t *words, *labels;  // [kWords], [capacity] ascending
  int64_t *positives, *offsets;  // [classes, A], [classes + 1]
  int64_t* order;                // [D]

  VALOR_HD int64_t classes() const { return agnostic && capacity > 0 ? 1 : capacity; }
  VALOR_HD CurveShape shape() const { return {thresholds, areas, limits, 0, classes()}; }
  VALOR_HD const uint8_t* detection(int64_t row) const { return detections + row * shape().row_bytes(); }
  VALOR_HD const uint8_t* ground_truth(int64_t row) const {
    return ground_truths + row * (4 + (areas + 2 + 7) / 8);
  }
  VALOR_HD static bool bit(const uint8_t* ground_truth, int64_t b) {
    return ground_truth[4 + b / 8] >> (b % 8) & 1;
  }
  int64_t detection_blocks() const { return (num_detections + kThreads - 1) / kThreads; }
  int64_t ground_truth_blocks() const { return (num_ground_truths + kThreads - 1) / kThreads; }
};

// The first 4 kCount - 3 bytes from `from` on, as aligned words hold them; two more are there at least, so
// that none of these ends behind them. What the last word has above its first byte has no meaning.
template <int kCount>
VALOR_HD void load_words(const uint8_t* from, uint32_t (&words)[kCount]) {
  const int skipped = static_cast<int>(reinterpret_cast<uintptr_t>(from) & 3);
  const uint32_t* const aligned = reinterpret_cast<const uint32_t*>(from - skipped);
  VALOR_UNROLLED
  for (int i = 0; i < kCount - 1; ++i) words[i] = aligned[i];
  words[kCount - 1] = skipped ? aligned[kCount - 1] : from[4 * (kCount - 1)];
  VALOR_UNROLLED
  for (int i = 0; i < kCount; ++i)
    words[i] = static_cast<uint32_t>(
        (static_cast<uint64_t>(i + 1 < kCount ? words[i + 1] : 0) << 32 | words[i]) >> (8 * skipped));
}

VALOR_HD int32_t ground_truth_label(const uint8_t* row) {
  int32_t label;
  memcpy(&label, row, 4);
  return label;
}

// Distinct labels in open addressing: any int32, so that a slot in use has a bit above them.
struct LabelTable {
  unsigned long long* slots;  // [size] label, kUsed, class; then how many blocks are done with them
  int32_t* used;              // [capacity] these slots, in no order
  int64_t size, capacity;
  int64_t* words;

  static constexpr int kClassShift = 33;
  static constexpr unsigned long long kUsed = 1ull << 32, kEntry = (1ull << kClassShift) - 1;
  VALOR_HD static unsigned long long entry(int32_t label) { return kUsed | static_cast<uint32_t>(label); }
  VALOR_HD static unsigned long long entry(int32_t label, int64_t k) {
    return static_cast<unsigned long long>(k) << kClassShift | entry(label);
  }
  VALOR_HD int64_t first(int32_t label) const {
    return static_cast<int64_t>(mix(static_cast<uint32_t>(label)) & static_cast<uint64_t>(size - 1));
  }

#if defined(__CUDACC__)
  // The slot of a label that is new, else -1.
  __device__ __forceinline__ int64_t insert(int32_t label) const {
    unsigned long long* const number = reinterpret_cast<unsigned long long*>(words + kLabelsWord);
    int64_t at = first(label);
    for (int64_t i = 0; i < size; ++i, at = (at + 1) & (size - 1)) {
      unsigned long long found = slots[at];
      if (found == 0) {
        if (2 * words[kLabelsWord] >= size) break;
        found = atomicCAS(slots + at, 0ull, entry(label));
        if (found == 0) {
          const int64_t place = static_cast<int64_t>(atomicAdd(number, 1ull));
          if (place < capacity) used[place] = static_cast<int32_t>(at);
          return at;
        }
      }
      if ((found & kEntry) == entry(label)) return -1;
    }
    set_word(words, kFullWord);
    return -1;
  }
#endif

  // Class of a label, -1 if it has none.
  VALOR_HD int32_t find(int32_t label) const {
    for (int64_t at = first(label);; at = (at + 1) & (size - 1)) {
      const unsigned long long found = slots[at];
      if ((found & kEntry) == entry(label)) return static_cast<int32_t>(found >> kClassShift);
      if (found == 0) return -1;
    }
  }
  // Whether all labels are here and have classes.
  VALOR_HD bool holds() const {
    volatile const int64_t* const now = words;
    const int64_t full = now[kFullWord], count = now[kLabelsWord];  // both loads are under way at once
    return full == 0 && count <= capacity;
  }
};

struct OrderTables {
  LabelTable labels;
  SortKeys images;   // [I]
  int64_t* arrival;  // [I] detections before each image, in the order of arrival
  int64_t* starts;   // [I] and in the order of the keys
  int64_t* sums;     // [2, tiles] detections of each tile of images
  SortKeys keys;     // [D] class and score, then place and row: where rows are merged
  SortPairs pairs;   // [D] where they are not
  void* scratch;
  int64_t scratch_bytes;
};

struct Ordering {
  OrderTask task;
  OrderTables tables;

  VALOR_HD bool merged() const { return !task.wide && task.num_detections <= kMostMerged; }
  // Bits of a class, that of rows left out included.
  int class_bits() const {
    int bits = 1;
    while (task.classes() >> bits) ++bits;
    return bits;
  }
};

int32_t count_labels(const Ordering& run, void* stream);

}  // namespace valor
