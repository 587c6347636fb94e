// CPU drivers of the largest scores of each row: rows are split over threads.
#include <algorithm>
#include <numeric>
#include <vector>

#include "../core/labels.h"
#include "guard.h"
#include "label_calls.h"
#include "rows.h"
#include "simd.h"

namespace valor {
namespace {

constexpr int64_t kChunkBytes = 1 << 18;  // of scores that a thread takes at a time
constexpr int64_t kShortRow = 24;         // columns up to which rows are taken several at a time
constexpr int64_t kInsertion = 32;        // largest scores that are kept in order while a row is read

int64_t grain_of(const Scores& scores) {
  const int64_t width = float_bytes(static_cast<FloatType>(scores.type));
  return std::max<int64_t>(1, kChunkBytes / (width * scores.classes));
}

// Largest key of a row, and whether a score is NaN.
template <class Bits>
VALOR_INLINE bool largest_key(const typename Bits::Word* row, int64_t count, typename Bits::Word& best) {
  using Word = typename Bits::Word;
  Word largest = Bits::kLowest, magnitude = 0;
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, Bits::key(row[i]));
    magnitude = std::max(magnitude, Bits::magnitude(row[i]));
  }
  best = largest;
  return magnitude <= Bits::kInfinity;
}

// First column whose key is `key`, which is there.
template <class Bits>
VALOR_INLINE int64_t find_key(const typename Bits::Word* row, int64_t count, typename Bits::Word key) {
  constexpr int64_t kBlock = 64;
  int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    typename Bits::Word any = 0;
    for (int64_t j = 0; j < kBlock; ++j)
      any |= static_cast<typename Bits::Word>(Bits::key(row[i + j]) == key);
    if (any) break;
  }
  while (Bits::key(row[i]) != key) ++i;
  return i;
}

// How many keys are at least `bound`.
template <class Bits>
VALOR_INLINE int64_t count_from(const typename Bits::Word* row, int64_t count, typename Bits::Word bound) {
  using Word = typename Bits::Word;
  constexpr int64_t kRun = 1 << 14;  // fits the narrowest counter
  int64_t total = 0;
  for (int64_t begin = 0; begin < count; begin += kRun) {
    const int64_t end = std::min(count, begin + kRun);
    Word found = 0;
    for (int64_t i = begin; i < end; ++i) found = static_cast<Word>(found + (Bits::key(row[i]) >= bound));
    total += found;
  }
  return total;
}

template <class Bits>
int64_t first_nan(const typename Bits::Word* row) {
  int64_t i = 0;
  while (!Bits::is_nan(row[i])) ++i;
  return i;
}

// The target is among the k largest when fewer than k scores come before it: larger ones, and as large ones
// of lower classes.
template <class Bits>
VALOR_INLINE int32_t predict_long(const typename Bits::Word* row, int64_t count, int64_t true_class,
                                  int64_t k) {
  using Word = typename Bits::Word;
  Word best;
  if (!largest_key<Bits>(row, count, best)) return kLeftOut;
  const Word own = Bits::key(row[true_class]);
  if (k > 1) {
    const int64_t after = true_class + 1;
    const int64_t rank = count_from<Bits>(row, true_class, own) +
                         count_from<Bits>(row + after, count - after, static_cast<Word>(own + 1));
    if (rank < k) return static_cast<int32_t>(true_class);
  }
  return static_cast<int32_t>(find_key<Bits>(row, count, best));
}

template <class Bits>
VALOR_INLINE int64_t predict_rows(const Scores& scores, const Target* target, int64_t k, int64_t begin,
                                  int64_t end, int32_t* predicted) {
  int64_t error = kNoError;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t true_class = target ? target->row_class(i) : 0;
    predicted[i] = kLeftOut;
    if (true_class == kBadRow) error = std::min(error, value_error(i, 0, kTarget));
    if (true_class < 0) continue;
    const typename Bits::Word* row = scores.row<Bits>(i);
    predicted[i] = predict_long<Bits>(row, scores.classes, true_class, k);
    if (predicted[i] == kLeftOut) error = std::min(error, value_error(i, first_nan<Bits>(row), kNanScore));
  }
  return error;
}

