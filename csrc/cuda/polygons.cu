// Polygons to run lengths on the device. One block rasterises a mask: every crossing of an edge with a column
// becomes a key of ring and pixel, the sorted keys of a ring open and close intervals in turn, and where the
// number of open intervals leaves or reaches 0 a run ends. Crossings are counted on the host, so that the
// block has room for them and nothing waits.
#include "../core/polygons.h"
#include "../core/ragged.h"
#include "../core/sort.h"
#include "launch.h"

namespace valor {
namespace {

constexpr int kPolygonThreads = 128;
constexpr int kPolygonWarps = kPolygonThreads / 32;
constexpr int kSharedKeys = 1024;
constexpr int kLongEdge = 32;  // crossings from which on the lanes of a warp share an edge

struct PolygonTask {
  const double* vertices;  // [V, 2]
  const int64_t* rings;    // [R + 1]
  const int64_t* masks;    // [N + 1]
  const int32_t* sizes;    // [N, 2]
  const int64_t* rooms;    // [N + 1], crossings before each mask
  uint64_t* keys;          // [crossings], of masks with more than kSharedKeys
  int32_t* ends;           // [crossings + N], where runs end
  int64_t* used;           // [N], runs
  int64_t num_masks;
};

struct Block {
  __device__ __forceinline__ int lane() const { return threadIdx.x; }
  __device__ __forceinline__ int width() const { return kPolygonThreads; }
  __device__ __forceinline__ void sync() const { __syncthreads(); }
};

// The sum of this thread's value and those of all threads before; `total` becomes that of the block.
__device__ __forceinline__ uint32_t block_running_sum(uint32_t* parts, uint32_t value, uint32_t& total) {
  const Warp warp;
  uint32_t sum = warp.running_sum(value);
  __syncthreads();  // the parts of the sum before have been read
  if (warp.lane() == 31) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  total = 0;
  for (unsigned i = 0; i < kPolygonWarps; ++i) {
    if (i < threadIdx.x / 32) sum += parts[i];
    total += parts[i];
  }
  return sum;
}

template <class Edge>
class MaskBlock {
 public:
  struct Shared {
    uint64_t keys[kSharedKeys];
    uint32_t parts[kPolygonWarps];
    uint32_t count;
  };

  __device__ __forceinline__ MaskBlock(const PolygonTask& task, Shared& shared)
      : task_(task),
        shared_(shared),
        mask_(blockIdx.x),
        first_ring_(task.masks[mask_]),
        rings_(task.masks[mask_ + 1] - first_ring_),
        height_(task.sizes[2 * mask_]),
        width_(task.sizes[2 * mask_ + 1]) {
    const int64_t room = task.rooms[mask_], crossings = task.rooms[mask_ + 1] - room;
    keys_ = crossings <= kSharedKeys ? shared.keys : task.keys + room;
    ends_ = task.ends + room + mask_;
  }

  __device__ __forceinline__ void run() {
    if (threadIdx.x == 0) shared_.count = 0;
    __syncthreads();
    collect();
    __syncthreads();
    count_ = shared_.count;
    sort_network(Block(), keys_, count_);
    for (uint32_t i = threadIdx.x; i < count_; i += kPolygonThreads)
      keys_[i] = (keys_[i] & 0xffffffffu) << 1 | (i & 1);
    __syncthreads();
    if (rings_ > 1 && Edge::kRingsUnite) sort_network(Block(), keys_, count_);
    write(boundaries());
  }

 private:
  // Whether the edge that ends at `vertex` crosses a column.
  __device__ __forceinline__ bool prepare(int64_t vertex, Edge& edge, uint64_t& ring) const {
    const int64_t* const rings = task_.rings + first_ring_;
    const int64_t r = segment_of(rings, rings_, vertex);
    const int64_t before = vertex > rings[r] ? vertex - 1 : rings[r + 1] - 1;
    ring = Edge::kRingsUnite ? static_cast<uint64_t>(r) << 32 : 0;
    return edge.prepare(Edge::vertex(task_.vertices + 2 * before), Edge::vertex(task_.vertices + 2 * vertex),
                        width_);
  }

  __device__ __forceinline__ uint64_t key(const Edge& edge, uint64_t ring, int32_t column) const {
    return ring | (static_cast<uint32_t>(column) * static_cast<uint32_t>(height_) +
                   static_cast<uint32_t>(edge.row(column, height_)));
  }

