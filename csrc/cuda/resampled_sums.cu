// Means of resampled curves on CUDA in numpy's order of summation: a warp a path of the tree for 32
// replicates, whose trees differ where they lack classes.
#include "../core/means.h"
#include "resampled_task.h"

namespace valor {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;

// Values that a mean of one replicate is taken over: a threshold has `samples`, a sample neighbouring
// classes.
struct Mean {
  const double* base;
  const int64_t* thresholds;  // null: all of them
  int64_t count, samples, row, width;
  int32_t classes;

  VALOR_HD int64_t size() const { return count * samples * classes; }
};

// The values of a mean from one on, in the order of the arrays.
class Reader {
 public:
  __device__ __forceinline__ Reader(const Mean& mean, int64_t at) : mean_(mean) {
    class_ = static_cast<int32_t>(at % mean.classes);
    sample_ = static_cast<int32_t>(at / mean.classes % mean.samples);
    threshold_ = at / mean.classes / mean.samples;
    find_row();
  }
  __device__ __forceinline__ double next() {
    const double value = from_[class_ * mean_.width];
    if (++class_ < mean_.classes) return value;
    class_ = 0;
    if (++sample_ == mean_.samples) sample_ = 0, ++threshold_;
    find_row();
    return value;
  }

 private:
  // Behind the last value, a row that is not read.
  __device__ __forceinline__ void find_row() {
    const int64_t last = threshold_ < mean_.count ? threshold_ : mean_.count - 1;
    const int64_t t = mean_.thresholds ? mean_.thresholds[last] : last;
    from_ = mean_.base + (t * mean_.samples + sample_) * mean_.row;
  }

  const Mean& mean_;
  const double* from_;
  int64_t threshold_;
  int32_t class_, sample_;
};

template <ResampledMean kind>
__device__ __forceinline__ Mean mean_of(const ResampledRun& run, int64_t job, int64_t lane) {
  const ResampledTask& task = run.task;
  if (kind == kPickMean) {
    const ResampledPick& pick = task.pick_rows()[job];
    const double* base =
        pick.of_recall ? run.recalls(pick.area, pick.limit, 0) : run.samples(pick.area, pick.limit, 0);
    return {base + lane,
            task.pick_thresholds() + pick.first,
            pick.count,
            pick.of_recall ? 1 : task.recalls,
            run.row(),
            run.width,
            run.tables.present[pick.area * run.width + lane]};
  }
  const bool recall = kind == kClassRecall;
  const double* base = recall ? run.recalls(0, task.limits - 1, 0) : run.samples(0, task.curves() - 1, 0);
  return {base + run.place(job, 0, lane) * run.width + lane,
          nullptr,
          task.thresholds,
          recall ? 1 : task.recalls,
          run.row(),
          run.width,
          run.positives(job, 0, lane) > 0 ? 1 : 0};
}

VALOR_HD double* sums_of(const ResampledRun& run, int64_t job, int steps, int64_t lane) {
  return run.tables.sums + (job << steps) * run.width + lane;
}

template <ResampledMean kind>
__global__ void __launch_bounds__(kThreads)
    sum_kernel(const __grid_constant__ ResampledRun run, int64_t jobs, int steps) {
  const int64_t groups = run.width / 32, warp = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int64_t lane = warp % groups * 32 + threadIdx.x % 32, item = warp / groups, job = item >> steps;
  if (job >= jobs) return;
  const Mean mean = mean_of<kind>(run, job, lane);
  const int64_t path = item & ((int64_t{1} << steps) - 1);
  SumNode node{0, mean.size()};
  if (!node.follow(path, steps) || node.size == 0) return;
  sums_of(run, job, steps, lane)[path * run.width] =
      sum_block(Reader(mean, node.start), static_cast<int32_t>(node.size));
}

// A block a mean of 32 replicates: sums of halves become those of the whole, level by level.
template <ResampledMean kind>
__global__ void __launch_bounds__(kThreads)
    mean_kernel(const __grid_constant__ ResampledRun run, int64_t jobs, int steps) {
  const int64_t job = blockIdx.x % jobs, lane = blockIdx.x / jobs * 32 + threadIdx.x % 32;
  const int64_t size = mean_of<kind>(run, job, lane).size();
  double* sums = sums_of(run, job, steps, lane);
  for (int level = steps - 1; level >= 0; --level) {
    const int below = steps - level;  // the last bits of a path that this level has left behind
    for (int64_t path = threadIdx.x / 32; path < int64_t{1} << level; path += kWarps) {
      SumNode node{0, size};
      if (node.follow(path, level) && node.splits())
        sums[(path << below) * run.width] +=
            sums[((path << below) + (int64_t{1} << (below - 1))) * run.width];
    }
    __syncthreads();
  }
  const int64_t replicate = run.first + lane;
  if (threadIdx.x >= 32 || replicate >= run.task.replicates) return;
  double* out = kind == kPickMean         ? run.task.means
                : kind == kClassPrecision ? run.task.class_precision
                                          : run.task.class_recall;
  out[replicate * jobs + job] = size ? sums[0] / static_cast<double>(size) : double_of(0x7ff8000000000000ull);
}

int64_t jobs_of(const ResampledTask& task, ResampledMean kind) {
  return kind == kPickMean ? task.picks : task.classes;
}

int steps_of(const ResampledTask& task, ResampledMean kind) {
  const int64_t samples = kind == kClassRecall || task.recalls == 0 ? 1 : task.recalls;
  return halvings(kind == kPickMean ? task.most_thresholds * samples * task.classes
                                    : task.thresholds * samples);
}

template <ResampledMean kind>
int32_t run_kind(const ResampledRun& run, void* stream) {
  const int64_t jobs = jobs_of(run.task, kind), groups = run.width / 32;
  const int steps = steps_of(run.task, kind);
  if (jobs == 0) return 0;
  const unsigned blocks = static_cast<unsigned>(((jobs << steps) * groups + kWarps - 1) / kWarps);
  const int32_t status = VALOR_LAUNCH(sum_kernel<kind>, blocks, kThreads, 0, stream, run, jobs, steps);
  return status ? status
                : VALOR_LAUNCH(mean_kernel<kind>, static_cast<unsigned>(jobs * groups), kThreads, 0, stream,
                               run, jobs, steps);
}

}  // namespace

int64_t sums_of_means(const ResampledTask& task) {
  int64_t most = 0;
  for (const ResampledMean kind : {kPickMean, kClassPrecision, kClassRecall}) {
    const int64_t sums = (jobs_of(task, kind) << steps_of(task, kind)) * task.portion;
    most = sums > most ? sums : most;
  }
  return most;
}

int32_t run_resampled_means(const ResampledRun& run, void* stream) {
  int32_t status = run_kind<kPickMean>(run, stream);
  if (status == 0) status = run_kind<kClassPrecision>(run, stream);
  return status ? status : run_kind<kClassRecall>(run, stream);
}

}  // namespace valor
