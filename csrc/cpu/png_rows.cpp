// Rows of a PNG as they were before they were filtered: ISO/IEC 15948, 9.2. A filtered row begins with its
// filter.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../core/platform.h"
#include "guard.h"

namespace valor {
namespace {

enum Filter : uint8_t { kNone = 0, kSub = 1, kUp = 2, kAverage = 3, kPaeth = 4 };

struct Sub {
  static int predict(int left, int, int) { return left; }
};
struct Up {
  static int predict(int, int above, int) { return above; }
};
struct Average {
  static int predict(int left, int above, int) { return (left + above) >> 1; }
};
struct Paeth {
  static int predict(int left, int above, int corner) {
    const int to_left = std::abs(above - corner), to_above = std::abs(left - corner);
    const int to_corner = std::abs(left + above - 2 * corner);
    if (to_left <= to_above && to_left <= to_corner) return left;
    return to_above <= to_corner ? above : corner;
  }
};

// Adds its prediction to each byte; the first pixel has zeros at its left.
template <int kStep, class Rule>
void add_predictions(const uint8_t* __restrict in, const uint8_t* __restrict above, uint8_t* out,
                     int64_t size) {
  for (int64_t i = 0; i < size && i < kStep; ++i)
    out[i] = static_cast<uint8_t>(in[i] + Rule::predict(0, above[i], 0));
  for (int64_t i = kStep; i < size; ++i) {
    out[i] = static_cast<uint8_t>(in[i] + Rule::predict(out[i - kStep], above[i], above[i - kStep]));
  }
}

// False for a filter that does not exist.
template <int kStep>
bool restore_row(const uint8_t* in, const uint8_t* above, uint8_t* out, int64_t size) {
  const uint8_t filter = *in++;
  switch (filter) {
    case kNone:
      std::memcpy(out, in, size);
      return true;
    case kSub:
      add_predictions<kStep, Sub>(in, above, out, size);
      return true;
    case kUp:
      add_predictions<kStep, Up>(in, above, out, size);
      return true;
    case kAverage:
      add_predictions<kStep, Average>(in, above, out, size);
      return true;
    case kPaeth:
      add_predictions<kStep, Paeth>(in, above, out, size);
      return true;
    default:
      return false;
  }
}

}  // namespace
}  // namespace valor

// `rows` rows of a filter and `size` bytes, of pixels of at most `step` bytes (1 or 2), into rows of `size`
// bytes. `bad` is the first row whose filter does not exist, at which the work stops, or -1.
VALOR_API int32_t valor_png_rows_cpu(const uint8_t* in, int64_t rows, int64_t size, int64_t step,
                                     uint8_t* out, int64_t* bad) {
  return valor::guarded([&] {
    const std::vector<uint8_t> zeros(size);
    const uint8_t* above = zeros.data();
    const auto restore = step == 2 ? valor::restore_row<2> : valor::restore_row<1>;
    *bad = -1;
    for (int64_t row = 0; row < rows; ++row, in += size + 1, out += size) {
      if (!restore(in, above, out, size)) {
        *bad = row;
        return;
      }
      above = out;
    }
  });
}
