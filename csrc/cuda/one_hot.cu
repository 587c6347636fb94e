// One-hot maps on CUDA: a warp counts a chunk of pixels of one channel, and adds its sums once. A lane makes
// bits of 16 pixels of each side at a time, 16 neighbours where the channel is contiguous.
#include <type_traits>

#include "../core/masks.h"
#include "../core/one_hot.h"
#include "divisor.h"
#include "launch.h"
#include "region_counts.h"

namespace valor {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int32_t kLanePixels = 16;
constexpr int32_t kSpan = 32 * kLanePixels;  // pixels that a warp turns into bits
constexpr int64_t kChunk = 4 * kSpan;        // of a warp

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

__device__ __forceinline__ bool is_signed(int64_t type) {
  return type == kInt8 || type == kInt16 || type == kInt32 || type == kInt64;
}

// The value of Size bytes of a type.
template <int Size>
__device__ __forceinline__ int64_t widened(uint64_t bits, bool with_sign) {
  constexpr int kUnused = 64 - 8 * Size;
  bits <<= kUnused;
  return with_sign ? static_cast<int64_t>(bits) >> kUnused : static_cast<int64_t>(bits >> kUnused);
}

template <int Size>
using Bits = std::conditional_t<Size == 8, uint64_t, uint32_t>;

// Values of Size bytes of 16 pixels. Functions of all give a bit for each.
template <int Size>
struct Values {
  static constexpr int kWords = kLanePixels * Size / 4;
  static constexpr int kUnit = Size < 4 ? 4 : Size;  // bytes that a load has at least
  uint32_t words[kWords];

  __device__ __forceinline__ void load(const uint8_t* from) {
    if (reinterpret_cast<uintptr_t>(from) % 16 == 0) {
      VALOR_UNROLLED
      for (int i = 0; i < kWords; i += 4) {
        const uint4 part = __ldg(reinterpret_cast<const uint4*>(from) + i / 4);
        words[i] = part.x, words[i + 1] = part.y, words[i + 2] = part.z, words[i + 3] = part.w;
      }
      return;
    }
    VALOR_UNROLLED
    for (int i = 0; i < kWords; i += kUnit / 4)
      memcpy(words + i, __builtin_assume_aligned(from + 4 * i, kUnit), kUnit);
  }
  __device__ __forceinline__ Bits<Size> at(int i) const {
    if constexpr (Size == 8) return static_cast<uint64_t>(words[2 * i + 1]) << 32 | words[2 * i];
    if constexpr (Size == 4) return words[i];
    return words[i * Size / 4] >> (8 * (i * Size % 4)) & (Size == 1 ? 0xffu : 0xffffu);
  }
  __device__ __forceinline__ uint32_t equal(Bits<Size> value) const {
    uint32_t bits = 0;
    if constexpr (Size == 1) {
      const uint32_t four = value * 0x01010101u;
      VALOR_UNROLLED
      for (int i = 0; i < kWords; ++i) bits |= pack_four(words[i] ^ four) << 4 * i;
      return ~bits & 0xffffu;
    } else {
      VALOR_UNROLLED
      for (int i = 0; i < kLanePixels; ++i) bits |= static_cast<uint32_t>(at(i) == value) << i;
      return bits;
    }
  }
  __device__ __forceinline__ bool has_above_one() const {
    uint32_t any = 0;
    VALOR_UNROLLED
    for (int i = 0; i < kWords; ++i) {
      const uint32_t one = Size == 1                 ? 0x01010101u
                           : Size == 2               ? 0x00010001u
                           : Size == 4 || i % 2 == 0 ? 1u
                                                     : 0u;
      any |= words[i] & ~one;
    }
    return any != 0;
  }
  __device__ __forceinline__ uint32_t from(uint32_t limit) const {
    uint32_t bits = 0;
    VALOR_UNROLLED
    for (int i = 0; i < kLanePixels; ++i) bits |= static_cast<uint32_t>(at(i) >= limit) << i;
    return bits;
  }
};

// A channel of a side, and the value that says "this class" there.
template <int Size>
struct Channel {
  const PixelMap& map;
  const uint8_t* data;
  Bits<Size> value;
  bool may_equal;  // whether the type of the map has the value