// Some short rows side by side, a lane each. Which score is larger cannot be foreseen: there is no branch.
template <class Bits>
struct ShortRows {
  using Word = typename Bits::Word;
  static constexpr int64_t kLanes = 32;
  Word columns[kShortRow][kLanes] = {};
  Word truth[kLanes] = {}, own[kLanes] = {};
  Word best[kLanes], at[kLanes], rank[kLanes], magnitude[kLanes];

  VALOR_INLINE void load(const Word* rows, int64_t classes, int64_t lane, int64_t true_class) {
    const Word* row = rows + lane * classes;
    for (int64_t c = 0; c < classes; ++c) columns[c][lane] = row[c];
    truth[lane] = static_cast<Word>(true_class);
    own[lane] = Bits::key(row[true_class]);
  }
  VALOR_INLINE void scan(int64_t classes) {
    for (int64_t j = 0; j < kLanes; ++j) best[j] = Bits::kLowest, at[j] = rank[j] = magnitude[j] = 0;
    for (int64_t c = 0; c < classes; ++c) {
      const Word* column = columns[c];
      const Word place = static_cast<Word>(c);
      for (int64_t j = 0; j < kLanes; ++j) {
        const Word key = Bits::key(column[j]);
        magnitude[j] = std::max(magnitude[j], Bits::magnitude(column[j]));
        at[j] = key > best[j] ? place : at[j];
        best[j] = std::max(best[j], key);
        rank[j] = static_cast<Word>(rank[j] + ((key > own[j]) | ((key == own[j]) & (place < truth[j]))));
      }
    }
  }
  VALOR_INLINE int32_t predicted(int64_t lane, int64_t k) const {
    if (magnitude[lane] > Bits::kInfinity) return kLeftOut;
    return static_cast<int32_t>(rank[lane] < k ? truth[lane] : at[lane]);
  }
};

template <class Bits>
VALOR_INLINE int64_t predict_short(const Scores& scores, const Target* target, int64_t k, int64_t begin,
                                   int64_t end, int32_t* predicted) {
  constexpr int64_t kLanes = ShortRows<Bits>::kLanes;
  ShortRows<Bits> lanes;
  int64_t error = kNoError, truths[kLanes];
  for (int64_t tile = begin; tile < end; tile += kLanes) {
    const int64_t size = std::min(kLanes, end - tile);
    const typename Bits::Word* rows = scores.row<Bits>(tile);
    for (int64_t j = 0; j < size; ++j) {
      truths[j] = target ? target->row_class(tile + j) : 0;
      lanes.load(rows, scores.classes, j, std::max<int64_t>(truths[j], 0));
    }
    lanes.scan(scores.classes);
    for (int64_t j = 0; j < size; ++j) {
      const int32_t found = lanes.predicted(j, k);
      predicted[tile + j] = truths[j] < 0 ? kLeftOut : found;
      if (truths[j] == kBadRow) error = std::min(error, value_error(tile + j, 0, kTarget));
      if (truths[j] >= 0 && found == kLeftOut)
        error = std::min(error, value_error(tile + j, first_nan<Bits>(rows + j * scores.classes), kNanScore));
    }
  }
  return error;
}

// The k largest of a row, a block of columns at a time: a block whose largest key does not reach is passed
// over.
template <class Bits>
VALOR_INLINE void keep_largest(const typename Bits::Word* row, int64_t count, int64_t k, int32_t* out) {
  using Word = typename Bits::Word;
  constexpr int64_t kBlock = 32;
  Word keys[kInsertion];
  int64_t kept = 0;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = std::min(kBlock, count - begin);
    Word best = Bits::kLowest;
    for (int64_t j = 0; j < size; ++j) best = std::max(best, Bits::key(row[begin + j]));
    if (kept == k && best <= keys[k - 1]) continue;
    for (int64_t j = 0; j < size; ++j) {
      const Word key = Bits::key(row[begin + j]);
      if (kept == k && key <= keys[k - 1]) continue;
      int64_t at = kept < k ? kept++ : k - 1;
      for (; at > 0 && keys[at - 1] < key; --at) keys[at] = keys[at - 1], out[at] = out[at - 1];
      keys[at] = key, out[at] = static_cast<int32_t>(begin + j);
    }
  }
}

