// Label maps that lie one pixel after another, on CUDA: neighbouring lanes load neighbouring pixels, and a
// warp adds each run of one pair of classes once.
#include "formats.h"
#include "pixel_tables.h"

namespace valor {
namespace {

constexpr int kThreads = 512;
constexpr int64_t kWantedBlocks =
    264;  // 2 for each of 132 multiprocessors: each adds its whole table at the end
static_assert(kRoundsPixels + 16 < 1 << 16, "what is left of a table after its last load is counted as well");
using MapCounter = Counter<kThreads>;

struct MapTask {
  CountTask count;
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
  if (task.has_ignored && target == static_cast<T>(task.ignored)) return kIgnoredPixel;
  if (!(target < task.limits[1])) return kBadTarget;
  if (!(pred < task.limits[0])) return kBadPrediction;
  return static_cast<uint32_t>(target) << kClassBits | static_cast<uint32_t>(pred);
}

__device__ __forceinline__ void add(const MapCounter& counter, uint32_t code, int32_t count) {
  counter.add(static_cast<int32_t>(code >> kClassBits), static_cast<int32_t>(code & ((1u << kClassBits) - 1)),
              count);
}

// Adds the runs that the codes of the lanes make.
__device__ __forceinline__ void add_runs(const MapCounter& counter, uint32_t code) {
  const Warp warp;
  const int lane = warp.lane();
  const uint32_t before = __shfl_up_sync(Warp::kAll, code, 1);
  const uint32_t heads = warp.ballot(lane == 0 || before != code), after = heads >> lane >> 1;
  if (!(heads >> lane & 1) || (code & kIgnoredPixel)) return;
  add(counter, code, after ? __ffs(static_cast<int>(after)) : 32 - lane);
}

// The maps of one table. A group is the pixels of a load.
template <class P, class T>
class Maps {
 public:
  static constexpr int kWide = sizeof(P) > sizeof(T) ? sizeof(P) : sizeof(T), N = 16 / kWide;
  static constexpr int kGroups = N < 8 ? 2 : 1;  // of a thread, under way at once
  static constexpr int64_t kTile = int64_t{kThreads} * kGroups * N;

  __device__ __forceinline__ Maps(const MapTask& task, const MapCounter& counter)
      : task_(task), counter_(counter), pixels_(task.count.pixels.table_pixels()) {
    first_ = blockIdx.x / task.count.table_blocks * pixels_;
    preds_ = static_cast<const P*>(task.count.pixels.preds.data) + first_;
    target_ = static_cast<const T*>(task.count.pixels.target.data) + first_;
  }

  // Whole warps come here together; lanes beyond the last group read it again and count nothing.
  __device__ __forceinline__ void read(int64_t tile) {
    const int64_t groups = pixels_ / N, first = tile * kGroups * kThreads + threadIdx.x;
    Vector<P, N> preds[kGroups];
    Vector<T, N> target[kGroups];
    VALOR_UNROLLED
    for (int j = 0; j < kGroups; ++j) {
      const int64_t group = first + j * kThreads, at = group < groups ? group : groups - 1;
      preds[j].load(preds_ + at * N), target[j].load(target_ + at * N);
    }
    VALOR_UNROLLED
    for (int j = 0; j < kGroups; ++j) count(first + j * kThreads, groups, preds[j], target[j]);
  }
  // The pixels after the last group, fewer than N.
  __device__ __forceinline__ void read_rest() {
    const int64_t pixel = pixels_ / N * N + threadIdx.x;
    if (pixel >= pixels_) return;
    const uint32_t code = code_of(task_, preds_[pixel], target_[pixel]);
    if (!(code & kIgnoredPixel)) add(counter_, code, 1);
    see(code, pixel);
  }
  // Notes the first bad label of this thread.
  __device__ __forceinline__ void note() const {
    if (bad_) task_.count.note(first_ + bad_pixel_, bad_ == kBadTarget ? kTarget : kPrediction);
  }

 private:
  __device__ __forceinline__ void count(int64_t group, int64_t groups, const Vector<P, N>& preds,
                                        const Vector<T, N>& target) {
    VALOR_UNROLLED
    for (int i = 0; i < N; ++i) {
      const uint32_t code =
          group < groups ? code_of(task_, preds.values[i], target.values[i]) : kIgnoredPixel;
      add_runs(counter_, code);
      see(code, group * N + i);
    }
  }
  // A thread sees its pixels in their order.
  __device__ __forceinline__ void see(uint32_t code, int64_t pixel) {
    if (code >= kBadPrediction && bad_ == 0) bad_ = code, bad_pixel_ = pixel;
  }

  const MapTask& task_;
  const MapCounter& counter_;
  const int64_t pixels_;
  int64_t first_;
  const P* preds_;
  const T* target_;
  uint32_t bad_ = 0;  // the code of the first bad label, and its pixel
  int64_t bad_pixel_ = 0;
};

template <class P, class T>
__global__ void __launch_bounds__(kThreads) count_maps_kernel(const __grid_constant__ MapTask task) {
  VALOR_DYNAMIC_SHARED(uint32_t, own);
  const CountTask& count = task.count;
  const int64_t table = blockIdx.x / count.table_blocks, block = blockIdx.x % count.table_blocks;
  const MapCounter counter{count, count.tables + table * count.pixels.table_size(), own};
  counter.clear();
  Maps<P, T> maps(task, counter);
  VALOR_ROLLED
  for (int32_t round = 0; round < count.rounds; ++round) maps.read(block * count.rounds + round);
  if (block == 0) maps.read_rest();
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
  MapTask task{count, {}, 0, 0};
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
  constexpr int N = Maps<P, T>::N;
  const PixelTask& pixels = count.pixels;
  if (pixels.table_pixels() < N || !is_dense<P>(pixels, pixels.preds, N) ||
      !is_dense<T>(pixels, pixels.target, N))
    return false;
  const int64_t blocks = count.plan(Maps<P, T>::kTile, kWantedBlocks);
  const unsigned grid = static_cast<unsigned>(blocks);
  *status = 9;  // cudaErrorInvalidConfiguration
  if (blocks <= INT32_MAX)
    *status = VALOR_LAUNCH((count_maps_kernel<P, T>), grid, kThreads, shared_bytes(pixels, count.room),
                           stream, task_of(count, 8 * static_cast<int>(sizeof(T))));
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
