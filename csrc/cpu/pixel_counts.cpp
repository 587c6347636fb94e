// CPU drivers of label maps: runs of pixels with one pair of codes are counted at once.
#include <algorithm>
#include <cstring>
#include <vector>

#include "guard.h"
#include "pixel_codes.h"
#include "rows.h"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace valor {
namespace {

constexpr int kManyChanges = 32;            // in a block: its pixels are counted one by one
constexpr int kGroup = 8;                   // changes that are written without a branch
constexpr int64_t kWays = 4;                // tables that neighbouring pixels of such blocks use in turn
constexpr int64_t kSmallTable = 1 << 12;    // cells: kWays such tables stay near
constexpr int64_t kLeastPixels = 1 << 16;   // that are worth a thread
constexpr int64_t kMostPixels = 1ll << 31;  // that 32-bit cells hold

// Keeps a number out of vectors, which would be built and taken apart one by one.
VALOR_INLINE uint32_t alone(uint32_t number) {
#if defined(__GNUC__)
  asm("" : "+r"(number));
#endif
  return number;
}

// What counts pixels of one pair of codes; `unit` is the step from one row to the next. `bad` says that a
// label was out of range.

// A table of all pairs of codes of 8 bits, which is folded when all pixels are counted.
struct CellSink {
  int64_t classes, ways;
  std::vector<uint32_t> cells;

  explicit CellSink(int64_t classes) : classes(classes), ways(size() <= kSmallTable ? kWays : 1) {
    cells.resize(ways * size());
  }
  int64_t size() const { return size_of(classes); }
  static int64_t size_of(int64_t classes) { return (classes + 2) * (classes + 1); }
  uint32_t unit() const { return static_cast<uint32_t>(classes) + 1; }
  VALOR_INLINE void add(uint32_t row, uint32_t column, int64_t count) {
    cells[row + column] += static_cast<uint32_t>(count);
  }
  template <class Rows, class Columns>
  VALOR_INLINE void add_block(const Rows& rows, const Columns& columns, int64_t first) {
    uint32_t* const own = cells.data();
    const int64_t way = ways > 1 ? size() : 0;
    for (int64_t i = first; i < first + kBlock; i += kWays)
      for (int64_t j = 0; j < kWays; ++j) ++own[j * way + alone(rows[i + j] + columns[i + j])];
  }
};

// The output itself.
struct TableSink {
  int64_t classes, pairs;
  int64_t* table;
  bool shared;  // between threads
  bool bad = false;

  uint32_t unit() const { return 1; }
  VALOR_INLINE void put(int64_t cell, int64_t count) {
    if (shared)
      __atomic_fetch_add(table + cell, count, __ATOMIC_RELAXED);
    else
      table[cell] += count;
  }
  VALOR_INLINE void add(int64_t row, int64_t column, int64_t count) {
    if (row >= classes || column >= classes) {
      bad |= row <= classes;
      return;
    }
    if (pairs) return put(row * classes + column, count);
    if (row == column) put(row, count);
    put(classes + column, count), put(2 * classes + row, count);
  }
  template <class Rows, class Columns>
  VALOR_INLINE void add_block(const Rows& rows, const Columns& columns, int64_t first) {
    for (int64_t i = first; i < first + kBlock; ++i) add(rows[i], columns[i], 1);
  }
};

// Adds a table of cells to the output.
void fold(CellSink& sink, TableSink& out) {
  const int64_t classes = sink.classes, width = classes + 1;
  uint32_t* const cells = sink.cells.data();
  for (int64_t way = 1; way < sink.ways; ++way)
    for (int64_t cell = 0; cell < sink.size(); ++cell) cells[cell] += cells[way * sink.size() + cell];
  std::vector<uint32_t> predicted(classes);
  for (int64_t row = 0; row < classes; ++row) {
    const uint32_t* own = cells + row * width;
    out.bad |= own[classes] != 0;
    if (out.pairs) {
      for (int64_t column = 0; column < classes; ++column)
        if (own[column]) out.put(row * classes + column, own[column]);
      continue;
    }
    uint32_t total = 0;
    for (int64_t column = 0; column < classes; ++column)
      predicted[column] += own[column], total += own[column];
    out.put(row, own[row]), out.put(2 * classes + row, total);
  }
  for (int64_t column = 0; column < width; ++column) out.bad |= cells[classes * width + column] != 0;
  for (int64_t column = 0; !out.pairs && column < classes; ++column)
    out.put(classes + column, predicted[column]);
}

// Codes of one side of a tile, and what they say in units of a sink.
struct Bytes {
  const uint8_t* codes;
  const uint32_t* units;
  VALOR_INLINE uint32_t operator[](int64_t i) const { return units[codes[i]]; }
};
struct Words {
  const uint16_t* codes;
  VALOR_INLINE uint32_t operator[](int64_t i) const { return codes[i]; }
};

#if defined(__SSE2__)
VALOR_INLINE __m128i equal_to_last(const uint8_t* codes) {
  const auto* at = reinterpret_cast<const __m128i*>(codes);
  return _mm_cmpeq_epi8(_mm_loadu_si128(at), _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes - 1)));
}
VALOR_INLINE __m128i equal_to_last(const uint16_t* codes) {
  const auto* at = reinterpret_cast<const __m128i*>(codes);
  return _mm_cmpeq_epi16(_mm_loadu_si128(at), _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes - 1)));
}
// 16 bytes, 0xff where a pixel has the codes of the one before.
VALOR_INLINE __m128i same_pairs(const uint8_t* rows, const uint8_t* columns) {
  return _mm_and_si128(equal_to_last(rows), equal_to_last(columns));
}
VALOR_INLINE __m128i same_pairs(const uint16_t* rows, const uint16_t* columns) {
  const auto same = [&](int64_t i) {
    return _mm_and_si128(equal_to_last(rows + i), equal_to_last(columns + i));
  };
  return _mm_packs_epi16(same(0), same(8));
}
#endif

