// Onesweep (Adinets, Merrill 2022): a block ranks the items of its tile by one digit, and finds how many of
// each digit the tiles before have by what their blocks have put down. All digits are counted beforehand.
#include "../core/platform.h"
#include "digits.h"
#include "launch.h"

namespace valor {
namespace {

constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits, kMostPasses = 64 / kDigitBits;
constexpr int kThreads = 512, kWarps = kThreads / 32;
constexpr int kItems = 8;  // of a thread
constexpr int kTile = kThreads * kItems;
constexpr int kWindow = 12;  // tiles that a thread looks at side by side
constexpr int kCountBlocks = 264;
constexpr uint32_t kCounted = 1u << 30, kSummed = 2u << 30, kNumber = kCounted - 1;

VALOR_HD int64_t tiles_of(int64_t count) { return (count + kTile - 1) / kTile; }
VALOR_HD int passes_of(int bits) { return (bits + kDigitBits - 1) / kDigitBits; }
VALOR_HD int digit_of(uint64_t key, int pass) {
  return static_cast<int>(key >> (kDigitBits * pass) & (kDigits - 1));
}

// Of one pass: how many items have each digit, the next tile to be taken, and of each tile and digit how many
// items have it in the tile (kCounted) or up to it (kSummed).
struct PassTables {
  uint32_t *counts, *next, *states;

