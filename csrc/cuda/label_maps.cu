// Label maps that lie one pixel after another, on CUDA: neighbouring lanes load neighbouring pixels, and a
// warp adds each run of one pair of classes once.
#include "pixel_tables.h"

namespace valor {
namespace {

constexpr int kThreads = 512;
constexpr int64_t kWantedBlocks =
    264;  // 2 for each of 132 multiprocessors: each adds its whole table at the end
static_assert(kRoundsPixels + 16 < 1 << 16, "what is left of a table after its last load is counted as well");

struct MapTask {
  CountTask count;
  int64_t pixels;      // of a table
  uint64_t limits[2];  // of predictions and of targets: the words of classes lie below
  uint64_t ignored;    // the word of a target
  int32_t has_ignored;
};

// Codes of pairs: 15 bits of the target above 15 of the prediction, or one of these.
constexpr uint32_t kIgnoredPixel = 1u << 31, kBadPixel = 1u << 30;
constexpr uint32_t kBadTarget = kIgnoredPixel | kBadPixel | 1, kBadPrediction = kIgnoredPixel | kBadPixel;
constexpr int kClassBits = 15;

template <class P, class T>
__device__ __forceinline__ uint32_t code_of(const MapTask& task, P pred, T target) {
  uint32_t code = static_cast<uint32_t>(target) << kClassBits | static_cast<uint32_t>(pred);
  if (!(pred < task.limits[0])) code = kBadPrediction;
  if (!(target < task.limits[1])) code = kBadTarget;
  const bool ignores = task.has_ignored;
  if (ignores & (target == static_cast<T>(task.ignored))) code = kIgnoredPixel;
  return code;
}

template <int kBytes>
struct LoadOf;
template <>
struct LoadOf<16> {
  using Type = uint4;
};
template <>
struct LoadOf<8> {
  using Type = uint2;
};
template <>
struct LoadOf<4> {
  using Type = uint32_t;
};
template <>
struct LoadOf<2> {
  using Type = uint16_t;
};

// N neighbouring labels in one load, which nvcc would split where it sees the labels.
template <class Word, int N>
struct LabelGroup {
  using Load = typename LoadOf<N* static_cast<int>(sizeof(Word))>::Type;
  Load bits;

  __device__ __forceinline__ void load(const Word* from) {
    bits = __ldg(reinterpret_cast<const Load*>(from));
  }
  __device__ __forceinline__ void split(Word (&values)[N]) const { memcpy(values, &bits, sizeof bits); }
};

// What a thread loads of a tile. A group is the pixels of a load.
template <class P, class T>
struct MapTile {
  static constexpr int kWide = sizeof(P) > sizeof(T) ? sizeof(P) : sizeof(T), N = 16 / kWide;
  static constexpr int kGroups = N < 8 ? 2 : 1;
  LabelGroup<P, N> preds[kGroups];
  LabelGroup<T, N> target[kGroups];
};

// A block's share of the maps of one table.
template <class P, class T, Room kRoom>
class Maps {
 public:
  using Tile = MapTile<P, T>;
  static constexpr int N = Tile::N, kTileGroups = kThreads * Tile::kGroups;

  __device__ __forceinline__ Maps(const MapTask& task, const Counter<kThreads, kRoom>& counter)
      : task_(task), counter_(counter) {
    const CountTask& count = task.count;
    const int64_t pixels = task.pixels, block = blockIdx.x % count.table_blocks;
    const int64_t share = int64_t{count.rounds} * kTileGroups, left = pixels / N - block * share;
    first_ = blockIdx.x / count.table_blocks * pixels + block * share * N;
    groups_ = static_cast<int32_t>(left < share ? left : share);
    preds_ = static_cast<const P*>(count.pixels.preds.data) + first_;
    target_ = static_cast<const T*>(count.pixels.target.data) + first_;
    is_last_ = block + 1 == count.table_blocks;
    rest_ = static_cast<int32_t>(pixels % N);
  }

