// CPU driver of outcomes by bin of the score: one thread, since a cell belongs to no row.
#include <algorithm>

#include "../core/score_bins.h"
#include "guard.h"
#include "simd.h"

namespace valor {
namespace {

VALOR_CLONES void add_bits(uint64_t bits, int64_t count, int64_t* cells) {
  for (int64_t s = 0; s < count; ++s) cells[s] += static_cast<int64_t>(bits >> s & 1);
}

void count_outcomes(const OutcomeTask& task) {
  const int64_t bytes = task.setting_bytes(), settings = task.settings;
  for (int64_t row = 0; row < task.rows; ++row) {
    int64_t *cell, *hits;
    if (!task.find(row, &cell, &hits)) continue;
    const uint8_t* field = task.record(row) + 13;
    for (int64_t first = 0; first < settings; first += 64) {
      const int64_t count = std::min<int64_t>(64, settings - first);
      const uint64_t counted = ~load_bits(field + bytes, bytes, first);
      const uint64_t hit = load_bits(field, bytes, first) & counted;
      add_bits(counted, count, cell + settings + first);
      if (hit == 0) continue;
      add_bits(hit, count, cell + first);
      add_bits(hit, count, hits + first);
    }
  }
}

}  // namespace
}  // namespace valor

// task_words are an OutcomeTask.
VALOR_API int32_t valor_count_outcomes_cpu(const void* task_words) {
  return valor::guarded([&] { valor::count_outcomes(*static_cast<const valor::OutcomeTask*>(task_words)); });
}
