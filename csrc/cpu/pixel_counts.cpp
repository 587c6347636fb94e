// CPU drivers of label maps: runs of pixels with one pair of codes are counted at once.
#include <algorithm>
#include <vector>

#include "guard.h"
#include "pixel_codes.h"
#include "rows.h"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace valor {
namespace {

constexpr int64_t kManyRuns = 3;            // pixels a run: tiles of shorter ones are counted pixel by pixel
constexpr int64_t kListed = 8;              // runs of a block that are listed without a branch
constexpr int64_t kWays = 4;                // tables that neighbouring pixels of such tiles use in turn
constexpr int64_t kSmallTable = 1 << 12;    // cells: kWays such tables stay near
constexpr int64_t kMostCells = 1 << 15;     // of tables of their own
constexpr int64_t kLeastPixels = 1 << 16;   // that are worth a thread
constexpr int64_t kMostPixels = 1ll << 31;  // that 32-bit cells hold

// What counts pixels of one pair of codes. `bad` says that a label was out of range.

// A small table of all pairs of codes, which is folded when all pixels are counted.
struct CellSink {
  int64_t classes, ways;
  std::vector<uint32_t> cells;
  bool bad = false, spread = false;  // over the ways

  explicit CellSink(int64_t classes) : classes(classes), ways(size() <= kSmallTable ? kWays : 1) {
    cells.resize(ways * size());
  }
  int64_t size() const { return size_of(classes); }
  static int64_t size_of(int64_t classes) { return (classes + 2) * (classes + 1); }
  VALOR_INLINE void add(int64_t row, int64_t column, int64_t count) {
    cells[row * (classes + 1) + column] += static_cast<uint32_t>(count);
  }
  VALOR_INLINE void add_block(const Code* rows, const Code* columns) {
    uint32_t at[kBlock];
    const uint32_t width = static_cast<uint32_t>(classes) + 1;
    for (int64_t i = 0; i < kBlock; ++i) at[i] = rows[i] * width + columns[i];
    uint32_t* const own = cells.data();
    const int64_t way = ways > 1 ? size() : 0;
    spread = true;
    for (int64_t i = 0; i < kBlock; i += kWays)
      for (int64_t j = 0; j < kWays; ++j) ++own[j * way + at[i + j]];
  }
  template <class Add>
  void fold(Add add) {
    const int64_t used = spread ? ways : 1;
    for (int64_t row = 0; row <= classes; ++row)
      for (int64_t column = 0; column <= classes; ++column) {
        int64_t count = 0;
        for (int64_t way = 0; way < used; ++way) count += cells[way * size() + row * (classes + 1) + column];
        if (count == 0) continue;
        if (row < classes && column < classes)
          add(row, column, count);
        else
          bad = true;
      }
  }
};

// The same for ByteLabels: a look-up makes codes of them.
struct ByteSink : CellSink {
  uint32_t row_at[256], column_at[256];  // their parts of the place of a cell

  explicit ByteSink(const PixelTask& task) : CellSink(task.classes) {
    fill(task, true, classes + 1, row_at);
    fill(task, false, 1, column_at);
  }
  static bool fits(const PixelTask& task) {
    return !task.channel_stride && ByteLabels(task, true).fit(task) && ByteLabels(task, false).fit(task);
  }
  static void fill(const PixelTask& task, bool of_target, int64_t step, uint32_t* at) {
    const ByteLabels side(task, of_target);
    with_label((of_target ? task.target : task.preds).type, [&](auto zero) {
      const Coding<decltype(zero)> coding(task, of_target);
      for (int64_t i = 0; i < 256; ++i)
        at[i] = static_cast<uint32_t>(side.code(coding, static_cast<uint8_t>(i)) * step);
    });
  }
  VALOR_INLINE void add(uint8_t row, uint8_t column, int64_t count) {
    cells[row_at[row] + column_at[column]] += static_cast<uint32_t>(count);
  }
  VALOR_INLINE void add_block(const uint8_t* rows, const uint8_t* columns) {
    uint32_t* const own = cells.data();
    const int64_t way = ways > 1 ? size() : 0;
    spread = true;
    for (int64_t i = 0; i < kBlock; i += kWays)
      for (int64_t j = 0; j < kWays; ++j) ++own[j * way + row_at[rows[i + j]] + column_at[columns[i + j]]];
  }
};

// The output itself.
struct TableSink {
  int64_t classes, pairs;
  int64_t* table;
  bool shared;  // between threads
  bool bad = false;

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
  VALOR_INLINE void add_block(const Code* rows, const Code* columns) {
    for (int64_t i = 0; i < kBlock; ++i) add(rows[i], columns[i], 1);
  }
};

#if defined(__SSE2__)
template <class T>
VALOR_INLINE __m128i load_codes(const T* codes) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
}
// Bytes of 16 pixels: all ones where a pixel equals the one before.
VALOR_INLINE __m128i same_16(const uint8_t* codes) {
  return _mm_cmpeq_epi8(load_codes(codes), load_codes(codes - 1));
}
VALOR_INLINE __m128i same_16(const Code* codes) {
  const auto same = [&](int64_t i) {
    return _mm_cmpeq_epi16(load_codes(codes + i), load_codes(codes + i - 1));
  };
  return _mm_packs_epi16(same(0), same(8));
}
#endif

