#include "launch.h"
#include "merging.h"

namespace valor {
namespace {

constexpr int kStrip = 256;  // items that a block sorts
constexpr int kWays = 16;    // strips that become one
constexpr int kLanes = 4;    // threads of an item, a share of the strips each
constexpr int kEach = kWays / kLanes;

// One block a strip: the place of an item is the number of smaller ones.
__global__ void __launch_bounds__(kStrip) strip_kernel(SortKey* keys, const int64_t count) {
  VALOR_SHARED(SortKey, strip, [kStrip]);
  const int64_t base = static_cast<int64_t>(blockIdx.x) * kStrip, i = base + threadIdx.x;
  const SortKey own = i < count ? keys[i] : SortKey{~0ull, ~0ull};
  strip[threadIdx.x] = own;
  __syncthreads();
  int rank = 0;
  for (int j = 0; j < kStrip; ++j) rank += strip[j] < own;
  if (i < count) keys[base + rank] = own;
}

// Sorted strips of a power of two items become strips kWays times as long. The place of an item is the sum of
// the smaller ones in all strips, its own included, which are searched side by side.
__global__ void __launch_bounds__(kStrip)
    merge_kernel(const SortKey* from, SortKey* to, const int64_t count, const int64_t strip) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kStrip + threadIdx.x;
  const int64_t i = thread / kLanes, part = thread % kLanes;
  const SortKey own = from[i < count ? i : count - 1];
  const int64_t first = i & ~(strip * kWays - 1);
  int64_t length[kEach];
  int64_t smaller[kEach] = {};
  VALOR_UNROLLED
  for (int j = 0; j < kEach; ++j) {
    const int64_t left = count - first - (part * kEach + j) * strip;
    length[j] = left < 0 ? 0 : left < strip ? left : strip;
  }
  const SortKey* strips = from + first + part * kEach * strip;
  for (int64_t step = strip; step > 0; step /= 2) VALOR_UNROLLED
  for (int j = 0; j < kEach; ++j) {
    const int64_t next = smaller[j] + step;
    if (next <= length[j] && strips[j * strip + next - 1] < own) smaller[j] = next;
  }
  uint64_t place = 0;
  VALOR_UNROLLED
  for (int j = 0; j < kEach; ++j) place += static_cast<uint64_t>(smaller[j]);
  for (int by = 1; by < kLanes; by *= 2)
    place += __shfl_xor_sync(Warp::kAll, static_cast<unsigned long long>(place), by);
  if (part == 0 && i < count) to[first + static_cast<int64_t>(place)] = own;
}

}  // namespace

int32_t sort_keys(SortKeys& keys, int64_t count, void* stream) {
  if (count == 0) return 0;
  const unsigned strips = static_cast<unsigned>((count + kStrip - 1) / kStrip);
  const unsigned blocks = static_cast<unsigned>((count * kLanes + kStrip - 1) / kStrip);
  int32_t status = VALOR_LAUNCH(strip_kernel, strips, kStrip, 0, stream, keys.now, count);
  for (int64_t strip = kStrip; status == 0 && strip < count; strip *= kWays) {
    status = VALOR_LAUNCH(merge_kernel, blocks, kStrip, 0, stream, keys.now, keys.spare, count, strip);
    SortKey* const merged = keys.spare;
    keys.spare = keys.now, keys.now = merged;
  }
  return status;
}

}  // namespace valor
