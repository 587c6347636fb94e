// Loads the rows of one side of a batch, whatever their geometry.
#pragma once
#include <algorithm>

#include "../core/error_codes.h"
#include "../core/ragged.h"
#include "pool.h"

namespace valor {

// `task` has `images` and `first()`, where each image begins; load(image, row) returns an error code; `grain`
// is how many rows are worth a thread. `error` keeps the smallest code it has met.
template <class Rows, class Load>
void load_rows(const Rows& task, const Load& load, int64_t grain, int64_t* error, int64_t threads) {
  if (task.images == 0) return;
  FirstError first(*error);
  auto body = [&](int64_t begin, int64_t end) {
    if (begin == end) return;
    for (int64_t image = segment_of(task.first(), task.images, begin); begin < end; ++image)
      for (; begin < std::min(end, task.first()[image + 1]); ++begin) first.note(load(image, begin));
  };
  parallel_for(task.first()[task.images], grain, static_cast<int>(threads), body);
  *error = first.code();
}

}  // namespace valor