  VALOR_HD static int64_t words(int64_t count) { return kDigits + 32 + tiles_of(count) * kDigits; }
  VALOR_HD static PassTables of(int64_t* words, int64_t count, int pass) {
    uint32_t* const first = reinterpret_cast<uint32_t*>(words) + pass * PassTables::words(count);
    return {first, first + kDigits, first + kDigits + 32};
  }
};

__global__ void __launch_bounds__(kThreads)
    count_digits_kernel(const uint64_t* keys, const int64_t count, const int passes, int64_t* words) {
  VALOR_SHARED(uint32_t, counts, [kMostPasses][kDigits]);
  for (int i = threadIdx.x; i < passes * kDigits; i += kThreads) counts[i / kDigits][i % kDigits] = 0;
  __syncthreads();
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += 4 * step) {
    uint64_t own[4];
    VALOR_UNROLLED
    for (int j = 0; j < 4; ++j) own[j] = keys[i + j * step < count ? i + j * step : i];
    for (int j = 0; j < 4 && i + j * step < count; ++j)
      for (int pass = 0; pass < passes; ++pass) atomicAdd(&counts[pass][digit_of(own[j], pass)], 1u);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < passes * kDigits; i += kThreads)
    if (const uint32_t sum = counts[i / kDigits][i % kDigits])
      atomicAdd(PassTables::of(words, count, i / kDigits).counts + i % kDigits, sum);
}

// Items of the tiles before `tile` that have a digit, `own` of which the tile has.
__device__ __forceinline__ uint32_t counted_before(volatile uint32_t* states, int64_t tile, uint32_t own) {
  states[tile * kDigits] = own | (tile == 0 ? kSummed : kCounted);
  uint32_t before = 0;
  bool summed = tile == 0;
  for (int64_t at = tile - 1; !summed;) {
    uint32_t seen[kWindow];
    VALOR_UNROLLED
    for (int j = 0; j < kWindow; ++j) seen[j] = at >= j ? uint32_t{states[(at - j) * kDigits]} : kSummed;
    bool there = true;
    VALOR_UNROLLED
    for (int j = 0; j < kWindow; ++j) {
      there = there && !summed && seen[j] >= kCounted;
      if (!there) continue;
      before += seen[j] & kNumber;
      summed = seen[j] >= kSummed;
      --at;
    }
  }
  if (tile > 0) states[tile * kDigits] = (before + own) | kSummed;
  return before;
}

struct PassTask {
  const uint64_t* keys;
  const uint32_t* rows;
  uint64_t* to_keys;
  uint32_t* to_rows;
  int64_t count;
  int pass;
  PassTables tables;
};

// How many items of the warp's before this one have its digit; `counts` are those of the warp.
__device__ __forceinline__ uint32_t rank_in_warp(uint32_t* counts, int digit) {
  const Warp warp;
  uint32_t peers = Warp::kAll;
  VALOR_UNROLLED
  for (int bit = 0; bit < kDigitBits; ++bit) {
    const bool set = digit >> bit & 1;
    const uint32_t votes = warp.ballot(set);
    peers &= set ? votes : ~votes;
  }
  const uint32_t lower = peers & ((1u << warp.lane()) - 1), before = counts[digit];
  warp.sync();
  if (lower == 0) counts[digit] = before + __popc(peers);
  warp.sync();
  return before + __popc(lower);
}

// Sum of the values of the threads before this one, of the first kDigits.
__device__ __forceinline__ uint32_t sum_before(uint32_t value, uint32_t* sums) {
  const uint32_t upto = Warp().running_sum(value);
  const int own = static_cast<int>(threadIdx.x) / 32;
  if (Warp().lane() == 31) sums[own] = upto;
  __syncthreads();
  uint32_t before = upto - value;
  for (int w = 0; w < own; ++w) before += sums[w];
  return before;
}

// One block a tile, in the order in which blocks begin: each waits for those before it alone.
__global__ void __launch_bounds__(kThreads, 2) digit_kernel(const __grid_constant__ PassTask task) {
  VALOR_SHARED(uint32_t, counts, [kWarps][kDigits]);
  VALOR_SHARED(uint32_t, first, [kDigits]);
  VALOR_SHARED(uint32_t, sums, [kWarps]);
  VALOR_SHARED(uint32_t, taken, [1]);
  const int own = static_cast<int>(threadIdx.x) / 32, digit = static_cast<int>(threadIdx.x);
  if (threadIdx.x == 0) taken[0] = atomicAdd(task.tables.next, 1u);
  for (int i = threadIdx.x; i < kWarps * kDigits; i += kThreads) counts[i / kDigits][i % kDigits] = 0;
  __syncthreads();
  const int64_t tile = taken[0], base = tile * kTile + own * 32 * kItems + Warp().lane();
  uint64_t keys[kItems];
  uint32_t rows[kItems], ranks[kItems];
  VALOR_UNROLLED
  for (int j = 0; j < kItems; ++j) {
    const int64_t i = base + j * 32, at = i < task.count ? i : task.count - 1;
    keys[j] = i < task.count ? task.keys[at] : ~0ull;  // behind all others of the last tile
    rows[j] = task.rows[at];
  }
  VALOR_UNROLLED
  for (int j = 0; j < kItems; ++j) ranks[j] = rank_in_warp(counts[own], digit_of(keys[j], task.pass));
  __syncthreads();
  const bool summing = digit < kDigits;
  uint32_t count = 0;
  for (int w = 0; summing && w < kWarps; ++w) {
    const uint32_t held = counts[w][digit];
    counts[w][digit] = count;
    count += held;
  }
  const uint32_t smaller = sum_before(summing ? task.tables.counts[digit] : 0, sums);
  if (summing) first[digit] = smaller + counted_before(task.tables.states + digit, tile, count);
  __syncthreads();
  VALOR_UNROLLED
  for (int j = 0; j < kItems; ++j) {
    const int d = digit_of(keys[j], task.pass);
    const int64_t to = static_cast<int64_t>(first[d]) + counts[own][d] + ranks[j];
    if (base + j * 32 >= task.count) continue;
    task.to_keys[to] = keys[j];
    task.to_rows[to] = rows[j];
  }
}

}  // namespace

int64_t digit_words(int64_t count, int bits) { return passes_of(bits) * PassTables::words(count) / 2; }

int32_t sort_by_digits(SortPairs& pairs, int64_t count, int bits, int64_t* words, void* stream) {
  if (count == 0) return 0;
  const int64_t tiles = tiles_of(count), threads = (count + kThreads - 1) / kThreads;
  int32_t status = VALOR_LAUNCH(count_digits_kernel,
                                static_cast<unsigned>(threads < kCountBlocks ? threads : kCountBlocks),
                                kThreads, 0, stream, pairs.keys, count, passes_of(bits), words);
  for (int pass = 0; status == 0 && pass < passes_of(bits); ++pass) {
    const PassTask task{pairs.keys,
                        pairs.rows,
                        pairs.spare_keys,
                        pairs.spare_rows,
                        count,
                        pass,
                        PassTables::of(words, count, pass)};
    status = VALOR_LAUNCH(digit_kernel, static_cast<unsigned>(tiles), kThreads, 0, stream, task);
    pairs = {pairs.spare_keys, pairs.keys, pairs.spare_rows, pairs.rows};
  }
  return status;
}

}  // namespace valor
