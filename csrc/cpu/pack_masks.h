// Packing of one dense mask on the CPU, at the speed of memory.
#pragma once
#include <algorithm>

#include "../core/masks.h"
#include "simd.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace valor {

// Bytes from what is packed to what is fetched meanwhile: the processor's own prefetcher stops at the end of
// a page. Without this packing takes 1.1 to 1.2 times as long as a sum over the same bytes.
constexpr int64_t kPackAhead = 4096;
constexpr int64_t kPackBlock = 64;  // words between two looks at their content

#if defined(__x86_64__)
inline void pack_words_by_sse(const uint8_t* pixels, int64_t count, uint64_t* words) {
  for (int64_t j = 0; j < count; ++j, pixels += kWordBits) {
    __builtin_prefetch(pixels + kPackAhead);
    uint64_t zeros = 0;
    for (int i = 0; i < 64; i += 16) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pixels + i));
      const int mask = _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_setzero_si128()));
      zeros |= static_cast<uint64_t>(mask) << i;
    }
    words[j] = ~zeros;
  }
}

__attribute__((target("avx2"))) inline void pack_words_by_avx2(const uint8_t* pixels, int64_t count,
                                                               uint64_t* words) {
  for (int64_t j = 0; j < count; ++j, pixels += kWordBits) {
    __builtin_prefetch(pixels + kPackAhead);
    const __m256i zero = _mm256_setzero_si256();
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(pixels));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(pixels + 32));
    const uint32_t first = _mm256_movemask_epi8(_mm256_cmpeq_epi8(low, zero));
    const uint32_t second = _mm256_movemask_epi8(_mm256_cmpeq_epi8(high, zero));
    words[j] = ~(first | static_cast<uint64_t>(second) << 32);
  }
}

// Packs `count` words of 64 pixels.
inline void pack_words(const uint8_t* pixels, int64_t count, uint64_t* words) {
  static const bool avx2 = __builtin_cpu_supports("avx2");
  (avx2 ? pack_words_by_avx2 : pack_words_by_sse)(pixels, count, words);
}
#else
inline void pack_words(const uint8_t* pixels, int64_t count, uint64_t* words) {
  for (int64_t j = 0; j < count; ++j) words[j] = pack_word(pixels + kWordBits * j, kWordBits);
}
#endif

// Packs one mask of `count` pixels.
VALOR_CLONES inline MaskFacts pack_mask(const uint8_t* pixels, int64_t count, uint64_t* words) {
  MaskFacts facts = no_facts();
  const int64_t whole = count / kWordBits;
  for (int64_t begin = 0; begin < whole; begin += kPackBlock) {
    const int64_t end = std::min(begin + kPackBlock, whole);
    pack_words(pixels + kWordBits * begin, end - begin, words + begin);
    for (int64_t j = begin; j < end; ++j) facts.add(words[j], j);
  }
  if (count % kWordBits) {
    words[whole] = pack_word(pixels + kWordBits * whole, count % kWordBits);
    facts.add(words[whole], whole);
  }
  return facts;
}

}  // namespace valor
