// Means of precision and recall over what counts, for a few numbers to leave the device in place of the
// arrays.
#include "../core/means.h"
#include "accumulate_stages.h"
#include "launch.h"

namespace valor {
namespace {

constexpr int kParts = 8;                  // running sums of sum_block, each by a thread of its own
constexpr int kPaths = kThreads / kParts;  // paths that a block takes
constexpr int kPathBits = 5;               // their logarithm
constexpr int kMostListed = 1024;          // classes that each block lists anew, which spares a launch

// One mean; all are places. `first` and `count` are those of its IoU thresholds in a list.
struct Pick {
  int64_t of_recall, area, limit, first, count;
};

// Levels of a tree whose nodes are left when blocks have added up what they took.
VALOR_HD int top_of(int steps) { return steps > kPathBits ? steps - kPathBits : 0; }

struct MeansTask {
  const double *precision, *recall;  // [T, R, K, A, C] and [T, K, A, M]
  int64_t recalls, classes, areas, curves, limits;
  const Pick* picks;
  const int64_t* thresholds;  // places, by Pick
  int64_t* counts;            // [A] classes that count, where present_kernel lists them
  int64_t* picked;            // [picks] classes that count for each, where nobody lists them
  int32_t* present;           // [A, K] these classes, ascending
  double* sums;               // [picks, 2^top_of(steps)]
  int steps;                  // of a tree of all classes; one of those that count has fewer
  double* out;                // [picks]

  VALOR_HD int64_t samples(const Pick& pick) const { return pick.of_recall ? 1 : recalls; }
  VALOR_HD int64_t size(const Pick& pick, int64_t present) const {
    return pick.count * samples(pick) * present;
  }
  VALOR_HD double* sums_of(int64_t pick) const { return sums + (pick << top_of(steps)); }
};

// Addresses of the values of a pick in the order of the arrays, every kParts-th from one on; those behind the
// last one are addresses of others. No step has a branch, so that all values are under way at once.
class Values {
 public:
  __device__ __forceinline__ Values(const MeansTask& task, const Pick& pick, const int32_t* classes,
                                    int64_t present, int64_t at)
      : task_(task),
        pick_(pick),
        list_(classes),
        present_(static_cast<int32_t>(present)),
        samples_(static_cast<int32_t>(task.samples(pick))) {
    at_ = static_cast<int32_t>(at % present_);
    sample_ = static_cast<int32_t>(at / present_ % samples_);
    threshold_ = at / present_ / samples_;
    classes_a_step_ = kParts % present_;
    samples_a_step_ = kParts / present_ % samples_;
    thresholds_a_step_ = kParts / present_ / samples_;
  }
  __device__ __forceinline__ const double* get() const {
    const int64_t k = list_[at_];
    const int64_t last = pick_.count - 1;
    const int64_t t = task_.thresholds[pick_.first + (threshold_ < last ? threshold_ : last)];
    const int64_t row = (t * samples_ + sample_) * task_.classes + k;
    const int64_t limits = pick_.of_recall ? task_.limits : task_.curves;
    const double* from = pick_.of_recall ? task_.recall : task_.precision;
    return from + (row * task_.areas + pick_.area) * limits + pick_.limit;
  }
  __device__ __forceinline__ void step() {
    at_ += classes_a_step_;
    const int32_t wraps = at_ >= present_ ? 1 : 0;
    at_ -= wraps ? present_ : 0;
    sample_ += samples_a_step_ + wraps;
    const int32_t ends = sample_ >= samples_ ? 1 : 0;
    sample_ -= ends ? samples_ : 0;
    threshold_ += thresholds_a_step_ + ends;
  }

