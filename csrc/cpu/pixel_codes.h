// Pixels as 16-bit codes, tile by tile: labels of any type, and the largest of logits.
#pragma once
#include <algorithm>
#include <limits>
#include <type_traits>

#include "../core/pixel_counts.h"
#include "simd.h"

namespace valor {
namespace {

constexpr int64_t kBlock = 64;         // pixels whose changes make one word
constexpr int64_t kTile = 8 * kBlock;  // pixels that become codes at a time

using Code = uint16_t;  // a class, `classes` for a bad label, `classes` + 1 for an ignored one

struct Tile {
  static constexpr int64_t kBefore = 16;  // room for the codes of the pixel before
  Code all_rows[kBefore + kTile] = {}, all_columns[kBefore + kTile] = {};
  bool row_steady[kTile / kBlock], column_steady[kTile / kBlock];                 // blocks of one code
  Code *const rows = all_rows + kBefore, *const columns = all_columns + kBefore;  // of target and prediction
};

// How labels of one type become codes.
template <class T>
struct Coding {
  using Word = std::make_unsigned_t<T>;
  Word last, ignore;  // the last class that the type holds; the ignored value
  bool ignores;
  Code bad;

  Coding(const PixelTask& task, bool of_target) {
    const uint64_t most = static_cast<uint64_t>(std::numeric_limits<T>::max());
    last = static_cast<Word>(std::min(static_cast<uint64_t>(task.classes) - 1, most));
    ignore = static_cast<Word>(task.ignore);
    ignores = of_target && task.has_ignore && static_cast<int64_t>(static_cast<T>(ignore)) == task.ignore;
    bad = static_cast<Code>(task.classes);
  }
  VALOR_INLINE Code of(T value) const {
    const Word word = static_cast<Word>(value);
    const Code code = word <= last ? static_cast<Code>(word) : bad;
    return ignores & (word == ignore) ? static_cast<Code>(bad + 1) : code;
  }
};

// Codes of a block of labels. Wide ones are narrowed before they are compared where all of them are small.
template <class T>
VALOR_INLINE void code_block(const Coding<T>& coding, const Coding<uint16_t>& narrow, const T* labels,
                             Code* codes) {
  typename Coding<T>::Word all = 0;
  for (int64_t i = 0; sizeof(T) > 2 && i < kBlock; ++i)
    all |= static_cast<typename Coding<T>::Word>(labels[i]);
  if (sizeof(T) > 2 && all <= 0xffffu) {
    uint16_t low[kBlock];
    for (int64_t i = 0; i < kBlock; ++i) low[i] = static_cast<uint16_t>(labels[i]);
    for (int64_t i = 0; i < kBlock; ++i) codes[i] = narrow.of(low[i]);
  } else {
    for (int64_t i = 0; i < kBlock; ++i) codes[i] = coding.of(labels[i]);
  }
}

// Codes of `count` labels that lie side by side, and which whole blocks hold one label alone.
template <class T>
VALOR_INLINE void code_labels(const PixelTask& task, bool of_target, const T* labels, int64_t count,
                              Code* codes, bool* steady) {
  const Coding<T> coding(task, of_target);
  const Coding<uint16_t> narrow(task, of_target);
  int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    const T first = labels[i];
    bool& same = steady[i / kBlock] = first == labels[i + kBlock - 1];
    if (same) {
      T changed = 0;
      for (int64_t j = i; j < i + kBlock; ++j) changed = static_cast<T>(changed | (labels[j] ^ first));
      same = changed == 0;
    }
    if (same)
      std::fill_n(codes + i, kBlock, coding.of(first));
    else
      code_block(coding, narrow, labels + i, codes + i);
  }
  for (; i < count; ++i) codes[i] = coding.of(labels[i]);
}

#define VALOR_CODES_OF(T)                                                                             \
  VALOR_CLONES void code_dense(const PixelTask& task, bool of_target, const T* labels, int64_t count, \
                               Code* codes, bool* steady) {                                           \
    code_labels<T>(task, of_target, labels, count, codes, steady);                                    \
  }
VALOR_CODES_OF(int8_t)
VALOR_CODES_OF(uint8_t)
VALOR_CODES_OF(int16_t)
VALOR_CODES_OF(uint16_t)
VALOR_CODES_OF(int32_t)
VALOR_CODES_OF(uint32_t)
VALOR_CODES_OF(int64_t)
#undef VALOR_CODES_OF

void code_map(const PixelTask& task, bool of_target, const PixelPlace& place, int64_t count, Code* codes,
              bool* steady) {
  const PixelMap& map = of_target ? task.target : task.preds;
  with_label(map.type, [&](auto zero) {
    using T = decltype(zero);
    const T* labels = map.at<T>(place.image, place.row, place.column);
    if (map.pixel_stride == 1) return code_dense(task, of_target, labels, count, codes, steady);
    const Coding<T> coding(task, of_target);
    std::fill_n(steady, kTile / kBlock, false);
    for (int64_t i = 0; i < count; ++i) codes[i] = coding.of(labels[i * map.pixel_stride]);
  });
}

// ---------------------------------------------------------------------------------------------------- logits

// Channel by channel over pixels that lie side by side.
template <class Bits>
VALOR_INLINE void largest_dense(const typename Bits::Word* logits, int64_t channel_stride, int64_t channels,
                                int64_t count, Code* codes) {
  using Word = typename Bits::Word;
  Word best[kTile], at[kTile];
  for (int64_t i = 0; i < count; ++i) best[i] = argmax_key<Bits>(logits[i]), at[i] = 0;
  for (int64_t channel = 1; channel < channels; ++channel) {
    const Word* row = logits + channel * channel_stride;
    const Word own = static_cast<Word>(channel);
    for (int64_t i = 0; i < count; ++i) {
      const Word key = argmax_key<Bits>(row[i]);
      at[i] = key > best[i] ? own : at[i];
      best[i] = key > best[i] ? key : best[i];
    }
  }
  for (int64_t i = 0; i < count; ++i) codes[i] = static_cast<Code>(at[i]);
}

#define VALOR_LARGEST_OF(Bits)                                                                             \
  VALOR_CLONES void find_largest(Bits, const Bits::Word* logits, int64_t channel_stride, int64_t channels, \
                                 int64_t count, Code* codes) {                                             \
    largest_dense<Bits>(logits, channel_stride, channels, count, codes);                                   \
  }
VALOR_LARGEST_OF(Float16Bits)
VALOR_LARGEST_OF(BFloat16Bits)
VALOR_LARGEST_OF(Float32Bits)
VALOR_LARGEST_OF(Float64Bits)
#undef VALOR_LARGEST_OF

// Pixel by pixel, four at a time since each comparison waits for the one before.
template <class Bits>
void largest_strided(const typename Bits::Word* logits, int64_t pixel_stride, int64_t channel_stride,
                     int64_t channels, int64_t count, Code* codes) {
  using Word = typename Bits::Word;
  for (int64_t first = 0; first < count; first += 4) {
    const Word* pixels[4];
    Word best[4];
    Code at[4] = {};
    for (int64_t i = 0; i < 4; ++i) {
      pixels[i] = logits + std::min(first + i, count - 1) * pixel_stride;
      best[i] = argmax_key<Bits>(*pixels[i]);
    }
    for (int64_t channel = 1; channel < channels; ++channel)
      for (int64_t i = 0; i < 4; ++i) {
        const Word key = argmax_key<Bits>(pixels[i][channel * channel_stride]);
        at[i] = key > best[i] ? static_cast<Code>(channel) : at[i];
        best[i] = key > best[i] ? key : best[i];
      }
    std::copy_n(at, std::min<int64_t>(4, count - first), codes + first);
  }
}

void code_logits(const PixelTask& task, const PixelPlace& place, int64_t count, Tile& tile) {
  const PixelMap& map = task.preds;
  std::fill_n(tile.column_steady, kTile / kBlock, false);
  with_bits(map.type, [&](auto bits) {
    using Bits = decltype(bits);
    const auto* logits = map.at<typename Bits::Word>(place.image, place.row, place.column);
    if (map.pixel_stride == 1)
      find_largest(bits, logits, task.channel_stride, task.classes, count, tile.columns);
    else
      largest_strided<Bits>(logits, map.pixel_stride, task.channel_stride, task.classes, count, tile.columns);
  });
}

// --------------------------------------------------------------------------------------------------- tiles

// Calls visit(tile, pixel, count) for tiles of pixels [begin, end), each inside one line.
template <class Visit>
void over_tiles(const PixelTask& task, int64_t begin, int64_t end, Visit visit) {
  Tile tile;
  PixelPlace place(task, begin);
  for (int64_t pixel = begin, count; pixel < end; pixel += count, place.advance(task, count)) {
    count = std::min({kTile, end - pixel, task.columns - place.column});
    code_map(task, true, place, count, tile.rows, tile.row_steady);
    if (task.channel_stride)
      code_logits(task, place, count, tile);
    else
      code_map(task, false, place, count, tile.columns, tile.column_steady);
    visit(tile, pixel, count);
    tile.rows[-1] = tile.rows[count - 1], tile.columns[-1] = tile.columns[count - 1];
  }
}

}  // namespace
}  // namespace valor
