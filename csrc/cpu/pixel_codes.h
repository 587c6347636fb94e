// Pixels as 16-bit codes, tile by tile: labels of any type, and the largest of logits.
#pragma once
#include "label_codes.h"

namespace valor {
namespace {

// T is Code, or uint8_t for ByteLabels.
template <class T>
struct CodeTile {
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

void code_logits(const PixelTask& task, const PixelPlace& place, int64_t count, CodeTile<Code>& tile) {
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

void load_tile(const PixelTask& task, const PixelPlace& place, int64_t count, CodeTile<Code>& tile) {
  code_map(task, true, place, count, tile.rows);
  if (task.channel_stride)
    code_logits(task, place, count, tile);
  else
    code_map(task, false, place, count, tile.columns);
}

// Labels of any type as bytes, from which a look-up makes codes: those up to `most` stand for themselves.
struct ByteLabels {
  static constexpr uint8_t kIgnored = 255, kBad = 254;  // of labels above `most`
  bool wide, replaced;                                  // `replaced`: the ignored value is kIgnored
  uint64_t most, ignore;                                // `most` has all lower bits

  ByteLabels(const PixelTask& task, bool of_target) {
    const int64_t type = (of_target ? task.target : task.preds).type;
    wide = type != kInt8 && type != kUInt8 && type != kBool;
    replaced = wide && of_target && task.has_ignore && (task.ignore < 0 || task.ignore >= kBad);
    most = replaced && task.ignore != kIgnored ? 127 : 255;
    ignore = static_cast<uint64_t>(task.ignore);
  }
  bool fit(const PixelTask& task) const { return !wide || task.classes <= std::min<int64_t>(most, kBad); }

  // The code of a byte.
  template <class T>
  Code code(const Coding<T>& coding, uint8_t byte) const {
    if (replaced && byte == kIgnored) return static_cast<Code>(coding.bad + 1);
    return byte <= most ? coding.of(static_cast<T>(byte)) : coding.bad;
  }
  template <class T>
  VALOR_INLINE uint8_t byte(T label) const {
    const uint64_t word = static_cast<uint64_t>(static_cast<int64_t>(label));
    return word <= most ? static_cast<uint8_t>(word) : replaced && word == ignore ? kIgnored : kBad;
  }
  template <class T>
  VALOR_INLINE void load(const T* labels, int64_t count, uint8_t* bytes) const {
    int64_t i = 0;
    for (; i + kBlock <= count; i += kBlock) {
      std::make_unsigned_t<T> all = 0;
      for (int64_t j = i; j < i + kBlock; ++j) all |= static_cast<std::make_unsigned_t<T>>(labels[j]);
      if (all <= most)
        for (int64_t j = i; j < i + kBlock; ++j) bytes[j] = static_cast<uint8_t>(labels[j]);
      else
        for (int64_t j = i; j < i + kBlock; ++j) bytes[j] = byte(labels[j]);
    }
    for (; i < count; ++i) bytes[i] = byte(labels[i]);
  }
};

#define VALOR_BYTES_OF(T)                                                                                \
  VALOR_CLONES void load_dense(const ByteLabels& side, const T* labels, int64_t count, uint8_t* bytes) { \
    side.load(labels, count, bytes);                                                                     \
  }
VALOR_BYTES_OF(int16_t)
VALOR_BYTES_OF(uint16_t)
VALOR_BYTES_OF(int32_t)
VALOR_BYTES_OF(uint32_t)
VALOR_BYTES_OF(int64_t)
#undef VALOR_BYTES_OF

void load_bytes(const PixelTask& task, bool of_target, const PixelPlace& place, int64_t count,
                uint8_t* bytes) {
  const PixelMap& map = of_target ? task.target : task.preds;
  const ByteLabels side(task, of_target);
  with_label(map.type, [&](auto zero) {
    using T = decltype(zero);
    const T* labels = map.at<T>(place.image, place.row, place.column);
    if constexpr (sizeof(T) == 1) {
      if (map.pixel_stride == 1) return fetch_ahead(labels, count), void(std::copy_n(labels, count, bytes));
      for (int64_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(labels[i * map.pixel_stride]);
    } else {
      if (map.pixel_stride == 1) return load_dense(side, labels, count, bytes);
      for (int64_t i = 0; i < count; ++i) bytes[i] = side.byte(labels[i * map.pixel_stride]);
    }
  });
}
void load_tile(const PixelTask& task, const PixelPlace& place, int64_t count, CodeTile<uint8_t>& tile) {
  load_bytes(task, true, place, count, tile.rows);
  load_bytes(task, false, place, count, tile.columns);
}

// Calls visit(tile, pixel, count) for tiles of pixels [begin, end), each inside one line.
template <class T, class Visit>
void over_tiles(const PixelTask& task, int64_t begin, int64_t end, Visit visit) {
  CodeTile<T> tile;
  PixelPlace place(task, begin);
  for (int64_t pixel = begin, count; pixel < end; pixel += count, place.advance(task, count)) {
    count = std::min({kTile, end - pixel, task.columns - place.column});
    load_tile(task, place, count, tile);
    visit(tile, pixel, count);
  }
}

}  // namespace
}  // namespace valor
