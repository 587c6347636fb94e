// Small updates of the counts of events: numbers that reach a threshold, on both sides, one or neither.
#include <algorithm>

#include "../core/moments.h"
#include "small_batch.h"

namespace valor {
namespace {

// The fields are 64-bit words: Python packs them.
struct EventsPlan {
  int64_t preds_type, target_type;  // as load_number knows them
  int64_t rows;
  double preds_least, target_least;  // from here on a number is an event
  int64_t steps, inner;  // of a sequence, and numbers behind one another of a step; 0: no sequence
};

// Addresses: both sides; old counts [5] and new ones, or of a sequence those of the batch [steps, 5]. Counts
// are hits, misses, false alarms, neither, NaN.
struct EventsCall {
  const void *preds, *target;
  int64_t *first, *second;
};

constexpr int64_t kEvents = 5;

int64_t event_kind(const EventsPlan& plan, double p, double t) {
  if (p != p || t != t) return 4;
  const bool said = p >= plan.preds_least;
  return t >= plan.target_least ? !said : said ? 2 : 3;
}

void add_events(const EventsPlan& plan, const EventsCall& call) {
  const int64_t steps = std::max<int64_t>(plan.steps, 1), inner = std::max<int64_t>(plan.inner, 1);
  int64_t* const found = plan.steps ? call.first : call.second;
  for (int64_t cell = 0; cell < steps * kEvents; ++cell) found[cell] = plan.steps ? 0 : call.first[cell];
  for (int64_t row = 0; row < plan.rows;)
    for (int64_t step = 0; step < steps; ++step)
      for (int64_t i = 0; i < inner; ++i, ++row)
        ++found[step * kEvents + event_kind(plan, load_number(call.preds, row, plan.preds_type),
                                            load_number(call.target, row, plan.target_type))];
}

}  // namespace
}  // namespace valor

VALOR_API int32_t valor_add_events_cpu(const void* plan_words, const void* call_words) {
  return valor::guarded([&] {
    valor::add_events(*static_cast<const valor::EventsPlan*>(plan_words),
                      *static_cast<const valor::EventsCall*>(call_words));
  });
}
