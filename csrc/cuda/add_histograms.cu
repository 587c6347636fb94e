// Updates of histograms of scores, and of counts at one threshold in the binary and multilabel tasks.
#include "entries.h"
#include "launch.h"
#include "sweep_tiles.h"
#include "updates.h"

namespace valor {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 4096;

struct HistogramBatch {
  UpdateBatch batch;
  int64_t thresholds;
  const void* tables;    // on the device: what valor_sweep_lookup_cuda gave
  const int64_t* words;  // on the host
  int64_t reading;       // a Reading, not kProbabilities
  int64_t guess;         // whether scores are read so only if one lies outside [0, 1]
  int64_t matrices;      // of counts at one threshold: whether they become [L, 2, 2]
  int64_t scratch;       // words

  bool per_element() const { return batch.target.per_element != 0; }
  int64_t classes() const { return batch.target.classes; }
  int64_t elements() const { return batch.rows * (per_element() ? classes() : 1); }
  int64_t counts() const { return 2 * classes() * (thresholds + 1); }
  // Words of scratch memory behind the counts: labels as float32, shares of the softmax, flags of rows.
  int64_t labels() const { return batch.hard ? (batch.rows * classes() + 1) / 2 : 0; }
  int64_t shares() const { return reading == kSoftmax ? batch.rows + 1 : 0; }
  int64_t flags() const { return per_element() ? 0 : (batch.rows + 7) / 8; }
  bool fits() const { return BatchWords::kSize + counts() + labels() + shares() + flags() <= scratch; }
};

struct Labels {
  const void* from;
  int64_t type;  // an IntType
  int64_t count;
  float* to;
};

// 0 and 1 as scores, anything else as NaN.
__global__ void __launch_bounds__(kThreads) label_kernel(const __grid_constant__ Labels labels) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < labels.count; i += step) {
    const int64_t label = load_int(labels.from, i, static_cast<IntType>(labels.type));
    labels.to[i] = label == 0 || label == 1 ? static_cast<float>(label) : __builtin_nanf("");
  }
}

int32_t read_labels(const Labels& labels, void* stream) {
  const int64_t blocks = (labels.count + kThreads - 1) / kThreads;
  return VALOR_LAUNCH(label_kernel, static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks),
                      kThreads, 0, stream, labels);
}

// Clears scratch memory and counts the batch in it.
int32_t count(const HistogramBatch& task, const TableUpdate& update) {
  const UpdateBatch& batch = task.batch;
  const Target target = batch.target_at(update.target);
  BatchWords* const words = update.words();
  int64_t* const counts = update.counts();
  int64_t* const labels = counts + task.counts();
  int64_t* const shares = labels + task.labels();
  int64_t* const flags = shares + task.shares();
  if (!task.fits()) return kRefused;
  int32_t status =
      begin(update.scratch, {kNoError, batch.rows, 0, 0, task.guess}, task.counts(), update.stream);
  if (status == 0) status = count_ignored(target, task.elements(), &words->ignored, update.stream);
  if (status == 0 && batch.hard)
    status = read_labels({update.preds, batch.type, task.elements(), reinterpret_cast<float*>(labels)},
                         update.stream);
  if (status) return status;
  const void* const scores = batch.hard ? labels : update.preds;
  const int64_t type = batch.hard ? static_cast<int64_t>(kFloat32) : batch.type;
  if (task.reading == kAsTheyAre)
    return valor_sweep_cuda(scores, type, batch.rows, &target, task.tables, task.words, nullptr, batch.rows,
                            flags, counts, &words->error, update.stream);
  int64_t served = 0;
  status = valor_sweep_activated_cuda(scores, type, batch.rows, &target, task.tables, task.words,
                                      task.reading, flags, shares, task.guess ? &words->logits : nullptr,
                                      counts, &words->error, &served, update.stream);
  return status || served ? status : kRefused;
}

// A TableUpdate with one field more.
struct HistogramUpdate {
  const void* preds;
  const void* target;
  const double* old_table;
  const int64_t* old_seen;
  const double* old_lightest;
  const int64_t* old_error;
  double* table;
  int64_t* seen;
  double* lightest;
  int64_t* error;
  int64_t* scratch;
  void* stream;

  TableUpdate table_update() const {
    return {preds, target, old_table, old_seen, old_error, table, seen, error, scratch, stream};
  }
};

}  // namespace
}  // namespace valor

// words: a HistogramBatch. addresses: a HistogramUpdate, whose table is float64 [2, C, thresholds + 1].
VALOR_API int32_t valor_add_histogram_cuda(const void* words, const void* addresses) {
  using namespace valor;
  const HistogramBatch& task = *static_cast<const HistogramBatch*>(words);
  const HistogramUpdate& given = *static_cast<const HistogramUpdate*>(addresses);
  const TableUpdate update = given.table_update();
  if (const int32_t status = count(task, update)) return status;
  const MergeTask merged = {{
      {update.old_table, update.counts(), update.table, task.counts(), kAddCounts},
      update.seen_piece(task.elements()),
      {given.old_lightest, nullptr, given.lightest, 1, kAtMostOne},
      update.error_piece(),
  }};
  return merge(merged, update.stream);
}

// words: a HistogramBatch of one threshold. addresses: a TableUpdate, whose table is float64 [4, L], true
// positives, predicted, true and total, or with `matrices` [L, 2, 2], rows are true.
VALOR_API int32_t valor_add_element_counts_cuda(const void* words, const void* addresses) {
  using namespace valor;
  const HistogramBatch& task = *static_cast<const HistogramBatch*>(words);
  const TableUpdate& update = *static_cast<const TableUpdate*>(addresses);
  if (const int32_t status = count(task, update)) return status;
  Piece error = update.error_piece();
  if (task.batch.hard) error.how = kLeastError;
  const MergeTask merged = {{
      {update.old_table, update.counts(), update.table, 4 * task.classes(),
       task.matrices ? kAddConfusions : kAddOutcomes, task.classes()},
      update.seen_piece(task.elements()),
      error,
  }};
  return merge(merged, update.stream);
}
