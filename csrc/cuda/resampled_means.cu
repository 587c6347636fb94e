// Numbers of resampled detection records on CUDA: a warp walks the records of a class in order, in one
// setting, for 32 replicates at once, each with its own counts.
#include "resampled_task.h"

namespace valor {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kShare = 16;            // blocks of a class that prepares its records
constexpr int kAhead = 8;             // weights that are loaded before they are needed
constexpr int kTrue = 0, kFalse = 1;  // kinds of masks

// What a warp works on; warps of a block have neighbouring lanes of the same records.
struct Part {
  int64_t lane, item;  // lane of the portion; an item has all lanes
  bool there;
};

__device__ __forceinline__ Part part_of(const ResampledRun& run, int64_t items) {
  const int64_t groups = run.width / 32, warp = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  return {warp % groups * 32 + threadIdx.x % 32, warp / groups, warp < items * groups};
}

unsigned blocks_of(const ResampledRun& run, int64_t items) {
  return static_cast<unsigned>((items * (run.width / 32) + kWarps - 1) / kWarps);
}

// What one lane brings of 32 records.
__device__ __forceinline__ void prepare_batch(const ResampledRun& run, int64_t batch, int64_t at,
                                              int64_t begin, int64_t end) {
  const ResampledTask& task = run.task;
  const Warp warp;
  const CurveShape shape = task.shape();
  const int64_t field = shape.setting_bytes();
  const bool there = at < end;
  const uint8_t* row = task.detections + (there ? task.order[at] : 0) * shape.row_bytes();
  bool tied = false;
  if (there && at > begin) {
    const uint8_t* before = task.detections + task.order[at - 1] * shape.row_bytes();
    tied = tied_in_image(record_score(before), task.record_units[at - 1], record_score(row),
                         task.record_units[at]);
  }
  const uint32_t again = warp.ballot(tied);
  if (warp.lane() == 0) run.tables.tied[batch] = again;
  for (int64_t m = 0; m < task.limits; ++m) {
    const uint32_t kept = warp.ballot(there && record_bucket(row) <= m);
    if (warp.lane() == 0) run.kept(batch, m) = kept;
  }
  for (int64_t s = 0; s < task.settings(); ++s) {
    const bool counts = there && !(row[13 + field + s / 8] >> (s % 8) & 1);
    const bool matched = there && (row[13 + s / 8] >> (s % 8) & 1);
    const uint32_t trues = warp.ballot(counts && matched), falses = warp.ballot(counts && !matched);
    if (warp.lane() == 0) run.mask(batch, kTrue, s) = trues, run.mask(batch, kFalse, s) = falses;
  }
}

__global__ void __launch_bounds__(kThreads) prepare_kernel(const __grid_constant__ ResampledRun run) {
  const int64_t k = blockIdx.x, begin = run.task.offsets[k], end = run.task.offsets[k + 1];
  const int64_t own = static_cast<int64_t>(blockIdx.y) * kWarps + threadIdx.x / 32;
  for (int64_t batch = own; begin + batch * 32 < end; batch += kShare * kWarps)
    prepare_batch(run, run.first_batch(k) + batch, begin + batch * 32 + threadIdx.x % 32, begin, end);
}

__global__ void __launch_bounds__(kThreads) positives_kernel(const __grid_constant__ ResampledRun run) {
  const ResampledTask& task = run.task;
  const Part part = part_of(run, task.classes * task.areas);
  if (!part.there) return;
  const int64_t k = part.item / task.areas, a = part.item % task.areas, bytes = (task.areas + 2 + 7) / 8;
  int32_t sum = 0;
  for (int64_t i = task.truth_offsets[k]; i < task.truth_offsets[k + 1]; ++i)
    if (task.truths[i * bytes + a / 8] >> (a % 8) & 1) sum += run.weight(task.truth_units[i], part.lane);
  run.positives(k, a, part.lane) = sum;
}

// A thread an area range and replicate.
__global__ void __launch_bounds__(kThreads) places_kernel(const __grid_constant__ ResampledRun run) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x, a = at / run.width,
                lane = at % run.width;
  if (a >= run.task.areas) return;
  int32_t place = 0;
  for (int64_t k = 0; k < run.task.classes; ++k) {
    run.place(k, a, lane) = place;
    place += run.positives(k, a, lane) > 0 ? 1 : 0;
  }
  run.tables.present[at] = place;
}

// The curve of one replicate. Samples lie `step` values apart.
struct Curve {
  const double* grid;
  const int64_t* places;
  double* samples;
  int64_t step;
  int32_t recalls, positives;
  int32_t tp = 0, fp = 0;
  int32_t reached = -1;  // the last sample that is, in the ascending grid
  double best = 0.0;     // largest precision of the true positives that fall to it

