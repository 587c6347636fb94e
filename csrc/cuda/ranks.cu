// Exact ROC AUC and average precision for class indices: every row has one positive, so that the positives of
// all classes are as many as the rows. They are sorted; each score then looks its place among those of its
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

// The positives, one per row: grouped by class, ascending in each, and how many negatives have their place
// right after each. Rows that are left out are of a class C.
template <class Order>
struct Positives {
  using Key = typename Order::Key;
  using Word = std::conditional_t<sizeof(Key) == 8, Word128, uint64_t>;
  SortWords<Word> words;  // [rows] class and, in the lower bits, key
  Key* keys;              // [rows]
  int64_t* first;         // [C + 1] places of the classes
  uint32_t* at;           // [rows] negatives at or above this positive and below the next
  uint32_t* equal;        // [rows] those of them with the score of this one, the last of its ties
  unsigned char* scratch;
  int64_t scratch_bytes;

  static constexpr int kKeyBits = 8 * sizeof(Key);

  // Sorts, or without scratch asks how large that must be.
  int32_t sort(const RankTask& task, void* stream) {
    const int end = kKeyBits + bits_up_to(task.target.classes);
    return sort_words(words, task.rows, 0, end, scratch, scratch_bytes, stream);
  }
};

template <class Order>
__global__ void __launch_bounds__(kThreads)
    list_kernel(const __grid_constant__ RankTask task, const __grid_constant__ Positives<Order> positives) {
  using Word = typename Positives<Order>::Word;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (row >= task.rows) return;
  const int64_t c = task.target.row_class(row);
  if (c == kBadRow) note(task, value_error(row, 0, kTarget));
  positives.words.now[row] = static_cast<Word>(c < 0 ? task.target.classes : c) << positives.kKeyBits |
                             (c < 0 ? 0 : Order::key(task.raw<Order>(row, c)));
}

template <class Order>
__global__ void __launch_bounds__(kThreads)
    part_kernel(const __grid_constant__ RankTask task, const __grid_constant__ Positives<Order> positives) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const auto* words = positives.words.now;
  if (i <= task.target.classes)
    positives.first[i] = partition_point(
        task.rows, [&](int64_t k) { return static_cast<int64_t>(words[k] >> positives.kKeyBits) < i; });
  if (i >= task.rows) return;
  positives.keys[i] = static_cast<typename Order::Key>(words[i]);
  positives.at[i] = positives.equal[i] = 0;
}

constexpr int kColumns = 8;      // a block reads: sectors of 32 bytes of float32
constexpr int kChunk = 8192;     // rows per block
constexpr int64_t kRoom = 1536;  // positives of the columns in shared memory

// Each thread stays in one column and looks the place of every negative up.
template <class Order>
__global__ void __launch_bounds__(kThreads)
    place_kernel(const __grid_constant__ RankTask task, const __grid_constant__ Positives<Order> positives) {
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
      const auto raw = task.raw<Order>(row, column);
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
template <class Order>
__global__ void __launch_bounds__(kThreads)
    places_auroc_and_ap_kernel(const __grid_constant__ RankTask task,
                               const __grid_constant__ Positives<Order> positives) {
  VALOR_SHARED(long long, warps, [kThreads / 32]);
  VALOR_SHARED(long long, wins_parts, [kLanes]);
  VALOR_SHARED(double, parts, [kLanes]);
  const int64_t c = blockIdx.x, begin = positives.first[c], count = positives.first[c + 1] - begin;
  const int64_t negatives = positives.first[task.target.classes] - count;
  const auto key_at = [keys = positives.keys + begin](int64_t i) { return keys[i]; };
  long long wins = 0, carry = 0;
  double precisions = 0.0;
  for (int64_t base = 0; base < count; base += kThreads) {
    const int64_t i = count - 1 - base - threadIdx.x;
    carry = block_scan(warps, (i >= 0 ? positives.at[begin + i] : 0) + (threadIdx.x == 0 ? carry : 0));
    if (i >= 0) {
      const int64_t equal = positives.equal[begin + last_equal(key_at, i, count)];
      const Standing<int64_t> at{count - first_equal(key_at, i), carry, carry - equal};
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

// Places the tables; `bytes` gets how many they take.
template <class Order>
int32_t place_tables(const RankTask& task, void* room, Positives<Order>& positives, int64_t* bytes) {
  TableLayout layout(room);
  layout.place(positives.words.now, task.rows);  // aligned to 16 bytes, as the spare words
  layout.place(positives.words.spare, task.rows);
  layout.place(positives.keys, task.rows);
  layout.place(positives.first, task.target.classes + 1);
  layout.place(positives.at, task.rows);
  layout.place(positives.equal, task.rows);
  const int32_t status = positives.sort(task, nullptr);
  layout.place(positives.scratch, positives.scratch_bytes);
  *bytes = layout.bytes();
  return status;
}

template <class Order>
int32_t look_up(const RankTask& task, Positives<Order>& positives, void* stream) {
  const int64_t C = task.target.classes, rows = task.rows;
  int32_t status = 0;
  if (rows > 0)
    status =
        VALOR_LAUNCH(list_kernel<Order>, blocks_of(rows, kThreads), kThreads, 0, stream, task, positives);
  if (status == 0) status = positives.sort(task, stream);
  const unsigned parts = blocks_of(rows > C ? rows : C + 1, kThreads);
  if (status == 0) status = VALOR_LAUNCH(part_kernel<Order>, parts, kThreads, 0, stream, task, positives);
  const unsigned grid = blocks_of(C, kColumns) * blocks_of(rows, kChunk);  // y ends at 65,535
  if (status == 0 && rows > 0)
    status = VALOR_LAUNCH(place_kernel<Order>, grid, kThreads, 0, stream, task, positives);
  if (status == 0)
    status = VALOR_LAUNCH(places_auroc_and_ap_kernel<Order>, static_cast<unsigned>(C), kThreads, 0, stream,
                          task, positives);
  return status;
}

}  // namespace
}  // namespace valor

// Fills the AUROC and AP of class indices without weights, or with a null room gives the `bytes` that it
// needs. `words`: RankTask.
VALOR_API int32_t valor_rank_places_cuda(const void* words, void* room, int64_t* bytes, void* stream) {
  using namespace valor;
  const RankTask& task = *static_cast<const RankTask*>(words);
  int32_t status = 0;
  with_order(task.type, [&](auto order) {
    Positives<decltype(order)> positives{};
    status = place_tables(task, room, positives, bytes);
    if (status == 0 && room) status = look_up(task, positives, stream);
  });
  return status;
}
