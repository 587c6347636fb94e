// Predicted classes of a small batch, for tables of true and predicted classes.
#pragma once
#include "../core/labels.h"
#include "label_calls.h"
#include "small_batch.h"

namespace valor {

// Calls count(rows, error) with the rows of true and predicted class; refuses a batch with a bad value.
template <class Count>
void count_class_rows(const SmallBatch& batch, const void* preds, const Target& target, int64_t top_k,
                      Count count) {
  std::vector<int32_t> predicted(batch.hard ? 0 : batch.rows);
  int64_t error = kNoError;
  if (!batch.hard)
    require(
        valor_predict_top_cpu(preds, batch.type, batch.rows, &target, top_k, predicted.data(), &error, 1));
  const int64_t type = batch.hard ? batch.type : static_cast<int64_t>(kInt32);
  const PairRows rows{batch.hard ? preds : predicted.data(), type, !batch.hard, nullptr, batch.rows, target};
  require(count(rows, &error));
  if (error != kNoError) throw Refused();
}

}  // namespace valor
