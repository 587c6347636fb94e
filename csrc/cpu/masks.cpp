// Packing of dense masks on the CPU: masks are split over threads.
#include "../core/masks.h"

#include <algorithm>

#include "guard.h"
#include "pack_masks.h"
#include "pool.h"

// masks: [num_masks, pixels]. words: [num_masks, ceil(pixels / 64)]. area: [num_masks].
VALOR_API int32_t valor_pack_masks_cpu(const uint8_t* masks, int64_t num_masks, int64_t pixels,
                                       uint64_t* words, int64_t* area, int64_t threads) {
  return valor::guarded([&] {
    const int64_t num_words = valor::mask_words(pixels);
    auto body = [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        area[i] = valor::pack_mask(masks + i * pixels, pixels, words + i * num_words).area;
    };
    const int64_t grain = std::max<int64_t>(1, (1 << 18) / (pixels + 1));  // about 256 KiB of pixels a chunk
    valor::parallel_for(num_masks, grain, static_cast<int>(threads), body);
  });
}
