// Counts of pixels added to a state on CUDA, in new tensors: a launch lets them hold the state before, the
// counting kernel adds to them, and where that leaves something to do, a last launch does it.
#include "divisor.h"
#include "early_launch.h"
#include "region_counts.h"

namespace valor {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kWordsEach = 4, kMostBlocks = 4096;

struct BeginTask {
  RegionSums sums;
  int64_t words;  // of the tables
  int64_t ignored;
};

__global__ void __launch_bounds__(kThreads) begin_kernel(const __grid_constant__ BeginTask task) {
  let_next_begin();
  const RegionSums& sums = task.sums;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x,
                step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = first; i < task.words; i += step)
    sums.tables[i] = sums.tables_before ? sums.tables_before[i] : 0;
  if (first != 0) return;
  *sums.error = sums.error_before ? *sums.error_before : kNoError;
  const int64_t* const before = sums.seen_before;
  if (sums.seen) {
    sums.seen[0] = (before ? before[0] : 0) + sums.images;
    sums.seen[1] = (before ? before[1] : 0) + sums.pixels;
  }
  if (sums.ignored) *sums.ignored = (before ? before[2] : 0) + task.ignored;
}

struct EndTask {
  RegionSums sums;
  int64_t words;
  bool finds_ignored;
  int64_t first_true;  // of a table, from which on cells count each pixel once
  Divisor table_size;
};

__global__ void __launch_bounds__(kThreads) end_kernel(const __grid_constant__ EndTask task) {
  wait_for_kernel_ahead();
  const RegionSums& sums = task.sums;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x,
                step = static_cast<int64_t>(gridDim.x) * kThreads;
  uint64_t counted = 0;
  for (int64_t i = first; i < task.words; i += step) {
    const int64_t count = sums.tables[i];
    if (sums.rows) sums.rows[i] = static_cast<int32_t>(count);
    int64_t cell;
    task.table_size.divide(i, &cell);
    if (cell >= task.first_true)
      counted += static_cast<uint64_t>(count - (sums.tables_before ? sums.tables_before[i] : 0));
  }
  if (!task.finds_ignored) return;
  const uint64_t all = Warp().sum(counted);
  if (Warp().lane() == 0 && all) atomicAdd(reinterpret_cast<unsigned long long*>(sums.ignored), 0 - all);
}

unsigned grid_of(int64_t words) {
  const int64_t blocks = (words + kWordsEach * kThreads - 1) / (kWordsEach * kThreads);
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < kMostBlocks ? blocks : kMostBlocks);
}

// Calls count() between the first launch and the last; `finds_ignored`: what it does not count was ignored.
template <class Count>
int32_t add_counts(const PixelTask& task, const RegionSums& sums, bool finds_ignored, Count count) {
  const int64_t words = task.tables() * task.table_size();
  const unsigned grid = grid_of(words);
  const BeginTask begin{sums, words, finds_ignored ? sums.pixels : 0};
  int32_t status = VALOR_LAUNCH(begin_kernel, grid, kThreads, 0, sums.stream, begin);
  if (status == 0) status = count();
  if (status != 0 || !(sums.rows || finds_ignored)) return status;
  const EndTask end{sums, words, finds_ignored, task.pairs ? 0 : 2 * task.classes,
                    Divisor(task.table_size())};
  return VALOR_LAUNCH_EARLY(end_kernel, grid, kThreads, 0, sums.stream, end);
}

void place_maps(PixelTask& task, const RegionSums& sums) {
  if (sums.preds) task.preds.data = sums.preds;
  if (sums.target) task.target.data = sums.target;
}

}  // namespace
}  // namespace valor

// On the host: task_words, a PixelTask; sums_words, a RegionSums. Pixels that are not counted were ignored,
// where the task ignores some.
VALOR_API int32_t valor_add_pixels_cuda(const void* task_words, const void* sums_words) {
  using namespace valor;
  const RegionSums& sums = *static_cast<const RegionSums*>(sums_words);
  PixelTask task = *static_cast<const PixelTask*>(task_words);
  place_maps(task, sums);
  return add_counts(task, sums, sums.ignored && task.has_ignore,
                    [&] { return count_pixels(task, sums.tables, sums.error, sums.stream); });
}

// On the host: task_words, a OneHotTask; sums_words, a RegionSums whose `ignored` is not null.
VALOR_API int32_t valor_add_one_hot_cuda(const void* task_words, const void* sums_words) {
  using namespace valor;
  const RegionSums& sums = *static_cast<const RegionSums*>(sums_words);
  OneHotTask task = *static_cast<const OneHotTask*>(task_words);
  place_maps(task.pixels, sums);
  return add_counts(task.pixels, sums, false,
                    [&] { return count_one_hot(task, sums.tables, sums.ignored, sums.error, sums.stream); });
}
