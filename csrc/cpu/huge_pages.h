// Large pages for large arrays: the kernel clears them in a few faults instead of thousands, and what is
// scattered over them misses fewer translations of addresses.
#pragma once
#include <stdint.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace valor {

constexpr int64_t kHugeBytes = int64_t{1} << 21;  // a large page of x86-64

// Asks for large pages in fresh memory that will be written whole; it changes no content.
inline void ask_for_huge_pages(void* data, int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  const uint64_t page = kHugeBytes, first = (reinterpret_cast<uint64_t>(data) + page - 1) / page * page;
  const uint64_t last = (reinterpret_cast<uint64_t>(data) + static_cast<uint64_t>(bytes)) / page * page;
  if (bytes >= 4 * kHugeBytes && first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#else
  static_cast<void>(data), static_cast<void>(bytes);
#endif
}

}  // namespace valor
