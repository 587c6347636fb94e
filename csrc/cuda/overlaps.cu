// Ranking and pairing off of overlaps on CUDA: a thread a detection looks at its pairs, and at the others of
// its datum; a warp a datum pairs off, the best pair that is left at a time. Nothing is sorted, and the host
// does not wait.
#include "../core/overlaps.h"
#include "../core/ragged.h"
#include "launch.h"

namespace valor {
namespace {

constexpr int kOverlapThreads = 128;

__device__ __forceinline__ int64_t thread_number() {
  return static_cast<int64_t>(blockIdx.x) * kOverlapThreads + threadIdx.x;
}

__device__ __forceinline__ void note(int64_t* error, int64_t code) {
  if (code != kNoError) atomicMin(reinterpret_cast<long long*>(error), static_cast<long long>(code));
}

// A thread a datum and a detection.
__global__ void __launch_bounds__(kOverlapThreads)
    check_rows_kernel(const __grid_constant__ OverlapTable table, int64_t* error) {
  const int64_t place = thread_number();
  if (place < table.datums || place == 0) note(error, table.size_error(place));
  if (place < table.rows || place == 0) note(error, table.row_error(place));
}

// A thread a detection, after check_rows_kernel: where that finds an error there may be nothing to look at.
__global__ void __launch_bounds__(kOverlapThreads)
    check_pairs_kernel(const __grid_constant__ OverlapTable table, int64_t* error) {
  const int64_t row = thread_number();
  if (row >= table.rows || *error < overlap_error(kGroundTruth, 0)) return;
  note(error, table.pair_error(row, segment_of(table.first_rows(), table.datums, row)));
}

__global__ void __launch_bounds__(kOverlapThreads)
    choose_kernel(const __grid_constant__ OverlapTable table, const __grid_constant__ RankedRows out,
                  const int64_t* error) {
  const int64_t row = thread_number();
  if (row < table.rows && *error == kNoError) out.choose(table, row);
}

// A thread a detection: the largest IoU of those that go before it to the same ground truth.
__global__ void __launch_bounds__(kOverlapThreads)
    before_kernel(const __grid_constant__ OverlapTable table, const __grid_constant__ RankedRows out,
                  const int64_t* error) {
  const int64_t row = thread_number();
  if (row >= table.rows || *error != kNoError || out.best[row] < 0) return;
  const int64_t datum = segment_of(table.first_rows(), table.datums, row);
  double most = 0.0;
  for (int64_t other = table.first_rows()[datum]; other < table.first_rows()[datum + 1]; ++other)
    if (out.best[other] == out.best[row] && table.score(other) > 0.0 && out.ious[other] > most &&
        out.goes_before(table, other, row))
      most = out.ious[other];
  out.before[row] = most;
}

// Pairs the detections of a datum off, by the lanes of a warp. A place of `pairs` holds the pair of a
// detection: one that it has taken, kNone, or kWants - pair for the best that it still may take.
template <class Rule>
class PairOff {
 public:
  static constexpr int64_t kNone = -1, kWants = -2;

  __device__ __forceinline__ PairOff(const OverlapTable& table, const Rule& rule, int64_t datum,
                                     int64_t* pairs, uint8_t* taken)
      : table_(table),
        rule_(rule),
        pairs_(pairs),
        taken_(taken),
        first_(table.first_rows()[datum]),
        end_(table.first_rows()[datum + 1]) {}

  // Every round takes a pair, so that there are no more rounds than detections.
  __device__ __forceinline__ void run() const {
    for (int64_t row = first_ + warp_.lane(); row < end_; row += 32) want(row);
    for (int64_t row = first_row(); row >= 0; row = first_row()) {
      const int64_t pair = kWants - pairs_[row], gt = table_.gt(pair);
      warp_.sync();  // every lane has read the pair
      if (warp_.lane() == 0) {
        pairs_[row] = pair;
        taken_[gt] = 1;
      }
      warp_.sync();
      for (int64_t other = first_ + warp_.lane(); other < end_; other += 32)
        if (wants(other) && table_.gt(kWants - pairs_[other]) == gt) want(other);
    }
  }

 private:
  __device__ __forceinline__ bool wants(int64_t row) const { return pairs_[row] <= kWants; }

  __device__ __forceinline__ void want(int64_t row) const {
    const Overlap found = table_.best(
        row, [&](int64_t pair) { return rule_.allows(table_, row, pair) && !taken_[table_.gt(pair)]; });
    pairs_[row] = found.pair < 0 ? kNone : kWants - found.pair;
  }

  __device__ __forceinline__ int64_t earlier(int64_t a, int64_t b) const {
    if (a < 0 || b < 0) return a < 0 ? b : a;
    if (a == b) return a;
    return rule_.goes_before(table_, b, kWants - pairs_[b], a, kWants - pairs_[a]) ? b : a;
  }

  // The detection whose turn it is, the same in all lanes; -1 for none.
  __device__ __forceinline__ int64_t first_row() const {
    int64_t row = -1;
    warp_.sync();
    for (int64_t other = first_ + warp_.lane(); other < end_; other += 32)
      if (wants(other)) row = earlier(row, other);
    for (int by = 16; by; by /= 2) row = earlier(row, warp_.from(row, warp_.lane() ^ by));
    return row;
  }