  // `offset` in elements.
  __device__ __forceinline__ Channel(const PixelMap& map, int64_t offset, int64_t value)
      : map(map),
        data(static_cast<const uint8_t*>(map.data) + Size * offset),
        value(static_cast<Bits<Size>>(static_cast<uint64_t>(value) & ~uint64_t{0} >> (64 - 8 * Size))) {
    may_equal = widened<Size>(this->value, is_signed(map.type)) == value;
  }
  __device__ __forceinline__ const uint8_t* at(const PixelPlace& place) const {
    return data + Size * (place.image * map.image_stride + place.row * map.row_stride +
                          place.column * map.pixel_stride);
  }
  __device__ __forceinline__ uint32_t equal(const Values<Size>& values) const {
    return may_equal ? values.equal(value) : 0u;
  }
  __device__ __forceinline__ bool equals(Bits<Size> found) const { return may_equal && found == value; }
  // The bits of the first class that there is not: those of negative labels are above.
  __device__ __forceinline__ uint32_t limit(int64_t classes) const {
    const uint64_t most = uint64_t{1} << (8 * Size - (is_signed(map.type) ? 1 : 0)) % 64;
    return static_cast<uint32_t>(Size < 8 && most < static_cast<uint64_t>(classes) ? most : classes);
  }
};

template <int Size>
__device__ __forceinline__ Bits<Size> read_one(const uint8_t* from) {
  Bits<Size> value = 0;
  memcpy(&value, __builtin_assume_aligned(from, Size), Size);
  return value;
}

// Counts what a warp finds in one channel.
template <int Preds, int Target>
class ChannelCounter {
 public:
  // Spans that are loaded before one is counted.
  static constexpr int kAhead = Preds + Target == 2 ? 2 : 1;

  __device__ __forceinline__ ChannelCounter(const OneHotCount& count, int64_t channel)
      : count_(count),
        channel_(channel),
        preds_(count.task.map(false), channel * count.task.channel_stride(false), wanted(false)),
        target_(count.task.map(true), channel * count.task.channel_stride(true), wanted(true)),
        ignored_(count.task.map(true), ignored_offset(),
                 count.task.target_one_hot ? 1 : count.task.pixels.ignore) {}

  // Pixels from `index` to `end` - 1 of a table whose first is `before`.
  __device__ __forceinline__ void add(int64_t before, int64_t index, int64_t end) {
    const PixelMap &preds = count_.task.map(false), &target = count_.task.map(true);
    const bool contiguous = preds.pixel_stride == 1 && target.pixel_stride == 1;
    PixelPlace place;
    int64_t line = 0;  // pixels from `place` to the end of its line
    VALOR_ROLLED
    while (index < end) {
      if (line <= 0) {
        place = count_.place(before + index);
        line = count_.task.pixels.columns - place.column;
      }
      const int64_t left = end - index, first = before + index;
      int32_t size = kAhead * kSpan;
      bool bad;
      if (contiguous && left >= size && line >= size && aligned(place)) {
        bad = add_spans(place);
      } else {
        size = left < kSpan ? static_cast<int32_t>(left) : kSpan;
        bad =
            size <= line ? add_pixels<2, true>(first, size, place) : add_pixels<1, false>(first, size, place);
      }
      if (Warp().ballot(bad)) note(first, size);
      index += size, line -= size, place.column += size;
    }
  }
  __device__ __forceinline__ void write(unsigned long long* sums) const {
    const int64_t classes = count_.task.pixels.classes;
    add_sum(sums + channel_, right_);
    add_sum(sums + channel_ + classes, predicted_);
    add_sum(sums + channel_ + 2 * classes, true_);
    if (channel_ == 0) add_sum(count_.ignored, left_out_);
  }

