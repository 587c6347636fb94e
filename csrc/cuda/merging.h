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

constexpr int kStrip = 256;  // items that a block sorts

// Merges items whose strips of kStrip are sorted, fewer than 2^31. Neither allocates nor waits; returns 0 or
// the cudaError_t.
int32_t merge_strips(SortKeys& keys, int64_t count, void* stream);

#if defined(__CUDACC__)
// Writes the items of a block of kStrip threads in order, from `first` on; only `there` of its threads have
// one. The place of an item is the number of smaller ones.
__device__ __forceinline__ void write_strip(const SortKey& own, bool there, SortKey* first, SortKey* strip) {
  strip[threadIdx.x] = there ? own : SortKey{~0ull, ~0ull};
  __syncthreads();
  uint32_t rank = 0;
  VALOR_ROLLED
  for (int j = 0; j < kStrip; j += 4) {
    VALOR_UNROLLED
    for (int other = j; other < j + 4; ++other) rank += strip[other].below(own);
  }
  if (there) first[rank] = own;
}
#endif

}  // namespace valor