  __device__ __forceinline__ void collect() const {
    if (rings_ == 0 || height_ == 0 || width_ == 0) return;
    const Warp warp;
    const int64_t* const rings = task_.rings + first_ring_;
    const int64_t end = rings[rings_];
    for (int64_t base = rings[0] + 32 * (threadIdx.x / 32); base < end; base += kPolygonThreads) {
      const int64_t vertex = base + warp.lane();
      Edge edge{};
      uint64_t ring = 0;
      uint32_t own_slot = 0;
      int32_t column = 0, step = 1;
      if (vertex < end && prepare(vertex, edge, ring)) {
        own_slot = atomicAdd(&shared_.count, static_cast<uint32_t>(edge.last - edge.first + 1));
        column = edge.first;
      } else {
        edge.last = -1;
      }
      const bool is_long = edge.last - column >= kLongEdge;
      uint32_t left = warp.ballot(is_long);
      if (is_long) column = edge.last + 1;  // later, with the other lanes
      uint32_t slot = own_slot;
      for (;;) {
        for (; column <= edge.last; column += step)
          keys_[slot + (column - edge.first)] = key(edge, ring, column);
        if (left == 0) break;
        const int owner = __ffs(static_cast<int>(left)) - 1;
        left &= left - 1;
        slot = warp.from(own_slot, owner);
        prepare(base + owner, edge, ring);
        column = edge.first + warp.lane();
        step = 32;
      }
    }
  }

  __device__ __forceinline__ int32_t change(uint32_t i) const { return keys_[i] & 1 ? -1 : 1; }

  // Writes where runs end, but the last; returns how many. Several keys of one pixel count together: `depth`
  // intervals are open after them.
  __device__ __forceinline__ uint32_t boundaries() const {
    uint32_t written = 0, open = 0;
    for (uint32_t base = 0; base < count_; base += kPolygonThreads) {
      const uint32_t i = base + threadIdx.x;
      uint32_t total;
      const int32_t depth = static_cast<int32_t>(
          open + block_running_sum(shared_.parts, i < count_ ? static_cast<uint32_t>(change(i)) : 0, total));
      open += total;
      bool ends = false;
      if (i < count_ && (i + 1 == count_ || keys_[i + 1] >> 1 != keys_[i] >> 1)) {
        int32_t before = depth;
        for (uint32_t j = i + 1; j-- > 0 && keys_[j] >> 1 == keys_[i] >> 1;) before -= change(j);
        ends = (before > 0) != (depth > 0);
      }
      const uint32_t to = written + block_running_sum(shared_.parts, ends, total);
      written += total;
      if (ends) ends_[to - 1] = static_cast<int32_t>(keys_[i] >> 1);
    }
    return written;
  }

  // Ends the last run where the mask ends, unless it is empty.
  __device__ __forceinline__ void write(uint32_t written) const {
    __syncthreads();
    if (threadIdx.x != 0) return;
    const int32_t pixels = height_ * width_;
    const bool more = written == 0 || ends_[written - 1] < pixels;
    if (more) ends_[written] = pixels;
    task_.used[mask_] = written + more;
  }

  const PolygonTask& task_;
  Shared& shared_;
  const int64_t mask_, first_ring_, rings_;
  const int32_t height_, width_;
  uint64_t* keys_;
  int32_t* ends_;
  uint32_t count_;
};

template <class Edge>
__global__ void __launch_bounds__(kPolygonThreads)
    rasterise_kernel(const __grid_constant__ PolygonTask task) {
  using Mask = MaskBlock<Edge>;
  VALOR_SHARED(typename Mask::Shared, shared);
  Mask(task, shared).run();
}

// Makes lengths of where runs end and puts the masks one after another, one warp a mask.
__global__ void __launch_bounds__(kPolygonThreads)
    join_runs_kernel(const __grid_constant__ PolygonTask task, const int64_t* offsets, int32_t* counts) {
  const int64_t mask = static_cast<int64_t>(blockIdx.x) * kPolygonWarps + threadIdx.x / 32;
  if (mask >= task.num_masks) return;
  const int32_t* const ends = task.ends + task.rooms[mask] + mask;
  for (int64_t i = threadIdx.x % 32; i < task.used[mask]; i += 32)
    counts[offsets[mask] + i] = ends[i] - (i ? ends[i - 1] : 0);
}

}  // namespace
}  // namespace valor

// Rasterises the masks of a PolygonTask and writes the number of runs of each to `used`.
VALOR_API int32_t valor_rasterise_cuda(const void* task_words, int64_t rule, void* stream) {
  using namespace valor;
  const PolygonTask& task = *static_cast<const PolygonTask*>(task_words);
  if (task.num_masks == 0) return 0;
  const unsigned blocks = static_cast<unsigned>(task.num_masks);
  if (rule == kCentreRule)
    return VALOR_LAUNCH((rasterise_kernel<CentreEdge>), blocks, kPolygonThreads, 0, stream, task);
  return VALOR_LAUNCH((rasterise_kernel<CocoEdge>), blocks, kPolygonThreads, 0, stream, task);
}

// Writes the runs of a rasterised PolygonTask to counts; those of mask m begin at offsets[m].
VALOR_API int32_t valor_join_runs_cuda(const void* task_words, const int64_t* offsets, int32_t* counts,
                                       void* stream) {
  using namespace valor;
  const PolygonTask& task = *static_cast<const PolygonTask*>(task_words);
  if (task.num_masks == 0) return 0;
  const unsigned blocks = static_cast<unsigned>((task.num_masks + kPolygonWarps - 1) / kPolygonWarps);
  return VALOR_LAUNCH(join_runs_kernel, blocks, kPolygonThreads, 0, stream, task, offsets, counts);
}