 private:
  __device__ int64_t wanted(bool of_target) const { return count_.task.one_hot(of_target) ? 1 : channel_; }
  __device__ int64_t ignored_offset() const {
    const int64_t channel = count_.task.ignored_channel();
    return channel < 0 ? 0 : channel * count_.task.target_channel_stride;
  }
  __device__ bool ignores() const {
    return count_.task.target_one_hot ? count_.task.ignored_channel() >= 0
                                      : count_.task.pixels.has_ignore != 0;
  }
  __device__ bool aligned(const PixelPlace& place) const {
    const uintptr_t any = reinterpret_cast<uintptr_t>(preds_.at(place)) |
                          reinterpret_cast<uintptr_t>(target_.at(place)) |
                          reinterpret_cast<uintptr_t>(ignored_.at(place));
    return any % 4 == 0;
  }

  // Spans of one line; both sides are contiguous. Returns whether to look for bad values.
  __device__ __forceinline__ bool add_spans(const PixelPlace& place) {
    const int32_t lane = kLanePixels * Warp().lane();
    const uint8_t *const preds = preds_.at(place) + Preds * lane, *const target =
                                                                      target_.at(place) + Target * lane;
    Values<Preds> given[kAhead];
    Values<Target> wanted[kAhead];
    VALOR_UNROLLED
    for (int k = 0; k < kAhead; ++k) {
      given[k].load(preds + Preds * kSpan * k);
      wanted[k].load(target + Target * kSpan * k);
    }
    bool bad = false;
    uint32_t has = 0, should = 0, kept = 0;  // 16 bits of each span
    VALOR_UNROLLED
    for (int k = 0; k < kAhead; ++k) {
      const uint32_t of_span = kept_of(place, lane + kSpan * k, wanted[k]);
      has |= preds_.equal(given[k]) << 16 * k, should |= target_.equal(wanted[k]) << 16 * k;
      kept |= of_span << 16 * k;
      bad = bad || is_bad(false, preds_, given[k], of_span) || is_bad(true, target_, wanted[k], of_span);
    }
    has &= kept, should &= kept;
    right_ += __popc(has & should), predicted_ += __popc(has), true_ += __popc(should);
    if (channel_ == 0) left_out_ += kAhead * kLanePixels - __popc(kept);
    return bad;
  }
  __device__ __forceinline__ uint32_t kept_of(const PixelPlace& place, int32_t pixel,
                                              const Values<Target>& wanted) const {
    if (!ignores()) return 0xffffu;
    if (!count_.task.target_one_hot) return ignored_.equal(wanted) ^ 0xffffu;
    Values<Target> values;
    values.load(ignored_.at(place) + Target * pixel);
    return ignored_.equal(values) ^ 0xffffu;
  }
  // Labels are checked with the first channel alone. Of one-hot sides ignored pixels count too: the call of
  // `note` that follows looks again.
  template <int Size>
  __device__ __forceinline__ bool is_bad(bool of_target, const Channel<Size>& side,
                                         const Values<Size>& values, uint32_t kept) const {
    if (count_.task.one_hot(of_target)) return values.has_above_one();
    return channel_ == 0 && (values.from(side.limit(count_.task.pixels.classes)) & kept) != 0;
  }

