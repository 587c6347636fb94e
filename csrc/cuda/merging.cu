#include "launch.h"
#include "merging.h"

namespace valor {
namespace {

// Keeps the compiler from computing an address anew at each use.
#if defined(VALOR_SIM)
#define VALOR_OPAQUE(address)
#else
#define VALOR_OPAQUE(address) asm("" : "+l"(address))
#endif

constexpr int kEach = 4;  // strips that a thread searches

// Sorted strips of a power of two items become strips kWays times as long; kLanes threads take an item. The
// place of an item is the sum of the smaller ones in all strips, its own included, which are searched side by
// side.
template <int kLanes>
__global__ void __launch_bounds__(kStrip)
    merge_kernel(const SortKey* from, SortKey* to, const int64_t count, const int64_t strip) {
  constexpr int kWays = kLanes * kEach;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kStrip + threadIdx.x;
  const int64_t i = thread / kLanes, part = thread % kLanes;
  const SortKey own = from[i < count ? i : count - 1];
  const int64_t first = i & ~(strip * kWays - 1);
  const SortKey* strips[kEach];
  uint32_t length[kEach], smaller[kEach] = {};
  VALOR_UNROLLED
  for (int j = 0; j < kEach; ++j) {
    const int64_t begin = first + (part * kEach + j) * strip, left = count - begin;
    length[j] = static_cast<uint32_t>(left < 0 ? 0 : left < strip ? left : strip);
    strips[j] = from + (left > 0 ? begin : 0);
    VALOR_OPAQUE(strips[j]);
  }
  for (uint32_t step = static_cast<uint32_t>(strip); step > 0; step /= 2) {
    SortKey last[kEach];
    VALOR_UNROLLED
    for (int j = 0; j < kEach; ++j) {
      const uint32_t next = smaller[j] + step;
      last[j] = strips[j][next > length[j] ? 0 : next - 1];
    }
    VALOR_UNROLLED
    for (int j = 0; j < kEach; ++j)
      if (smaller[j] + step <= length[j] && last[j].below(own) != 0) smaller[j] += step;
  }
  uint32_t place = 0;
  VALOR_UNROLLED
  for (int j = 0; j < kEach; ++j) place += smaller[j];
  for (int by = 1; by < kLanes; by *= 2) place += __shfl_xor_sync(Warp::kAll, place, by);
  if (part == 0 && i < count) to[first + place] = own;
}

}  // namespace

int32_t merge_strips(SortKeys& keys, int64_t count, void* stream) {
  const auto blocks = [=](int lanes) { return static_cast<unsigned>((count * lanes + kStrip - 1) / kStrip); };
  int32_t status = 0;
  for (int64_t strip = kStrip, ways; status == 0 && strip < count; strip *= ways) {
    ways = count > 16 * strip && count <= 32 * strip ? 32 : 16;  // more only where that spares a launch
    status = ways == 32 ? VALOR_LAUNCH(merge_kernel<32 / kEach>, blocks(32 / kEach), kStrip, 0, stream,
                                       keys.now, keys.spare, count, strip)
                        : VALOR_LAUNCH(merge_kernel<16 / kEach>, blocks(16 / kEach), kStrip, 0, stream,
                                       keys.now, keys.spare, count, strip);
    SortKey* const merged = keys.spare;
    keys.spare = keys.now, keys.now = merged;
  }
  return status;
}

}  // namespace valor