// Bit i is set where pixel i differs from the one before.
template <class Code>
VALOR_INLINE uint64_t changes_of(const Code* rows, const Code* columns) {
  uint64_t changes = 0;
#if defined(__SSE2__)
  for (int64_t i = 0; i < kBlock; i += 16)
    changes |= static_cast<uint64_t>(_mm_movemask_epi8(same_pairs(rows + i, columns + i)) ^ 0xffff) << i;
#else
  if (!std::memcmp(rows, rows - 1, kBlock * sizeof(Code)) &&
      !std::memcmp(columns, columns - 1, kBlock * sizeof(Code)))
    return 0;
  for (int64_t i = 0; i < kBlock; ++i)
    changes |= static_cast<uint64_t>(rows[i] != rows[i - 1] || columns[i] != columns[i - 1]) << i;
#endif
  return changes;
}

// Where runs of one pair begin, in order.
struct Runs {
  uint16_t starts[kTile + kManyChanges];
  int64_t runs;

  VALOR_INLINE void begin(int64_t pixel) { starts[0] = static_cast<uint16_t>(pixel), runs = 1; }
  // Runs that begin at the bits of `changes`, at most kManyChanges. Places after the last are written too.
  VALOR_INLINE void add(uint64_t changes, int64_t count, int64_t pixel) {
    uint16_t* out = starts + runs;
    runs += count;
    for (int64_t more = count; more > 0; more -= kGroup)
      for (int64_t i = 0; i < kGroup; ++i, changes &= changes - 1)
        *out++ = static_cast<uint16_t>(
            alone(static_cast<uint32_t>(pixel + __builtin_ctzll(changes | 1ull << 63))));
  }
  template <class Sink, class Rows, class Columns>
  VALOR_INLINE void count(Sink& sink, const Rows& rows, const Columns& columns, int64_t end) {
    starts[runs] = static_cast<uint16_t>(end);
    if (starts[0] == end) return;
    for (int64_t i = 0; i < runs; ++i)
      sink.add(rows[starts[i]], columns[starts[i]], starts[i + 1] - starts[i]);
  }
};

// Counts the pixels of a tile.
template <class Sink, class View>
VALOR_INLINE void count_codes(Sink& sink, const View& rows, const View& columns, int64_t count) {
  Runs runs;
  runs.begin(0);
  int64_t i = 1;
  for (; i + kBlock <= count; i += kBlock) {
    fetch(rows.codes + i + kAhead, kBlock), fetch(columns.codes + i + kAhead, kBlock);
    const uint64_t changes = changes_of(rows.codes + i, columns.codes + i);
    const int many = count_bits(changes);
    if (many <= kManyChanges) {
      runs.add(changes, many, i);
      continue;
    }
    runs.count(sink, rows, columns, i);
    sink.add_block(rows, columns, i);
    runs.begin(i + kBlock);
  }
  for (; i < count; ++i) {
    runs.starts[runs.runs] = static_cast<uint16_t>(i);
    runs.runs += rows.codes[i] != rows.codes[i - 1] || columns.codes[i] != columns.codes[i - 1];
  }
  runs.count(sink, rows, columns, count);
}
#define VALOR_COUNTS_OF(Sink, View)                                                                \
  VALOR_CLONES void count_tile(Sink& sink, const View& rows, const View& columns, int64_t count) { \
    count_codes(sink, rows, columns, count);                                                       \
  }
VALOR_COUNTS_OF(CellSink, Bytes)
VALOR_COUNTS_OF(TableSink, Bytes)
VALOR_COUNTS_OF(TableSink, Words)
#undef VALOR_COUNTS_OF

// What codes of one side say, in units of a sink.
template <class Code>
struct Reader;
template <>
struct Reader<uint8_t> {
  uint32_t units[256];
  Reader(const Side<uint8_t>& side, uint32_t unit) {
    for (int i = 0; i < 256; ++i) units[i] = side.meanings[i] * unit;
  }
  Bytes operator()(const uint8_t* codes) const { return Bytes{codes, units}; }
};
template <>
struct Reader<uint16_t> {
  Reader(const Side<uint16_t>&, uint32_t) {}
  Words operator()(const uint16_t* codes) const { return Words{codes}; }
};

