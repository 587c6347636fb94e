// Which labels detection records hold, and how many rows count: a table of labels that all rows fill, then
// the ascending place of each, which is its class. Images are looked at by the same launch.
#include "image_keys.h"

namespace valor {
namespace {

constexpr int64_t kFewLabels = 2 * kThreads;  // that one block ranks, which spares a launch
constexpr int kTotals = 3;  // detections, ground truths, ignored ones: the words from kDetectionsWord on

// Adds what each thread of the block has counted, by one atomic for each total.
__device__ __forceinline__ void add_totals(const OrderTask& task, const int32_t (&counts)[kTotals]) {
  VALOR_SHARED(int32_t, sums, [kTotals]);
  if (threadIdx.x < kTotals) sums[threadIdx.x] = 0;
  __syncthreads();
  for (int i = 0; i < kTotals; ++i) {
    const uint32_t sum = Warp().sum(static_cast<uint32_t>(counts[i]));
    if (Warp().lane() == 0 && sum) atomicAdd(sums + i, static_cast<int32_t>(sum));
  }
  __syncthreads();
  if (threadIdx.x < kTotals && sums[threadIdx.x])
    atomicAdd(reinterpret_cast<unsigned long long*>(task.words + kDetectionsWord + threadIdx.x),
              static_cast<unsigned long long>(sums[threadIdx.x]));
}

// Whether no thread of the block was asked for this label before. May say so twice where labels share a
// place.
__device__ __forceinline__ bool claim(unsigned long long* claims, int32_t label) {
  const unsigned long long entry = LabelTable::entry(label);
  unsigned long long* const place = claims + (mix(static_cast<uint32_t>(label)) & (kThreads - 1));
  return *place != entry && atomicCAS(place, 0ull, entry) != entry;
}

// Gives the labels of a block their classes, the `first` one and those after it: the class of a label is the
// number of smaller ones. What blocks of the same launch have written is not to be read from a cache before
// them.
__device__ __forceinline__ void rank_labels(const OrderTask& task, const LabelTable& table, int64_t first,
                                            int64_t count, int32_t* others) {
  volatile const unsigned long long* const slots = table.slots;
  volatile const int32_t* const used = table.used;
  const int64_t i = first + threadIdx.x;
  const int32_t slot = i < count ? used[i] : 0;
  const int32_t label = static_cast<int32_t>(static_cast<uint32_t>(slots[slot]));
  int32_t rank = 0;
  for (int64_t base = 0; base < count; base += kThreads) {
    __syncthreads();
    if (base + threadIdx.x < count)
      others[threadIdx.x] =
          base == first ? label
                        : static_cast<int32_t>(static_cast<uint32_t>(slots[used[base + threadIdx.x]]));
    __syncthreads();
    const int64_t left = count - base < kThreads ? count - base : kThreads;
    for (int64_t j = 0; j < left; ++j) rank += others[j] < label;
  }
  if (i >= count) return;
  table.slots[slot] = LabelTable::entry(label, rank);
  task.labels[rank] = label;
}

__global__ void __launch_bounds__(kThreads)
    rank_kernel(const __grid_constant__ OrderTask task, const __grid_constant__ LabelTable table) {
  VALOR_SHARED(int32_t, others, [kThreads]);
  if (!table.holds()) return;
  rank_labels(task, table, static_cast<int64_t>(blockIdx.x) * kThreads, task.words[kLabelsWord], others);
}

// The block that is done last ranks the labels that all have found, where there is room for few.
__device__ __forceinline__ void rank_at_last(const OrderTask& task, const LabelTable& table) {
  VALOR_SHARED(int32_t, others, [kThreads]);
  VALOR_SHARED(uint32_t, done, [1]);
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();  // what the block has written comes before its count, and below after all counts
    done[0] = atomicAdd(reinterpret_cast<unsigned*>(table.slots + table.size), 1u);
  }
  __syncthreads();
  if (done[0] != gridDim.x - 1) return;
  __threadfence();
  const int64_t count = *static_cast<volatile const int64_t*>(task.words + kLabelsWord);
  if (!table.holds()) return;
  for (int64_t first = 0; first < count; first += kThreads) rank_labels(task, table, first, count, others);
}

// Notes the label of each row of a block, once: thousands of rows that compare and swap in one slot would
// wait for one another.
__device__ __forceinline__ void note_rows(const Ordering& run, bool found, int64_t block,
                                          unsigned long long* claims) {
  const OrderTask& task = run.task;
  const int64_t i = block * kThreads + threadIdx.x;
  const bool there = i < (found ? task.num_detections : task.num_ground_truths);
  const uint8_t* row = found ? task.detection(there ? i : 0) : task.ground_truth(there ? i : 0);
  int32_t counts[kTotals] = {};
  claims[threadIdx.x] = 0;
  __syncthreads();
  uint32_t words[2] = {0, kPaddingBucket};  // label and bucket of a detection
  if (there && found) load_words(row + 8, words);
  if (there && (found ? (words[1] & 0xff) != kPaddingBucket : OrderTask::bit(row, task.areas))) {
    counts[found ? 0 : 1] = 1;
    counts[2] = !found && OrderTask::bit(row, task.areas + 1);
    const int32_t label = found ? static_cast<int32_t>(words[0]) : ground_truth_label(row);
    if (!task.wanted && claim(claims, label)) run.tables.labels.insert(label);
  }
  add_totals(task, counts);
}

// The first blocks take images, which are most work, the next detections, the last ground truths.
__global__ void __launch_bounds__(kThreads)
    label_kernel(const __grid_constant__ Ordering run, const int64_t image_blocks,
                 const int64_t detection_blocks) {
  VALOR_SHARED(unsigned long long, claims, [kThreads]);
  VALOR_SHARED(SortKey, strip, [kStrip]);
  const OrderTask& task = run.task;
  const int64_t block = static_cast<int64_t>(blockIdx.x) - image_blocks;
  if (block < 0)
    note_images(run, strip);
  else
    note_rows(run, block < detection_blocks, block < detection_blocks ? block : block - detection_blocks,
              claims);
  if (!task.wanted && task.capacity <= kFewLabels) rank_at_last(task, run.tables.labels);
}

// One thread a wanted label, whose class is its place. No row has a label that int32 does not hold.
__global__ void __launch_bounds__(kThreads)
    wanted_kernel(const __grid_constant__ OrderTask task, const __grid_constant__ LabelTable table) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= task.num_wanted) return;
  const int64_t label = task.labels[i] = task.wanted[i];
  if (label != static_cast<int32_t>(label)) return;
  const int64_t slot = table.insert(static_cast<int32_t>(label));
  if (slot >= 0) table.slots[slot] = LabelTable::entry(static_cast<int32_t>(label), i);
}

}  // namespace

int32_t count_labels(const Ordering& run, void* stream) {
  const OrderTask& task = run.task;
  const LabelTable& table = run.tables.labels;
  const int64_t images = (task.num_images + kThreads - 1) / kThreads, found = task.detection_blocks();
  const int64_t blocks = images + found + task.ground_truth_blocks();
  const unsigned labels = static_cast<unsigned>((task.capacity + kThreads - 1) / kThreads);
  int32_t status = 0;
  if (task.wanted && labels) status = VALOR_LAUNCH(wanted_kernel, labels, kThreads, 0, stream, task, table);
  if (status || blocks == 0) return status;
  status = VALOR_LAUNCH(label_kernel, static_cast<unsigned>(blocks), kThreads, 0, stream, run, images, found);
  if (status || task.wanted || task.capacity <= kFewLabels) return status;
  return VALOR_LAUNCH(rank_kernel, labels, kThreads, 0, stream, task, table);
}

}  // namespace valor
