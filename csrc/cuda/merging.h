// A sort by merging for up to some hundred thousand items of 16 bytes, in few launches of many small blocks:
// a radix sort of so few has a handful of large blocks, one after another for each digit.
#pragma once
#include <stdint.h>

#include "../core/platform.h"

namespace valor {

// Compared as one number of 128 bits. No two items may be equal.
struct alignas(16) SortKey {
  uint64_t high, low;

  // 1 if it is the smaller one, else 0, without a branch: a search is to have many loads under way.
  VALOR_HD uint32_t below(const SortKey& other) const {
#if defined(__CUDA_ARCH__)
    uint32_t borrowed;  // 0, or all bits, by the difference
    asm("{ .reg .u64 t; sub.cc.u64 t, %1, %3; subc.cc.u64 t, %2, %4; subc.u32 %0, 0, 0; }"
        : "=r"(borrowed)
        : "l"(low), "l"(high), "l"(other.low), "l"(other.high));
    return 0u - borrowed;
#else
    return high != other.high ? high < other.high : low < other.low;
#endif
  }
};

// Two arrays that a sort uses in turn; `now` holds what there is, then the result.
struct SortKeys {
  SortKey *now, *spare;
};

// Sorts less than 2^31 items. Neither allocates nor waits; returns 0 or the cudaError_t.
int32_t sort_keys(SortKeys& keys, int64_t count, void* stream);

}  // namespace valor
