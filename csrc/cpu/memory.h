// Counts what this library takes from the heap, for the thread that measures and those that help it.
#pragma once
#include <stdint.h>

#include <atomic>

namespace valor {

// Bytes that are taken now beyond those at the start, and the most there were.
struct MemoryCount {
  std::atomic<int64_t> now{0}, most{0};

  void add(int64_t size) {
    const int64_t sum = now.fetch_add(size, std::memory_order_relaxed) + size;
    int64_t before = most.load(std::memory_order_relaxed);
    while (sum > before && !most.compare_exchange_weak(before, sum, std::memory_order_relaxed)) {
    }
  }
};

inline std::atomic<int32_t> measuring{0};  // threads that measure: without any, nobody looks further
inline thread_local MemoryCount* counting = nullptr;

// Where the calling thread counts, nullptr if it does not.
inline MemoryCount* memory_count() {
  return measuring.load(std::memory_order_relaxed) != 0 ? counting : nullptr;
}

// Lets the calling thread count for another one until the end of the scope.
class CountsFor {
 public:
  explicit CountsFor(MemoryCount* other) { counting = other; }
  ~CountsFor() { counting = nullptr; }
  CountsFor(const CountsFor&) = delete;
  CountsFor& operator=(const CountsFor&) = delete;
};

}  // namespace valor
