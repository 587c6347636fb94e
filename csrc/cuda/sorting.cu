// The one place that instantiates CUB.
#include "sorting.h"

#if defined(VALOR_SIM)
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace valor {

int32_t sort_pairs_scratch(int64_t, int64_t* bytes) { return *bytes = 8, 0; }

int32_t sort_pairs(SortPairs& pairs, int64_t count, int begin, int end, void*, int64_t, void*) {
  if (::valor_sim::Machine::instance().skipping()) return 0;
  const uint64_t mask = end - begin == 64 ? ~0ull : (1ull << (end - begin)) - 1;
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return (pairs.keys[a] >> begin & mask) < (pairs.keys[b] >> begin & mask);
  });
  for (int64_t i = 0; i < count; ++i) {
    pairs.spare_keys[i] = pairs.keys[order[i]];
    pairs.spare_rows[i] = pairs.rows[order[i]];
  }
  std::swap(pairs.keys, pairs.spare_keys);
  std::swap(pairs.rows, pairs.spare_rows);
  return 0;
}

template <class Word>
int32_t sort_words(SortWords<Word>& words, int64_t count, int begin, int end, void* scratch, int64_t& bytes,
                   void*) {
  if (scratch == nullptr) return bytes = 8, 0;
  const Word mask = (Word{1} << (end - begin)) - 1;
  std::copy(words.now, words.now + count, words.spare);
  std::swap(words.now, words.spare);
  std::stable_sort(words.now, words.now + count,
                   [=](Word a, Word b) { return (a >> begin & mask) < (b >> begin & mask); });
  return 0;
}

}  // namespace valor

#else
#include <cub/device/device_radix_sort.cuh>

namespace valor {
namespace {

int32_t cleared(cudaError_t status) {
  if (status != cudaSuccess) cudaGetLastError();  // reported here: the next launch must not find it again
  return static_cast<int32_t>(status);
}

cudaError_t radix_sort(void* scratch, size_t& bytes, SortPairs& pairs, int64_t count, int begin, int end,
                       cudaStream_t stream) {
  cub::DoubleBuffer<uint64_t> keys(pairs.keys, pairs.spare_keys);
  cub::DoubleBuffer<uint32_t> rows(pairs.rows, pairs.spare_rows);
  const cudaError_t status = cub::DeviceRadixSort::SortPairs(
      scratch, bytes, keys, rows, static_cast<uint32_t>(count), begin, end, stream);
  pairs = {keys.Current(), keys.Alternate(), rows.Current(), rows.Alternate()};
  return status;
}

}  // namespace

int32_t sort_pairs_scratch(int64_t count, int64_t* bytes) {
  SortPairs none = {};
  size_t found = 0;
  const cudaError_t status = radix_sort(nullptr, found, none, count, 0, 64, nullptr);
  *bytes = static_cast<int64_t>(found);
  return cleared(status);
}

int32_t sort_pairs(SortPairs& pairs, int64_t count, int begin, int end, void* scratch, int64_t scratch_bytes,
                   void* stream) {
  size_t bytes = static_cast<size_t>(scratch_bytes);
  return cleared(radix_sort(scratch, bytes, pairs, count, begin, end, static_cast<cudaStream_t>(stream)));
}

template <class Word>
int32_t sort_words(SortWords<Word>& words, int64_t count, int begin, int end, void* scratch, int64_t& bytes,
                   void* stream) {
  cub::DoubleBuffer<Word> buffers(words.now, words.spare);
  size_t size = static_cast<size_t>(bytes);
  const cudaError_t status = cub::DeviceRadixSort::SortKeys(
      scratch, size, buffers, static_cast<uint32_t>(count), begin, end, static_cast<cudaStream_t>(stream));
  words = {buffers.Current(), buffers.Alternate()};
  bytes = static_cast<int64_t>(size);
  return cleared(status);
}

}  // namespace valor

#endif

template int32_t valor::sort_words(SortWords<uint64_t>&, int64_t, int, int, void*, int64_t&, void*);
template int32_t valor::sort_words(SortWords<Word128>&, int64_t, int, int, void*, int64_t&, void*);