  // Begins to load a tile. Lanes beyond the last group read it again; a block without groups, the one before.
  __device__ __forceinline__ void load(int32_t tile, Tile& to) const {
    VALOR_UNROLLED for (int j = 0; j < Tile::kGroups; ++j) {
      const int32_t group = group_of(tile, j), at = (group < groups_ ? group : groups_ - 1) * N;
      to.preds[j].load(preds_ + at), to.target[j].load(target_ + at);
    }
  }
  // Counts all, the first tile of which is under way; each further one is while that before it is counted.
  __device__ __forceinline__ void count(Tile& next) {
    VALOR_ROLLED for (int32_t tile = 0; tile * kTileGroups < groups_; ++tile) {
      const Tile now = next;
      load(tile + 1, next);
      VALOR_UNROLLED for (int j = 0; j < Tile::kGroups; ++j)
          count_group(group_of(tile, j), now.preds[j], now.target[j]);
    }
    if (is_last_ &&
        static_cast<int32_t>(threadIdx.x) < rest_) {  // the pixels after the last group of the map
      const int32_t pixel = groups_ * N + static_cast<int32_t>(threadIdx.x);
      const uint32_t code = code_of(task_, preds_[pixel], target_[pixel]);
      if (!(code & kIgnoredPixel)) add(code, 1);
      see(code, pixel);
    }
  }
  // Notes the first bad label of this thread.
  __device__ __forceinline__ void note() const {
    if (bad_) task_.count.note(first_ + bad_pixel_, bad_ == kBadTarget ? kTarget : kPrediction);
  }

 private:
  __device__ __forceinline__ static int32_t group_of(int32_t tile, int j) {
    return tile * kTileGroups + j * kThreads + static_cast<int32_t>(threadIdx.x);
  }
  // Whole warps come here together.
  __device__ __forceinline__ void count_group(int32_t group, const LabelGroup<P, N>& preds,
                                              const LabelGroup<T, N>& target) {
    P predicted[N];
    T true_labels[N];
    preds.split(predicted), target.split(true_labels);
    VALOR_UNROLLED for (int i = 0; i < N; ++i) {
      uint32_t code = code_of(task_, predicted[i], true_labels[i]);
      if (group >= groups_) code = kIgnoredPixel;
      add_runs(code);
      see(code, group * N + i);
    }
  }
  // Adds the runs that the codes of the lanes make: of each the first lane, up to the next first one.
  __device__ __forceinline__ void add_runs(uint32_t code) const {
    const Warp warp;
    const int lane = warp.lane();
    const uint32_t before = __shfl_up_sync(Warp::kAll, code, 1);
    const bool is_first = lane == 0 || before != code;
    const uint32_t later = warp.ballot(is_first) & (~1u << lane);
    const int end = __popc(~later & (later - 1));  // the next first lane, or 32
    if (is_first && !(code & kIgnoredPixel)) add(code, end - lane);
  }
  __device__ __forceinline__ void add(uint32_t code, int32_t count) const {
    counter_.add(static_cast<int32_t>(code >> kClassBits),
                 static_cast<int32_t>(code & ((1u << kClassBits) - 1)), count);
  }
  // A thread sees its pixels in their order.
  __device__ __forceinline__ void see(uint32_t code, int32_t pixel) {
    if (code >= kBadPrediction && bad_ == 0) bad_ = code, bad_pixel_ = pixel;
  }

