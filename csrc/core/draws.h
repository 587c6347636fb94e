// Resampled units from a counter-based generator; the definition, with its sources, is
// valor_gpu/stats/draws.py.
#pragma once
#include "platform.h"

namespace valor {

// The order is that of KINDS in valor_gpu/stats/draws.py.
enum DrawKind : int64_t { kMultinomial = 0, kHalf = 1, kDelete = 2 };

constexpr int kWords = 4;                   // words of a block
constexpr int64_t kMostDrawn = 255;         // largest weight of a unit: weights are uint8
constexpr int64_t kMostUnits = 0xffffffff;  // a draw is a product of two words

struct Block {
  uint32_t word[kWords];
};

// Philox 4x32-10 of a counter under the key `seed`.
VALOR_HD Block philox(Block counter, uint64_t seed) {
  uint32_t low_key = static_cast<uint32_t>(seed), high_key = static_cast<uint32_t>(seed >> 32);
  uint32_t* c = counter.word;
  VALOR_UNROLLED
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xD2511F53u} * c[0], second = uint64_t{0xCD9E8D57u} * c[2];
    const uint32_t one = c[1], three = c[3];
    c[0] = static_cast<uint32_t>(second >> 32) ^ one ^ low_key;
    c[1] = static_cast<uint32_t>(second);
    c[2] = static_cast<uint32_t>(first >> 32) ^ three ^ high_key;
    c[3] = static_cast<uint32_t>(first);
    low_key += 0x9E3779B9u, high_key += 0xBB67AE85u;
  }
  return counter;
}

// What the blocks of a replicate are drawn from.
struct Replicate {
  uint64_t seed;
  uint32_t number, kind;

  VALOR_HD Block block(uint32_t at, uint32_t attempt = 0) const {
    return philox({{at, attempt, number, kind}}, seed);
  }
};

// Words whose product with `units` has a low half below this would bias a draw: 2^32 mod units.
VALOR_HD uint32_t least_unbiased(uint32_t units) { return (0u - units) % units; }

// The unit that draw `kWords * at + place` takes, from its word of the first attempt.
VALOR_HD uint32_t drawn_unit(const Replicate& from, uint32_t at, int place, uint32_t word, uint32_t units,
                             uint32_t least) {
  uint64_t product = uint64_t{word} * units;
  for (uint32_t attempt = 1; static_cast<uint32_t>(product) < least; ++attempt)
    product = uint64_t{from.block(at, attempt).word[place]} * units;
  return static_cast<uint32_t>(product >> 32);
}

// What orders units where they are drawn without replacement: two words each; equal keys by unit.
VALOR_HD uint64_t unit_key(const Block& block, int place) {
  return uint64_t{block.word[2 * place]} << 32 | block.word[2 * place + 1];
}

}  // namespace valor
