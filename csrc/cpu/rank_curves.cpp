// CPU driver of exact curves: the distinct scores of every class and what is at or above each.
#include <memory>

#include "guard.h"
#include "pool.h"
#include "rank_items.h"
#include "rank_tiles.h"

namespace valor {
namespace {

constexpr int64_t kMostColumns = 16;
constexpr int64_t kTileBytes = 32 << 20;  // of elements that a thread holds at a time

// Some columns from `column` on; the points of column j go to row j of the outputs.
struct CurvesRun {
  const RankInput& input;
  const RowClasses& classes;
  FirstError& error;
  int64_t column;
  void *thresholds, *tp, *fp;  // [width, rows]
  int64_t* counts;             // [width]
};

template <class Order>
class CurvesWorker {
 public:
  using Key = typename Order::Key;

  explicit CurvesWorker(const CurvesRun& run)
      : run_(run), rows_(run.input.rows), tile_(new RankTile<Order>(run.input, run.classes, run.error)) {}

  // Columns [begin, end) of the run.
  void run(int64_t begin, int64_t end) {
    const int64_t room = std::max<int64_t>(1, rows_ * static_cast<int64_t>(sizeof(Ranked<Key>)));
    const int64_t step = std::max<int64_t>(1, std::min(kMostColumns, kTileBytes / room));
    for (int64_t j = begin; j < end; j += step) some(j, std::min(step, end - j));
  }

 private:
  void some(int64_t begin, int64_t width) {
    constexpr int64_t kRows = RankTile<Order>::kRows;
    Columns<Key> columns(width, rows_);
    for (int64_t row = 0; row < rows_; row += kRows) {
      const int64_t count = std::min(kRows, rows_ - row);
      tile_->read(row, count, run_.column + begin, width, true);
      for (int64_t j = 0; j < width; ++j) columns.add(j, row, tile_->keys(j), tile_->positive(j), count);
    }
    for (int64_t j = 0; j < width; ++j)
      run_.counts[begin + j] = run_.input.weight
                                   ? write(begin + j, columns.sorted(j), RowWeights{run_.input.weight})
                                   : write(begin + j, columns.sorted(j), NoWeights());
  }

  template <class Weights>
  int64_t write(int64_t j, const RankedRange<Key>& range, const Weights& weights) const {
    using Raw = typename Order::Raw;
    using Sum = typename Weights::Sum;
    const int64_t at = j * rows_;
    return write_points<Order>(
        range, weights,
        Points<Raw, Sum>{static_cast<Raw*>(run_.thresholds) + at, static_cast<Sum*>(run_.tp) + at,
                         static_cast<Sum*>(run_.fp) + at});
  }

  const CurvesRun& run_;
  const int64_t rows_;
  const std::unique_ptr<RankTile<Order>> tile_;
};

}  // namespace
}  // namespace valor

// Writes the points of `width` columns from `column` on, and how many each has. `words`: RankInput;
// `thresholds` are of the dtype of the scores, `tp` and `fp` of int64_t, or of double with weights.
VALOR_API int32_t valor_rank_curves_cpu(const void* words, int64_t column, int64_t width, void* thresholds,
                                        void* tp, void* fp, int64_t* counts, int64_t* error,
                                        int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const RankInput& input = *static_cast<const RankInput*>(words);
    FirstError first;
    check_weights(input, first);
    const RowClasses classes(input, first);
    const CurvesRun run{input, classes, first, column, thresholds, tp, fp, counts};
    with_order(input.type, [&](auto order) {
      auto body = [&](int64_t begin, int64_t end) { CurvesWorker<decltype(order)>(run).run(begin, end); };
      const int64_t grain =
          std::max<int64_t>(1, std::min(kMostColumns, width / std::max<int64_t>(1, threads)));
      parallel_for(width, grain, static_cast<int>(threads), body);
    });
    *error = first.code();
  });
}
