// Words and draws of csrc/core/draws.h, many blocks side by side.
#pragma once
#include <algorithm>

#include "../core/draws.h"

namespace valor {

constexpr int kBlocks = 16;  // of a batch
constexpr int kBatch = kWords * kBlocks;
constexpr int64_t kRun = 16;  // batches that are made at a time: 4 KB

// By place in a block: word[i][b] is of draw kWords * b + i of the batch.
struct WordBlocks {
  uint32_t word[kWords][kBlocks];
};

// Words of `batches` batches from block `first` on.
void fill_words(const Replicate& from, uint32_t first, int64_t batches, WordBlocks* words);
// Likewise the units, below `units`, that are drawn by them.
void fill_units(const Replicate& from, uint32_t units, uint32_t first, int64_t batches, WordBlocks* drawn);

// Calls take(unit, place in the block) for each of `units` independent draws with replacement.
template <class Take>
inline void for_draws(const Replicate& from, uint32_t units, const Take& take) {
  if (units == 0) return;
  WordBlocks run[kRun];
  const int64_t whole = units / kBatch;
  for (int64_t at = 0; at <= whole; at += kRun) {
    const int64_t some = std::min(kRun, whole + 1 - at);
    fill_units(from, units, static_cast<uint32_t>(at * kBlocks), some, run);
    for (int64_t batch = 0; batch < some; ++batch) {
      const int64_t left = at + batch < whole ? kBatch : units % kBatch;
      for (int i = 0; i < kWords; ++i)
        for (int64_t b = 0; b < (left - i + kWords - 1) / kWords; ++b) take(run[batch].word[i][b], i);
    }
  }
}

// Calls take(key, unit) for the keys that order units where they are drawn without replacement.
template <class Take>
inline void for_keys(const Replicate& from, uint32_t units, const Take& take) {
  constexpr int64_t kKeys = kBatch / 2;
  WordBlocks run[kRun];
  for (int64_t unit = 0; unit < units; unit += kRun * kKeys) {
    fill_words(from, static_cast<uint32_t>(unit / 2), kRun, run);
    const int64_t some = std::min<int64_t>(kRun * kKeys, units - unit);
    for (int64_t i = 0; i < some; ++i) {
      const auto& word = run[i / kKeys].word;
      const int64_t b = i % kKeys / 2, place = 2 * (i % 2);
      take(uint64_t{word[place][b]} << 32 | word[place + 1][b], static_cast<uint32_t>(unit + i));
    }
  }
}

}  // namespace valor
