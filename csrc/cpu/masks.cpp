// Packing of dense masks on the CPU: masks are split over threads.
#include "../core/masks.h"

#include <algorithm>

#include "guard.h"
#include "pool.h"
#include "simd.h"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace valor {
namespace {

// pack_word of 64 pixels; the comparison of 16 bytes at once makes it three times as fast.
inline uint64_t pack_64(const uint8_t* pixels) {
#if defined(__SSE2__)
  uint64_t zeros = 0;
  for (int i = 0; i < 64; i += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pixels + i));
    const int mask = _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_setzero_si128()));
    zeros |= static_cast<uint64_t>(mask) << i;
  }
  return ~zeros;
#else
  return pack_word(pixels, 64);
#endif
}

// Packs one mask and returns its area.
VALOR_CLONES int64_t pack_mask(const uint8_t* pixels, int64_t count, uint64_t* words) {
  int64_t area = 0;
  const int64_t whole = count / 64;
  for (int64_t j = 0; j < whole; ++j) {
    words[j] = pack_64(pixels + 64 * j);
    area += count_bits(words[j]);
  }
  if (count % 64) {
    words[whole] = pack_word(pixels + 64 * whole, count % 64);
    area += count_bits(words[whole]);
  }
  return area;
}

}  // namespace
}  // namespace valor

// masks: [num_masks, pixels]. words: [num_masks, ceil(pixels / 64)]. area: [num_masks].
VALOR_API int32_t valor_pack_masks_cpu(const uint8_t* masks, int64_t num_masks, int64_t pixels,
                                       uint64_t* words, int64_t* area, int64_t threads) {
  return valor::guarded([&] {
    const int64_t num_words = (pixels + 63) / 64;
    auto body = [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        area[i] = valor::pack_mask(masks + i * pixels, pixels, words + i * num_words);
    };
    const int64_t grain = std::max<int64_t>(1, (1 << 18) / (pixels + 1));  // about 256 KiB of pixels a chunk
    valor::parallel_for(num_masks, grain, static_cast<int>(threads), body);
  });
}