 private:
  const MeansTask& task_;
  const Pick& pick_;
  const int32_t* const list_;
  const int32_t present_, samples_;
  int32_t at_, sample_, classes_a_step_, samples_a_step_, thresholds_a_step_;
  int64_t threshold_;
};

// Lists the classes that have recall in an area range, in order, by a block; returns how many they are.
__device__ __forceinline__ int64_t list_present(const MeansTask& task, int64_t a, int32_t* present) {
  VALOR_SHARED(int32_t, found, [kThreads / 32]);
  const Warp warp;
  int64_t before = 0;
  for (int64_t base = 0; base < task.classes; base += kThreads) {
    const int64_t k = base + threadIdx.x;
    const bool counts = k < task.classes && task.recall[(k * task.areas + a) * task.limits] > -1.0;
    const uint32_t votes = warp.ballot(counts);
    __syncthreads();
    if (warp.lane() == 0) found[threadIdx.x / 32] = __popc(votes);
    __syncthreads();
    int64_t place = before + __popc(votes & ((1u << warp.lane()) - 1));
    for (int w = 0; w < kThreads / 32; ++w) {
      if (w < static_cast<int>(threadIdx.x) / 32) place += found[w];
      before += found[w];
    }
    if (counts) present[place] = static_cast<int32_t>(k);
  }
  return before;
}

// One block per area range.
__global__ void __launch_bounds__(kThreads) present_kernel(const __grid_constant__ MeansTask task) {
  const int64_t a = blockIdx.x, count = list_present(task, a, task.present + a * task.classes);
  if (threadIdx.x == 0) task.counts[a] = count;
}

// The sum of sum_block by kParts lanes, each with one of its running sums; all of them get it.
__device__ __forceinline__ double sum_parts(const MeansTask& task, const Pick& pick, const int32_t* classes,
                                            int64_t present, const SumNode& node) {
  const int64_t part = threadIdx.x % kParts, whole = node.size - node.size % kParts;
  if (Warp().ballot(node.size > 0) == 0) return 0.0;
  constexpr int kMost = SumNode::kBlock / kParts;
  Values values(task, pick, classes, present, node.start + part);
  const double* from[kMost];
  double own[kMost];
  VALOR_UNROLLED
  for (int j = 0; j < kMost; ++j, values.step()) from[j] = values.get();
  VALOR_UNROLLED
  for (int j = 0; j < kMost; ++j) own[j] = *from[j];
  double sum = own[0], last = whole == 0 ? own[0] : 0.0;
  VALOR_UNROLLED
  for (int j = 1; j < kMost; ++j) {
    if (j * kParts < whole) sum += own[j];
    if (j * kParts == whole) last = own[j];
  }
  for (int by = 1; by < kParts; by *= 2) sum += __shfl_xor_sync(Warp::kAll, sum, by);
  if (whole == 0) sum = 0.0;
  for (int i = 0; i < kParts - 1; ++i) {
    const double next = __shfl_sync(Warp::kAll, last, i, kParts);
    if (whole + i < node.size) sum += next;
  }
  return sum;
}

// Adds the halves of 2^levels sums whose paths begin with the bits of `path`, from the last level on: threads
// of a block, each with a path. `sums` holds those of a block alone.
__device__ __forceinline__ void add_halves(double* sums, SumNode root, int64_t path, int levels, bool there) {
  uint32_t splits = 0;  // bit i: i levels above the last, the path leads through a node with halves
  for (int bit = levels - 1; there && bit >= 0; --bit) {
    if (!root.splits()) break;
    splits |= 1u << bit;
    root = (path >> bit & 1) ? root.right() : root.left();
  }
  for (int bit = 0; bit < levels; ++bit) {
    __syncthreads();
    if (there && (splits >> bit & 1) && (path & ((int64_t{2} << bit) - 1)) == 0)
      sums[path] += sums[path + (int64_t{1} << bit)];
  }
}

// kParts threads a path of the tree, whose last levels a block adds up. kListed: present_kernel was there.
template <bool kListed>
__global__ void __launch_bounds__(kThreads) sum_kernel(const __grid_constant__ MeansTask task) {
  VALOR_SHARED(double, sums, [kPaths]);
  const int64_t own = threadIdx.x / kParts, path = static_cast<int64_t>(blockIdx.x) * kPaths + own;
  VALOR_SHARED(int32_t, listed, [kListed ? 1 : kMostListed]);
  const Pick pick = task.picks[blockIdx.y];
  const int32_t* classes = kListed ? task.present + pick.area * task.classes : listed;
  const int64_t present = kListed ? task.counts[pick.area] : list_present(task, pick.area, listed);
  if (!kListed && blockIdx.x == 0 && threadIdx.x == 0) task.picked[blockIdx.y] = present;
  if (!kListed) __syncthreads();
  const int64_t size = task.size(pick, present);
  const int steps = halvings(size), levels = top_of(steps);
  if (size == 0 || blockIdx.x >> levels != 0) return;
  SumNode top{0, size}, node{0, size};
  const bool inside = (path >> steps) == 0;
  if (!top.follow(blockIdx.x, levels) || !inside) top.size = 0;
  if (!inside || !node.follow(path, steps)) node.size = 0;
  const double sum = sum_parts(task, pick, classes, present, node);
  if (threadIdx.x % kParts == 0) sums[own] = sum;
  add_halves(sums, top, own, steps - levels, threadIdx.x % kParts == 0 && top.size > 0);
  __syncthreads();
  if (threadIdx.x == 0 && top.size > 0) task.sums_of(blockIdx.y)[blockIdx.x] = sums[0];
}

// One block per mean: sums of halves become those of the whole, level by level.
__global__ void __launch_bounds__(kThreads) mean_kernel(const __grid_constant__ MeansTask task) {
  const Pick pick = task.picks[blockIdx.x];
  const int64_t present = task.classes <= kMostListed ? task.picked[blockIdx.x] : task.counts[pick.area];
  const int64_t size = task.size(pick, present);
  const int top = top_of(halvings(size));
  double* sums = task.sums_of(blockIdx.x);
  for (int level = top - 1; level >= 0 && size > 0; --level) {
    const int below = top - level;  // the last bits of a path that this level has left behind
    for (int64_t path = threadIdx.x; path < int64_t{1} << level; path += kThreads) {
      SumNode node{0, size};
      if (node.follow(path, level) && node.splits())
        sums[path << below] += sums[(path << below) + (int64_t{1} << (below - 1))];
    }
    __syncthreads();
  }
  const uint64_t nan = 0x7ff8000000000000ull;
  if (threadIdx.x == 0) task.out[blockIdx.x] = size ? sums[0] / static_cast<double>(size) : 0.0;
  if (threadIdx.x == 0 && size == 0) memcpy(task.out + blockIdx.x, &nan, sizeof nan);
}

// Places the tables of a call; returns the bytes that they take.
int64_t place_tables(const MeansSizes& sizes, void* base, MeansTask& task) {
  task.steps = halvings(sizes.most_thresholds * sizes.recalls * sizes.classes);
  TableLayout layout(base);
  layout.place(task.counts, sizes.areas);
  layout.place(task.picked, sizes.picks);
  layout.place(task.sums, sizes.picks << top_of(task.steps));
  layout.place(task.present, sizes.areas * sizes.classes);
  return layout.bytes();
}

}  // namespace

int64_t means_workspace(const MeansSizes& sizes) {
  MeansTask task = {};
  return place_tables(sizes, nullptr, task);
}

int32_t run_means(const double* precision, const double* recall, const MeansSizes& sizes,
                  const int64_t* picks, const int64_t* thresholds, double* out, void* workspace,
                  void* stream) {
  if (sizes.picks == 0) return 0;
  MeansTask task = {};
  task.precision = precision, task.recall = recall, task.out = out;
  task.recalls = sizes.recalls, task.classes = sizes.classes, task.areas = sizes.areas;
  task.curves = sizes.curves, task.limits = sizes.limits;
  task.picks = reinterpret_cast<const Pick*>(picks), task.thresholds = thresholds;
  place_tables(sizes, workspace, task);
  const unsigned count = static_cast<unsigned>(sizes.picks), areas = static_cast<unsigned>(sizes.areas);
  const dim3 parts(1u << top_of(task.steps), count);
  int32_t status = 0;
  if (sizes.classes <= kMostListed) {
    status = VALOR_LAUNCH(sum_kernel<false>, parts, kThreads, 0, stream, task);
  } else {
    status = VALOR_LAUNCH(present_kernel, areas, kThreads, 0, stream, task);
    if (status == 0) status = VALOR_LAUNCH(sum_kernel<true>, parts, kThreads, 0, stream, task);
  }
  return status ? status : VALOR_LAUNCH(mean_kernel, count, kThreads, 0, stream, task);
}

}  // namespace valor

// Bytes of workspace that valor_present_means_cuda needs for the same sizes, those of MeansSizes.
VALOR_API int32_t valor_present_means_workspace_cuda(const int64_t* sizes, int64_t* bytes) {
  return *bytes = valor::means_workspace(*reinterpret_cast<const valor::MeansSizes*>(sizes)), 0;
}

// Fills `out` [picks]. On the host: `sizes`. On the device: all else, of which `picks` are of Pick and
// `thresholds` the places that they list.
VALOR_API int32_t valor_present_means_cuda(const double* precision, const double* recall,
                                           const int64_t* sizes, const int64_t* picks,
                                           const int64_t* thresholds, double* out, void* workspace,
                                           void* stream) {
  return valor::run_means(precision, recall, *reinterpret_cast<const valor::MeansSizes*>(sizes), picks,
                          thresholds, out, workspace, stream);
}