  __device__ __forceinline__ double& sample(int32_t r) const { return samples[places[r] * step]; }
  // `weight` true positives, of which the last has the highest recall and precision.
  __device__ __forceinline__ void hit(int32_t weight) {
    if (weight == 0 || positives == 0) return;
    tp += weight;
    const double recall = static_cast<double>(tp) / static_cast<double>(positives);
    while (reached + 1 < recalls && grid[reached + 1] <= recall) {
      if (reached >= 0) sample(reached) = best;
      best = 0.0;
      ++reached;
    }
    const double precision = weighted_precision(tp, fp);
    best = precision > best ? precision : best;
  }
  // Samples become the largest precision at their recall or above. `stops`: by samples reached, the first
  // place of the caller's grid that is not filled.
  __device__ __forceinline__ void finish(const int64_t* stops) const {
    if (positives == 0) return;
    const int64_t stop = stops[reached + 1];
    double most = best;
    for (int32_t r = recalls - 1; r >= 0; --r) {
      if (r < reached && sample(r) > most) most = sample(r);
      sample(r) = r <= reached && places[r] < stop ? most : 0.0;
    }
  }
};

// The records of a class in one setting and within one limit.
struct Walk {
  const ResampledRun& run;
  int64_t k, setting, limit, lane, begin, end, first_batch;

  __device__ __forceinline__ int64_t batches() const { return (end - begin + 31) / 32; }
  __device__ __forceinline__ uint32_t mask(int64_t batch, int kind) const {
    return run.mask(first_batch + batch, kind, setting) & run.kept(first_batch + batch, limit);
  }
  __device__ __forceinline__ uint32_t tied(int64_t batch) const {
    return batch < batches() ? run.tables.tied[first_batch + batch] : 0;
  }
  // The unit of this lane's record.
  __device__ __forceinline__ int32_t unit(int64_t batch) const {
    const int64_t at = begin + batch * 32 + threadIdx.x % 32;
    return run.task.record_units[at < end ? at : end - 1];
  }
  // Records of a batch without ties in their image.
  __device__ __forceinline__ void take(Curve& curve, int32_t units, uint32_t trues, uint32_t falses) const {
    VALOR_ROLLED
    for (int q = 0; q < 32; q += kAhead) {
      const uint32_t any = (trues | falses) >> q & ((1u << kAhead) - 1);
      if (any == 0) continue;
      uint64_t bytes = 0;
      int32_t sum = 0;
      VALOR_UNROLLED
      for (int i = 0; i < kAhead; ++i) {
        const int32_t unit = Warp().from(units, q + i), weight = any >> i & 1 ? run.weight(unit, lane) : 0;
        bytes |= static_cast<uint64_t>(weight) << (8 * i);
        sum += weight;
      }
      if ((trues >> q & any) == 0) {
        curve.fp += sum;
        continue;
      }
      VALOR_ROLLED
      for (uint32_t left = any; left != 0; left &= left - 1) {
        const int i = __ffs(static_cast<int>(left)) - 1, weight = static_cast<int>(bytes >> (8 * i) & 255);
        if (trues >> (q + i) & 1)
          curve.hit(weight);
        else
          curve.fp += weight;
      }
    }
  }
  // Records of one score and image, the first of which is record `i` of a batch: copies of the image follow
  // one another.
  __device__ __forceinline__ void take_tied(Curve& curve, int64_t batch, int i) const {
    const int64_t first = batch * 32 + i;
    int64_t last = first + 1;
    while (tied(last / 32) >> (last % 32) & 1) ++last;
    const int32_t weight = run.weight(run.task.record_units[begin + first], lane), most = Warp().max(weight);
    VALOR_ROLLED
    for (int32_t copy = 0; copy < most; ++copy) {
      VALOR_ROLLED
      for (int64_t at = first; at < last; ++at) {
        const int32_t one = copy < weight ? 1 : 0;
        if (mask(at / 32, kTrue) >> (at % 32) & 1) curve.hit(one);
        if (mask(at / 32, kFalse) >> (at % 32) & 1) curve.fp += one;
      }
    }
  }
  __device__ __forceinline__ void take_all(Curve& curve) const {
    for (int64_t batch = 0; batch < batches(); ++batch) {
      const uint32_t again = tied(batch), repeated = again | again >> 1 | (tied(batch + 1) & 1) << 31;
      const uint32_t trues = mask(batch, kTrue), falses = mask(batch, kFalse);
      if ((trues | falses | repeated) == 0) continue;
      const int32_t units = unit(batch);
      uint32_t left = 0xffffffffu;
      VALOR_ROLLED
      while (left != 0) {  // records up to the next that is tied, and those that it is tied with
        const uint32_t first = repeated & left & (0u - (repeated & left)), before = left & (first - 1);
        take(curve, units, trues & before, falses & before);
        if (first & ~again) take_tied(curve, batch, __ffs(static_cast<int>(first)) - 1);
        left &= ~(before | first);
      }
    }
  }
};

__device__ __forceinline__ Walk walk_of(const ResampledRun& run, int64_t k, int64_t setting, int64_t limit,
                                        int64_t lane) {
  return {run, k, setting, limit, lane, run.task.offsets[k], run.task.offsets[k + 1], run.first_batch(k)};
}

