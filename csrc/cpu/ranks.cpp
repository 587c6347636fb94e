// CPU drivers of exact AUROC and AP and curves. Of a class with few positives only these are sorted: every
// other element looks its place among them up, so that each score is read once and never moved.
#include <memory>

#include "guard.h"
#include "pool.h"
#include "radix.h"
#include "rank_columns.h"
#include "rank_items.h"
#include "rank_tiles.h"

namespace valor {
namespace {

constexpr int64_t kTileBytes = 32 << 20;  // of keys that a thread holds at a time
constexpr int64_t kFewPositives = 16;     // a class with at most 1 / kFewPositives of the rows has few

// Columns that one thread takes at a time.
struct Task {
  int64_t column, width;
  bool few;  // columns of few positives, whose rows are known
};

// What a call computes.
struct AurocAndApRun {
  const RankInput& input;
  const RowClasses& classes;
  FirstError& error;
  double* auroc_and_ap;  // [2, C]
  void* totals;          // [2, C] of int64_t, or of double with weights

  bool few(int64_t c) const { return classes.count(c) * kFewPositives <= input.rows; }
  template <class Sum>
  void write(int64_t c, const AurocAndAp<Sum>& found) const {
    const int64_t C = input.target.classes;
    auroc_and_ap[c] = found.auc, auroc_and_ap[C + c] = found.average;
    Sum* sums = static_cast<Sum*>(totals);
    sums[c] = found.positives, sums[C + c] = found.negatives;
  }
};

template <class Order>
class AreasWorker {
 public:
  using Raw = typename Order::Raw;
  using Key = typename Order::Key;

  explicit AreasWorker(const AurocAndApRun& run)
      : run_(run), rows_(run.input.rows), tile_(new RankTile<Order>(run.input, run.classes, run.error)) {}

  void run(const Task& task) {
    if (run_.input.weight)
      weigh(task);
    else if (task.few)
      look_up(task);
    else
      sort(task);
  }

 private:
  static constexpr int64_t kRows = RankTile<Order>::kRows;

  template <class Take>
  void read(const Task& task, bool with_truths, const Take& take) {
    for (int64_t row = 0; row < rows_; row += kRows) {
      const int64_t count = std::min(kRows, rows_ - row);
      tile_->read(row, count, task.column, task.width, with_truths);
      for (int64_t j = 0; j < task.width; ++j) take(j, row, count);
    }
  }

  void look_up(const Task& task) {
    std::vector<Places<Key>> places(task.width);
    for (int64_t j = 0; j < task.width; ++j)
      if (run_.few(task.column + j)) places[j].set(positives(task.column + j));
    read(task, false, [&](int64_t j, int64_t, int64_t count) { places[j].count(tile_->keys(j), count); });
    const int64_t kept = static_cast<int64_t>(run_.classes.rows.size());
    for (int64_t j = 0; j < task.width; ++j) {
      if (!run_.few(task.column + j)) continue;
      places[j].leave_out_positives();
      run_.write(task.column + j, places[j].auroc_and_ap(kept - run_.classes.count(task.column + j)));
    }
  }

  // Ascending keys of the positives of a class, by its rows.
  std::vector<Key> positives(int64_t c) const {
    const RowClasses& classes = run_.classes;
    std::vector<Key> keys(classes.count(c)), spare(keys.size());
    const Raw* scores = static_cast<const Raw*>(run_.input.scores) + c;
    for (int64_t i = 0; i < classes.count(c); ++i)
      keys[i] = Order::key(scores[classes.rows[classes.first[c] + i] * run_.input.target.classes]);
    radix_sort(keys.data(), spare.data(), classes.count(c), [](Key key) { return key; });
    return keys;
  }

  // Positives from the front of a column's room, negatives from its back.
  void sort(const Task& task) {
    std::vector<Key> room(task.width * rows_);
    std::vector<int64_t> ups(task.width, 0), downs(task.width, 0);
    read(task, true, [&](int64_t j, int64_t, int64_t count) {
      Key *front = room.data() + j * rows_, *back = front + rows_ - 1;
      const Key* keys = tile_->keys(j);
      const uint8_t* positive = tile_->positive(j);
      int64_t up = ups[j], down = downs[j];
      for (int64_t i = 0; i < count; ++i) {
        if (keys[i] == 0) continue;
        front[up] = back[-down] = keys[i];  // one place is free at least: they are the same if it is the last
        up += positive[i], down += !positive[i];
      }
      ups[j] = up, downs[j] = down;
    });
    for (int64_t j = 0; j < task.width; ++j) {
      Key* front = room.data() + j * rows_;
      run_.write(task.column + j, auroc_and_ap(front, ups[j], front + rows_ - downs[j], downs[j]));
    }
  }

