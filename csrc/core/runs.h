// Masks as run lengths, column by column: zeros first, then ones, zeros and so on. The string codec of COCO,
// measures, and intersections without pixels.
#pragma once
#include "platform.h"

namespace valor {

// The runs of mask m are counts[offsets[m]] to counts[offsets[m + 1] - 1]; they add up to height x width,
// which is below 2^31. A mask without runs has no pixel set. Fields as in Runs of valor_gpu/ops/runs/op.py.
struct Runs {
  const int32_t* counts;
  const int64_t* offsets;  // [masks + 1]
  const int32_t* sizes;    // [masks, 2]: height, width
  int64_t masks;

  VALOR_HD const int32_t* begin(int64_t mask) const { return counts + offsets[mask]; }
  VALOR_HD int64_t size(int64_t mask) const { return offsets[mask + 1] - offsets[mask]; }
  VALOR_HD int32_t height(int64_t mask) const { return sizes[2 * mask]; }
  VALOR_HD int32_t width(int64_t mask) const { return sizes[2 * mask + 1]; }
  VALOR_HD int64_t pixels(int64_t mask) const { return static_cast<int64_t>(height(mask)) * width(mask); }
};

// ---------------------------------------------------------------------------------------------- string codec
// A number is groups of 5 bits, lowest first, a character 48 + group each, with 32 added if another follows;
// the highest bit of the last group is the sign. From the fourth run on it is the difference to the run
// before the last.

// Why a string is no mask; negative, so that decode_runs can return one of them in place of a size.
enum RunError : int64_t {
  kRunCharacter = -1,   // a character outside 48 to 111
  kRunUnfinished = -2,  // the last number has no last group
  kRunNumber = -3,      // a number of more than 60 bits
  kRunNegative = -4,    // a run below 0
  kRunTooLong = -5,     // a run above 2^31 - 1
  kRunSum = -6,         // the runs do not add up to height x width
};

// The first error of a string, where it is (a character, a run) and the value there.
struct RunProblem {
  int64_t error, position, value;
};

constexpr int kMostRunBits = 60;

// Text -> runs, for which `counts` must have room: as many as characters, or as number_of_runs says. Returns
// how many there are, or a RunError. Empty text is a mask without runs. Not inline: among the code of a
// caller its sums do not stay in registers, which doubles the time.
__attribute__((noinline)) inline int64_t decode_runs(const uint8_t* text, int64_t size, int64_t pixels,
                                                     int32_t* counts) {
  const uint8_t* at = text;
  const uint8_t* const end = text + size;
  int64_t runs = 0, sum = 0, previous = 0, last = 0;  // `previous` is the run before the last
  uint32_t characters = 0;                            // or of all: no branch for each
  uint64_t values = 0;
  while (at < end) {
    uint32_t c = static_cast<uint32_t>(*at++) - 48u;
    characters |= c;
    int64_t value = static_cast<int32_t>(c << 27) >> 27;
    if (c & 32u) {
      value &= 31;
      int shift = 5;
      do {
        if (at == end) return kRunUnfinished;
        if (shift >= kMostRunBits) return kRunNumber;
        c = static_cast<uint32_t>(*at++) - 48u;
        characters |= c;
        value |= static_cast<int64_t>(c & 31u) << shift;
        shift += 5;
      } while (c & 32u);
      value = static_cast<int64_t>(static_cast<uint64_t>(value) << (64 - shift)) >> (64 - shift);
    }
    value += runs > 2 ? previous : 0;
    previous = last;
    last = static_cast<int32_t>(value);
    counts[runs++] = static_cast<int32_t>(value);
    values |= static_cast<uint64_t>(value);
    sum += last;
  }
  if (characters > 63u) return kRunCharacter;
  if (values >> 31) return values >> 63 ? kRunNegative : kRunTooLong;
  return sum == pixels || !runs ? runs : kRunSum;
}

// The first error of a string that decode_runs rejects, for a message.
inline RunProblem explain_runs(const uint8_t* text, int64_t size, int64_t pixels) {
  int64_t at = 0, runs = 0, sum = 0, window[3] = {0, 0, 0};
  while (at < size) {
    int64_t value = 0;
    for (int shift = 0;; shift += 5) {
      if (at == size) return {kRunUnfinished, at, 0};
      if (shift >= kMostRunBits) return {kRunNumber, runs, 0};
      const int64_t c = static_cast<int64_t>(text[at]) - 48;
      if (c < 0 || c > 63) return {kRunCharacter, at, text[at]};
      ++at;
      value |= (c & 31) << shift;
      if (c & 32) continue;
      if (c & 16) value -= int64_t{1} << (shift + 5);
      break;
    }
    if (runs > 2) value += window[(runs - 2) % 3];
    if (value < 0) return {kRunNegative, runs, value};
    if (value > INT32_MAX) return {kRunTooLong, runs, value};
    window[runs++ % 3] = value;
    sum += value;
  }
  return sum == pixels || !runs ? RunProblem{0, 0, runs} : RunProblem{kRunSum, runs, sum};
}

// What is written for run i.
inline int64_t run_difference(const int32_t* counts, int64_t i) {
  return i > 2 ? static_cast<int64_t>(counts[i]) - counts[i - 2] : counts[i];
}

constexpr int64_t kMostRunCharacters = 7;  // of a run, or of the difference of two

// Characters of a number, from 1 to kMostRunCharacters.
inline int32_t run_characters(int64_t value) {
  const uint64_t bits = static_cast<uint64_t>(value < 0 ? ~value : value);  // without the sign
  int32_t characters = 1;
  for (uint64_t rest = bits >> 4; rest; rest >>= 5) ++characters;
  return characters;
}

inline uint8_t* write_run(int64_t value, uint8_t* out) {
  if (-16 <= value && value < 16)
    return *out = static_cast<uint8_t>(48 + (value & 31)), out + 1;  // most often
  for (int32_t left = run_characters(value); left > 0; --left, value >>= 5)
    *out++ = static_cast<uint8_t>(48 + (value & 31) + (left > 1 ? 32 : 0));
  return out;
}

// -------------------------------------------------------------------------------------------------- measures

// Bounds of the pixels of a mask, ends excluded; a run that goes on in the next column spans all rows, as in
// pycocotools. Without a pixel all are 0.
struct RunBox {
  uint32_t left, top, right, bottom;

