// Sums of weighted values of units, many replicates side by side: unit after unit, so that the bits are the
// same for any number of threads and lanes.
#include <algorithm>

#include "../core/platform.h"
#include "guard.h"
#include "pool.h"
#include "simd.h"

namespace valor {
namespace {

constexpr int64_t kLanesAtOnce = 64;

template <class Value>
struct WeightedSums {
  const Value* values;  // [units, columns]
  int64_t units, columns;
  const uint8_t* weights;  // [units, lanes]
  int64_t lanes;
  Value* sums;  // [columns, lanes]
};

template <class Value, int kWidth>
VALOR_INLINE void add_lanes(const WeightedSums<Value>& task, int64_t column, int64_t lane) {
  Value sums[kWidth];
  Value* to = task.sums + column * task.lanes + lane;
  for (int l = 0; l < kWidth; ++l) sums[l] = to[l];
  const Value* from = task.values + column;
  const uint8_t* weights = task.weights + lane;
  for (int64_t u = 0; u < task.units; ++u, from += task.columns, weights += task.lanes) {
    const Value value = *from;
    for (int l = 0; l < kWidth; ++l) sums[l] += static_cast<Value>(weights[l]) * value;
  }
  for (int l = 0; l < kWidth; ++l) to[l] = sums[l];
}

template <class Value>
VALOR_INLINE void add_column(const WeightedSums<Value>& task, int64_t column, int64_t lane) {
  const int64_t end = std::min(task.lanes, lane + kLanesAtOnce);
  for (; lane + 64 <= end; lane += 64) add_lanes<Value, 64>(task, column, lane);
  for (; lane + 16 <= end; lane += 16) add_lanes<Value, 16>(task, column, lane);
  for (; lane < end; ++lane) add_lanes<Value, 1>(task, column, lane);
}

VALOR_FUSED_CLONES void add_some(const WeightedSums<double>& task, int64_t column, int64_t lane) {
  add_column(task, column, lane);
}
VALOR_FUSED_CLONES void add_some(const WeightedSums<int64_t>& task, int64_t column, int64_t lane) {
  add_column(task, column, lane);
}

template <class Value>
void add_all(const WeightedSums<Value>& task, int64_t threads) {
  const int64_t blocks = (task.lanes + kLanesAtOnce - 1) / kLanesAtOnce;
  auto add = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) add_some(task, i / blocks, i % blocks * kLanesAtOnce);
  };
  parallel_for(task.columns * blocks, 1, static_cast<int>(threads), add);
}

}  // namespace
}  // namespace valor

// Adds weights [units, lanes] times values [units, columns] to `sums` [columns, lanes].
VALOR_API int32_t valor_add_weighted_cpu(const double* values, int64_t units, int64_t columns,
                                         const uint8_t* weights, int64_t lanes, double* sums,
                                         int64_t threads) {
  return valor::guarded(
      [&] { valor::add_all<double>({values, units, columns, weights, lanes, sums}, threads); });
}

VALOR_API int32_t valor_add_weighted_integers_cpu(const int64_t* values, int64_t units, int64_t columns,
                                                  const uint8_t* weights, int64_t lanes, int64_t* sums,
                                                  int64_t threads) {
  return valor::guarded(
      [&] { valor::add_all<int64_t>({values, units, columns, weights, lanes, sums}, threads); });
}
