// Exact ROC AUC and average precision of columns that torch sorts whole: for a target per element, or
// weights.
#include "rank_task.h"

namespace valor {
namespace {

// Some columns from `column` on, turned around.
template <class Key>
struct SortedColumns {
  int64_t column, width;
  Key* keys;             // [width, rows] upside down: ascending keys descend by score
  const int64_t* order;  // [width, rows] rows
  void *tp, *fp;         // [width, rows] running sums
  uint32_t* places;      // [width, rows] of the positives
};

// 32 x 32 elements a block, 256 threads.
template <class Order>
__global__ void __launch_bounds__(kThreads)
    keys_kernel(const __grid_constant__ RankTask task,
                const __grid_constant__ SortedColumns<typename Order::Key> columns) {
  using Key = typename Order::Key;
  VALOR_SHARED(Key, tile, [32][33]);
  const int64_t row0 = static_cast<int64_t>(blockIdx.x) * 32, j0 = static_cast<int64_t>(blockIdx.y) * 32;
  const int x = threadIdx.x % 32;
  for (int y = threadIdx.x / 32; y < 32; y += kThreads / 32) {
    const int64_t row = row0 + y, j = j0 + x, column = columns.column + j;
    if (row >= task.rows || j >= columns.width) continue;
    const Truth truth = task.target.at(row, column);
    const bool counts = truth == kPositive || truth == kNegative;
    Key key = Order::kLeftOut;
    if (truth == kBadTruth) note(task, value_error(row, task.target.per_element ? column : 0, kTarget));
    if (counts) {
      const auto raw = Order::raw(task, row, column);
      key = Order::key(raw);
      if (Order::is_nan(raw)) note(task, value_error(row, column, kNanScore));
    }
    if (task.weight) {
      const double weight = task.weight[row];
      if (counts && !good_weight(weight)) note(task, value_error(row, 0, kWeight));
      if (!(weight > 0.0)) key = Order::kLeftOut;
    }
    tile[y][x] = ~key;
  }
  __syncthreads();
  for (int y = threadIdx.x / 32; y < 32; y += kThreads / 32) {
    const int64_t row = row0 + x, j = j0 + y;
    if (row < task.rows && j < columns.width) columns.keys[j * task.rows + row] = tile[x][y];
  }
}

__device__ __forceinline__ double weight_of(const RankTask& task, int64_t row, double) {
  return task.weight[row];
}
__device__ __forceinline__ int64_t weight_of(const RankTask&, int64_t, int64_t) { return 1; }

// One block per column: running sums, one thread per stretch, then the positives, one thread per lane.
template <class Key, class Sum>
class ColumnBlock {
 public:
  struct Shared {
    Sum tp[kLanes + 1], fp[kLanes + 1];
    long long positives[kLanes + 1];
    double parts[kLanes];
    Sum wins[kLanes];
  };

  __device__ __forceinline__ ColumnBlock(const RankTask& task, const SortedColumns<Key>& columns,
                                         Shared& shared)
      : task_(task), shared_(shared), column_(columns.column + blockIdx.x) {
    const int64_t start = static_cast<int64_t>(blockIdx.x) * task.rows;
    keys_ = columns.keys + start, order_ = columns.order + start, places_ = columns.places + start;
    tp_ = static_cast<Sum*>(columns.tp) + start, fp_ = static_cast<Sum*>(columns.fp) + start;
    const Key left_out = static_cast<Key>(sizeof(Key) == 8 ? INT64_MAX : INT32_MAX);
    const Key* keys = keys_;
    count_ = partition_point(task.rows, [=](int64_t i) { return keys[i] < left_out; });
    const int64_t size = (count_ + kLanes - 1) / kLanes;
    begin_ = size * threadIdx.x < count_ ? size * threadIdx.x : count_;
    end_ = begin_ + size < count_ ? begin_ + size : count_;
  }

  __device__ __forceinline__ void run() {
    add_stretches();
    walk<true>(shared_.tp[threadIdx.x], shared_.fp[threadIdx.x], shared_.positives[threadIdx.x]);
    __syncthreads();
    finish();
  }

 private:
  // Adds up a stretch; with kWrite notes the running sums and the places of positives. Leaves the sums of the
  // stretch alone.
  template <bool kWrite>
  __device__ __forceinline__ void walk(Sum& tp, Sum& fp, long long& positives) {
    const Sum tp_before = kWrite ? tp : 0, fp_before = kWrite ? fp : 0;
    Sum tp_inside = 0, fp_inside = 0;
    long long k = kWrite ? positives : 0;
    for (int64_t i = begin_; i < end_; ++i) {
      const int64_t row = order_[i];
      const Sum weight = weight_of(task_, row, Sum{});
      if (task_.target.at(row, column_) == kPositive) {
        if (kWrite) places_[k] = static_cast<uint32_t>(i);
        tp_inside += weight, ++k;
      } else {
        fp_inside += weight;
      }
      if (kWrite) tp_[i] = tp_before + tp_inside, fp_[i] = fp_before + fp_inside;
    }
    if (!kWrite) tp = tp_inside, fp = fp_inside, positives = k;
  }

