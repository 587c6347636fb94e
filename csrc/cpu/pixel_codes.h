// Pixels as codes of 8 or 16 bits, tile by tile: labels of any type, and the largest of logits.
#pragma once
#include "label_codes.h"

namespace valor {
namespace {

constexpr int64_t kTile = 64 * kBlock + 1;  // pixels read at a time: changes of all but the first fill blocks
constexpr int64_t kPieceBytes = 2048;  // of a channel, whose largest logits are kept while others are read
constexpr int64_t kNext = 2;           // channels after which one is read that is fetched now

// 8 bits have room for the two codes after the classes.
inline bool fits_bytes(const PixelTask& task) { return task.classes <= 254; }

// One side of a task: how its pixels become codes, and what codes say.
template <class Code>
struct Side {
  const PixelTask& task;
  const PixelMap& map;
  bool of_target;
  bool in_place;          // bytes that lie side by side are codes themselves
  Meaning meanings[256];  // of codes of 8 bits
  Code own[kTile];

  Side(const PixelTask& task, bool of_target)
      : task(task), map(of_target ? task.target : task.preds), of_target(of_target) {
    for (int i = 0; i < 256; ++i) meanings[i] = static_cast<Meaning>(i);
    const bool labels = of_target || task.channel_stride == 0;
    in_place = sizeof(Code) == 1 && labels && map.pixel_stride == 1 && with_label(map.type, [&](auto zero) {
                 using T = decltype(zero);
                 if (sizeof(T) > 1) return false;
                 const Coding<T> coding(task, of_target);
                 for (int i = 0; i < 256; ++i) meanings[i] = coding.of(static_cast<T>(i));
                 return true;
               });
  }
  Side(const Side&) = delete;

  const Code* codes(const PixelPlace& place, int64_t count);
};

// ---------------------------------------------------------------------------------------------------- logits

// Channel by channel over pixels that lie side by side.
template <class Bits, class Code>
VALOR_INLINE void largest_dense(const typename Bits::Word* logits, int64_t channel_stride, int64_t channels,
                                int64_t count, Code* codes) {
  using Word = typename Bits::Word;
  Word best[kPieceBytes / sizeof(Word)], at[kPieceBytes / sizeof(Word)];
  for (int64_t i = 0; i < count; ++i) best[i] = argmax_key<Bits>(logits[i]), at[i] = 0;
  for (int64_t channel = 1; channel < channels; ++channel) {
    const Word* row = logits + channel * channel_stride;
    const Word own = static_cast<Word>(channel);
    if (channel + kNext < channels) fetch(row + kNext * channel_stride, count);
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
                                 int64_t count, uint8_t* codes) {                                          \
    largest_dense<Bits>(logits, channel_stride, channels, count, codes);                                   \
  }                                                                                                        \
  VALOR_CLONES void find_largest(Bits, const Bits::Word* logits, int64_t channel_stride, int64_t channels, \
                                 int64_t count, uint16_t* codes) {                                         \
    largest_dense<Bits>(logits, channel_stride, channels, count, codes);                                   \
  }
VALOR_LARGEST_OF(Float16Bits)
VALOR_LARGEST_OF(BFloat16Bits)
VALOR_LARGEST_OF(Float32Bits)
VALOR_LARGEST_OF(Float64Bits)
#undef VALOR_LARGEST_OF

// Pixel by pixel, four at a time since each comparison waits for the one before.
template <class Bits, class Code>
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

// --------------------------------------------------------------------------------------------------- tiles

// The codes of `count` pixels of a line, at most kTile.
template <class Code>
const Code* Side<Code>::codes(const PixelPlace& place, int64_t count) {
  if (in_place) return map.at<Code>(place.image, place.row, place.column);
  if (!of_target && task.channel_stride) {
    with_bits(map.type, [&](auto bits) {
      using Bits = decltype(bits);
      const auto* logits = map.at<typename Bits::Word>(place.image, place.row, place.column);
      constexpr int64_t piece = kPieceBytes / sizeof(typename Bits::Word);
      for (int64_t i = 0; map.pixel_stride == 1 && i < count; i += piece)
        find_largest(bits, logits + i, task.channel_stride, task.classes, std::min(piece, count - i),
                     own + i);
      if (map.pixel_stride != 1)
        largest_strided<Bits>(logits, map.pixel_stride, task.channel_stride, task.classes, count, own);
    });
    return own;
  }
  code_map(task, of_target, place, count, own);
  return own;
}

// Calls visit(rows, columns, pixel, count) with the codes of target and prediction, for tiles of pixels
// [begin, end), each inside one line.
template <class Code, class Visit>
void over_tiles(const PixelTask& task, Side<Code>& rows, Side<Code>& columns, int64_t begin, int64_t end,
                Visit visit) {
  PixelPlace place(task, begin);
  for (int64_t pixel = begin, count; pixel < end; pixel += count, place.advance(task, count)) {
    count = std::min({kTile, end - pixel, task.columns - place.column});
    visit(rows.codes(place, count), columns.codes(place, count), pixel, count);
  }
}

}  // namespace
}  // namespace valor
