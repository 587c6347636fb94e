// Exact ROC AUC and average precision. With class indices every row has one positive: the positives of all
// classes are as many as the rows, are sorted, and each score looks its place among those of its column up.
// With other targets, or weights, columns are sorted whole. torch sorts in between.
#include "../core/ranks.h"
#include "../core/sort.h"
#include "launch.h"

namespace valor {
namespace {

constexpr int kThreads = kLanes;  // a thread a part of a sum
constexpr unsigned kAll = 0xffffffffu;

// Arguments of the op. Fields are 64-bit words, packed by valor_gpu/ops/_ranks_cuda.py.
struct RankTask {
  const void* scores;  // [rows, target.classes]
  int64_t type, rows;
  const double* weight;  // [rows] or null
  Target target;
  double* areas;     // [2, C]
  void* totals;      // [2, C] of int64_t, or of double with weights
  int64_t* problem;  // holds kFine
};

// Keys as torch sorts them: signed. The least stands for what is left out.
template <class Order>
struct SignedOrder {
  using Raw = typename Order::Raw;
  using Key = std::conditional_t<sizeof(Raw) == 8, int64_t, int32_t>;
  using Unsigned = typename Order::Key;
  static constexpr Unsigned kTop = Unsigned{1} << (8 * sizeof(Unsigned) - 1);
  static constexpr Key kLeftOut = static_cast<Key>(kTop);

  __device__ __forceinline__ static Raw raw(const RankTask& task, int64_t row, int64_t column) {
    return static_cast<const Raw*>(task.scores)[row * task.target.classes + column];
  }
  __device__ __forceinline__ static bool is_nan(Raw raw) { return Order::is_nan(raw); }
  __device__ __forceinline__ static Key key(Raw raw) { return static_cast<Key>(Order::key(raw) ^ kTop); }
};

__device__ __forceinline__ void note(const RankTask& task, int64_t word) {
  atomicMin(reinterpret_cast<long long*>(task.problem), static_cast<long long>(word));
}

// Sum over the block, the upper half of the lanes into the lower; every thread gets it.
template <class Sum>
__device__ __forceinline__ Sum block_sum(Sum* parts, Sum value) {
  __syncthreads();
  parts[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = kLanes / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  return parts[0];
}

// Sum up to this thread.
__device__ __forceinline__ long long block_scan(long long* warps, long long value) {
  const unsigned lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  for (unsigned by = 1; by < 32; by *= 2) {
    const long long below = __shfl_up_sync(kAll, value, by);
    if (lane >= by) value += below;
  }
  __syncthreads();
  if (lane == 31) warps[warp] = value;
  __syncthreads();
  for (unsigned w = 0; w < warp; ++w) value += warps[w];
  return value;
}

template <class Sum>
__device__ __forceinline__ void write_areas(const RankTask& task, int64_t c, Sum wins, double precisions,
                                            Sum positives, Sum negatives) {
  const int64_t C = task.target.classes;
  Sum* totals = static_cast<Sum*>(task.totals);
  task.areas[c] = auc_of(wins, positives, negatives);
  task.areas[C + c] = average_of(precisions, positives);
  totals[c] = positives, totals[C + c] = negatives;
}

// First and last of the ascending keys that equal the one at `at`.
template <class Key>
__device__ __forceinline__ int64_t first_equal(const Key* keys, int64_t at) {
  const Key key = keys[at];
  if (at == 0 || keys[at - 1] != key) return at;
  return partition_point(at, [=](int64_t i) { return keys[i] < key; });
}
template <class Key>
__device__ __forceinline__ int64_t last_equal(const Key* keys, int64_t at, int64_t count) {
  const Key key = keys[at];
  if (at + 1 == count || keys[at + 1] != key) return at;
  return at + partition_point(count - at, [=](int64_t i) { return keys[at + i] <= key; }) - 1;
}

// ------------------------------------------------------------------------------------------- class indices

// One thread a row: its class, C for a row that is left out, and the key of its score.
template <class Order>
__global__ void __launch_bounds__(kThreads)
    list_kernel(const __grid_constant__ RankTask task, int32_t* classes, typename Order::Key* keys) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (row >= task.rows) return;
  const int64_t c = task.target.row_class(row);
  if (c == kBadRow) note(task, value_problem(row, 0, kTarget));
  classes[row] = static_cast<int32_t>(c < 0 ? task.target.classes : c);
  keys[row] = c < 0 ? Order::kLeftOut : Order::key(Order::raw(task, row, c));
}

// The positives: grouped by class, ascending in each, and how many negatives have their place right after
// each.
template <class Key>
struct Positives {
  const int32_t* classes;  // [rows], ascending
  const Key* keys;         // [rows]
  int64_t* first;          // [C + 1] places of the classes
  uint32_t* at;            // [rows] negatives at or above this positive and below the next
  uint32_t* equal;         // [rows] those of them with the score of this one, the last of its ties
};

template <class Key>
__global__ void __launch_bounds__(kThreads)
    bounds_kernel(const __grid_constant__ RankTask task, const __grid_constant__ Positives<Key> positives) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c > task.target.classes) return;
  positives.first[c] =
      partition_point(task.rows, [&](int64_t i) { return positives.classes[i] < static_cast<int32_t>(c); });
}