  const Warp warp_{};
  const OverlapTable& table_;
  const Rule& rule_;
  int64_t* const pairs_;
  uint8_t* const taken_;
  const int64_t first_, end_;
};

__device__ __forceinline__ int64_t warp_number() { return thread_number() / 32; }

constexpr int kPairOffBlocks = 8;  // of a multiprocessor: without it registers are spilled to fit more

// A warp a datum. `pairs` is int64 [D], `taken` [G] of zeros.
__global__ void __launch_bounds__(kOverlapThreads, kPairOffBlocks)
    document_kernel(const __grid_constant__ OverlapTable table, const __grid_constant__ RankedRows out,
                    int64_t* pairs, uint8_t* taken, const int64_t* error) {
  const int64_t datum = warp_number();
  if (datum >= table.datums || *error != kNoError) return;
  PairOff<DocRule>(table, DocRule{}, datum, pairs, taken).run();
  for (int64_t row = table.first_rows()[datum] + (threadIdx.x & 31); row < table.first_rows()[datum + 1];
       row += 32) {
    out.best[row] = pairs[row] < 0 ? -1 : table.gt(pairs[row]);
    out.ious[row] = pairs[row] < 0 ? 0.0 : table.iou(pairs[row]);
  }
}

// A warp a datum and threshold. `partners` is int64 [T, D], `taken` [T, G] of zeros.
__global__ void __launch_bounds__(kOverlapThreads, kPairOffBlocks)
    confuse_kernel(const __grid_constant__ OverlapTable table, const double* thresholds, int64_t count,
                   int32_t dissolve, int64_t* partners, uint8_t* taken, const int64_t* error) {
  const int64_t task = warp_number();
  if (task >= table.datums * count || *error != kNoError) return;
  const int64_t t = task / table.datums, datum = task - t * table.datums;
  const ConfuseRule rule{dissolve ? 0.0 : thresholds[t]};
  int64_t* const pairs = partners + t * table.rows;
  PairOff<ConfuseRule>(table, rule, datum, pairs, taken + t * table.gts).run();
  for (int64_t row = table.first_rows()[datum] + (threadIdx.x & 31); row < table.first_rows()[datum + 1];
       row += 32)
    pairs[row] = pairs[row] >= 0 && table.iou(pairs[row]) >= thresholds[t] ? table.gt(pairs[row]) : -1;
}

unsigned overlap_blocks(int64_t threads) {
  return static_cast<unsigned>((threads + kOverlapThreads - 1) / kOverlapThreads);
}

// Looks at all columns; `error` keeps the first code.
int32_t check_table(const OverlapTable& table, int64_t* error, void* stream) {
  const int64_t places = table.datums > table.rows ? table.datums : table.rows;
  int32_t status = VALOR_LAUNCH(check_rows_kernel, overlap_blocks(places > 0 ? places : 1), kOverlapThreads,
                                0, stream, table, error);
  if (status == 0 && table.rows > 0)
    status = VALOR_LAUNCH(check_pairs_kernel, overlap_blocks(table.rows), kOverlapThreads, 0, stream, table,
                          error);
  return status;
}

}  // namespace
}  // namespace valor

// Ranks the detections of an OverlapTable on the device. `pairs` is int64 [D] and `taken` [G] of zeros, for
// the pairing of the document alone; `error` holds kNoError, and receives the first error code.
VALOR_API int32_t valor_rank_overlaps_cuda(const void* table_words, int32_t document, int64_t* best,
                                           double* ious, double* before, double* others, int64_t* pairs,
                                           uint8_t* taken, int64_t* error, void* stream) {
  using namespace valor;
  const OverlapTable& table = *static_cast<const OverlapTable*>(table_words);
  const RankedRows out{best, ious, before, others};
  int32_t status = check_table(table, error, stream);
  if (status != 0 || table.rows == 0) return status;
  status =
      VALOR_LAUNCH(choose_kernel, overlap_blocks(table.rows), kOverlapThreads, 0, stream, table, out, error);
  if (status != 0) return status;
  if (!document)
    return VALOR_LAUNCH(before_kernel, overlap_blocks(table.rows), kOverlapThreads, 0, stream, table, out,
                        error);
  return VALOR_LAUNCH(document_kernel, overlap_blocks(32 * table.datums), kOverlapThreads, 0, stream, table,
                      out, pairs, taken, error);
}

// Pairs detections off at each threshold: `partners` is int64 [thresholds, D], a ground truth or -1, and
// `taken` [thresholds, G] of zeros; `error` as above.
VALOR_API int32_t valor_confuse_overlaps_cuda(const void* table_words, const double* thresholds,
                                              int64_t count, int32_t dissolve, int64_t* partners,
                                              uint8_t* taken, int64_t* error, void* stream) {
  using namespace valor;
  const OverlapTable& table = *static_cast<const OverlapTable*>(table_words);
  const int32_t status = check_table(table, error, stream);
  if (status != 0 || table.rows == 0 || table.datums * count == 0) return status;
  return VALOR_LAUNCH(confuse_kernel, overlap_blocks(32 * table.datums * count), kOverlapThreads, 0, stream,
                      table, thresholds, count, dissolve, partners, taken, error);
}
