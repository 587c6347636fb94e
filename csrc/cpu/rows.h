// Loops over rows that find the first error.
#pragma once
#include "../core/error_codes.h"
#include "pool.h"

namespace valor {

// Calls work(begin, end), which returns an error code, over all rows; *error becomes the first.
template <class Work>
void over_rows(int64_t rows, int64_t grain, int64_t threads, int64_t* error, Work work) {
  FirstError first(*error);
  auto body = [&](int64_t begin, int64_t end) { first.note(work(begin, end)); };
  parallel_for(rows, grain, static_cast<int>(threads), body);
  *error = first.code();
}

}  // namespace valor
