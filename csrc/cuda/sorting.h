// Device-wide sorts, which CUB makes; under csrc/sim stand-ins with the same meaning. A sort neither
// allocates nor waits; it returns 0 or the cudaError_t.
#pragma once
#include <stdint.h>

#include "../core/platform.h"

namespace valor {

// What orders an image among those of a run: images without an id come first, by their hash; copies by
// arrival.
struct ImageKey {
  int64_t id;
  int32_t has_id, image;

  VALOR_HD bool same_id(const ImageKey& other) const { return has_id && other.has_id && id == other.id; }
  VALOR_HD bool operator<(const ImageKey& other) const {
    if (has_id != other.has_id) return has_id < other.has_id;
    return id != other.id ? id < other.id : image < other.image;
  }
};

// Two arrays that a sort uses in turn; `keys` and `rows` hold the result.
struct SortPairs {
  uint64_t *keys, *spare_keys;
  uint32_t *rows, *spare_rows;
};

// Bytes of scratch that each sort needs for `count` items, less than 2^31.
int32_t sort_pairs_scratch(int64_t count, int64_t* bytes);
int32_t sort_images_scratch(int64_t count, int64_t* bytes);

// Sorts by bits [begin, end) of the keys, stable.
int32_t sort_pairs(SortPairs& pairs, int64_t count, int begin, int end, void* scratch, int64_t scratch_bytes,
                   void* stream);
int32_t sort_images(ImageKey* images, int64_t count, void* scratch, int64_t scratch_bytes, void* stream);

}  // namespace valor
