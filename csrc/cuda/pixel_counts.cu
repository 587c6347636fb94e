// Label maps of any strides and logits on CUDA: a thread takes neighbouring pixels, collapses runs of one
// pair of classes and adds each run once. Label maps that lie one pixel after another are those of
// label_maps.cu.
#include "pixel_tables.h"
#include "region_counts.h"

namespace valor {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kWantedBlocks = 1056;  // 8 for each of 132 multiprocessors
template <Room kRoom>
using PixelCounter = Counter<kThreads, kRoom>;

// Codes of 16 bits: classes, or one of these.
constexpr uint32_t kBad = 0xffff, kIgnored = 0xfffe;

// Neighbouring pixels of one thread.
template <int N>
struct Pixels {
  int64_t first;  // of all pixels
  int32_t count;
  uint32_t codes[N];  // of the target, above that of the prediction

  static __device__ bool counts(uint32_t code) {
    return (code >> 16) < kIgnored && (code & 0xffffu) < kIgnored;
  }

  // Adds runs of one pair; where a whole warp has one pair, one lane adds all of them.
  template <Room kRoom>
  __device__ void count_runs(const PixelCounter<kRoom>& counter) {
    const Warp warp;
    bool steady = count == N && counts(codes[0]);
    VALOR_UNROLLED
    for (int i = 1; i < N; ++i) steady = steady && codes[i] == codes[0];
    const uint32_t code = warp.from(codes[0], 0);
    const bool like_first = steady && codes[0] == code;
    if (warp.ballot(like_first) == Warp::kAll) {
      if (warp.lane() == 0) add(counter, code, 32 * N);
      return;
    }
    bool bad = false;
    int32_t length = 0;
    VALOR_UNROLLED
    for (int i = 0; i < N; ++i) {
      if (i >= count) continue;
      ++length;
      if (i + 1 < N && i + 1 < count && codes[i] == codes[i + 1 < N ? i + 1 : i]) continue;
      if (counts(codes[i]))
        add(counter, codes[i], length);
      else
        bad = bad || (codes[i] >> 16) != kIgnored;
      length = 0;
    }
    if (bad) note_first(counter.task);
  }
  template <Room kRoom>
  static __device__ void add(const PixelCounter<kRoom>& counter, uint32_t code, int32_t length) {
    counter.add(static_cast<int32_t>(code >> 16), static_cast<int32_t>(code & 0xffffu), length);
  }
  __device__ void note_first(const CountTask& task) const {
    int32_t at = N;
    uint32_t code = 0;
    VALOR_UNROLLED
    for (int i = N - 1; i >= 0; --i)
      if (i < count && !counts(codes[i]) && (codes[i] >> 16) != kIgnored) at = i, code = codes[i];
    task.note(first + at, (code >> 16) == kBad ? kTarget : kPrediction);
  }
};

// ---------------------------------------------------------------------------------------------------- labels

// Calls put(i, value) for `count` of N values from a place on.
template <int N, class T, class Put>
__device__ __forceinline__ void load_values(const PixelTask& task, const PixelMap& map, PixelPlace place,
                                            int32_t count, Put put) {
  constexpr int kSize = 16 / static_cast<int>(sizeof(T)) < N ? 16 / static_cast<int>(sizeof(T)) : N;
  const T* from = map.at<T>(place.image, place.row, place.column);
  if (count == N && map.pixel_stride == 1 && place.column + N <= task.columns &&
      reinterpret_cast<uintptr_t>(from) % (kSize * sizeof(T)) == 0) {
    VALOR_UNROLLED
    for (int i = 0; i < N; i += kSize) {
      T values[kSize];
      memcpy(values, __builtin_assume_aligned(from + i, kSize * sizeof(T)), sizeof values);
      VALOR_UNROLLED
      for (int j = 0; j < kSize; ++j) put(i + j, values[j]);
    }
    return;
  }
  VALOR_UNROLLED
  for (int i = 0; i < N; ++i) {
    if (i >= count) continue;
    put(i, *map.at<T>(place.image, place.row, place.column));
    place.advance(task, 1);
  }
}

// Puts the codes of a map below those that are there.
template <int N, class Bits>
__device__ __forceinline__ void load_codes(const CountTask& task, bool of_target, const PixelPlace& place,
                                           Pixels<N>& pixels) {
  const PixelMap& map = of_target ? task.pixels.target : task.pixels.preds;
  const int unused = 64 - 8 * static_cast<int>(sizeof(Bits));
  const bool is_signed = map.type == kInt8 || map.type == kInt16 || map.type == kInt32 || map.type == kInt64;
  load_values<N, Bits>(task.pixels, map, place, pixels.count, [&](int i, Bits bits) {
    int64_t value = static_cast<int64_t>(bits);
    if (is_signed) value = static_cast<int64_t>(static_cast<uint64_t>(value) << unused) >> unused;
    uint32_t code = kBad;
    if (static_cast<uint64_t>(value) < static_cast<uint64_t>(task.pixels.classes))
      code = static_cast<uint32_t>(value);
    if (of_target && task.pixels.has_ignore && value == task.pixels.ignore) code = kIgnored;
    pixels.codes[i] = pixels.codes[i] << 16 | code;
  });
}

template <int N>
__device__ __forceinline__ void load_labels(const CountTask& task, int maps, Pixels<N>& pixels) {
  if (pixels.count == 0) return;
  const PixelPlace place = task.place(pixels.first);
  VALOR_ROLLED
  for (int side = 0; side < maps; ++side) {
    const bool of_target = side == 0;
    switch ((of_target ? task.pixels.target : task.pixels.preds).type) {
      case kInt16:
      case kUInt16:
        load_codes<N, uint16_t>(task, of_target, place, pixels);
        break;
      case kInt32:
      case kUInt32:
        load_codes<N, uint32_t>(task, of_target, place, pixels);
        break;
      case kInt64:
        load_codes<N, uint64_t>(task, of_target, place, pixels);
        break;
      default:
        load_codes<N, uint8_t>(task, of_target, place, pixels);
    }
  }
}

// Calls count(pixels) for each tile of a block: N pixels a thread.
template <int N, class Count>
__device__ __forceinline__ void over_tiles(const CountTask& task, Count count) {
  const int64_t table_pixels = task.pixels.table_pixels();
  const int64_t table = blockIdx.x / task.table_blocks, block = blockIdx.x % task.table_blocks;
  VALOR_ROLLED
  for (int64_t round = 0; round < task.rounds; ++round) {
    const int64_t first = ((block * task.rounds + round) * kThreads + threadIdx.x) * N;
    const int64_t left = table_pixels - first;
    Pixels<N> pixels;
    pixels.first = table * table_pixels + first;
    pixels.count = static_cast<int32_t>(left < 0 ? 0 : left < N ? left : N);
    VALOR_UNROLLED
    for (int i = 0; i < N; ++i) pixels.codes[i] = 0;
    count(pixels);
  }
}

template <Room kRoom>
__device__ __forceinline__ PixelCounter<kRoom> counter_of(const CountTask& task, uint32_t* own) {
  const PixelCounter<kRoom> counter{
      task, task.tables + blockIdx.x / task.table_blocks * task.pixels.table_size(), own};
  counter.clear();
  return counter;
}

constexpr int kLabelPixels = 4;

// Four blocks a multiprocessor: for more of them nvcc would spill registers on sm_80.
template <Room kRoom>
__global__ void __launch_bounds__(kThreads, 4) count_labels_kernel(const __grid_constant__ CountTask task) {
  VALOR_DYNAMIC_SHARED(uint32_t, own);
  const PixelCounter<kRoom> counter = counter_of<kRoom>(task, own);
  over_tiles<kLabelPixels>(task, [&](Pixels<kLabelPixels>& pixels) {
    load_labels(task, 2, pixels);
    pixels.count_runs(counter);
  });
  counter.fold();
}

// ---------------------------------------------------------------------------------------------------- logits

constexpr int kLogitPixels = 4;

template <class Bits>
__device__ __forceinline__ void find_largest(const CountTask& task, Pixels<kLogitPixels>& pixels) {
  using Word = typename Bits::Word;
  if (pixels.count == 0) return;
  const PixelPlace place = task.place(pixels.first);
  Word best[kLogitPixels];
  uint32_t at[kLogitPixels] = {};
  PixelMap map = task.pixels.preds;
  for (uint32_t channel = 0; channel < task.pixels.classes; ++channel) {
    load_values<kLogitPixels, Word>(task.pixels, map, place, pixels.count, [&](int i, Word bits) {
      const Word key = argmax_key<Bits>(bits);
      if (channel > 0 && key <= best[i]) return;
      best[i] = key, at[i] = channel;
    });
    map.data = static_cast<const Word*>(map.data) + task.pixels.channel_stride;
  }
  VALOR_UNROLLED
  for (int i = 0; i < kLogitPixels; ++i) pixels.codes[i] = pixels.codes[i] << 16 | at[i];
}

template <class Bits, Room kRoom>
__global__ void __launch_bounds__(kThreads) count_logits_kernel(const __grid_constant__ CountTask task) {
  VALOR_DYNAMIC_SHARED(uint32_t, own);
  const PixelCounter<kRoom> counter = counter_of<kRoom>(task, own);
  over_tiles<kLogitPixels>(task, [&](Pixels<kLogitPixels>& pixels) {
    load_labels(task, 1, pixels);
    find_largest<Bits>(task, pixels);
    pixels.count_runs(counter);
  });
  counter.fold();
}

}  // namespace

