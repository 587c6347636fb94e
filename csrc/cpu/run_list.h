// Runs of masks whose number nobody knows before they are made: parts in memory of C++, until the caller has
// an array for them.
#pragma once
#include <stdint.h>
#include <string.h>

#include <memory>
#include <vector>

#include "pool.h"

namespace valor {

struct RunList {
  std::vector<std::vector<int32_t>> parts;
};

// Calls make(mask, runs) for each mask, which adds the runs of the mask to `runs`. Writes where they begin to
// offsets [masks + 1], and returns the list of all.
template <class Make>
std::unique_ptr<RunList> list_runs(int64_t masks, int64_t grain, int threads, int64_t* offsets, Make&& make) {
  auto list = std::make_unique<RunList>();
  list->parts.resize(static_cast<size_t>((masks + grain - 1) / grain));
  auto body = [&](int64_t begin, int64_t end) {
    std::vector<int32_t>& part = list->parts[static_cast<size_t>(begin / grain)];
    for (int64_t mask = begin; mask < end; ++mask) {
      const size_t before = part.size();
      make(mask, part);
      offsets[mask + 1] = static_cast<int64_t>(part.size() - before);
    }
  };
  parallel_for(masks, grain, threads, body);
  offsets[0] = 0;
  for (int64_t mask = 0; mask < masks; ++mask) offsets[mask + 1] += offsets[mask];
  return list;
}

}  // namespace valor