// Bit i is set where pixel i differs from the one before, which lies there for the first one as well.
template <class T>
VALOR_INLINE uint64_t changes_of(const T* rows, const T* columns) {
  uint64_t changes = 0;
#if defined(__SSE2__)
  for (int64_t i = 0; i < kBlock; i += 16) {
    const int same = _mm_movemask_epi8(_mm_and_si128(same_16(rows + i), same_16(columns + i)));
    changes |= static_cast<uint64_t>(static_cast<uint32_t>(same) ^ 0xffffu) << i;
  }
#else
  for (int64_t i = 0; i < kBlock; ++i)
    changes |= static_cast<uint64_t>(rows[i] != rows[i - 1] || columns[i] != columns[i - 1]) << i;
#endif
  return changes;
}

// Where the runs of a tile end, but for the last one. Blocks of few runs are listed in steps
// of the same length, so that no branch has to be guessed for each block.
VALOR_INLINE void list_runs(const uint64_t* changes, int64_t blocks, uint16_t* ends) {
  int64_t runs = 0;
  for (int64_t block = 0; block < blocks; ++block) {
    uint64_t left = changes[block];
    const int64_t found = count_bits(left);
    uint16_t* out = ends + runs;
    const auto list = [&] {  // behind the last change it writes what the next block overwrites
      *out++ = static_cast<uint16_t>(block * kBlock + __builtin_ctzll(left | 1ull << (kBlock - 1)));
      left &= left - 1;
    };
    for (int64_t i = 0; i < kListed; ++i) list();
    for (int64_t i = 0; i < kListed && found > kListed; ++i) list();
    while (left) list();
    runs += found;
  }
}

template <class Sink, class T>
VALOR_INLINE void count_codes(Sink& sink, const CodeTile<T>& tile, int64_t count) {
  uint64_t changes[kTile / kBlock] = {};
  uint16_t ends[kTile + 2 * kListed];
  const int64_t blocks = (count + kBlock - 1) / kBlock;
  for (int64_t i = 0; i < blocks; ++i)
    changes[i] = changes_of(tile.rows + i * kBlock, tile.columns + i * kBlock);
  changes[0] &= ~1ull;
  if (count % kBlock) changes[blocks - 1] &= (1ull << count % kBlock) - 1;
  int64_t runs = 1;
  for (const uint64_t word : changes) runs += count_bits(word);
  if (runs * kManyRuns > count) {
    int64_t i = 0;
    for (; i + kBlock <= count; i += kBlock) sink.add_block(tile.rows + i, tile.columns + i);
    for (; i < count; ++i) sink.add(tile.rows[i], tile.columns[i], 1);
    return;
  }
  list_runs(changes, blocks, ends);
  ends[runs - 1] = static_cast<uint16_t>(count);
  for (int64_t i = 0, begin = 0; i < runs; begin = ends[i++])
    sink.add(tile.rows[ends[i] - 1], tile.columns[ends[i] - 1], ends[i] - begin);
}
VALOR_CLONES void count_tile(ByteSink& sink, const CodeTile<uint8_t>& tile, int64_t count) {
  count_codes(sink, tile, count);
}
VALOR_CLONES void count_tile(CellSink& sink, const CodeTile<Code>& tile, int64_t count) {
  count_codes(sink, tile, count);
}
VALOR_CLONES void count_tile(TableSink& sink, const CodeTile<Code>& tile, int64_t count) {
  count_codes(sink, tile, count);
}

