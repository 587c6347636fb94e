// Loops over rows that find the first problem.
#pragma once
#include <atomic>

#include "../core/targets.h"
#include "pool.h"

namespace valor {

// Lowers `first` to `found`.
inline void lower(std::atomic<int64_t>& first, int64_t found) {
  int64_t seen = first.load();
  while (found < seen && !first.compare_exchange_weak(seen, found)) {
  }
}

// Calls work(begin, end), which returns a problem, over all rows; *problem becomes the first.
template <class Work>
void over_rows(int64_t rows, int64_t grain, int64_t threads, int64_t* problem, Work work) {
  std::atomic<int64_t> first{*problem};
  auto body = [&](int64_t begin, int64_t end) { lower(first, work(begin, end)); };
  parallel_for(rows, grain, static_cast<int>(threads), body);
  *problem = first.load();
}

}  // namespace valor
