// One-hot maps on CUDA: a warp counts a chunk of pixels of one channel, and adds its sums once.
#include "../core/one_hot.h"
#include "divisor.h"
#include "launch.h"
#include "region_counts.h"

namespace valor {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int64_t kRounds = 32;           // pixels of a lane
constexpr int64_t kChunk = 32 * kRounds;  // of a warp

struct OneHotCount {
  OneHotTask task;
  Divisor rows, columns, code_pixels, classes, chunks;
  int64_t units;  // chunks of all channels and tables
  unsigned long long* tables;
  unsigned long long* ignored;
  int64_t* error;

  __device__ PixelPlace place(int64_t pixel) const {
    PixelPlace found;
    const int64_t line = columns.divide(pixel, &found.column);
    found.image = rows.divide(line, &found.row);
    return found;
  }
  // For the host too, since with_label is: what it calls must run where it runs.
  VALOR_HD int64_t value(bool of_target, const PixelPlace& place, int64_t channel) const {
    const PixelMap& map = task.map(of_target);
    return with_label(map.type, [&](auto zero) {
      using T = decltype(zero);
      const T* values = map.at<T>(place.image, place.row, place.column);
      return static_cast<int64_t>(values[channel * task.channel_stride(of_target)]);
    });
  }
  __device__ bool kept(const PixelPlace& place, int64_t target) const {
    if (!task.target_one_hot) return !task.pixels.has_ignore || target != task.pixels.ignore;
    const int64_t channel = task.ignored_channel();
    return channel < 0 || value(true, place, channel) != 1;
  }
  // Labels are checked with the first channel alone.
  __device__ bool bad(bool of_target, int64_t value, int64_t channel) const {
    const uint64_t word = static_cast<uint64_t>(value);
    return task.one_hot(of_target) ? word > 1
                                   : channel == 0 && word >= static_cast<uint64_t>(task.pixels.classes);
  }
  __device__ void note(bool of_target, int64_t pixel, int64_t channel) const {
    int64_t place;
    const int64_t image = code_pixels.divide(pixel, &place);
    const int64_t column = task.one_hot(of_target) ? channel * task.pixels.code_pixels + place : place;
    const int64_t code = value_error(image, column, OneHotTask::kind(of_target));
    atomicMin(reinterpret_cast<long long*>(error), static_cast<long long>(code));
  }
};

__device__ __forceinline__ void add_sum(unsigned long long* cell, uint32_t count) {
  const uint32_t sum = Warp().sum(count);
  if (Warp().lane() == 0 && sum) atomicAdd(cell, static_cast<unsigned long long>(sum));
}

__global__ void __launch_bounds__(kThreads) count_one_hot_kernel(const __grid_constant__ OneHotCount count) {
  const int64_t unit = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (unit >= count.units) return;  // a whole warp
  const OneHotTask& task = count.task;
  int64_t channel, chunk;
  const int64_t table = count.chunks.divide(count.classes.divide(unit, &channel), &chunk);
  const int64_t pixels = task.pixels.table_pixels();
  uint32_t right = 0, predicted = 0, true_ = 0, left_out = 0;
  VALOR_ROLLED
  for (int64_t round = 0; round < kRounds; ++round) {
    const int64_t index = chunk * kChunk + round * 32 + Warp().lane();
    if (index >= pixels) continue;
    const int64_t pixel = table * pixels + index;
    const PixelPlace place = count.place(pixel);
    const int64_t given = count.value(false, place, task.preds_one_hot ? channel : 0);
    const int64_t wanted = count.value(true, place, task.target_one_hot ? channel : 0);
    if (!count.kept(place, wanted)) {
      left_out += channel == 0;
      continue;
    }
    const uint32_t has = given == (task.preds_one_hot ? 1 : channel);
    const uint32_t should = wanted == (task.target_one_hot ? 1 : channel);
    right += has & should, predicted += has, true_ += should;
    if (count.bad(false, given, channel)) count.note(false, pixel, channel);
    if (count.bad(true, wanted, channel)) count.note(true, pixel, channel);
  }
  unsigned long long* const sums = count.tables + table * task.pixels.table_size() + channel;
  add_sum(sums, right);
  add_sum(sums + task.pixels.classes, predicted);
  add_sum(sums + 2 * task.pixels.classes, true_);
  if (channel == 0) add_sum(count.ignored, left_out);
}

}  // namespace

int32_t count_one_hot(const OneHotTask& task, int64_t* tables, int64_t* ignored, int64_t* error,
                      void* stream) {
  const PixelTask& pixels = task.pixels;
  if (pixels.table_pixels() * pixels.tables() == 0) return 0;
  const int64_t chunks = (pixels.table_pixels() + kChunk - 1) / kChunk;
  const int64_t units = chunks * pixels.tables() * pixels.classes, blocks = (units + kWarps - 1) / kWarps;
  if (blocks > INT32_MAX) return 9;  // cudaErrorInvalidConfiguration
  const OneHotCount count{task,
                          Divisor(pixels.rows),
                          Divisor(pixels.columns),
                          Divisor(pixels.code_pixels),
                          Divisor(pixels.classes),
                          Divisor(chunks),
                          units,
                          reinterpret_cast<unsigned long long*>(tables),
                          reinterpret_cast<unsigned long long*>(ignored),
                          error};
  return VALOR_LAUNCH(count_one_hot_kernel, static_cast<unsigned>(blocks), kThreads, 0, stream, count);
}

}  // namespace valor