  const MapTask& task_;
  const Counter<kThreads, kRoom>& counter_;
  int64_t first_;  // of all pixels
  const P* preds_;
  const T* target_;
  int32_t groups_, rest_;
  bool is_last_;
  uint32_t bad_ = 0;  // the code of the first bad label, and its pixel
  int32_t bad_pixel_ = 0;
};

// The first loads are under way while counts are set to zero. Two blocks a multiprocessor.
template <class P, class T, Room kRoom>
__global__ void __launch_bounds__(kThreads, 2) count_maps_kernel(const __grid_constant__ MapTask task) {
  VALOR_DYNAMIC_SHARED(uint32_t, own);
  const CountTask& count = task.count;
  const int64_t table = blockIdx.x / count.table_blocks;
  const Counter<kThreads, kRoom> counter{count, count.tables + table * count.pixels.table_size(), own};
  Maps<P, T, kRoom> maps(task, counter);
  MapTile<P, T> first;
  maps.load(0, first);
  counter.clear();
  maps.count(first);
  maps.note();
  counter.fold();
}

// Calls visit with the unsigned word of a type of labels.
template <class Visit>
bool with_word(int64_t type, Visit visit) {
  switch (type) {
    case kInt16:
    case kUInt16:
      return visit(uint16_t());
    case kInt32:
    case kUInt32:
      return visit(uint32_t());
    case kInt64:
      return visit(uint64_t());
    default:
      return visit(uint8_t());
  }
}

bool is_signed(int64_t type) { return type == kInt8 || type == kInt16 || type == kInt32 || type == kInt64; }

// The words of what is a class or ignored; uint64 is read as int64, whose words are the same.
MapTask task_of(const CountTask& count, int target_bits) {
  const PixelTask& pixels = count.pixels;
  MapTask task{count, pixels.table_pixels(), {}, 0, 0};
  for (int side = 0; side < 2; ++side) {
    const bool is_int8 = (side ? pixels.target : pixels.preds).type == kInt8;
    task.limits[side] = static_cast<uint64_t>(is_int8 && pixels.classes > 128 ? 128 : pixels.classes);
  }
  const bool is_wide = target_bits == 64, below_zero = is_signed(pixels.target.type);
  const int64_t most = is_wide ? INT64_MAX : (int64_t{1} << (target_bits - below_zero)) - 1;
  const int64_t least = is_wide ? INT64_MIN : below_zero ? -most - 1 : 0;
  task.has_ignored = pixels.has_ignore && least <= pixels.ignore && pixels.ignore <= most;
  task.ignored = static_cast<uint64_t>(pixels.ignore);
  return task;
}

// Whether a map lies one pixel after another, so that each table begins where loads of N pixels may.
template <class Word>
bool is_dense(const PixelTask& task, const PixelMap& map, int64_t pixels) {
  const int64_t bytes = pixels * static_cast<int64_t>(sizeof(Word));
  const bool one_line = task.rows == 1 && (task.columns == 1 || map.pixel_stride == 1);
  return one_line && (task.images == 1 || map.image_stride == task.columns) &&
         reinterpret_cast<uintptr_t>(map.data) % static_cast<uintptr_t>(bytes) == 0 &&
         (task.tables() == 1 || task.columns % pixels == 0);
}

template <class P, class T>
bool launch_maps(CountTask count, void* stream, int32_t* status) {
  using Tile = MapTile<P, T>;
  constexpr int N = Tile::N;
  const PixelTask& pixels = count.pixels;
  if (pixels.table_pixels() < N || !is_dense<P>(pixels, pixels.preds, N) ||
      !is_dense<T>(pixels, pixels.target, N))
    return false;
  const int64_t blocks = count.plan(int64_t{kThreads} * Tile::kGroups * N, kWantedBlocks);
  const unsigned grid = static_cast<unsigned>(blocks);
  *status = 9;  // cudaErrorInvalidConfiguration
  if (blocks <= INT32_MAX)
    *status = with_room(count.room, [&](auto room) {
      return VALOR_LAUNCH_EARLY((count_maps_kernel<P, T, room()>), grid, kThreads,
                                shared_bytes(pixels, count.room), stream,
                                task_of(count, 8 * static_cast<int>(sizeof(T))));
    });
  return true;
}

}  // namespace

bool launch_label_maps(const CountTask& task, void* stream, int32_t* status) {
  if (task.pixels.channel_stride) return false;
  return with_word(task.pixels.preds.type, [&](auto pred) {
    return with_word(task.pixels.target.type, [&](auto target) {
      return launch_maps<decltype(pred), decltype(target)>(task, stream, status);
    });
  });
}

}  // namespace valor