constexpr int kColumns = 8;      // a block reads: sectors of 32 bytes of float32
constexpr int kChunk = 8192;     // rows a block reads
constexpr int64_t kRoom = 1536;  // positives of the columns in shared memory

// Each thread stays in one column and looks the place of every negative up.
template <class Order>
__global__ void __launch_bounds__(kThreads)
    place_kernel(const __grid_constant__ RankTask task,
                 const __grid_constant__ Positives<typename Order::Key> positives) {
  using Key = typename Order::Key;
  __shared__ Key shared_keys[kRoom];
  __shared__ uint32_t shared_at[kRoom], shared_equal[kRoom];
  const int64_t C = task.target.classes, c0 = static_cast<int64_t>(blockIdx.x) * kColumns;
  const int64_t begin = positives.first[c0];
  const int64_t total = positives.first[c0 + kColumns < C ? c0 + kColumns : C] - begin;
  const bool in_shared = total <= kRoom;
  for (int64_t i = threadIdx.x; in_shared && i < total; i += kThreads)
    shared_keys[i] = positives.keys[begin + i], shared_at[i] = shared_equal[i] = 0;
  __syncthreads();
  const int64_t column = c0 + threadIdx.x % kColumns;
  if (column < C) {
    const int64_t from = positives.first[column] - begin, count = positives.first[column + 1] - begin - from;
    const Key* keys = (in_shared ? shared_keys : positives.keys + begin) + from;
    uint32_t* at = (in_shared ? shared_at : positives.at + begin) + from;
    uint32_t* equal = (in_shared ? shared_equal : positives.equal + begin) + from;
    const int64_t first_row = static_cast<int64_t>(blockIdx.y) * kChunk;
    const int64_t end = first_row + kChunk < task.rows ? first_row + kChunk : task.rows;
    for (int64_t row = first_row + threadIdx.x / kColumns; row < end; row += kThreads / kColumns) {
      const int64_t c = task.target.row_class(row);
      if (c < 0) continue;
      const auto raw = Order::raw(task, row, column);
      if (Order::is_nan(raw)) note(task, value_problem(row, column, kNanScore));
      if (c == column) continue;
      const Key key = Order::key(raw);
      const uint32_t place =
          partition_point(static_cast<uint32_t>(count), [=](uint32_t i) { return keys[i] <= key; });
      if (place == 0) continue;
      atomicAdd(at + place - 1, 1u);
      if (keys[place - 1] == key) atomicAdd(equal + place - 1, 1u);
    }
  }
  __syncthreads();
  for (int64_t i = threadIdx.x; in_shared && i < total; i += kThreads) {
    if (shared_at[i]) atomicAdd(positives.at + begin + i, shared_at[i]);
    if (shared_equal[i]) atomicAdd(positives.equal + begin + i, shared_equal[i]);
  }
}

// One block a class: thread k takes the positives k, k + kLanes and so on from the highest score.
template <class Key>
__global__ void __launch_bounds__(kThreads)
    places_areas_kernel(const __grid_constant__ RankTask task,
                        const __grid_constant__ Positives<Key> positives) {
  __shared__ long long warps[kThreads / 32], wins_parts[kLanes];
  __shared__ double parts[kLanes];
  const int64_t c = blockIdx.x, begin = positives.first[c], count = positives.first[c + 1] - begin;
  const int64_t negatives = positives.first[task.target.classes] - count;
  const Key* keys = positives.keys + begin;
  long long wins = 0, carry = 0;
  double precisions = 0.0;
  for (int64_t base = 0; base < count; base += kThreads) {
    const int64_t i = count - 1 - base - threadIdx.x;
    carry = block_scan(warps, (i >= 0 ? positives.at[begin + i] : 0) + (threadIdx.x == 0 ? carry : 0));
    if (i >= 0) {
      const int64_t equal = positives.equal[begin + last_equal(keys, i, count)];
      const Standing<int64_t> at{count - first_equal(keys, i), carry, carry - equal};
      wins += wins_of(at, negatives);
      precisions += precision_of(at);
    }
    wins_parts[threadIdx.x] = carry;
    __syncthreads();
    carry = wins_parts[kThreads - 1];
    __syncthreads();
  }
  wins = block_sum(wins_parts, wins);
  precisions = block_sum(parts, precisions);
  if (threadIdx.x == 0)
    write_areas<int64_t>(task, c, static_cast<int64_t>(wins), precisions, count, negatives);
}

