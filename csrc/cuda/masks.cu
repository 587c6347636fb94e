// Packing of dense masks on CUDA: a block packs a part of a mask.
#include "launch.h"
#include "pack_masks.h"

namespace valor {
namespace {

constexpr int kPackThreads = 256, kPackWarps = kPackThreads / 32;
constexpr int64_t kPartWords = 2 * kPackWarps * WarpPacker::kWords;  // 128 KiB of pixels

// Block `mask * parts + part`. Areas begin at 0.
__global__ void __launch_bounds__(kPackThreads)
    pack_masks_kernel(const uint8_t* masks, int64_t pixels, int64_t parts, uint64_t* words, int64_t* area) {
  VALOR_SHARED(uint64_t, stage, [kPackWarps][WarpPacker::kHalves / 4]);
  const Warp warp;
  const int64_t mask = blockIdx.x / parts, num_words = mask_words(pixels);
  const int64_t begin = blockIdx.x % parts * kPartWords;
  const int64_t end = begin + kPartWords < num_words ? begin + kPartWords : num_words;
  const WarpPacker packer(reinterpret_cast<uint16_t*>(stage[threadIdx.x / 32]));
  uint64_t sum = 0;
  for (int64_t first = begin + WarpPacker::kWords * (threadIdx.x / 32); first < end;
       first += WarpPacker::kWords * kPackWarps) {
    uint64_t tile[WarpPacker::kRows];
    packer.tile(masks + mask * pixels, pixels, first, tile);
    VALOR_UNROLLED for (int q = 0; q < WarpPacker::kRows; ++q) {
      const int64_t j = first + 32 * q + warp.lane();
      if (j < num_words) words[mask * num_words + j] = tile[q];
      sum += count_bits(tile[q]);
    }
  }
  sum = warp.sum(sum);
  if (warp.lane() == 0 && sum)
    atomicAdd(reinterpret_cast<unsigned long long*>(area + mask), static_cast<unsigned long long>(sum));
}

}  // namespace
}  // namespace valor

// masks: [num_masks, pixels]. words: [num_masks, ceil(pixels / 64)]. area: [num_masks], 0 before.
VALOR_API int32_t valor_pack_masks_cuda(const uint8_t* masks, int64_t num_masks, int64_t pixels,
                                        uint64_t* words, int64_t* area, void* stream) {
  using namespace valor;
  const int64_t parts = (mask_words(pixels) + kPartWords - 1) / kPartWords;
  if (num_masks * parts == 0) return 0;
  return VALOR_LAUNCH(pack_masks_kernel, static_cast<unsigned>(num_masks * parts), kPackThreads, 0, stream,
                      masks, pixels, parts, words, area);
}
