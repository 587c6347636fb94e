// Labels of any type as 16-bit codes, tile by tile.
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

// Codes of `count` labels that lie side by side. Blocks of one label are found first.
template <class T>
VALOR_INLINE void code_labels(const PixelTask& task, bool of_target, const T* labels, int64_t count,
                              Code* codes) {
  const Coding<T> coding(task, of_target);
  const Coding<uint16_t> narrow(task, of_target);
  int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    const T first = labels[i];
    bool same = first == labels[i + kBlock - 1];
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
                               Code* codes) {                                                         \
    code_labels<T>(task, of_target, labels, count, codes);                                            \
  }
VALOR_CODES_OF(int8_t)
VALOR_CODES_OF(uint8_t)
VALOR_CODES_OF(int16_t)
VALOR_CODES_OF(uint16_t)
VALOR_CODES_OF(int32_t)
VALOR_CODES_OF(uint32_t)
VALOR_CODES_OF(int64_t)
#undef VALOR_CODES_OF

// Asks for what is read kAhead bytes later: processors do not run ahead far enough where little is done with
// a byte, nor into the next page. Behind the end of a map this does nothing.
template <class T>
VALOR_INLINE void fetch_ahead(const T* labels, int64_t count) {
  constexpr uintptr_t kAhead = 2048, kLine = 64;
  const uintptr_t first = reinterpret_cast<uintptr_t>(labels) + kAhead;
  for (uintptr_t i = 0; i < count * sizeof(T); i += kLine)
    __builtin_prefetch(reinterpret_cast<const void*>(first + i));
}

void code_map(const PixelTask& task, bool of_target, const PixelPlace& place, int64_t count, Code* codes) {
  const PixelMap& map = of_target ? task.target : task.preds;
  with_label(map.type, [&](auto zero) {
    using T = decltype(zero);
    const T* labels = map.at<T>(place.image, place.row, place.column);
    if (map.pixel_stride == 1) return code_dense(task, of_target, labels, count, codes);
    const Coding<T> coding(task, of_target);
    for (int64_t i = 0; i < count; ++i) codes[i] = coding.of(labels[i * map.pixel_stride]);
  });
}

}  // namespace
}  // namespace valor
