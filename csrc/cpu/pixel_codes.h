// Pixels as 16-bit codes, tile by tile: labels of any type, and the largest of logits.
#pragma once
#include "label_codes.h"

namespace valor {
namespace {

// T is Code, or uint8_t for labels of one byte as they are.
template <class T>
struct Tile {
  static constexpr int64_t kBefore = 16;  // room for what lies before the first pixel
  T all_rows[kBefore + kTile] = {}, all_columns[kBefore + kTile] = {};
  T *const rows = all_rows + kBefore, *const columns = all_columns + kBefore;  // of target and prediction
};

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

void code_logits(const PixelTask& task, const PixelPlace& place, int64_t count, Tile<Code>& tile) {
  const PixelMap& map = task.preds;
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

void load_tile(const PixelTask& task, const PixelPlace& place, int64_t count, Tile<Code>& tile) {
  code_map(task, true, place, count, tile.rows);
  if (task.channel_stride)
    code_logits(task, place, count, tile);
  else
    code_map(task, false, place, count, tile.columns);
}

// Labels of one byte as they are.
void load_bytes(const PixelMap& map, const PixelPlace& place, int64_t count, uint8_t* bytes) {
  const uint8_t* labels = map.at<uint8_t>(place.image, place.row, place.column);
  if (map.pixel_stride == 1) {
    fetch_ahead(labels, count);
    std::copy_n(labels, count, bytes);
  } else
    for (int64_t i = 0; i < count; ++i) bytes[i] = labels[i * map.pixel_stride];
}
void load_tile(const PixelTask& task, const PixelPlace& place, int64_t count, Tile<uint8_t>& tile) {
  load_bytes(task.target, place, count, tile.rows);
  load_bytes(task.preds, place, count, tile.columns);
}

// Calls visit(tile, pixel, count) for tiles of pixels [begin, end), each inside one line.
template <class T, class Visit>
void over_tiles(const PixelTask& task, int64_t begin, int64_t end, Visit visit) {
  Tile<T> tile;
  PixelPlace place(task, begin);
  for (int64_t pixel = begin, count; pixel < end; pixel += count, place.advance(task, count)) {
    count = std::min({kTile, end - pixel, task.columns - place.column});
    load_tile(task, place, count, tile);
    visit(tile, pixel, count);
  }
}

}  // namespace
}  // namespace valor
