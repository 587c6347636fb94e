// CPU drivers of hard labels: rows are split over threads.
#include "../core/labels.h"

#include <algorithm>
#include <vector>

#include "guard.h"
#include "label_calls.h"
#include "rows.h"

namespace valor {
namespace {

constexpr int64_t kTile = 1024;          // labels that are widened at a time
constexpr int64_t kLeastRows = 1 << 14;  // labels that are worth a thread

template <class T>
void widen(const T* from, int64_t count, int64_t* to) {
  std::copy(from, from + count, to);
}

void load_ints(const void* data, IntType type, int64_t begin, int64_t count, int64_t* to) {
  switch (type) {
    case kInt8:
      return widen(static_cast<const int8_t*>(data) + begin, count, to);
    case kInt16:
      return widen(static_cast<const int16_t*>(data) + begin, count, to);
    case kInt32:
      return widen(static_cast<const int32_t*>(data) + begin, count, to);
    case kInt64:
      return widen(static_cast<const int64_t*>(data) + begin, count, to);
    default:
      return widen(static_cast<const uint8_t*>(data) + begin, count, to);
  }
}

// Calls add(row, pair) for every row that counts; returns the first error.
template <class Add>
int64_t for_pairs(const PairRows& rows, int64_t begin, int64_t end, Add add) {
  int64_t preds[kTile], truths[kTile], error = kNoError;
  for (int64_t tile = begin; tile < end; tile += kTile) {
    const int64_t size = std::min(kTile, end - tile);
    load_ints(rows.preds, static_cast<IntType>(rows.preds_type), tile, size, preds);
    load_ints(rows.target.data, static_cast<IntType>(rows.target.type), tile, size, truths);
    for (int64_t i = 0; i < size; ++i) {
      const Pair pair = judge_pair(rows, tile + i, truths[i], preds[i]);
      if (pair.counts) add(tile + i, pair);
      error = std::min(error, pair.error);
    }
  }
  return error;
}

template <class Cells>
int64_t count_rows(const PairRows& rows, const Cells& cells, int64_t begin, int64_t end, int64_t* table) {
  return for_pairs(rows, begin, end, [&](int64_t, const Pair& pair) {
    cells.add(pair, [table](int64_t cell, bool counts) { table[cell] += counts; });
  });
}

// One table for all threads, where tables of their own would cost more than the rows.
template <class Cells>
int64_t count_shared(const PairRows& rows, const Cells& cells, int64_t begin, int64_t end, int64_t* table) {
  return for_pairs(rows, begin, end, [&](int64_t, const Pair& pair) {
    cells.add(pair, [table](int64_t cell, bool counts) {
      if (counts) __atomic_fetch_add(table + cell, 1, __ATOMIC_RELAXED);
    });
  });
}

template <class Cells>
int64_t weigh_rows(const PairRows& rows, const Cells& cells, int64_t begin, int64_t end, double* table) {
  return for_pairs(rows, begin, end, [&](int64_t row, const Pair& pair) {
    const double weight = rows.weight[row];
    cells.add(pair, [=](int64_t cell, bool counts) { table[cell] += counts ? weight : 0.0; });
  });
}

template <class Cells>
void count_all(const PairRows& rows, const Cells& cells, int64_t* table, int64_t* error, int64_t threads) {
  const int64_t size = cells.size();
  const int64_t parts = std::min(threads, rows.rows / kLeastRows);
  if (parts > 1 && size > rows.rows / 4)
    return over_rows(rows.rows, kLeastRows, threads, error, [&](int64_t begin, int64_t end) {
      return count_shared(rows, cells, begin, end, table);
    });
  if (parts <= 1) {
    *error = std::min(*error, count_rows(rows, cells, 0, rows.rows, table));
    return;
  }
  std::vector<int64_t> tables((parts - 1) * size);
  const auto own = [&](int64_t part) { return part ? tables.data() + (part - 1) * size : table; };
  over_rows(parts, 1, threads, error, [&](int64_t part, int64_t) {
    return count_rows(rows, cells, part * rows.rows / parts, (part + 1) * rows.rows / parts, own(part));
  });
  for (int64_t part = 1; part < parts; ++part)
    for (int64_t i = 0; i < size; ++i) table[i] += own(part)[i];
}

template <class Cells>
void weigh_all(const PairRows& rows, const Cells& cells, int64_t block_rows, double* table, int64_t* error,
               int64_t threads) {
  const int64_t blocks = (rows.rows + block_rows - 1) / block_rows, size = cells.size();
  std::vector<double> tables(blocks > 1 ? blocks * size : 0);
  over_rows(blocks, 1, threads, error, [&](int64_t first, int64_t last) {
    int64_t found = kNoError;
    for (int64_t block = first; block < last; ++block) {
      const int64_t begin = block * block_rows, end = std::min(rows.rows, begin + block_rows);
      double* own = blocks > 1 ? tables.data() + block * size : table;
      found = std::min(found, weigh_rows(rows, cells, begin, end, own));
    }
    return found;
  });
  for (size_t block = 0; block < tables.size(); block += size)
    for (int64_t i = 0; i < size; ++i) table[i] += tables[block + i];
}

template <class Cells>
void tabulate(const void* pair_words, int64_t block_rows, void* table, int64_t* error, int64_t threads) {
  const PairRows& rows = *static_cast<const PairRows*>(pair_words);
  const Cells cells{rows.target.classes};
  if (rows.weight)
    weigh_all(rows, cells, block_rows, static_cast<double*>(table), error, threads);
  else
    count_all(rows, cells, static_cast<int64_t*>(table), error, threads);
}

}  // namespace
}  // namespace valor

// Adds to counts [3, C], int64 or with weights float64, and lowers `error`. pair_words are a PairRows.
VALOR_API int32_t valor_count_labels_cpu(const void* pair_words, int64_t block_rows, void* counts,
                                         int64_t* error, int64_t threads) {
  return valor::guarded(
      [&] { valor::tabulate<valor::ClassCells>(pair_words, block_rows, counts, error, threads); });
}

// Likewise to matrix [C, C].
VALOR_API int32_t valor_count_pairs_cpu(const void* pair_words, int64_t block_rows, void* matrix,
                                        int64_t* error, int64_t threads) {
  return valor::guarded(
      [&] { valor::tabulate<valor::PairCells>(pair_words, block_rows, matrix, error, threads); });
}

// Fills first [num_cells, k], which holds -1.
VALOR_API int32_t valor_first_in_cells_cpu(const void* cells, int64_t type, int64_t rows, int64_t num_cells,
                                           int64_t k, int64_t* first) {
  return valor::guarded([&] {
    using namespace valor;
    if (k == 0) return;
    std::vector<int64_t> kept(num_cells);
    int64_t tile[kTile];
    for (int64_t begin = 0; begin < rows; begin += kTile) {
      const int64_t size = std::min(kTile, rows - begin);
      load_ints(cells, static_cast<IntType>(type), begin, size, tile);
      for (int64_t i = 0; i < size; ++i) {
        if (static_cast<uint64_t>(tile[i]) >= static_cast<uint64_t>(num_cells) || kept[tile[i]] == k)
          continue;
        first[tile[i] * k + kept[tile[i]]++] = begin + i;
      }
    }
  });
}