int32_t count_pixels(const PixelTask& pixels, int64_t* tables, int64_t* error, void* stream) {
  if (pixels.table_pixels() * pixels.tables() == 0) return 0;
  CountTask task{pixels,
                 Divisor(pixels.rows),
                 Divisor(pixels.columns),
                 Divisor(pixels.code_pixels),
                 room_of(pixels),
                 1,
                 1,
                 reinterpret_cast<unsigned long long*>(tables),
                 error};
  int32_t status = 0;
  if (launch_label_maps(task, stream, &status)) return status;
  const int64_t tile = kThreads * (pixels.channel_stride ? kLogitPixels : kLabelPixels);
  const int64_t blocks = task.plan(tile, kWantedBlocks), shared = shared_bytes(pixels, task.room);
  if (blocks > INT32_MAX) return 9;  // cudaErrorInvalidConfiguration
  const unsigned grid = static_cast<unsigned>(blocks);
  return with_room(task.room, [&](auto room) {
    if (!pixels.channel_stride)
      return VALOR_LAUNCH_EARLY(count_labels_kernel<room()>, grid, kThreads, shared, stream, task);
    return with_bits(pixels.preds.type, [&](auto bits) {
      return VALOR_LAUNCH_EARLY((count_logits_kernel<decltype(bits), room()>), grid, kThreads, shared, stream,
                                task);
    });
  });
}

}  // namespace valor