  // A span of up to 512 pixels, of which a lane takes each 32nd. Returns the same.
  template <int Batch, bool InLine>
  __device__ __forceinline__ bool add_pixels(int64_t first, int32_t size, const PixelPlace& place) {
    const int64_t preds_step = Preds * count_.task.map(false).pixel_stride;
    const int64_t target_step = Target * count_.task.map(true).pixel_stride;
    bool bad = false;
    VALOR_ROLLED
    for (int32_t i = Warp().lane(); i < size; i += 32 * Batch) {
      const PixelPlace at = InLine ? place : count_.place(first + i);
      const int32_t further = InLine ? i : 0;
      const uint8_t* const preds = preds_.at(at) + preds_step * further;
      const uint8_t* const target = target_.at(at) + target_step * further;
      const uint8_t* const ignored_at = ignored_.at(at) + target_step * further;
      Bits<Preds> given[Batch];
      Bits<Target> wanted[Batch], ignored[Batch];
      VALOR_UNROLLED
      for (int k = 0; k < Batch; ++k) {
        if (i + 32 * k >= size) continue;
        given[k] = read_one<Preds>(preds + preds_step * (32 * k));
        wanted[k] = read_one<Target>(target + target_step * (32 * k));
        ignored[k] = ignores() ? read_one<Target>(ignored_at + target_step * (32 * k)) : 0;
      }
      VALOR_UNROLLED
      for (int k = 0; k < Batch; ++k)
        if (i + 32 * k < size) bad |= add_pixel(given[k], wanted[k], ignored[k]);
    }
    return bad;
  }
  __device__ __forceinline__ bool add_pixel(Bits<Preds> given, Bits<Target> wanted, Bits<Target> ignored) {
    const bool kept = !ignores() || !ignored_.equals(ignored);
    const uint32_t has = kept && preds_.equals(given), should = kept && target_.equals(wanted);
    right_ += has & should, predicted_ += has, true_ += should;
    left_out_ += channel_ == 0 && !kept;
    return kept && (is_bad_one(false, preds_, given) || is_bad_one(true, target_, wanted));
  }
  template <int Size>
  __device__ __forceinline__ bool is_bad_one(bool of_target, const Channel<Size>& side,
                                             Bits<Size> value) const {
    if (count_.task.one_hot(of_target)) return value > 1;
    return channel_ == 0 && value >= side.limit(count_.task.pixels.classes);
  }

  // Lowers the error by what is wrong among `size` pixels.
  __device__ __forceinline__ void note(int64_t first, int32_t size) const {
    VALOR_ROLLED
    for (int32_t i = Warp().lane(); i < size; i += 32) {
      const PixelPlace place = count_.place(first + i);
      if (ignores() && ignored_.equals(read_one<Target>(ignored_.at(place)))) continue;
      if (is_bad_one(false, preds_, read_one<Preds>(preds_.at(place))))
        count_.note(false, first + i, channel_);
      if (is_bad_one(true, target_, read_one<Target>(target_.at(place))))
        count_.note(true, first + i, channel_);
    }
  }

  const OneHotCount& count_;
  const int64_t channel_;
  const Channel<Preds> preds_;
  const Channel<Target> target_, ignored_;
  uint32_t right_ = 0, predicted_ = 0, true_ = 0, left_out_ = 0;
};

// Neighbouring warps take the channels of one chunk, so that a map of labels is read from memory once.
template <int Preds, int Target>
__global__ void __launch_bounds__(kThreads, Preds + Target == 2 ? 3 : 2)
    count_one_hot_kernel(const __grid_constant__ OneHotCount count) {
  const int64_t unit = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (unit >= count.units) return;  // a whole warp
  int64_t channel, chunk;
  const int64_t table = count.chunks.divide(count.classes.divide(unit, &channel), &chunk);
  const int64_t pixels = count.task.pixels.table_pixels(), begin = chunk * kChunk;
  ChannelCounter<Preds, Target> counter(count, channel);
  counter.add(table * pixels, begin, pixels - begin < kChunk ? pixels : begin + kChunk);
  counter.write(count.tables + table * count.task.pixels.table_size());
}

template <int Size>
struct SizeOf {
  static constexpr int kSize = Size;
};

// Calls visit with the SizeOf a type of labels.
template <class Visit>
int32_t with_size(int64_t type, Visit visit) {
  switch (type) {
    case kInt16:
    case kUInt16:
      return visit(SizeOf<2>());
    case kInt32:
    case kUInt32:
      return visit(SizeOf<4>());
    case kInt64:
      return visit(SizeOf<8>());
    default:
      return visit(SizeOf<1>());
  }
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
  return with_size(pixels.preds.type, [&](auto preds) {
    return with_size(pixels.target.type, [&](auto target) {
      return VALOR_LAUNCH((count_one_hot_kernel<decltype(preds)::kSize, decltype(target)::kSize>),
                          static_cast<unsigned>(blocks), kThreads, 0, stream, count);
    });
  });
}

}  // namespace valor