  // Leaves in shared memory what stands before each stretch, at the end what all are.
  __device__ __forceinline__ void add_stretches() {
    const unsigned next = threadIdx.x + 1;
    walk<false>(shared_.tp[next], shared_.fp[next], shared_.positives[next]);
    if (threadIdx.x == 0) shared_.tp[0] = shared_.fp[0] = 0, shared_.positives[0] = 0;
    __syncthreads();
    if (threadIdx.x == 0)
      for (int s = 0; s < kLanes; ++s) {
        shared_.tp[s + 1] += shared_.tp[s], shared_.fp[s + 1] += shared_.fp[s];
        shared_.positives[s + 1] += shared_.positives[s];
      }
    __syncthreads();
  }

  __device__ __forceinline__ void finish() {
    const Sum all_tp = shared_.tp[kLanes], all_fp = shared_.fp[kLanes];
    Sum wins = 0;
    double precisions = 0.0;
    for (long long k = threadIdx.x; k < shared_.positives[kLanes]; k += kLanes) {
      const int64_t i = places_[k], first = first_equal(keys_, i), last = last_equal(keys_, i, count_);
      const Standing<Sum> at{tp_[last], fp_[last], first ? fp_[first - 1] : Sum{}};
      const Sum weight = weight_of(task_, order_[i], Sum{});
      wins += weight * wins_of(at, all_fp);
      precisions += static_cast<double>(weight) * precision_of(at);
    }
    wins = block_sum(shared_.wins, wins);
    precisions = block_sum(shared_.parts, precisions);
    if (threadIdx.x == 0) write_auroc_and_ap<Sum>(task_, column_, wins, precisions, all_tp, all_fp);
  }

  const RankTask& task_;
  Shared& shared_;
  const int64_t column_;
  const Key* keys_;
  const int64_t* order_;
  uint32_t* places_;
  Sum *tp_, *fp_;
  int64_t count_, begin_, end_;
};

template <class Key, class Sum>
__global__ void __launch_bounds__(kThreads)
    column_kernel(const __grid_constant__ RankTask task, const __grid_constant__ SortedColumns<Key> columns) {
  using Shared = typename ColumnBlock<Key, Sum>::Shared;
  VALOR_SHARED(Shared, shared);
  ColumnBlock<Key, Sum>(task, columns, shared).run();
}

}  // namespace
}  // namespace valor

// Writes the keys [width, rows] of the columns from `column` on; torch sorts each.
VALOR_API int32_t valor_rank_keys_cuda(const void* words, int64_t column, int64_t width, void* keys,
                                       void* stream) {
  using namespace valor;
  const RankTask& task = *static_cast<const RankTask*>(words);
  int32_t status = 0;
  with_order(task.type, [&](auto order) {
    using Order = SignedOrder<decltype(order)>;
    const SortedColumns<typename Order::Key> columns{
        column, width, static_cast<typename Order::Key*>(keys), nullptr, nullptr, nullptr, nullptr};
    const dim3 grid(blocks_of(task.rows, 32), blocks_of(width, 32));
    if (task.rows > 0) status = VALOR_LAUNCH(keys_kernel<Order>, grid, kThreads, 0, stream, task, columns);
  });
  return status;
}

// Fills the AUROC and AP of these columns from their sorted keys and the rows of these; `tp` and `fp` [width,
// rows] have 8 bytes per element, `places` 4.
VALOR_API int32_t valor_rank_columns_cuda(const void* words, int64_t column, int64_t width, void* keys,
                                          const int64_t* order, void* tp, void* fp, uint32_t* places,
                                          void* stream) {
  using namespace valor;
  const RankTask& task = *static_cast<const RankTask*>(words);
  int32_t status = 0;
  with_order(task.type, [&](auto found) {
    using Key = typename SignedOrder<decltype(found)>::Key;
    const SortedColumns<Key> columns{column, width, static_cast<Key*>(keys), order, tp, fp, places};
    const unsigned blocks = static_cast<unsigned>(width);
    status = task.weight
                 ? VALOR_LAUNCH((column_kernel<Key, double>), blocks, kThreads, 0, stream, task, columns)
                 : VALOR_LAUNCH((column_kernel<Key, int64_t>), blocks, kThreads, 0, stream, task, columns);
  });
  return status;
}
