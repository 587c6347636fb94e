// CPU driver of rank_sums: two radix sorts and a count of inversions per column.
#include "../core/rank_sums.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "guard.h"
#include "pool.h"
#include "radix.h"

namespace valor {
namespace {

struct RankTask {
  const void *preds, *target;  // [columns, rows]
  int64_t rows, columns, is_double, wants_pairs;
  RankSums* sums;  // [columns]
  int64_t threads;
};

// Sums of the sizes of groups of equal values.
struct GroupSums {
  int64_t groups = 0, squares = 0;
  WideSum cubes;
  void add(int64_t size) {
    ++groups, squares += size * size;
    cubes.add(size * size, size);
  }
};

// Counts pairs whose first number is larger and sorts by it no further than the count needs: the numbers,
// below 2^bits, are parted by one bit after another, and at each bit a pair counts that differs there first.
class Inversions {
 public:
  static int64_t count(uint32_t* values, uint32_t* spare, int64_t size, int bits) {
    if (size <= kFew) return of_few(values, size);
    while (bits > 0 && !differs(values, size, bits - 1)) --bits;
    if (bits == 0) return 0;
    const int bit = bits - 1;
    int64_t zeros = 0, ones = 0, found = 0;
    for (int64_t i = 0; i < size; ++i) {  // without a branch: bits of ranks cannot be predicted
      const uint32_t value = values[i], one = value >> bit & 1;
      values[zeros] = value, spare[ones] = value;
      zeros += one ^ 1, ones += one;
      found += one ? 0 : ones;
    }
    std::copy(spare, spare + ones, values + zeros);
    return found + count(values, spare, zeros, bit) + count(values + zeros, spare, ones, bit);
  }

 private:
  static constexpr int64_t kFew = 24;

  static int64_t of_few(const uint32_t* values, int64_t size) {
    int64_t found = 0;
    for (int64_t i = 0; i < size; ++i) {
      int32_t smaller = 0;
      for (int64_t j = i + 1; j < size; ++j) smaller += values[j] < values[i];
      found += smaller;
    }
    return found;
  }

  static bool differs(const uint32_t* values, int64_t size, int bit) {
    const uint32_t first = values[0] >> bit & 1;
    for (int64_t i = 1; i < size; ++i)
      if ((values[i] >> bit & 1) != first) return true;
    return false;
  }
};

// The sums of one column after another; Value is float or double.
template <class Value>
class ColumnSums {
  using Key = decltype(order_key(Value{}));
  struct Item {
    Key key;
    uint32_t row;
  };

 public:
  ColumnSums(int64_t rows, bool wants_pairs)
      : rows_(rows),
        wants_pairs_(wants_pairs),
        items_(new Item[rows]),
        spare_(new Item[rows]),
        ranks_(new int32_t[rows]),
        groups_(new uint32_t[wants_pairs ? rows : 0]),
        sequence_(new uint32_t[wants_pairs ? rows : 0]),
        room_(new uint32_t[wants_pairs ? rows : 0]) {}

  void run(const Value* preds, const Value* target, RankSums* out) {
    *out = RankSums{};
    for (int64_t i = 0; i < rows_; ++i) out->nan_rows += std::isnan(preds[i]) | std::isnan(target[i]);
    if (out->nan_rows || rows_ == 0) return;
    for (int64_t i = 0; i < rows_; ++i) items_[i] = {order_key(target[i]), static_cast<uint32_t>(i)};
    const GroupSums y = rank_target();
    // In the order of target, so that the stable sort leaves rows of equal predictions in it.
    for (int64_t i = 0; i < rows_; ++i) items_[i].key = order_key(preds[items_[i].row]);
    out->groups_y = y.groups, out->squares_y = y.squares;
    out->cubes_y_high = y.cubes.high, out->cubes_y_low = y.cubes.low;
    add_preds(out);
    if (wants_pairs_) count_pairs(y.groups, out);
  }

 private:
  void sort() {
    radix_sort(items_.get(), spare_.get(), rows_, [](const Item& item) { return item.key; });
  }

  // Calls body(begin, end) for each group of equal keys.
  template <class Body>
  void each_group(const Body& body) const {
    for (int64_t begin = 0, end; begin < rows_; begin = end) {
      for (end = begin + 1; end < rows_ && items_[end].key == items_[begin].key;) ++end;
      body(begin, end);
    }
  }

  GroupSums rank_target() {
    sort();
    GroupSums sums;
    each_group([&](int64_t begin, int64_t end) {
      const int32_t rank = static_cast<int32_t>(centred_rank(begin, end - begin, rows_));
      for (int64_t i = begin; i < end; ++i) {
        ranks_[items_[i].row] = rank;
        if (wants_pairs_) groups_[items_[i].row] = static_cast<uint32_t>(sums.groups);
      }
      sums.add(end - begin);
    });
    return sums;
  }

  void add_preds(RankSums* out) {
    sort();
    GroupSums sums;
    WideSum products;
    each_group([&](int64_t begin, int64_t end) {
      const int64_t rank = centred_rank(begin, end - begin, rows_);
      for (int64_t i = begin; i < end; ++i) products.add(rank * ranks_[items_[i].row]);
      sums.add(end - begin);
    });
    out->groups_x = sums.groups, out->squares_x = sums.squares;
    out->cubes_x_high = sums.cubes.high, out->cubes_x_low = sums.cubes.low;
    out->products_high = products.high, out->products_low = products.low;
  }

  // Source: Knight, "A computer method for calculating Kendall's tau with ungrouped data" (1966).
  void count_pairs(int64_t groups, RankSums* out) {
    int64_t tied_both = 0;
    for (int64_t i = 0; i < rows_; ++i) sequence_[i] = groups_[items_[i].row];
    each_group([&](int64_t begin, int64_t end) {
      for (int64_t from = begin, to; from < end; from = to) {
        for (to = from + 1; to < end && sequence_[to] == sequence_[from];) ++to;
        tied_both += pairs_of(to - from);
      }
    });
    int bits = 0;
    while ((groups - 1) >> bits) ++bits;
    out->discordant = Inversions::count(sequence_.get(), room_.get(), rows_, bits);
    const int64_t tied_x = (out->squares_x - rows_) / 2, tied_y = (out->squares_y - rows_) / 2;
    out->concordant = pairs_of(rows_) - tied_x - tied_y + tied_both - out->discordant;
  }

  const int64_t rows_;
  const bool wants_pairs_;
  const std::unique_ptr<Item[]> items_, spare_;
  const std::unique_ptr<int32_t[]> ranks_;                      // of target, centred, by row
  const std::unique_ptr<uint32_t[]> groups_, sequence_, room_;  // groups of target by row, in order of both
};

template <class Value>
void sum_columns(const RankTask& task) {
  auto body = [&](int64_t begin, int64_t end) {
    ColumnSums<Value> sums(task.rows, task.wants_pairs != 0);
    for (int64_t c = begin; c < end; ++c)
      sums.run(static_cast<const Value*>(task.preds) + c * task.rows,
               static_cast<const Value*>(task.target) + c * task.rows, task.sums + c);
  };
  parallel_for(task.columns, 1, static_cast<int>(task.threads), body);
}

}  // namespace
}  // namespace valor

// Fills sums [columns].
VALOR_API int32_t valor_rank_sums_cpu(const valor::RankTask* task) {
  return valor::guarded([&] {
    if (task->is_double) {
      valor::sum_columns<double>(*task);
    } else {
      valor::sum_columns<float>(*task);
    }
  });
}
