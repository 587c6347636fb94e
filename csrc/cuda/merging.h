// A sort by merging for up to some hundred thousand items of 16 bytes, in few launches of many small blocks:
// a radix sort of so few has a handful of large blocks, one after another for each digit.
#pragma once
#include <stdint.h>

#include "../core/platform.h"

namespace valor {

// Compared as one number of 128 bits. No two items may be equal.
struct alignas(16) SortKey {
  uint64_t high, low;

  VALOR_HD bool operator<(const SortKey& other) const {
    return high != other.high ? high < other.high : low < other.low;
  }
};

// Two arrays that a sort uses in turn; `now` holds what there is, then the result.
struct SortKeys {
  SortKey *now, *spare;
};

// Sorts less than 2^31 items. Neither allocates nor waits; returns 0 or the cudaError_t.
int32_t sort_keys(SortKeys& keys, int64_t count, void* stream);

}  // namespace valor
