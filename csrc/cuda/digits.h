// A stable radix sort of some hundred thousand to some million items, in one launch for each digit of 8 bits
// and one that counts them. CUB's takes two more and two memsets, and one memset a digit, and its blocks are
// so large that few multiprocessors have one.
#pragma once
#include "sorting.h"

namespace valor {

constexpr int64_t kMostByDigits = 1 << 21;  // items; more of them keep CUB's blocks busy

// Words of 8 bytes that a sort by `bits` bits needs, all 0.
int64_t digit_words(int64_t count, int bits);

// Sorts by the lowest `bits` bits of the keys. Neither allocates nor waits; returns 0 or the cudaError_t.
int32_t sort_by_digits(SortPairs& pairs, int64_t count, int bits, int64_t* words, void* stream);

}  // namespace valor