template <class Bits>
void sort_largest(const typename Bits::Word* row, int64_t count, int64_t k, int32_t* out) {
  thread_local std::vector<int32_t> order;
  order.resize(count);
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + k, order.end(), [row](int32_t a, int32_t b) {
    const auto first = Bits::key(row[a]), second = Bits::key(row[b]);
    return first != second ? first > second : a < b;
  });
  std::copy(order.begin(), order.begin() + k, out);
}

template <class Bits>
VALOR_INLINE int64_t top_rows(const Scores& scores, int64_t k, int64_t begin, int64_t end, int32_t* classes) {
  int64_t error = kNoError;
  for (int64_t i = begin; i < end; ++i) {
    const typename Bits::Word* row = scores.row<Bits>(i);
    typename Bits::Word best;
    int32_t* out = classes + i * k;
    if (!largest_key<Bits>(row, scores.classes, best)) {
      std::fill(out, out + k, kLeftOut);
      error = std::min(error, value_error(i, first_nan<Bits>(row), kNanScore));
    } else if (k <= kInsertion) {
      keep_largest<Bits>(row, scores.classes, k, out);
    } else {
      sort_largest<Bits>(row, scores.classes, k, out);
    }
  }
  return error;
}

// Processor-specific clones of templates: one function a float type. To predict without a target and with k =
// 0 is to find the largest.
#define VALOR_ROWS_OF(Bits)                                                                                \
  VALOR_CLONES int64_t predict(Bits, const Scores& scores, const Target* target, int64_t k, int64_t begin, \
                               int64_t end, int32_t* predicted) {                                          \
    return scores.classes <= kShortRow ? predict_short<Bits>(scores, target, k, begin, end, predicted)     \
                                       : predict_rows<Bits>(scores, target, k, begin, end, predicted);     \
  }                                                                                                        \
  VALOR_CLONES int64_t top(Bits, const Scores& scores, int64_t k, int64_t begin, int64_t end,              \
                           int32_t* classes) {                                                             \
    return top_rows<Bits>(scores, k, begin, end, classes);                                                 \
  }
VALOR_ROWS_OF(Float16Bits)
VALOR_ROWS_OF(BFloat16Bits)
VALOR_ROWS_OF(Float32Bits)
VALOR_ROWS_OF(Float64Bits)
#undef VALOR_ROWS_OF

}  // namespace
}  // namespace valor

// Writes the class that each row predicts, kLeftOut for rows that do not count, and lowers `error`.
VALOR_API int32_t valor_predict_top_cpu(const void* scores, int64_t type, int64_t rows,
                                        const void* target_words, int64_t k, int32_t* predicted,
                                        int64_t* error, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const Target& target = *static_cast<const Target*>(target_words);
    const Scores of{scores, type, rows, target.classes};
    with_bits(type, [&](auto bits) {
      over_rows(rows, grain_of(of), threads, error, [&](int64_t begin, int64_t end) {
        return predict(bits, of, &target, k, begin, end, predicted);
      });
    });
  });
}

// classes: [rows, k].
VALOR_API int32_t valor_top_classes_cpu(const void* scores, int64_t type, int64_t rows, int64_t columns,
                                        int64_t k, int32_t* classes, int64_t* error, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const Scores of{scores, type, rows, columns};
    with_bits(type, [&](auto bits) {
      over_rows(rows, grain_of(of), threads, error, [&](int64_t begin, int64_t end) {
        return k == 1 ? predict(bits, of, nullptr, 0, begin, end, classes)
                      : top(bits, of, k, begin, end, classes);
      });
    });
  });
}
