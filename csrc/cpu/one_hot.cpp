// CPU driver of one-hot maps: a tile of pixels becomes a row of bytes, 0 or 1, for each side and channel.
#include "../core/one_hot.h"

#include <vector>

#include "guard.h"
#include "label_codes.h"
#include "rows.h"

namespace valor {
namespace {

constexpr int64_t kLanes = 32;            // bytes that are summed side by side
constexpr int64_t kSpan = 8 * kTile;      // pixels of a tile: a byte holds their sum in each lane
constexpr int64_t kLeastBytes = 1 << 18;  // of one-hot maps that are worth a thread
constexpr int64_t kSides = 2, kRows = 3;  // of a table
static_assert(kSpan / kLanes < 256, "sums of a lane must fit in a byte");

struct Span {
  alignas(64) uint8_t bytes[kSides][kSpan], kept[kSpan];
  Code codes[kSides][kSpan];  // of a map of labels
  bool bad;                   // something was neither 0 nor 1, or no class
};

// out[i] = whether values[i] is 1; returns whether one is neither 0 nor 1.
template <class Word>
VALOR_INLINE bool clean(const Word* values, int64_t stride, int64_t count, uint8_t* out) {
  Word all = 0;
  for (int64_t i = 0; i < count; ++i) {
    const Word value = values[i * stride];
    all |= value;
    out[i] = value == 1;
  }
  return all > 1;
}
#define VALOR_CLEAN_OF(Word)                                                       \
  VALOR_CLONES bool clean_dense(const Word* values, int64_t count, uint8_t* out) { \
    return clean<Word>(values, 1, count, out);                                     \
  }
VALOR_CLEAN_OF(uint8_t)
VALOR_CLEAN_OF(uint16_t)
VALOR_CLEAN_OF(uint32_t)
VALOR_CLEAN_OF(uint64_t)
#undef VALOR_CLEAN_OF

VALOR_CLONES void match_codes(const Code* codes, Code code, bool equal, int64_t count, uint8_t* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = (codes[i] == code) == equal;
}

// Calls visit(values) with the values of a channel from a place on.
template <class Visit>
auto with_channel(const OneHotTask& task, bool of_target, const PixelPlace& place, int64_t channel,
                  Visit visit) {
  const PixelMap& map = task.map(of_target);
  return with_label(map.type, [&](auto zero) {
    using Word = std::make_unsigned_t<decltype(zero)>;
    return visit(map.at<Word>(place.image, place.row, place.column) +
                 channel * task.channel_stride(of_target));
  });
}

bool load_channel(const OneHotTask& task, bool of_target, const PixelPlace& place, int64_t channel,
                  int64_t count, uint8_t* out) {
  const int64_t stride = task.map(of_target).pixel_stride;
  return with_channel(task, of_target, place, channel, [&](auto values) {
    return stride == 1 ? clean_dense(values, count, out) : clean(values, stride, count, out);
  });
}

// The codes of label maps, and which pixels are kept.
void begin_span(const OneHotTask& task, const PixelPlace& place, int64_t count, Span& span) {
  span.bad = false;
  for (int side = 0; side < kSides; ++side) {
    if (task.one_hot(side)) continue;
    PixelPlace at = place;
    for (int64_t i = 0; i < count; i += kTile, at.column += kTile)
      code_map(task.pixels, side, at, std::min(kTile, count - i), span.codes[side] + i);
  }
  std::fill_n(span.kept, kSpan, 0);
  std::fill_n(span.kept, count, 1);
  const Code classes = static_cast<Code>(task.pixels.classes);
  if (!task.target_one_hot) {
    match_codes(span.codes[1], static_cast<Code>(classes + 1), false, count, span.kept);
  } else if (task.ignored_channel() >= 0) {
    load_channel(task, true, place, task.ignored_channel(), count, span.bytes[1]);
    for (int64_t i = 0; i < count; ++i) span.kept[i] = !span.bytes[1][i];
  }
  for (int side = 0; side < kSides; ++side)
    for (int64_t i = 0; i < count && !task.one_hot(side); ++i)
      span.bad |= span.codes[side][i] == classes && span.kept[i];
}

// Adds the sums of a span of one channel to sums[0], sums[step] and sums[2 step]. What is not kept is not
// added.
VALOR_CLONES void add_bytes(const uint8_t* preds, const uint8_t* target, const uint8_t* kept, int64_t count,
                            int64_t* sums, int64_t step) {
  uint8_t lanes[kRows][kLanes] = {};
  for (int64_t i = 0; i < count; i += kLanes)
    for (int64_t j = i; j < i + kLanes; ++j) {
      const uint8_t predicted = preds[j] & kept[j], true_ = target[j] & kept[j];
      lanes[0][j - i] += predicted & true_;
      lanes[1][j - i] += predicted;
      lanes[2][j - i] += true_;
    }
  for (int64_t row = 0; row < kRows; ++row) {
    uint32_t sum = 0;
    for (int64_t j = 0; j < kLanes; ++j) sum += lanes[row][j];
    sums[row * step] += sum;
  }
}

// Adds values side by side: the sums of a block of `width` values go to the same lanes as those of the next.
VALOR_CLONES void add_blocks(const uint8_t* preds, const uint8_t* target, int64_t count, int64_t width,
                             uint8_t* lanes) {
  uint8_t *both = lanes, *predicted = lanes + width, *true_ = lanes + 2 * width;
  for (int64_t i = 0; i < count; i += width)
    for (int64_t j = 0; j < width; ++j) {
      both[j] += preds[i + j] & target[i + j];
      predicted[j] += preds[i + j];
      true_[j] += target[i + j];
    }
}

// Whether the channels of a pixel lie side by side on both sides, and pixels after another, all of which
// count.
bool interleaved(const OneHotTask& task) {
  const int64_t classes = task.pixels.classes;
  if (task.ignored_channel() >= 0 || classes == 1 || classes * kLanes > kSpan) return false;
  for (int side = 0; side < kSides; ++side)
    if (!task.one_hot(side) || task.channel_stride(side) != 1 || task.map(side).pixel_stride != classes)
      return false;
  return true;
}

// A span of interleaved maps in the order of memory: a block is so long that its lanes keep their channels.
void count_interleaved(const OneHotTask& task, const PixelPlace& place, int64_t count, Span& span,
                       int64_t* table) {
  const int64_t classes = task.pixels.classes, width = classes * kLanes, step = kSpan / width * width;
  uint8_t lanes[kRows * kSpan];
  for (int64_t done = 0; done < count * classes; done += step) {
    const int64_t values = std::min(step, count * classes - done),
                  blocks = (values + width - 1) / width * width;
    for (int side = 0; side < kSides; ++side) {
      span.bad |= with_channel(task, side, place, 0, [&](auto first) {
        return clean_dense(first + done, values, span.bytes[side]);
      });
      std::fill(span.bytes[side] + values, span.bytes[side] + blocks, 0);
    }
    std::fill_n(lanes, kRows * width, 0);
    add_blocks(span.bytes[0], span.bytes[1], blocks, width, lanes);
    for (int64_t row = 0; row < kRows; ++row)
      for (int64_t j = 0; j < width; ++j) table[row * classes + j % classes] += lanes[row * width + j];
  }
}

void count_span(const OneHotTask& task, const PixelPlace& place, int64_t count, Span& span, int64_t* table) {
  if (interleaved(task)) return count_interleaved(task, place, count, span, table);
  for (int64_t channel = 0; channel < task.pixels.classes; ++channel) {
    for (int side = 0; side < kSides; ++side)
      if (task.one_hot(side))
        span.bad |= load_channel(task, side, place, channel, count, span.bytes[side]);
      else
        match_codes(span.codes[side], static_cast<Code>(channel), true, count, span.bytes[side]);
    add_bytes(span.bytes[0], span.bytes[1], span.kept, count, table + channel, task.pixels.classes);
  }
}

int64_t first_error(const OneHotTask& task, const PixelPlace& place, int64_t pixel, int64_t count,
                    const Span& span) {
  const int64_t of_image = task.pixels.code_pixels;
  int64_t first = kNoError;
  const auto note = [&](int64_t i, int64_t channel, bool side) {
    if (!span.kept[i]) return;
    const int64_t column = channel * of_image + (pixel + i) % of_image;
    first = std::min(first, value_error((pixel + i) / of_image, column, OneHotTask::kind(side)));
  };
  for (int side = 0; side < kSides; ++side) {
    const int64_t stride = task.map(side).pixel_stride;
    for (int64_t i = 0; i < count && !task.one_hot(side); ++i)
      if (span.codes[side][i] == task.pixels.classes) note(i, 0, side);
    for (int64_t channel = 0; channel < task.pixels.classes && task.one_hot(side); ++channel)
      with_channel(task, side, place, channel, [&](auto values) {
        for (int64_t i = 0; i < count; ++i)
          if (values[i * stride] > 1) note(i, channel, side);
      });
  }
  return first;
}

// Counts pixels [begin, end) of one table; returns the first error.
int64_t count_range(const OneHotTask& task, int64_t begin, int64_t end, int64_t* table, int64_t* ignored) {
  const PixelTask& pixels = task.pixels;
  std::vector<int64_t> own(pixels.table_size());
  int64_t error = kNoError, left_out = 0;
  Span span;
  std::fill_n(span.bytes[0], kSides * kSpan, 0);  // what lies behind a short tile is read, but not kept
  PixelPlace place(pixels, begin);
  for (int64_t pixel = begin, count; pixel < end; pixel += count, place.advance(pixels, count)) {
    count = std::min({kSpan, end - pixel, pixels.columns - place.column});
    begin_span(task, place, count, span);
    for (int64_t i = 0; i < count; ++i) left_out += !span.kept[i];
    count_span(task, place, count, span, own.data());
    if (span.bad) error = std::min(error, first_error(task, place, pixel, count, span));
  }
  for (int64_t cell = 0; cell < pixels.table_size(); ++cell)
    if (own[cell]) __atomic_fetch_add(table + cell, own[cell], __ATOMIC_RELAXED);
  if (left_out) __atomic_fetch_add(ignored, left_out, __ATOMIC_RELAXED);
  return error;
}

// Work is split into parts of one table each.
void count_tables(const OneHotTask& task, int64_t* tables, int64_t* ignored, int64_t* error,
                  int64_t threads) {
  const PixelTask& pixels = task.pixels;
  const int64_t of_table = pixels.table_pixels(), count = pixels.tables();
  if (of_table * count == 0) return;
  const int64_t least = std::max<int64_t>(1, kLeastBytes / pixels.classes);
  const int64_t wanted = std::min((threads + count - 1) / count, of_table / least);
  const int64_t parts = std::max<int64_t>(1, wanted), part = (of_table + parts - 1) / parts;
  const int64_t grain = std::max<int64_t>(1, least / part);
  over_rows(count * parts, grain, threads, error, [&](int64_t begin, int64_t end) {
    int64_t first = kNoError;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t table = i / parts, from = i % parts * part, to = std::min(from + part, of_table);
      if (from >= to) continue;
      int64_t* const sums = tables + table * pixels.table_size();
      first =
          std::min(first, count_range(task, table * of_table + from, table * of_table + to, sums, ignored));
    }
    return first;
  });
}

}  // namespace
}  // namespace valor

// Adds to tables [tables, 3, C] and to `ignored`, and lowers `error`. task_words are a OneHotTask.
VALOR_API int32_t valor_count_one_hot_cpu(const void* task_words, int64_t* tables, int64_t* ignored,
                                          int64_t* error, int64_t threads) {
  return valor::guarded([&] {
    const auto& task = *static_cast<const valor::OneHotTask*>(task_words);
    valor::count_tables(task, tables, ignored, error, threads);
  });
}