  AurocAndAp<int64_t> auroc_and_ap(Key* ups, int64_t positives, Key* downs, int64_t negatives) {
    spare_.resize(std::max(positives, negatives));
    const auto same = [](Key key) { return key; };
    radix_sort(ups, spare_.data(), positives, same);
    if (positives * kFewPositives > negatives) {
      radix_sort(downs, spare_.data(), negatives, same);
      return merged_auroc_and_ap(ups, positives, downs, negatives);
    }
    Places<Key> places;
    places.set(std::vector<Key>(ups, ups + positives));
    for (int64_t i = 0; i < negatives; i += kRows) places.count(downs + i, std::min(kRows, negatives - i));
    return places.auroc_and_ap(negatives);
  }

  void weigh(const Task& task) {
    Columns<Key> columns(task.width, rows_);
    read(task, true, [&](int64_t j, int64_t row, int64_t count) {
      columns.add(j, row, tile_->keys(j), tile_->positive(j), count);
    });
    for (int64_t j = 0; j < task.width; ++j)
      run_.write(task.column + j, weighted_auroc_and_ap(columns.sorted(j), run_.input.weight));
  }

  const AurocAndApRun& run_;
  const int64_t rows_;
  const std::unique_ptr<RankTile<Order>> tile_;
  std::vector<Key> spare_;
};

// Columns side by side whose room stays within kTileBytes.
int64_t columns_at_once(int64_t rows, int64_t bytes) {
  return std::max<int64_t>(1, std::min<int64_t>(16, kTileBytes / std::max<int64_t>(1, rows * bytes)));
}

std::vector<Task> plan(const AurocAndApRun& run, int64_t key_bytes, int threads) {
  const RankInput& input = run.input;
  const int64_t C = input.target.classes;
  const bool by_row = !input.target.per_element && !input.weight;
  int64_t width = columns_at_once(input.rows, input.weight ? 2 * key_bytes : key_bytes);
  width = std::min(width, (C + threads - 1) / threads);
  const auto many = [&](int64_t c) { return !by_row || !run.few(c); };
  std::vector<Task> tasks;
  for (int64_t c = 0; c < C;) {
    int64_t end = c + 1;
    for (; many(c) && end < std::min(C, c + width) && many(end);) ++end;
    if (many(c)) tasks.push_back({c, end - c, false});
    c = end;
  }
  constexpr int64_t kWide = RankTile<SingleOrder>::kColumns;
  for (int64_t c = 0; by_row && c < C; c += kWide) {
    const Task task{c, std::min(kWide, C - c), true};
    for (int64_t j = 0; j < task.width; ++j)
      if (run.few(c + j)) {
        tasks.push_back(task);
        break;
      }
  }
  return tasks;
}

template <class Order>
void find_auroc_and_ap(const AurocAndApRun& run, int threads) {
  const std::vector<Task> tasks = plan(run, sizeof(typename Order::Key), threads);
  auto body = [&](int64_t begin, int64_t end) {
    AreasWorker<Order> worker(run);
    for (int64_t t = begin; t < end; ++t) worker.run(tasks[t]);
  };
  parallel_for(static_cast<int64_t>(tasks.size()), 1, threads, body);
}

}  // namespace
}  // namespace valor

// Fills `auroc_and_ap` [2, C], `totals` [2, C] (int64_t, or double with weights) and `error`; see RankInput.
VALOR_API int32_t valor_auroc_and_ap_cpu(const void* words, double* auroc_and_ap, void* totals,
                                         int64_t* error, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const RankInput& input = *static_cast<const RankInput*>(words);
    FirstError first;
    check_weights(input, first);
    const RowClasses classes(input, first);
    const AurocAndApRun run{input, classes, first, auroc_and_ap, totals};
    with_order(input.type,
               [&](auto order) { find_auroc_and_ap<decltype(order)>(run, static_cast<int>(threads)); });
    *error = first.code();
  });
}