  VALOR_HD bool meets(const RunBox& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

// Takes the non-empty runs of ones [begin, end) of a mask in their order.
class RunMeasure {
 public:
  VALOR_HD explicit RunMeasure(int32_t height) : height_(static_cast<uint32_t>(height)) {}

  VALOR_HD void add(uint32_t begin, uint32_t end) {
    if (!area_) first_ = begin;
    area_ += end - begin;
    last_ = end - 1;
    if (spans_) return;
    uint32_t row = begin - column_;
    if (row >= height_) {  // most often the next column
      row -= height_;
      column_ += height_;
      if (row >= height_) {
        const uint32_t columns = row / height_;
        column_ += columns * height_;
        row -= columns * height_;
      }
    }
    spans_ = end - begin > height_ - row;
    top_ = row < top_ ? row : top_;
    const uint32_t bottom = row + (end - begin);
    bottom_ = bottom > bottom_ ? bottom : bottom_;
  }
  VALOR_HD uint32_t area() const { return area_; }
  VALOR_HD RunBox box() const {
    if (!area_) return {0, 0, 0, 0};
    const uint32_t left = first_ / height_, right = last_ / height_ + 1;
    return spans_ ? RunBox{left, 0, right, height_} : RunBox{left, top_, right, bottom_};
  }

 private:
  uint32_t height_, column_ = 0, area_ = 0, first_ = 0, last_ = 0, top_ = ~0u, bottom_ = 0;
  bool spans_ = false;
};

// Calls take(begin, end) for every run of ones that is not empty.
template <class Take>
VALOR_HD void for_each_run(const int32_t* counts, int64_t runs, Take&& take) {
  uint32_t at = 0;
  for (int64_t i = 1; i < runs; i += 2) {
    const uint32_t begin = at + static_cast<uint32_t>(counts[i - 1]);
    at = begin + static_cast<uint32_t>(counts[i]);
    if (at > begin) take(begin, at);
  }
}

// Runs of ones as half-open intervals: begin, end, begin, end, ...
struct Intervals {
  const uint32_t* ends;
  int64_t size;

  // The first interval that ends behind `place`.
  VALOR_HD int64_t after(uint32_t place) const {
    int64_t low = 0, high = size;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (ends[2 * middle + 1] <= place)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
};

}  // namespace valor