int64_t first_error(const PixelTask& task, int64_t begin, int64_t end) {
  int64_t error = kNoError;
  over_tiles<Code>(task, begin, end, [&](const CodeTile<Code>& tile, int64_t pixel, int64_t count) {
    for (int64_t i = 0; i < count && error == kNoError; ++i)
      if (tile.rows[i] == task.classes)
        error = task.error_at(pixel + i, kTarget);
      else if (tile.rows[i] < task.classes && tile.columns[i] == task.classes)
        error = task.error_at(pixel + i, kPrediction);
  });
  return error;
}

template <class T, class Sink>
void count_pixels(const PixelTask& task, int64_t begin, int64_t end, Sink& sink) {
  over_tiles<T>(task, begin, end,
                [&](const CodeTile<T>& tile, int64_t, int64_t count) { count_tile(sink, tile, count); });
}

// Counts in cells of their own, which go to the output.
template <class T, class Sink>
void count_cells(const PixelTask& task, int64_t begin, int64_t end, Sink&& sink, TableSink& out) {
  count_pixels<T>(task, begin, end, sink);
  sink.fold([&](int64_t row, int64_t column, int64_t count) { out.add(row, column, count); });
  out.bad = sink.bad;
}

// Adds pixels [begin, end) of one table to it; returns the first error.
int64_t count_range(const PixelTask& task, int64_t begin, int64_t end, int64_t* table, bool shared) {
  TableSink out{task.classes, task.pairs, table, shared};
  if (shared && !task.pairs) {  // each cell is three additions to the table, and atomic ones take longer than
                                // the pixels
    std::vector<int64_t> own(task.table_size());
    const int64_t error = count_range(task, begin, end, own.data(), false);
    for (int64_t cell = 0; cell < task.table_size(); ++cell)
      if (own[cell]) out.put(cell, own[cell]);
    return error;
  }
  const int64_t cells = CellSink::size_of(task.classes);
  if (cells > std::min(kMostCells, (end - begin) / 4)) {
    count_pixels<Code>(task, begin, end, out);
  } else if (ByteSink::fits(task)) {
    count_cells<uint8_t>(task, begin, end, ByteSink(task), out);
  } else {
    count_cells<Code>(task, begin, end, CellSink(task.classes), out);
  }
  return out.bad ? first_error(task, begin, end) : kNoError;
}

// One table by several threads.
void count_table(const PixelTask& task, int64_t first, int64_t* table, int64_t* error, int64_t threads) {
  const int64_t pixels = task.table_pixels();
  const int64_t parts =
      std::max({std::min(threads, pixels / kLeastPixels), pixels / kMostPixels, int64_t{1}});
  over_rows(parts, 1, threads, error, [&](int64_t begin, int64_t end) {
    int64_t found = kNoError;
    for (int64_t part = begin; part < end; ++part) {
      const int64_t from = part * pixels / parts, to = (part + 1) * pixels / parts;
      found = std::min(found, count_range(task, first + from, first + to, table, parts > 1));
    }
    return found;
  });
}

void count_tables(const PixelTask& task, int64_t* tables, int64_t* error, int64_t threads) {
  const int64_t pixels = task.table_pixels(), size = task.table_size();
  if (pixels == 0) return;
  if (task.tables() < threads || pixels > kMostPixels) {
    for (int64_t i = 0; i < task.tables(); ++i)
      count_table(task, i * pixels, tables + i * size, error, threads);
    return;
  }
  const int64_t grain = std::max<int64_t>(1, kLeastPixels / pixels);
  over_rows(task.tables(), grain, threads, error, [&](int64_t begin, int64_t end) {
    int64_t found = kNoError;
    for (int64_t i = begin; i < end; ++i)
      found = std::min(found, count_range(task, i * pixels, (i + 1) * pixels, tables + i * size, false));
    return found;
  });
}

}  // namespace
}  // namespace valor

// Adds to tables [tables, 3 or C, C] and lowers `error`. task_words are a PixelTask.
VALOR_API int32_t valor_count_pixels_cpu(const void* task_words, int64_t* tables, int64_t* error,
                                         int64_t threads) {
  return valor::guarded([&] {
    valor::count_tables(*static_cast<const valor::PixelTask*>(task_words), tables, error, threads);
  });
}
