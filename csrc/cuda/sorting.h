// A device-wide sort, which CUB makes; under csrc/sim a stand-in with the same meaning. It neither allocates
// nor waits; it returns 0 or the cudaError_t.
#pragma once
#include <stdint.h>

namespace valor {

// Two arrays that a sort uses in turn; `keys` and `rows` hold the result.
struct SortPairs {
  uint64_t *keys, *spare_keys;
  uint32_t *rows, *spare_rows;
};

// Bytes of scratch that a sort needs for `count` items, less than 2^31.
int32_t sort_pairs_scratch(int64_t count, int64_t* bytes);

// Sorts by bits [begin, end) of the keys, stable.
int32_t sort_pairs(SortPairs& pairs, int64_t count, int begin, int end, void* scratch, int64_t scratch_bytes,
                   void* stream);

__extension__ typedef unsigned __int128 Word128;

// Two arrays that a sort uses in turn; `now` holds what there is, then the result.
template <class Word>
struct SortWords {
  Word *now, *spare;
};

// Sorts words of type uint64_t or Word128 likewise. Without scratch it only says how many `bytes` it needs.
template <class Word>
int32_t sort_words(SortWords<Word>& words, int64_t count, int begin, int end, void* scratch, int64_t& bytes,
                   void* stream);

}  // namespace valor
