// Order of the documents of queries on CUDA: a stable sort by score and then by index, or by both at once
// where index and score fit in 64 bits.
#include "../core/query_order.h"
#include "launch.h"
#include "sorting.h"
#include "table_layout.h"

namespace valor {
namespace {

constexpr int kThreads = 256;

// What a sort needs.
struct QuerySortTask {
  const void *indexes, *preds;  // [rows]
  int64_t index_type, type, rows;
  int64_t low, index_bits;  // the smallest index, and how many bits the others take beyond it
  int64_t* order;           // [rows]
  uint8_t* first;           // [rows] whether a document is the first of its query
  int64_t* error;           // holds kNoError

  VALOR_HD uint64_t index(int64_t row) const {
    return static_cast<uint64_t>(load_int(indexes, row, static_cast<IntType>(index_type))) -
           static_cast<uint64_t>(low);
  }
};

enum Pass { kBoth, kScores, kIndexes };  // what a sort goes by

template <class Order>
__global__ void __launch_bounds__(kThreads) key_kernel(const __grid_constant__ QuerySortTask task,
                                                       const __grid_constant__ SortPairs pairs, int pass) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= task.rows) return;
  if (pass == kIndexes) {
    pairs.keys[i] = task.index(pairs.rows[i]);
    return;
  }
  using Raw = typename Order::Raw;
  const Raw raw = static_cast<const Raw*>(task.preds)[i];
  if (Order::is_nan(raw))
    atomicMin(reinterpret_cast<long long*>(task.error), static_cast<long long>(value_error(i, 0, kNanScore)));
  const uint64_t score = static_cast<Raw>(descending<Order>(raw));
  pairs.rows[i] = static_cast<uint32_t>(i);
  if constexpr (sizeof(Raw) == 8)
    pairs.keys[i] = score;
  else
    pairs.keys[i] = (pass == kBoth ? task.index(i) << 8 * sizeof(Raw) : 0) | score;
}

__global__ void __launch_bounds__(kThreads)
    order_kernel(const __grid_constant__ QuerySortTask task, const uint32_t* rows) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= task.rows) return;
  task.order[i] = rows[i];
  task.first[i] = i == 0 || task.index(rows[i - 1]) != task.index(rows[i]);
}

// Tables of a sort in one allocation; `bytes` gets how many they take.
int32_t place_tables(void* room, int64_t rows, SortPairs& pairs, unsigned char*& scratch,
                     int64_t& scratch_bytes, int64_t* bytes) {
  TableLayout layout(room);
  layout.place(pairs.keys, rows);
  layout.place(pairs.spare_keys, rows);
  layout.place(pairs.rows, rows);
  layout.place(pairs.spare_rows, rows);
  const int32_t status = sort_pairs_scratch(rows, &scratch_bytes);
  layout.place(scratch, scratch_bytes);
  *bytes = layout.bytes();
  return status;
}

template <class Order>
int32_t sort_documents(const QuerySortTask& task, SortPairs& pairs, void* scratch, int64_t scratch_bytes,
                       void* stream) {
  const unsigned blocks = static_cast<unsigned>((task.rows + kThreads - 1) / kThreads);
  const auto sort = [&](Pass pass, int64_t bits) -> int32_t {
    const int32_t status =
        VALOR_LAUNCH(key_kernel<Order>, blocks, kThreads, 0, stream, task, pairs, static_cast<int>(pass));
    if (status != 0) return status;
    return sort_pairs(pairs, task.rows, 0, static_cast<int>(bits), scratch, scratch_bytes, stream);
  };
  constexpr int kScoreBits = 8 * sizeof(typename Order::Raw);
  int32_t status = 0;
  if (kScoreBits + task.index_bits <= 64) {
    status = sort(kScoreBits == 64 ? kScores : kBoth, kScoreBits + task.index_bits);
  } else {
    status = sort(kScores, kScoreBits);
    if (status == 0) status = sort(kIndexes, task.index_bits);
  }
  if (status == 0) status = VALOR_LAUNCH(order_kernel, blocks, kThreads, 0, stream, task, pairs.rows);
  return status;
}

}  // namespace
}  // namespace valor

// Fills order and first, and lowers error, on the device, or with a null room gives the `bytes` that it
// needs.
VALOR_API int32_t valor_query_order_cuda(const valor::QuerySortTask* task, void* room, int64_t* bytes,
                                         void* stream) {
  using namespace valor;
  SortPairs pairs = {};
  unsigned char* scratch = nullptr;
  int64_t scratch_bytes = 0;
  int32_t status = place_tables(room, task->rows, pairs, scratch, scratch_bytes, bytes);
  if (status != 0 || room == nullptr || task->rows == 0) return status;
  with_order(task->type, [&](auto order) {
    status = sort_documents<decltype(order)>(*task, pairs, scratch, scratch_bytes, stream);
  });
  return status;
}