// Counts ranges of the pixels of a task, on one thread.
template <class Code>
class Counter {
 public:
  explicit Counter(const PixelTask& task) : task_(task), target_(task, true), preds_(task, false) {}

  // Adds pixels [begin, end) of one table to it; returns the first error.
  int64_t count(int64_t begin, int64_t end, int64_t* table, bool shared) {
    TableSink out{task_.classes, task_.pairs, table, shared};
    if (!count_cells(begin, end, out)) {
      if (shared && !task_.pairs)
        count_apart(begin, end, out);
      else
        fill(begin, end, out);
    }
    return out.bad ? first_error(begin, end) : kNoError;
  }

 private:
  // By a table of cells, where it is small against the pixels.
  bool count_cells(int64_t begin, int64_t end, TableSink& out) {
    if constexpr (sizeof(Code) == 1) {
      if (CellSink::size_of(task_.classes) > (end - begin) / 4) return false;
      CellSink sink(task_.classes);
      fill(begin, end, sink);
      fold(sink, out);
      return true;
    }
    return false;
  }

  // By a table of its own, so that threads meet at the end only.
  void count_apart(int64_t begin, int64_t end, TableSink& out) {
    std::vector<int64_t> own(task_.table_size());
    TableSink sink{task_.classes, task_.pairs, own.data(), false};
    fill(begin, end, sink);
    for (int64_t cell = 0; cell < task_.table_size(); ++cell)
      if (own[cell]) out.put(cell, own[cell]);
    out.bad = sink.bad;
  }

  template <class Sink>
  void fill(int64_t begin, int64_t end, Sink& sink) {
    const Reader<Code> row(target_, sink.unit()), column(preds_, 1);
    over_tiles(task_, target_, preds_, begin, end,
               [&](const Code* rows, const Code* columns, int64_t, int64_t count) {
                 count_tile(sink, row(rows), column(columns), count);
               });
  }

  int64_t first_error(int64_t begin, int64_t end) {
    const Reader<Code> row(target_, 1), column(preds_, 1);
    int64_t error = kNoError;
    over_tiles(task_, target_, preds_, begin, end,
               [&](const Code* rows, const Code* columns, int64_t pixel, int64_t count) {
                 for (int64_t i = 0; i < count && error == kNoError; ++i) {
                   const int64_t truth = row(rows)[i];
                   if (truth == task_.classes)
                     error = task_.error_at(pixel + i, kTarget);
                   else if (truth < task_.classes && column(columns)[i] == task_.classes)
                     error = task_.error_at(pixel + i, kPrediction);
                 }
               });
    return error;
  }

  const PixelTask& task_;
  Side<Code> target_, preds_;
};

// One table by several threads.
template <class Code>
void count_table(const PixelTask& task, int64_t first, int64_t* table, int64_t* error, int64_t threads) {
  const int64_t pixels = task.table_pixels();
  const int64_t parts =
      std::max({std::min(threads, pixels / kLeastPixels), pixels / kMostPixels, int64_t{1}});
  over_rows(parts, 1, threads, error, [&](int64_t begin, int64_t end) {
    Counter<Code> counter(task);
    int64_t found = kNoError;
    for (int64_t part = begin; part < end; ++part) {
      const int64_t from = part * pixels / parts, to = (part + 1) * pixels / parts;
      found = std::min(found, counter.count(first + from, first + to, table, parts > 1));
    }
    return found;
  });
}

template <class Code>
void count_tables(const PixelTask& task, int64_t* tables, int64_t* error, int64_t threads) {
  const int64_t pixels = task.table_pixels(), size = task.table_size();
  if (pixels == 0) return;
  if (task.tables() < threads || pixels > kMostPixels) {
    for (int64_t i = 0; i < task.tables(); ++i)
      count_table<Code>(task, i * pixels, tables + i * size, error, threads);
    return;
  }
  const int64_t grain = std::max<int64_t>(1, kLeastPixels / pixels);
  over_rows(task.tables(), grain, threads, error, [&](int64_t begin, int64_t end) {
    Counter<Code> counter(task);
    int64_t found = kNoError;
    for (int64_t i = begin; i < end; ++i)
      found = std::min(found, counter.count(i * pixels, (i + 1) * pixels, tables + i * size, false));
    return found;
  });
}

}  // namespace
}  // namespace valor

// Adds to tables [tables, 3 or C, C] and lowers `error`. task_words are a PixelTask.
VALOR_API int32_t valor_count_pixels_cpu(const void* task_words, int64_t* tables, int64_t* error,
                                         int64_t threads) {
  return valor::guarded([&] {
    const auto& task = *static_cast<const valor::PixelTask*>(task_words);
    const auto count = valor::fits_bytes(task) ? valor::count_tables<uint8_t> : valor::count_tables<uint16_t>;
    count(task, tables, error, threads);
  });
}
