// Exact ROC AUC and average precision for class indices: every row has one positive, so that the positives of
// all classes are as many as the rows. torch sorts them; each score then looks its place among those of its
// column up.
#include "rank_task.h"

namespace valor {
namespace {

// Sum up to this thread.
__device__ __forceinline__ long long block_scan(long long* warps, long long value) {
  const unsigned lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  for (unsigned by = 1; by < 32; by *= 2) {
    const long long below = __shfl_up_sync(Warp::kAll, value, by);
    if (lane >= by) value += below;
  }
  __syncthreads();
  if (lane == 31) warps[warp] = value;
  __syncthreads();
  for (unsigned w = 0; w < warp; ++w) value += warps[w];
  return value;
}

// One thread per row: its class, C for a row that is left out, and the key of its score.
template <class Order>
__global__ void __launch_bounds__(kThreads)
    list_kernel(const __grid_constant__ RankTask task, int32_t* classes, typename Order::Key* keys) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (row >= task.rows) return;
  const int64_t c = task.target.row_class(row);
  if (c == kBadRow) note(task, value_error(row, 0, kTarget));
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
constexpr int kChunk = 8192;     // rows per block
constexpr int64_t kRoom = 1536;  // positives of the columns in shared memory

// Each thread stays in one column and looks the place of every negative up.
template <class Order>
__global__ void __launch_bounds__(kThreads)
    place_kernel(const __grid_constant__ RankTask task,
                 const __grid_constant__ Positives<typename Order::Key> positives) {
  using Key = typename Order::Key;
  VALOR_SHARED(Key, shared_keys, [kRoom]);
  VALOR_SHARED(uint32_t, shared_at, [kRoom]);
  VALOR_SHARED(uint32_t, shared_equal, [kRoom]);
  const int64_t C = task.target.classes;
  const unsigned groups = blocks_of(C, kColumns);
  const int64_t c0 = static_cast<int64_t>(blockIdx.x % groups) * kColumns;
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
    const int64_t first_row = static_cast<int64_t>(blockIdx.x / groups) * kChunk;
    const int64_t end = first_row + kChunk < task.rows ? first_row + kChunk : task.rows;
    for (int64_t row = first_row + threadIdx.x / kColumns; row < end; row += kThreads / kColumns) {
      const int64_t c = task.target.row_class(row);
      if (c < 0) continue;
      const auto raw = Order::raw(task, row, column);
      if (Order::is_nan(raw)) note(task, value_error(row, column, kNanScore));
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

// One block per class: thread k takes the positives k, k + kLanes and so on from the highest score.
template <class Key>
__global__ void __launch_bounds__(kThreads)
    places_auroc_and_ap_kernel(const __grid_constant__ RankTask task,
                               const __grid_constant__ Positives<Key> positives) {
  VALOR_SHARED(long long, warps, [kThreads / 32]);
  VALOR_SHARED(long long, wins_parts, [kLanes]);
  VALOR_SHARED(double, parts, [kLanes]);
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
    write_auroc_and_ap<int64_t>(task, c, static_cast<int64_t>(wins), precisions, count, negatives);
}

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

// Fills the AUROC and AP from the sorted positives; `at` and `equal` [rows] hold 0, `first` has room for C
// + 1.
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
    const unsigned grid = blocks_of(C, kColumns) * blocks_of(task.rows, kChunk);  // y ends at 65,535
    if (status == 0 && task.rows > 0)
      status = VALOR_LAUNCH(place_kernel<Order>, grid, kThreads, 0, stream, task, positives);
    if (status == 0)
      status = VALOR_LAUNCH(places_auroc_and_ap_kernel<Key>, static_cast<unsigned>(C), kThreads, 0, stream,
                            task, positives);
  });
  return status;
}
