// Updates of class counts and confusion matrices of the multiclass task.
#include "../core/labels.h"
#include "entries.h"
#include "updates.h"

namespace valor {
namespace {

struct ClassBatch {
  UpdateBatch batch;
  int64_t top_k;
  int64_t pixels;   // of an image of scores [images, C, pixels]; 0: scores are [rows, C]
  int64_t scratch;  // words
};

// Scratch memory: words, `counts` cells, and of scores the predicted class of each row.
bool fits(const ClassBatch& task, int64_t counts) {
  return BatchWords::kSize + counts + (task.batch.hard ? 0 : (task.batch.rows + 1) / 2) <= task.scratch;
}

int32_t start(const ClassBatch& task, const TableUpdate& update, const Target& target, int64_t counts) {
  const BatchWords words = {kNoError, task.batch.rows, 0, 0, 0};
  const int32_t status = begin(update.scratch, words, counts, update.stream);
  return status ? status : count_ignored(target, task.batch.rows, &update.words()->ignored, update.stream);
}

int32_t* predicted_at(const TableUpdate& update, int64_t counts) {
  return reinterpret_cast<int32_t*>(update.counts() + counts);
}

// The class that each row of scores predicts.
int32_t predict(const ClassBatch& task, const TableUpdate& update, const Target& target, int64_t counts) {
  const UpdateBatch& batch = task.batch;
  int64_t* const error = &update.words()->error;
  int32_t* const predicted = predicted_at(update, counts);
  if (task.pixels)
    return valor_predict_maps_cuda(update.preds, batch.type, batch.rows / task.pixels, task.pixels, &target,
                                   predicted, error, update.stream);
  return valor_predict_top_cuda(update.preds, batch.type, batch.rows, &target, task.top_k, predicted, nullptr,
                                error, update.stream);
}

// Rows of labels, or of what scores predict.
PairRows pairs_of(const ClassBatch& task, const TableUpdate& update, const Target& target, int64_t counts) {
  const UpdateBatch& batch = task.batch;
  if (batch.hard) return {update.preds, batch.type, 0, nullptr, batch.rows, target};
  return {predicted_at(update, counts), kInt32, 1, nullptr, batch.rows, target};
}

}  // namespace
}  // namespace valor

// words: a ClassBatch. addresses: a TableUpdate, whose table is float64 [4, C]: true positives, predicted,
// true and total.
VALOR_API int32_t valor_add_class_counts_cuda(const void* words, const void* addresses) {
  using namespace valor;
  const ClassBatch& task = *static_cast<const ClassBatch*>(words);
  const TableUpdate& update = *static_cast<const TableUpdate*>(addresses);
  const UpdateBatch& batch = task.batch;
  const Target target = batch.target_at(update.target);
  const int64_t classes = target.classes, counts = 3 * classes;
  int64_t* const error = &update.words()->error;
  if (!fits(task, counts)) return kRefused;
  int32_t status = start(task, update, target, counts);
  const PairRows pairs = pairs_of(task, update, target, counts);
  if (status == 0 && !batch.hard) status = predict(task, update, target, counts);
  if (status == 0)
    status = valor_count_labels_cuda(&pairs, batch.rows, nullptr, update.counts(), error, update.stream);
  const int64_t* const true_rows = update.counts() + 2 * classes;
  const MergeTask merged = {{
      {update.old_table, update.counts(), update.table, counts, kAddCounts},
      {update.old_table + counts, true_rows, update.table + counts, classes, kAddTotal, classes},
      update.seen_piece(batch.rows),
      update.error_piece(),
  }};
  return status ? status : merge(merged, update.stream);
}

// Likewise with a table float64 [C, C], rows are true classes; top_k is 1.
VALOR_API int32_t valor_add_class_pairs_cuda(const void* words, const void* addresses) {
  using namespace valor;
  const ClassBatch& task = *static_cast<const ClassBatch*>(words);
  const TableUpdate& update = *static_cast<const TableUpdate*>(addresses);
  const UpdateBatch& batch = task.batch;
  const Target target = batch.target_at(update.target);
  const int64_t cells = target.classes * target.classes;
  int64_t* const matrix = update.counts();
  int64_t* const error = &update.words()->error;
  if (!fits(task, cells)) return kRefused;
  int32_t status = start(task, update, target, cells);
  if (status) return status;
  if (batch.hard || task.pixels) {
    const PairRows pairs = pairs_of(task, update, target, cells);
    if (!batch.hard) status = predict(task, update, target, cells);
    if (status) return status;
    status = valor_count_pairs_cuda(&pairs, batch.rows, nullptr, matrix, error, update.stream);
  } else {
    status = valor_confuse_scores_cuda(update.preds, batch.type, batch.rows, &target, batch.rows,
                                       predicted_at(update, cells), matrix, error, update.stream);
  }
  const MergeTask merged = {{
      {update.old_table, matrix, update.table, cells, kAddCounts},
      update.seen_piece(batch.rows),
      update.error_piece(),
  }};
  return status ? status : merge(merged, update.stream);
}
