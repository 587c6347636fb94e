// CPU driver of the scores of two rows.
#include "../core/row_scores.h"

#include <atomic>

#include "guard.h"
#include "pool.h"

namespace valor {
namespace {

struct RowScoreTask {
  const void *first, *second;  // [rows, columns]
  int64_t rows, columns, is_double, kind;
  double* scores;     // [rows]
  int64_t* negative;  // []: set to 1 where a number is below 0
  int64_t threads;
};

template <class Value>
void score_rows(const RowScoreTask& task) {
  const auto *first = static_cast<const Value*>(task.first), *second = static_cast<const Value*>(task.second);
  std::atomic<int64_t> negative{0};
  auto body = [&](int64_t begin, int64_t end) {
    int64_t below = 0;
    for (int64_t i = begin * task.columns; i < end * task.columns; ++i)
      below |= (first[i] < 0) | (second[i] < 0);
    if (below) negative = 1;
    for (int64_t row = begin; row < end; ++row)
      task.scores[row] =
          row_score(task.kind, first + row * task.columns, second + row * task.columns, task.columns);
  };
  const int64_t grain = 1 + (1 << 12) / (task.columns + 1);
  parallel_for(task.rows, grain, static_cast<int>(task.threads), body);
  *task.negative = negative;
}

}  // namespace
}  // namespace valor

// Fills scores, and negative.
VALOR_API int32_t valor_row_scores_cpu(const valor::RowScoreTask* task) {
  return valor::guarded([&] {
    if (task->is_double) {
      valor::score_rows<double>(*task);
    } else {
      valor::score_rows<float>(*task);
    }
  });
}
