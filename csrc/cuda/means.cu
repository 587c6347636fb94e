// Means of precision and recall over what counts, for a few numbers to leave the device in place of the
// arrays.
#include "../core/means.h"
#include "launch.h"
#include "table_layout.h"

namespace valor {
namespace {

constexpr int kThreads = 256;

// One mean; all are places. `first` and `count` are those of its IoU thresholds in a list.
struct Pick {
  int64_t of_recall, area, limit, first, count;
};

struct MeansTask {
  const double *precision, *recall;  // [T, R, K, A, C] and [T, K, A, M]
  int64_t recalls, classes, areas, curves, limits;
  const Pick* picks;
  const int64_t* thresholds;  // places, by Pick
  int64_t* counts;            // [A] classes that count
  int32_t* present;           // [A, K] these classes, ascending
  double* sums;               // [picks, 2^steps]
  int steps;
  double* out;  // [picks]

  VALOR_HD int64_t samples(const Pick& pick) const { return pick.of_recall ? 1 : recalls; }
  VALOR_HD int64_t size(const Pick& pick) const { return pick.count * samples(pick) * counts[pick.area]; }
  VALOR_HD double* sums_of(int64_t pick) const { return sums + (pick << steps); }
};

// Walks over the values of a pick in the order of the arrays.
class Values {
 public:
  __device__ __forceinline__ Values(const MeansTask& task, const Pick& pick, int64_t at)
      : task_(task), pick_(pick), present_(task.counts[pick.area]), at_(at % present_) {
    sample_ = at / present_ % task.samples(pick);
    threshold_ = at / present_ / task.samples(pick);
  }
  __device__ __forceinline__ double next() {
    const int64_t k = task_.present[pick_.area * task_.classes + at_];
    const int64_t t = task_.thresholds[pick_.first + threshold_];
    const int64_t row = (t * task_.samples(pick_) + sample_) * task_.classes + k;
    const int64_t limits = pick_.of_recall ? task_.limits : task_.curves;
    const double* from = pick_.of_recall ? task_.recall : task_.precision;
    if (++at_ == present_) at_ = 0, ++sample_;
    if (sample_ == task_.samples(pick_)) sample_ = 0, ++threshold_;
    return from[(row * task_.areas + pick_.area) * limits + pick_.limit];
  }

 private:
  const MeansTask& task_;
  const Pick& pick_;
  const int64_t present_;
  int64_t at_, sample_, threshold_;
};

// One block per area range: the classes that have recall there, by ballots of 32.
__global__ void __launch_bounds__(32) present_kernel(const __grid_constant__ MeansTask task) {
  const int64_t a = blockIdx.x;
  const Warp warp;
  int64_t count = 0;
  for (int64_t base = 0; base < task.classes; base += 32) {
    const int64_t k = base + warp.lane();
    const bool counts = k < task.classes && task.recall[(k * task.areas + a) * task.limits] > -1.0;
    const uint32_t votes = warp.ballot(counts);
    if (counts)
      task.present[a * task.classes + count + __popc(votes & ((1u << warp.lane()) - 1))] =
          static_cast<int32_t>(k);
    count += __popc(votes);
  }
  if (warp.lane() == 0) task.counts[a] = count;
}

// One thread a block of values.
__global__ void __launch_bounds__(kThreads) sum_kernel(const __grid_constant__ MeansTask task) {
  const int64_t path = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const Pick& pick = task.picks[blockIdx.y];
  SumNode node{0, task.size(pick)};
  if (node.size == 0 || path >> task.steps || !node.follow(path, task.steps)) return;
  task.sums_of(blockIdx.y)[path] = sum_block(Values(task, pick, node.start), node.size);
}

// One block per mean: sums of halves become those of the whole, level by level.
__global__ void __launch_bounds__(kThreads) mean_kernel(const __grid_constant__ MeansTask task) {
  const int64_t size = task.size(task.picks[blockIdx.x]);
  double* sums = task.sums_of(blockIdx.x);
  for (int level = task.steps - 1; level >= 0 && size > 0; --level) {
    const int below = task.steps - level;  // the last bits of a path that this level has left behind
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

// Host numbers of a call: R, K, A, C, M, how many picks there are, and the most thresholds of one.
struct MeansSizes {
  int64_t recalls, classes, areas, curves, limits, picks, most_thresholds;
};

// Places the tables of a call; returns the bytes that they take.
int64_t place_tables(const MeansSizes& sizes, void* base, MeansTask& task) {
  task.steps = halvings(sizes.most_thresholds * sizes.recalls * sizes.classes);
  TableLayout layout(base);
  layout.place(task.counts, sizes.areas);
  layout.place(task.sums, sizes.picks << task.steps);
  layout.place(task.present, sizes.areas * sizes.classes);
  return layout.bytes();
}

}  // namespace
}  // namespace valor

// Bytes of workspace that valor_present_means_cuda needs for the same sizes, those of MeansSizes.
VALOR_API int32_t valor_present_means_workspace_cuda(const int64_t* sizes, int64_t* bytes) {
  using namespace valor;
  MeansTask task = {};
  *bytes = place_tables(*reinterpret_cast<const MeansSizes*>(sizes), nullptr, task);
  return 0;
}

// Fills `out` [picks]. On the host: `sizes`. On the device: all else, of which `picks` are of Pick and
// `thresholds` the places that they list.
VALOR_API int32_t valor_present_means_cuda(const double* precision, const double* recall,
                                           const int64_t* sizes, const int64_t* picks,
                                           const int64_t* thresholds, double* out, void* workspace,
                                           void* stream) {
  using namespace valor;
  const MeansSizes& s = *reinterpret_cast<const MeansSizes*>(sizes);
  if (s.picks == 0) return 0;
  MeansTask task = {};
  task.precision = precision, task.recall = recall, task.out = out;
  task.recalls = s.recalls, task.classes = s.classes, task.areas = s.areas;
  task.curves = s.curves, task.limits = s.limits;
  task.picks = reinterpret_cast<const Pick*>(picks), task.thresholds = thresholds;
  place_tables(s, workspace, task);
  const unsigned count = static_cast<unsigned>(s.picks);
  const unsigned blocks = static_cast<unsigned>(((int64_t{1} << task.steps) + kThreads - 1) / kThreads);
  int32_t status = VALOR_LAUNCH(present_kernel, static_cast<unsigned>(s.areas), 32, 0, stream, task);
  if (status == 0) status = VALOR_LAUNCH(sum_kernel, dim3(blocks, count), kThreads, 0, stream, task);
  return status ? status : VALOR_LAUNCH(mean_kernel, count, kThreads, 0, stream, task);
}
