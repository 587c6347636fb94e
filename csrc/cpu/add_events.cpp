// Small updates of the counts of events: numbers that reach a threshold, on both sides, one or neither.
#include "../core/moments.h"
#include "small_batch.h"

namespace valor {
namespace {

// The fields are 64-bit words: Python packs them.
struct EventsPlan {
  int64_t preds_type, target_type;  // as load_number knows them
  int64_t rows;
  double preds_least, target_least;  // from here on a number is an event
};

struct EventsCall {  // addresses
  const void *preds, *target;
  const int64_t* events;  // [5]: hits, misses, false alarms, neither, NaN
  int64_t* new_events;
};

void add_events(const EventsPlan& plan, const EventsCall& call) {
  int64_t found[5] = {};
  for (int64_t row = 0; row < plan.rows; ++row) {
    const double p = load_number(call.preds, row, plan.preds_type);
    const double t = load_number(call.target, row, plan.target_type);
    const bool said = p >= plan.preds_least, real = t >= plan.target_least;
    const int64_t kind = real ? !said : said ? 2 : 3;
    ++found[p != p || t != t ? 4 : kind];
  }
  for (int64_t cell = 0; cell < 5; ++cell) call.new_events[cell] = call.events[cell] + found[cell];
}

}  // namespace
}  // namespace valor

VALOR_API int32_t valor_add_events_cpu(const void* plan_words, const void* call_words) {
  return valor::guarded([&] {
    valor::add_events(*static_cast<const valor::EventsPlan*>(plan_words),
                      *static_cast<const valor::EventsCall*>(call_words));
  });
}
