// Values of COCO records read on demand: lists of numbers from the places that a scan has found.
#include <math.h>
#include <string.h>

#include <algorithm>
#include <atomic>

#include "../core/error_codes.h"
#include "../core/json.h"
#include "../core/platform.h"
#include "guard.h"
#include "pool.h"
#include "simd.h"

namespace valor {
namespace {

using json::Cursor;

constexpr int64_t kRowsAtATime = 256;

// Places of texts in a file; `rows` says whose.
struct Texts {
  const char* data;
  int64_t size;
  const int64_t* places;  // [N, 2]: where a text begins, and how long it is
  const int64_t* rows;

  Cursor cursor(int64_t k) const {
    const int64_t* const place = places + 2 * rows[k];
    const bool inside = place[0] >= 0 && place[1] >= 0 && place[0] <= size && place[1] <= size - place[0];
    const char* const begin = data + (inside ? place[0] : 0);
    return {begin, begin + (inside ? place[1] : 0)};
  }
};

VALOR_CLONES int64_t count_commas(const char* at, const char* end) { return std::count(at, end, ','); }

// How many numbers the list has if it holds nothing else.
int64_t count_numbers(Cursor c) {
  if (c.left() < 2) return 0;
  ++c.at;
  json::skip_space(c);
  return c.peek() == ']' ? 0 : 1 + count_commas(c.at, c.end);
}

bool read_numbers(Cursor c, double* out, int64_t count) {
  if (c.peek() != '[') return false;
  for (int64_t n = 0; n < count; ++n) {
    ++c.at;
    json::skip_space(c);
    json::Number number;
    if (!json::take_number(c, number)) return false;
    out[n] = number.real;
    json::skip_space(c);
    if (c.peek() != (n + 1 < count ? ',' : ']')) return false;
  }
  return true;
}

// The box around keypoints, x, y, width, height; false where `values` are not three finite numbers for each.
bool box_points(const double* values, int64_t size, double* box) {
  double low[3] = {INFINITY, INFINITY, INFINITY}, high[3] = {-INFINITY, -INFINITY, -INFINITY};
  double odd[3] = {0.0, 0.0, 0.0};
  for (int64_t i = 0; i + 3 <= size; i += 3)
    for (int64_t axis = 0; axis < 3; ++axis) {
      const double value = values[i + axis];
      low[axis] = value < low[axis] ? value : low[axis];
      high[axis] = value > high[axis] ? value : high[axis];
      odd[axis] += value - value;  // inf - inf and nan - nan are nan
    }
  box[0] = low[0], box[1] = low[1], box[2] = high[0] - low[0], box[3] = high[1] - low[1];
  return size > 0 && size % 3 == 0 && odd[0] + odd[1] + odd[2] == 0.0;
}

}  // namespace
}  // namespace valor

using namespace valor;

// Where the numbers of each list begin, were they in one array. offsets: int64 [count + 1].
VALOR_API int32_t valor_coco_number_rooms_cpu(const char* data, int64_t size, const int64_t* places,
                                              const int64_t* rows, int64_t count, int64_t* offsets,
                                              int64_t threads) {
  return guarded([&] {
    const Texts texts{data, size, places, rows};
    auto work = [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) offsets[k + 1] = count_numbers(texts.cursor(k));
    };
    parallel_for(count, kRowsAtATime, static_cast<int>(threads), work);
    offsets[0] = 0;
    for (int64_t k = 0; k < count; ++k) offsets[k + 1] += offsets[k];
  });
}

// Reads the lists into values[offsets[0], offsets[count]). bad: the first list that is not one of numbers,
// or count.
VALOR_API int32_t valor_coco_numbers_cpu(const char* data, int64_t size, const int64_t* places,
                                         const int64_t* rows, int64_t count, const int64_t* offsets,
                                         double* values, int64_t threads, int64_t* bad) {
  return guarded([&] {
    const Texts texts{data, size, places, rows};
    std::atomic<int64_t> first{count};
    auto work = [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        if (read_numbers(texts.cursor(k), values + offsets[k], offsets[k + 1] - offsets[k])) continue;
        for (int64_t seen = first; k < seen && !first.compare_exchange_weak(seen, k);) {
        }
        return;
      }
    };
    parallel_for(count, kRowsAtATime, static_cast<int>(threads), work);
    *bad = first;
  });
}

// Boxes [count, 4] around the keypoints values[offsets[k], offsets[k + 1]). bad: the first that are none, or
// count.
VALOR_API int32_t valor_point_boxes_cpu(const double* values, const int64_t* offsets, int64_t count,
                                        double* boxes, int64_t threads, int64_t* bad) {
  return guarded([&] {
    FirstError first(count);
    auto work = [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k)
        if (!box_points(values + offsets[k], offsets[k + 1] - offsets[k], boxes + 4 * k)) first.note(k);
    };
    parallel_for(count, kRowsAtATime, static_cast<int>(threads), work);
    *bad = first.code();
  });
}