// A warp a class, setting and curve.
__global__ void __launch_bounds__(kThreads, 2) walk_kernel(const __grid_constant__ ResampledRun run) {
  const ResampledTask& task = run.task;
  const int64_t curves = task.curves();
  const Part part = part_of(run, task.classes * task.settings() * curves);
  if (!part.there) return;
  const int64_t curve = part.item % curves, s = part.item / curves % task.settings(),
                k = part.item / curves / task.settings(), a = s / task.thresholds, t = s % task.thresholds,
                m = task.limit_of(curve);
  const int32_t positives = run.positives(k, a, part.lane), place = run.place(k, a, part.lane);
  double* samples = run.samples(a, curve, t) + place * run.width + part.lane;
  Curve found{task.grid(), task.grid_places(), samples, run.row(), static_cast<int32_t>(task.recalls),
              positives};
  walk_of(run, k, s, m, part.lane).take_all(found);
  found.finish(task.stops());
  if (positives > 0)
    run.recalls(a, m, t)[place * run.width + part.lane] =
        static_cast<double>(found.tp) / static_cast<double>(positives);
}

// A warp a class, setting and limit without a curve: final recall does not depend on the order.
__global__ void __launch_bounds__(kThreads) recall_kernel(const __grid_constant__ ResampledRun run) {
  const ResampledTask& task = run.task;
  const int64_t limits = task.limits - 1;
  const Part part = part_of(run, task.classes * task.settings() * limits);
  if (!part.there) return;
  const int64_t m = part.item % limits, s = part.item / limits % task.settings(),
                k = part.item / limits / task.settings(), a = s / task.thresholds, t = s % task.thresholds;
  const Walk walk = walk_of(run, k, s, m, part.lane);
  int32_t tp = 0;
  for (int64_t batch = 0; batch < walk.batches(); ++batch)
    for (uint32_t left = walk.mask(batch, kTrue); left != 0; left &= left - 1)
      tp += run.weight(task.record_units[walk.begin + batch * 32 + __ffs(static_cast<int>(left)) - 1],
                       part.lane);
  const int32_t positives = run.positives(k, a, part.lane), place = run.place(k, a, part.lane);
  if (positives > 0)
    run.recalls(a, m, t)[place * run.width + part.lane] =
        static_cast<double>(tp) / static_cast<double>(positives);
}

int64_t place_tables(const ResampledTask& task, void* base, ResampledTables& tables) {
  const int64_t width = task.portion, of_areas = task.classes * task.areas;
  TableLayout layout(base);
  layout.place(tables.masks, task.batches() * 2 * task.settings());
  layout.place(tables.kept, task.batches() * task.limits);
  layout.place(tables.tied, task.batches());
  layout.place(tables.positives, of_areas * width);
  layout.place(tables.places, of_areas * width);
  layout.place(tables.present, task.areas * width);
  layout.place(tables.precision, task.settings() * task.curves() * task.recalls * task.classes * width);
  layout.place(tables.recall, task.settings() * task.limits * task.classes * width);
  layout.place(tables.sums, sums_of_means(task));
  return layout.bytes();
}

int32_t run_portion(const ResampledRun& run, void* stream) {
  const ResampledTask& task = run.task;
  const int64_t of_areas = task.classes * task.areas, of_settings = task.classes * task.settings();
  int32_t status = 0;
  if (of_areas > 0)
    status = VALOR_LAUNCH(positives_kernel, blocks_of(run, of_areas), kThreads, 0, stream, run);
  const unsigned threads = static_cast<unsigned>((task.areas * run.width + kThreads - 1) / kThreads);
  if (status == 0 && threads > 0) status = VALOR_LAUNCH(places_kernel, threads, kThreads, 0, stream, run);
  if (status == 0 && of_settings > 0)
    status = VALOR_LAUNCH(walk_kernel, blocks_of(run, of_settings * task.curves()), kThreads, 0, stream, run);
  if (status == 0 && of_settings > 0 && !task.full && task.limits > 1)
    status = VALOR_LAUNCH(recall_kernel, blocks_of(run, of_settings * (task.limits - 1)), kThreads, 0, stream,
                          run);
  return status ? status : run_resampled_means(run, stream);
}

}  // namespace
}  // namespace valor

// Bytes of workspace that valor_resampled_means_cuda needs for the same task, of which it reads the sizes.
VALOR_API int32_t valor_resampled_means_workspace_cuda(const void* words, int64_t* bytes) {
  valor::ResampledTables tables;
  *bytes = valor::place_tables(*static_cast<const valor::ResampledTask*>(words), nullptr, tables);
  return 0;
}

// Fills all that a ResampledTask puts out, of which `words` lie on the host. A class has so few records and
// ground truths that their weights add up in int32.
VALOR_API int32_t valor_resampled_means_cuda(const void* words, void* workspace, void* stream) {
  using namespace valor;
  ResampledRun run{*static_cast<const ResampledTask*>(words), {}, 0, 0};
  run.width = run.task.portion;
  place_tables(run.task, workspace, run.tables);
  const dim3 grid(static_cast<unsigned>(run.task.classes), kShare);
  int32_t status = 0;
  if (run.task.classes > 0) status = VALOR_LAUNCH(prepare_kernel, grid, kThreads, 0, stream, run);
  for (; status == 0 && run.first < run.task.replicates; run.first += run.width)
    status = run_portion(run, stream);
  return status;
}
