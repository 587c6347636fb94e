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

constexpr int kManyChanges = 16;            // in a block: its pixels are counted one by one
constexpr int64_t kWays = 4;                // tables that neighbouring pixels of such blocks use in turn
constexpr int64_t kSmallTable = 1 << 12;    // cells: kWays such tables stay near
constexpr int64_t kMostCells = 1 << 15;     // of tables of their own
constexpr int64_t kLeastPixels = 1 << 16;   // that are worth a thread
constexpr int64_t kMostPixels = 1ll << 31;  // that 32-bit cells hold

// What counts pixels of one pair of codes. `bad` says that a label was out of range.

// A small table of all pairs of codes, which is folded when all pixels are counted.
struct CellSink {
  int64_t classes, ways;
  std::vector<uint32_t> cells;
  bool bad = false;

  explicit CellSink(int64_t classes) : classes(classes), ways(size() <= kSmallTable ? kWays : 1) {
    cells.resize(ways * size());
  }
  int64_t size() const { return size_of(classes); }
  static int64_t size_of(int64_t classes) { return (classes + 2) * (classes + 1); }
  VALOR_INLINE void add(Code row, Code column, int64_t count) {
    cells[row * (classes + 1) + column] += static_cast<uint32_t>(count);
  }
  VALOR_INLINE void add_block(const Code* rows, const Code* columns) {
    uint32_t at[kBlock];
    const uint32_t width = static_cast<uint32_t>(classes) + 1;
    for (int64_t i = 0; i < kBlock; ++i) at[i] = rows[i] * width + columns[i];
    uint32_t* const own = cells.data();
    const int64_t way = ways > 1 ? size() : 0;
    for (int64_t i = 0; i < kBlock; i += kWays)
      for (int64_t j = 0; j < kWays; ++j) ++own[j * way + at[i + j]];
  }
  template <class Add>
  void fold(Add add) {
    for (int64_t row = 0; row <= classes; ++row)
      for (int64_t column = 0; column <= classes; ++column) {
        int64_t count = 0;
        for (int64_t way = 0; way < ways; ++way) count += cells[way * size() + row * (classes + 1) + column];
        if (count == 0) continue;
        if (row < classes && column < classes)
          add(row, column, count);
        else
          bad = true;
      }
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

// Bit i is set where pixel i differs from the one before, which lies there for the first one as well.
VALOR_INLINE uint64_t changes_of(const Code* rows, const Code* columns) {
  uint64_t changes = 0;
#if defined(__SSE2__)
  const auto load = [](const Code* codes) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
  };
  const auto same = [&](int64_t i) {  // of 8 pixels
    return _mm_and_si128(_mm_cmpeq_epi16(load(rows + i), load(rows + i - 1)),
                         _mm_cmpeq_epi16(load(columns + i), load(columns + i - 1)));
  };
  for (int64_t i = 0; i < kBlock; i += 16) {
    const uint64_t bits =
        static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(same(i), same(i + 8)))) ^ 0xffffu;
    changes |= bits << i;
  }
#else
  for (int64_t i = 0; i < kBlock; ++i)
    changes |= static_cast<uint64_t>(rows[i] != rows[i - 1] || columns[i] != columns[i - 1]) << i;
#endif
  return changes;
}

// Counts the pixels of a tile but the last of one pair, of which there are `open` with those before.
template <class Sink>
VALOR_INLINE int64_t count_codes(Sink& sink, const Tile& tile, int64_t count, int64_t open) {
  int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    const Code *rows = tile.rows + i, *columns = tile.columns + i;
    const bool steady = tile.row_steady[i / kBlock] && tile.column_steady[i / kBlock];
    uint64_t changes = steady ? rows[0] != rows[-1] || columns[0] != columns[-1] : changes_of(rows, columns);
    if (count_bits(changes) > kManyChanges) {
      sink.add(rows[-1], columns[-1], open);
      sink.add_block(rows, columns);
      open = 0;
      continue;
    }
    for (; changes; changes &= changes - 1) {
      const int64_t at = __builtin_ctzll(changes);
      sink.add(rows[at - 1], columns[at - 1], open + at);
      open = -at;
    }
    open += kBlock;
  }
  for (; i < count; ++i, ++open) {
    const Code *row = tile.rows + i, *column = tile.columns + i;
    if (row[0] == row[-1] && column[0] == column[-1]) continue;
    sink.add(row[-1], column[-1], open);
    open = 0;
  }
  return open;
}
VALOR_CLONES int64_t count_tile(CellSink& sink, const Tile& tile, int64_t count, int64_t open) {
  return count_codes(sink, tile, count, open);
}
VALOR_CLONES int64_t count_tile(TableSink& sink, const Tile& tile, int64_t count, int64_t open) {
  return count_codes(sink, tile, count, open);
}

int64_t first_error(const PixelTask& task, int64_t begin, int64_t end) {
  int64_t error = kNoError;
  over_tiles(task, begin, end, [&](const Tile& tile, int64_t pixel, int64_t count) {
    for (int64_t i = 0; i < count && error == kNoError; ++i)
      if (tile.rows[i] == task.classes)
        error = task.error_at(pixel + i, kTarget);
      else if (tile.rows[i] < task.classes && tile.columns[i] == task.classes)
        error = task.error_at(pixel + i, kPrediction);
  });
  return error;
}

template <class Sink>
void count_pixels(const PixelTask& task, int64_t begin, int64_t end, Sink& sink) {
  int64_t open = 0;
  Code row = 0, column = 0;
  over_tiles(task, begin, end, [&](const Tile& tile, int64_t, int64_t count) {
    open = count_tile(sink, tile, count, open);
    row = tile.rows[count - 1], column = tile.columns[count - 1];
  });
  sink.add(row, column, open);
}

// Adds pixels [begin, end) of one table to it; returns the first error.
int64_t count_range(const PixelTask& task, int64_t begin, int64_t end, int64_t* table, bool shared) {
  const int64_t cells = CellSink::size_of(task.classes);
  TableSink out{task.classes, task.pairs, table, shared};
  if (cells <= std::min(kMostCells, (end - begin) / 4)) {
    CellSink sink(task.classes);
    count_pixels(task, begin, end, sink);
    sink.fold([&](int64_t row, int64_t column, int64_t count) { out.add(row, column, count); });
    out.bad = sink.bad;
  } else if (shared && !task.pairs) {
    std::vector<int64_t> own(task.table_size());
    TableSink sink{task.classes, task.pairs, own.data(), false};
    count_pixels(task, begin, end, sink);
    for (int64_t cell = 0; cell < task.table_size(); ++cell)
      if (own[cell]) out.put(cell, own[cell]);
    out.bad = sink.bad;
  } else {
    count_pixels(task, begin, end, out);
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
