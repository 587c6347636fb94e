// Labels of any type as codes of 8 or 16 bits.
#pragma once
#include <algorithm>
#include <limits>
#include <type_traits>

#include "../core/pixel_counts.h"
#include "simd.h"

namespace valor {
namespace {

constexpr int64_t kBlock = 64;    // labels that are coded at a time
constexpr int64_t kAhead = 2048;  // bytes after which what is read is fetched now

// Begins to load `count` values that are read later. They may lie beyond the end: nothing is read then.
template <class T>
VALOR_INLINE void fetch(const T* values, int64_t count) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(values), end = begin + count * sizeof(T);
  for (uintptr_t line = begin; line < end; line += 64)
    __builtin_prefetch(reinterpret_cast<const void*>(line));
}

// What a pixel's code says: a class, `classes` for a bad label, `classes` + 1 for an ignored one.
using Meaning = uint16_t;

// How labels of one type become codes.
template <class T>
struct Coding {
  using Word = std::make_unsigned_t<T>;
  Word last, ignore;  // the last class that the type holds; the ignored value
  bool ignores;
  Meaning bad;

  Coding(const PixelTask& task, bool of_target) {
    const uint64_t most = static_cast<uint64_t>(std::numeric_limits<T>::max());
    last = static_cast<Word>(std::min(static_cast<uint64_t>(task.classes) - 1, most));
    ignore = static_cast<Word>(task.ignore);
    ignores = of_target && task.has_ignore && static_cast<int64_t>(static_cast<T>(ignore)) == task.ignore;
    bad = static_cast<Meaning>(task.classes);
  }
  template <class Code = Meaning>
  VALOR_INLINE Code of(T value) const {
    const Word word = static_cast<Word>(value);
    const Code code = word <= last ? static_cast<Code>(word) : static_cast<Code>(bad);
    return ignores & (word == ignore) ? static_cast<Code>(bad + 1) : code;
  }
};

// Codes of a block of wide labels; false where one of them is larger than any code.
template <class Word, class Code>
VALOR_INLINE bool code_narrowed(const Coding<Code>& coding, const Word* labels, Code* codes) {
  Word all = 0;
  for (int64_t i = 0; i < kBlock; ++i) all = static_cast<Word>(all | labels[i]);
  if (all > std::numeric_limits<Code>::max()) return false;
  Code low[kBlock];
  for (int64_t i = 0; i < kBlock; ++i) low[i] = static_cast<Code>(labels[i]);
  for (int64_t i = 0; i < kBlock; ++i) codes[i] = coding.template of<Code>(low[i]);
  return true;
}

// Codes of `count` labels that lie side by side. Wide ones are narrowed before they are compared where all of
// a block are small.
template <class Code, class T>
VALOR_INLINE void code_labels(const PixelTask& task, bool of_target, const T* labels, int64_t count,
                              Code* codes) {
  const Coding<T> coding(task, of_target);
  const Coding<Code> narrowed(task, of_target);
  int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    fetch(labels + i + kAhead / sizeof(T), kBlock);
    if constexpr (sizeof(T) > sizeof(Code))
      if (code_narrowed(narrowed, reinterpret_cast<const typename Coding<T>::Word*>(labels + i), codes + i))
        continue;
    for (int64_t j = i; j < i + kBlock; ++j) codes[j] = coding.template of<Code>(labels[j]);
  }
  for (; i < count; ++i) codes[i] = coding.template of<Code>(labels[i]);
}

#define VALOR_CODES_OF(T)                                                                               \
  [[maybe_unused]] VALOR_CLONES void code_dense(const PixelTask& task, bool of_target, const T* labels, \
                                                int64_t count, uint8_t* codes) {                        \
    code_labels(task, of_target, labels, count, codes);                                                 \
  }                                                                                                     \
  [[maybe_unused]] VALOR_CLONES void code_dense(const PixelTask& task, bool of_target, const T* labels, \
                                                int64_t count, uint16_t* codes) {                       \
    code_labels(task, of_target, labels, count, codes);                                                 \
  }
VALOR_CODES_OF(int8_t)
VALOR_CODES_OF(uint8_t)
VALOR_CODES_OF(int16_t)
VALOR_CODES_OF(uint16_t)
VALOR_CODES_OF(int32_t)
VALOR_CODES_OF(uint32_t)
VALOR_CODES_OF(int64_t)
#undef VALOR_CODES_OF

// Codes of `count` labels of a line.
template <class Code>
void code_map(const PixelTask& task, bool of_target, const PixelPlace& place, int64_t count, Code* codes) {
  const PixelMap& map = of_target ? task.target : task.preds;
  with_label(map.type, [&](auto zero) {
    using T = decltype(zero);
    const T* labels = map.at<T>(place.image, place.row, place.column);
    if (map.pixel_stride == 1) return code_dense(task, of_target, labels, count, codes);
    const Coding<T> coding(task, of_target);
    for (int64_t i = 0; i < count; ++i) codes[i] = coding.template of<Code>(labels[i * map.pixel_stride]);
  });
}

}  // namespace
}  // namespace valor
