// Philox 4x32-10 in plain loops that compilers vectorise.
#include "philox.h"

#include "simd.h"

namespace valor {
namespace {

VALOR_INLINE void multiply(const uint32_t* from, uint32_t multiplier, uint32_t* high, uint32_t* low) {
  for (int b = 0; b < kBlocks; ++b) {
    const uint64_t product = uint64_t{from[b]} * multiplier;
    high[b] = static_cast<uint32_t>(product >> 32), low[b] = static_cast<uint32_t>(product);
  }
}

VALOR_INLINE void fill_batch(const Replicate& from, uint32_t first, WordBlocks& batch) {
  auto& c = batch.word;
  for (int b = 0; b < kBlocks; ++b)
    c[0][b] = first + static_cast<uint32_t>(b), c[1][b] = 0, c[2][b] = from.number, c[3][b] = from.kind;
  uint32_t low_key = static_cast<uint32_t>(from.seed), high_key = static_cast<uint32_t>(from.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    uint32_t high[2][kBlocks], low[2][kBlocks];
    multiply(c[0], 0xD2511F53u, high[0], low[0]);
    multiply(c[2], 0xCD9E8D57u, high[1], low[1]);
    for (int b = 0; b < kBlocks; ++b) {
      c[0][b] = high[1][b] ^ c[1][b] ^ low_key, c[1][b] = low[1][b];
      c[2][b] = high[0][b] ^ c[3][b] ^ high_key, c[3][b] = low[0][b];
    }
    low_key += 0x9E3779B9u, high_key += 0xBB67AE85u;
  }
}

// Makes words units; whether one of them needs another attempt.
VALOR_INLINE bool make_units(const WordBlocks& words, uint32_t units, uint32_t least, WordBlocks& drawn) {
  uint32_t again = 0;
  for (int i = 0; i < kWords; ++i)
    for (int b = 0; b < kBlocks; ++b) {
      const uint64_t product = uint64_t{words.word[i][b]} * units;
      drawn.word[i][b] = static_cast<uint32_t>(product >> 32);
      again |= static_cast<uint32_t>(product) < least;
    }
  return again != 0;
}

// Apart, since the loops around it would not be vectorised with it.
__attribute__((noinline)) void draw_again(const Replicate& from, uint32_t first, uint32_t units,
                                          uint32_t least, const WordBlocks& words, WordBlocks& drawn) {
  for (int i = 0; i < kWords; ++i)
    for (int b = 0; b < kBlocks; ++b)
      drawn.word[i][b] =
          drawn_unit(from, first + static_cast<uint32_t>(b), i, words.word[i][b], units, least);
}

}  // namespace

VALOR_FUSED_CLONES void fill_words(const Replicate& from, uint32_t first, int64_t batches,
                                   WordBlocks* words) {
  for (int64_t i = 0; i < batches; ++i)
    fill_batch(from, first + static_cast<uint32_t>(i * kBlocks), words[i]);
}

VALOR_FUSED_CLONES void fill_units(const Replicate& from, uint32_t units, uint32_t first, int64_t batches,
                                   WordBlocks* drawn) {
  const uint32_t least = least_unbiased(units);
  WordBlocks words;
  for (int64_t i = 0; i < batches; ++i) {
    const uint32_t block = first + static_cast<uint32_t>(i * kBlocks);
    fill_batch(from, block, words);
    if (make_units(words, units, least, drawn[i])) draw_again(from, block, units, least, words, drawn[i]);
  }
}

}  // namespace valor