// ------------------------------------------------------------------------------------------ sorted columns

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
  __shared__ Key tile[32][33];
  const int64_t row0 = static_cast<int64_t>(blockIdx.x) * 32, j0 = static_cast<int64_t>(blockIdx.y) * 32;
  const int x = threadIdx.x % 32;
  for (int y = threadIdx.x / 32; y < 32; y += kThreads / 32) {
    const int64_t row = row0 + y, j = j0 + x, column = columns.column + j;
    if (row >= task.rows || j >= columns.width) continue;
    const Truth truth = task.target.at(row, column);
    Key key = Order::kLeftOut;
    if (truth == kBadTruth) note(task, value_problem(row, task.target.per_element ? column : 0, kTarget));
    if (truth == kPositive || truth == kNegative) {
      const auto raw = Order::raw(task, row, column);
      key = Order::key(raw);
      if (Order::is_nan(raw)) note(task, value_problem(row, column, kNanScore));
    }
    if (task.weight) {
      const double weight = task.weight[row];
      if (!good_weight(weight)) note(task, value_problem(row, 0, kWeight));
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

// One block a column: running sums, a thread a stretch, then the positives, a thread a lane.
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
    if (threadIdx.x == 0) write_areas<Sum>(task_, column_, wins, precisions, all_tp, all_fp);
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
  __shared__ typename ColumnBlock<Key, Sum>::Shared shared;
  ColumnBlock<Key, Sum>(task, columns, shared).run();
}

unsigned blocks_of(int64_t count, int64_t size) { return static_cast<unsigned>((count + size - 1) / size); }

}  // namespace
}  // namespace valor

// Writes the class and the key of every row's positive [rows]; torch sorts both. `words`: RankTask.
VALOR_API int32_t valor_rank_list_cuda(const void* words, int32_t* classes, void* keys, void* stream) {
  using namespace valor;
  const RankTask& task = *static_cast<const RankTask*>(words);
  int32_t status = 0;
  with_order(task.type, [&](auto order) {
    using Order = SignedOrder<decltype(order)>;
    if (task.rows > 0)
      status = VALOR_LAUNCH(list_kernel<Order>, blocks_of(task.rows, kThreads), kThreads, 0, stream, task,
                            classes, static_cast<typename Order::Key*>(keys));
  });
  return status;
}

// Fills the areas from the sorted positives; `at` and `equal` [rows] hold 0, `first` has room for C + 1.
VALOR_API int32_t valor_rank_places_cuda(const void* words, const int32_t* classes, const void* keys,
                                         int64_t* first, uint32_t* at, uint32_t* equal, void* stream) {
  using namespace valor;
  const RankTask& task = *static_cast<const RankTask*>(words);
  const int64_t C = task.target.classes;
  int32_t status = 0;
  with_order(task.type, [&](auto order) {
    using Order = SignedOrder<decltype(order)>;
    using Key = typename Order::Key;
    const Positives<Key> positives{classes, static_cast<const Key*>(keys), first, at, equal};
    status =
        VALOR_LAUNCH(bounds_kernel<Key>, blocks_of(C + 1, kThreads), kThreads, 0, stream, task, positives);
    const dim3 grid(blocks_of(C, kColumns), blocks_of(task.rows, kChunk));
    if (status == 0 && task.rows > 0)
      status = VALOR_LAUNCH(place_kernel<Order>, grid, kThreads, 0, stream, task, positives);
    if (status == 0)
      status = VALOR_LAUNCH(places_areas_kernel<Key>, static_cast<unsigned>(C), kThreads, 0, stream, task,
                            positives);
  });
  return status;
}

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

// Fills the areas of these columns from their sorted keys and the rows of these; `tp` and `fp` [width, rows]
// have 8 bytes an element, `places` 4.
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
