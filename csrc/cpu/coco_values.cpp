// Values of COCO records read on demand: lists of numbers from the places that a scan has found.
#include <string.h>

#include <algorithm>
#include <atomic>

#include "../core/json.h"
#include "../core/platform.h"
#include "guard.h"
#include "pool.h"

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

// How many numbers the list has if it holds nothing else.
int64_t count_numbers(Cursor c) {
  if (c.left() < 2) return 0;
  ++c.at;
  json::skip_space(c);
  return c.peek() == ']' ? 0 : 1 + std::count(c.at, c.end, ',');
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

}  // namespace
}  // namespace valor

using namespace valor;

// Where the numbers of each list begin, were they in one array. offsets: int64 [count + 1].
VALOR_API int32_t valor_coco_number_rooms_cpu(const char* data, int64_t size, const int64_t* places,
                                              const int64_t* rows, int64_t count, int64_t* offsets) {
  return guarded([&] {
    const Texts texts{data, size, places, rows};
    offsets[0] = 0;
    for (int64_t k = 0; k < count; ++k) offsets[k + 1] = offsets[k] + count_numbers(texts.cursor(k));
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
