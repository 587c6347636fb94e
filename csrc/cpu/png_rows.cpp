// The rows of a PNG as they were before their filters: ISO/IEC 15948, 9.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <vector>

#include "../core/platform.h"
#include "guard.h"
#include "simd.h"

namespace valor {
namespace {

enum RowFilter : uint8_t { kNone, kSub, kUp, kAverage, kPaeth };

constexpr int64_t kChunk = 8;  // bytes that are compared at once

inline uint64_t chunk_at(const uint8_t* bytes) {
  uint64_t chunk;
  memcpy(&chunk, bytes, kChunk);
  return chunk;
}

inline uint8_t paeth(int left, int above, int corner) {
  const int by_left = abs(above - corner), by_above = abs(left - corner);
  const int by_corner = abs(left + above - 2 * corner);
  if (by_left <= by_above && by_left <= by_corner) return static_cast<uint8_t>(left);
  return static_cast<uint8_t>(by_above <= by_corner ? above : corner);
}

// Bytes [begin, end) of a row of Paeth's filter; there are bytes left of the first.
template <int64_t kStep>
inline void undo_paeth(const uint8_t* in, const uint8_t* above, int64_t begin, int64_t end, uint8_t* out) {
  for (int64_t i = begin; i < end; ++i)
    out[i] = static_cast<uint8_t>(in[i] + paeth(out[i - kStep], above[i], above[i - kStep]));
}

// Label maps have long stretches where nothing differs from what is predicted, which need no arithmetic:
// where left and corner are equal the prediction is what is above, and so on to the right; where corner and
// above are equal it is what is left.
template <int64_t kStep>
void paeth_row(const uint8_t* in, const uint8_t* above, int64_t size, uint8_t* out) {
  for (int64_t i = 0; i < kStep; ++i) out[i] = static_cast<uint8_t>(in[i] + above[i]);
  int64_t i = kStep;
  for (; i + kChunk <= size; i += kChunk) {
    if (chunk_at(in + i) != 0) {
      undo_paeth<kStep>(in, above, i, i + kChunk, out);
    } else if (memcmp(out + i - kStep, above + i - kStep, kStep) == 0) {
      memcpy(out + i, above + i, kChunk);
    } else if (chunk_at(above + i) == chunk_at(above + i - kStep)) {
      for (int64_t k = i; k < i + kChunk; ++k) out[k] = out[k - kStep];
    } else {
      undo_paeth<kStep>(in, above, i, i + kChunk, out);
    }
  }
  undo_paeth<kStep>(in, above, i, size, out);
}

template <int64_t kStep>
void left_row(const uint8_t* in, int64_t size, uint8_t* out) {
  memcpy(out, in, kStep);
  for (int64_t i = kStep; i < size; ++i) out[i] = static_cast<uint8_t>(in[i] + out[i - kStep]);
}

template <int64_t kStep>
void average_row(const uint8_t* in, const uint8_t* above, int64_t size, uint8_t* out) {
  for (int64_t i = 0; i < kStep; ++i) out[i] = static_cast<uint8_t>(in[i] + (above[i] >> 1));
  for (int64_t i = kStep; i < size; ++i)
    out[i] = static_cast<uint8_t>(in[i] + ((out[i - kStep] + above[i]) >> 1));
}

VALOR_CLONES void above_row(const uint8_t* __restrict in, const uint8_t* __restrict above, int64_t size,
                            uint8_t* __restrict out) {
  for (int64_t i = 0; i < size; ++i) out[i] = static_cast<uint8_t>(in[i] + above[i]);
}

// Restores rows of pixels of kStep bytes; returns the first row whose filter does not exist, or -1.
template <int64_t kStep>
int64_t restore(const uint8_t* in, int64_t rows, int64_t size, uint8_t* out) {
  const std::vector<uint8_t> zeros(static_cast<size_t>(size));
  const uint8_t* above = zeros.data();
  for (int64_t row = 0; row < rows; ++row, in += size, above = out, out += size) {
    switch (*in++) {
      case kNone:
        memcpy(out, in, static_cast<size_t>(size));
        break;
      case kSub:
        left_row<kStep>(in, size, out);
        break;
      case kUp:
        above_row(in, above, size, out);
        break;
      case kAverage:
        average_row<kStep>(in, above, size, out);
        break;
      case kPaeth:
        paeth_row<kStep>(in, above, size, out);
        break;
      default:
        return row;
    }
  }
  return -1;
}

}  // namespace
}  // namespace valor

// Takes rows [rows, 1 + size], each a filter and its bytes, to out [rows, size]. `step` is how many bytes a
// pixel has: 1 (or part of one), 2 or 3, and size a multiple. `bad` becomes the first row whose filter does
// not exist, or -1.
VALOR_API int32_t valor_png_rows_cpu(const uint8_t* filtered, int64_t rows, int64_t size, int64_t step,
                                     uint8_t* out, int64_t* bad) {
  return valor::guarded([&] {
    const auto restore = step == 1   ? valor::restore<1>
                         : step == 2 ? valor::restore<2>
                         : step == 3 ? valor::restore<3>
                                     : nullptr;
    if (restore == nullptr) throw valor::Refused();
    *bad = restore(filtered, rows, size, out);
  });
}
