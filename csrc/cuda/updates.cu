#include "launch.h"
#include "updates.h"

namespace valor {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kWordsEach = 4, kMostBlocks = 4096;

struct Start {
  int64_t* scratch;
  BatchWords words;
  int64_t zeros;
};

__device__ __forceinline__ int64_t thread_index() {
  return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
}
__device__ __forceinline__ int64_t thread_count() { return static_cast<int64_t>(gridDim.x) * kThreads; }

__global__ void __launch_bounds__(kThreads) begin_kernel(const __grid_constant__ Start start) {
  if (thread_index() == 0) *reinterpret_cast<BatchWords*>(start.scratch) = start.words;
  for (int64_t i = thread_index(); i < start.zeros; i += thread_count())
    start.scratch[BatchWords::kSize + i] = 0;
}

__global__ void __launch_bounds__(kThreads)
    ignored_kernel(const __grid_constant__ Target target, const int64_t count, int64_t* word) {
  const Warp warp;
  uint32_t found = 0;  // of a thread
  for (int64_t i = thread_index(); i < count; i += thread_count()) found += target.ignores(target.value(i));
  const uint32_t sum = warp.sum(found);
  if (warp.lane() == 0 && sum)
    atomicAdd(reinterpret_cast<unsigned long long*>(word), static_cast<unsigned long long>(sum));
}

// The sum of `count` words, in every thread of a block.
__device__ __forceinline__ int64_t block_sum(const int64_t* words, int64_t count) {
  VALOR_SHARED(unsigned long long, sum);
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  uint64_t own = 0;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) own += static_cast<uint64_t>(words[i]);
  own = Warp().sum(own);
  if (Warp().lane() == 0) atomicAdd(&sum, static_cast<unsigned long long>(own));
  __syncthreads();
  const int64_t total = static_cast<int64_t>(sum);
  __syncthreads();  // before the next piece sets it to 0
  return total;
}

// What a histogram of positives and of all elements, each below and above a threshold, adds to one element of
// counts [4, L] (true positives, predicted, true, total) or matrices [L, 2, 2] (true, predicted).
__device__ __forceinline__ int64_t outcome(const Piece& piece, int64_t i) {
  const bool rows = piece.how == kAddOutcomes;
  const int64_t label = rows ? i % piece.extent : i / 4, which = rows ? i / piece.extent : i % 4;
  const int64_t* positives = static_cast<const int64_t*>(piece.batch) + 2 * label;
  const int64_t* every = positives + 2 * piece.extent;
  if (rows) {
    const int64_t* const from = which % 2 ? every : positives;
    return from[1] + (which < 2 ? 0 : from[0]);
  }
  const int64_t column = which % 2;
  return which < 2 ? every[column] - positives[column] : positives[column];
}

// One element of the new state; `total` is that of kAddTotal.
__device__ __forceinline__ void merge_one(const Piece& piece, int64_t i, int64_t total) {
  const double* const number = static_cast<const double*>(piece.old);
  const int64_t* const integer = static_cast<const int64_t*>(piece.old);
  const int64_t* const batch = static_cast<const int64_t*>(piece.batch);
  double* const now = static_cast<double*>(piece.now);
  int64_t* const now_integer = static_cast<int64_t*>(piece.now);
  switch (piece.how) {
    case kAddCounts:
      now[i] = number[i] + static_cast<double>(batch[i]);
      break;
    case kLeastInteger:
      now_integer[i] = integer[i] < batch[i] ? integer[i] : batch[i];
      break;
    case kLeastError: {
      const int64_t code = batch[i], kind = code & ((1 << kKindBits) - 1);
      const bool label = code != kNoError && kind == kNanScore;
      const int64_t found = label ? code + (kPrediction - kNanScore) : code;
      now_integer[i] = integer[i] < found ? integer[i] : found;
      break;
    }
    case kAtMostOne:
      now[i] = number[i] > 1.0 ? 1.0 : number[i];  // NaN stays
      break;
    case kAddSeen:
      now_integer[i] = integer[i] + (i >= 2 && batch[1] >= piece.extent ? 0 : batch[i]);
      break;
    case kAddTotal:
      now[i] = number[i] + static_cast<double>(total);
      break;
    default:
      now[i] = number[i] + static_cast<double>(outcome(piece, i));
  }
}

__global__ void __launch_bounds__(kThreads) merge_kernel(const __grid_constant__ MergeTask task) {
  const int64_t begins = static_cast<int64_t>(blockIdx.x) * kThreads;
  VALOR_ROLLED
  for (int p = 0; p < MergeTask::kPieces; ++p) {
    const Piece& piece = task.pieces[p];
    if (piece.count <= begins) continue;  // for the whole block
    const int64_t total =
        piece.how == kAddTotal ? block_sum(static_cast<const int64_t*>(piece.batch), piece.extent) : 0;
    for (int64_t i = thread_index(); i < piece.count; i += thread_count()) merge_one(piece, i, total);
  }
}

unsigned blocks_of(int64_t words) {
  const int64_t blocks = (words + kWordsEach * kThreads - 1) / (kWordsEach * kThreads);
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < kMostBlocks ? blocks : kMostBlocks);
}

}  // namespace

int32_t begin(int64_t* scratch, const BatchWords& words, int64_t zeros, void* stream) {
  return VALOR_LAUNCH(begin_kernel, blocks_of(zeros), kThreads, 0, stream, Start{scratch, words, zeros});
}

int32_t merge(const MergeTask& task, void* stream) {
  int64_t most = 1;
  for (const Piece& piece : task.pieces) most = piece.count > most ? piece.count : most;
  return VALOR_LAUNCH(merge_kernel, blocks_of(most), kThreads, 0, stream, task);
}

int32_t count_ignored(const Target& target, int64_t count, int64_t* word, void* stream) {
  if (!target.has_ignore) return 0;
  return VALOR_LAUNCH(ignored_kernel, blocks_of(count), kThreads, 0, stream, target, count, word);
}

}  // namespace valor
