// Precision-recall accumulation on CUDA, even whatever the class sizes. The ordered records of a class are
// cut into tiles, in which each setting has one word of true and one of false positives for every 32 records;
// counts of tiles are summed over the class; then every true positive knows its precision and raises the
// recall sample that it falls to.
#include "clear.h"
#include "curve_tables.h"
#include "launch.h"

namespace valor {
namespace {

constexpr int kScanWarps = 16;
constexpr int kBatch = 8;             // loads under way at once
constexpr int32_t kInvalidValue = 1;  // cudaErrorInvalidValue

enum Kind : int { kTrue = 0, kFalse = 1 };

VALOR_HD uint32_t below(int bit) { return (1u << bit) - 1; }
VALOR_HD uint32_t up_to(int bit) { return 0xffffffffu >> (31 - bit); }
__device__ __forceinline__ int first_bit(uint32_t word) { return __ffs(static_cast<int>(word)) - 1; }
__device__ __forceinline__ int last_bit(uint32_t word) { return 31 - __clz(static_cast<int>(word)); }

// Bit i of the result of lane l is bit l of the word of lane i: halves of ever smaller squares change places.
__device__ __forceinline__ uint32_t transpose_bits(uint32_t word) {
  uint32_t low = 0x0000ffffu;
  for (int stride = 16; stride; stride >>= 1, low ^= low << stride) {
    const uint32_t other = __shfl_xor_sync(Warp::kAll, word, stride);
    word = (threadIdx.x & stride) ? (word & ~low) | (other >> stride & low)
                                  : (word & low) | (other << stride & ~low);
  }
  return word;
}

// What one thread knows of its record: nothing if it has none.
struct Bits {
  uint64_t positive[2] = {0, 0};  // settings where it is a true, a false positive
  int bucket = INT32_MAX;
};

__device__ __forceinline__ Bits load_record(const CurveTask& task, int64_t at) {
  const CurveShape& shape = task.run.shape;
  const uint8_t* row = task.run.record(at);
  const uint64_t settings = task.settings == 64 ? ~0ull : (1ull << task.settings) - 1;
  const uint64_t matched = load_bits(row + 13, shape.setting_bytes(), task.first);
  const uint64_t ignored = load_bits(row + 13 + shape.setting_bytes(), shape.setting_bytes(), task.first);
  Bits bits;
  bits.positive[kTrue] = matched & ~ignored & settings;
  bits.positive[kFalse] = ~matched & ~ignored & settings;
  bits.bucket = record_bucket(row);
  return bits;
}

// Counts of the tile's words: true positives within each limit, false positives within each curve's limit.
__device__ __forceinline__ void count_tile(const CurveTask& task, int64_t tile) {
  const int columns = static_cast<int>(task.slots()) * task.settings;
  for (int i = threadIdx.x; i < columns; i += kTile) {
    const int slot = i / task.settings, setting = i % task.settings;
    const int kind = slot < task.limits() ? kTrue : kFalse;
    const int64_t m = kind == kTrue ? slot : task.limit_of(slot - task.limits());
    int32_t sum = 0;
    for (int64_t group = tile * kGroups; group < (tile + 1) * kGroups; ++group)
      sum += __popc(task.mask(group, kind, setting) & task.kept(group, m));
    task.count(tile, slot, setting) = sum;
  }
}

__device__ __forceinline__ void write_words(const CurveTask& task, int64_t group, const Bits& bits) {
  const int lane = Warp().lane();
  for (int kind = kTrue; kind <= kFalse; ++kind)
    for (int half = 0; half < task.settings; half += 32) {
      const uint32_t word = transpose_bits(static_cast<uint32_t>(bits.positive[kind] >> half));
      if (half + lane < task.settings) task.mask(group, kind, half + lane) = word;
    }
  for (int64_t m = 0; m < task.limits(); ++m) {
    const uint32_t word = Warp().ballot(bits.bucket <= m);
    if (lane == 0) task.kept(group, m) = word;
  }
}

// One block a tile, one thread a record.
__global__ void __launch_bounds__(kTile) collect_kernel(const __grid_constant__ CurveTask task) {
  const int64_t tile = blockIdx.x;
  const int64_t k =
      partition_point(task.run.shape.classes, [&](int64_t c) { return task.first_tile(c) <= tile; }) - 1;
  const bool used = tile < task.first_tile(k) + task.tiles_of(k);
  if (threadIdx.x == 0) task.tables.classes[tile] = used ? static_cast<int32_t>(k) : -1;
  if (!used) return;
  const int64_t begin = task.run.offsets[k], end = task.run.offsets[k + 1];
  const int64_t at = begin + (tile - task.first_tile(k)) * kTile + threadIdx.x;
  const int64_t group = tile * kGroups + threadIdx.x / 32;
  write_words(task, group, at < end ? load_record(task, at) : Bits{});
  if (task.run.ties != kGiven) {
    const bool starts = at < end && (at == begin || record_score(task.run.record(at)) !=
                                                        record_score(task.run.record(at - 1)));
    const uint32_t word = Warp().ballot(starts);
    if (Warp().lane() == 0) task.tables.starts[group] = word;
  }
  __syncthreads();
  count_tile(task, tile);
}

// Each count becomes the sum of those before it and of `before`.
__device__ __forceinline__ void exclude_own(int32_t* counts, int64_t stride, int64_t begin, int64_t end,
                                            int32_t before) {
  for (int64_t i = begin; i < end; i += kBatch) {
    int32_t own[kBatch];
    for (int j = 0; j < kBatch; ++j) own[j] = i + j < end ? counts[(i + j) * stride] : 0;
    for (int j = 0; j < kBatch; ++j) {
      if (i + j < end) counts[(i + j) * stride] = before;
      before += own[j];
    }
  }
}

// Blocks of 32 columns (slot, setting) of a class: counts become those of the tiles before.
__global__ void __launch_bounds__(32 * kScanWarps) scan_kernel(const __grid_constant__ CurveTask task) {
  VALOR_SHARED(int32_t, sums, [kScanWarps][32]);
  const CurveShape& shape = task.run.shape;
  const int64_t k = blockIdx.x, tiles = task.tiles_of(k), share = (tiles + kScanWarps - 1) / kScanWarps;
  const int warp = static_cast<int>(threadIdx.y);
  const int64_t column = static_cast<int64_t>(blockIdx.y) * 32 + threadIdx.x,
                columns = task.slots() * task.settings;
  const int64_t begin = warp * share < tiles ? warp * share : tiles;
  const int64_t end = begin + share < tiles ? begin + share : tiles;
  int32_t* counts = &task.count(task.first_tile(k), 0, 0) + column;
  int32_t sum = 0;
  for (int64_t i = begin; column < columns && i < end; ++i) sum += counts[i * columns];
  sums[warp][threadIdx.x] = sum;
  __syncthreads();
  int32_t before = 0, total = 0;
  for (int w = 0; w < kScanWarps; ++w) {
    if (w < warp) before += sums[w][threadIdx.x];
    total += sums[w][threadIdx.x];
  }
  if (column < columns) exclude_own(counts, columns, begin, end, before);
  if (warp == 0 && column < task.limits() * task.settings)
    task.total(k, column / task.settings, task.first + column % task.settings) = total;
  if (blockIdx.y > 0 || task.first > 0) return;
  for (int64_t i = warp * 32 + threadIdx.x; i < shape.areas * shape.recalls; i += 32 * kScanWarps) {
    const int64_t a = i / shape.recalls, r = i % shape.recalls, p = task.run.positives_of(k, a);
    const int64_t rows = task.records_of(k);
    task.reach(k, a)[r] = reaching_index(p, p > rows ? p : rows, task.run.recall_grid[r]);
  }
}

// The true positives among 32 records of a class, in one setting and curve; kTied if tied scores change
// places.
template <bool kTied>
class Walk {
 public:
  __device__ __forceinline__ Walk(const CurveTask& task, int64_t k, int64_t group, int64_t setting,
                                  int64_t curve)
      : task_(task), k_(k), group_(group), setting_(setting), curve_(curve), m_(task.limit_of(curve)) {
    falses_ = task.mask(group, kFalse, setting) & task.kept(group, m_);
    const int32_t thresholds = static_cast<int32_t>(task.run.shape.thresholds);
    a_ = (task.first + static_cast<int32_t>(setting)) / thresholds;
    out_ = task.run.first_sample((task.first + setting) - a_ * thresholds, k, a_, curve);
  }

  __device__ __forceinline__ void run() {
    uint32_t trues = task_.mask(group_, kTrue, setting_) & task_.kept(group_, m_);
    if (trues == 0 || task_.run.positives_of(k_, a_) == 0) return;
    const int64_t* reach = task_.reach(k_, a_);
    const int64_t recalls = task_.run.shape.recalls;
    int64_t index = before(kTrue, m_), r = -1;
    fp_ = before(kFalse, task_.limits() + curve_);
    double best = 0.0;
    for (; trues; trues &= trues - 1, ++index) {
      const int bit = first_bit(trues);
      const int64_t old = r;
      if (r < 0) r = partition_point(recalls, [=](int64_t i) { return reach[i] <= index; }) - 1;
      while (r >= 0 && r + 1 < recalls && reach[r + 1] <= index) ++r;
      if (r < 0) continue;
      if (old >= 0 && r > old) raise(old, best), best = 0.0;
      const double value = precision_at(index + 1, false_at(bit));
      best = value > best ? value : best;
      if (task_.run.full) note_score(reach, r, index, bit);
    }
    if (r >= 0) raise(r, best);
  }

 private:
  // Positives of the class before this group, from the count in `slot` of the tiles before.
  __device__ __forceinline__ int64_t before(Kind kind, int64_t slot) const {
    int64_t sum = task_.count(group_ / kGroups, slot, setting_);
    for (int64_t g = group_ / kGroups * kGroups; g < group_; ++g)
      sum += __popc(task_.mask(g, kind, setting_) & task_.kept(g, m_));
    return sum;
  }

  // False positives before a true positive; those with its score come all after it, or all before it, where
  // the run asks for the highest, or the lowest, precision.
  __device__ __forceinline__ int64_t false_at(int bit) {
    if (!kTied) return fp_ + __popc(falses_ & below(bit));
    const bool highest = task_.run.ties == kHighest;
    const uint32_t starts = task_.tables.starts[group_];
    const uint32_t inside = starts & (highest ? up_to(bit) : ~up_to(bit));
    if (inside) return fp_ + __popc(falses_ & below(highest ? last_bit(inside) : first_bit(inside)));
    if (beyond_ < 0) beyond_ = highest ? false_before_tie() : false_after_tie();
    return beyond_;
  }

  // The score that the first record here has begins in a group before.
  __device__ __forceinline__ int64_t false_before_tie() const {
    int64_t g = group_ - 1;
    while (task_.tables.starts[g] == 0) --g;  // the first record of a class starts one
    Walk other(task_, k_, g, setting_, curve_);
    return other.before(kFalse, task_.limits() + curve_) +
           __popc(other.falses_ & below(last_bit(task_.tables.starts[g])));
  }

  // The score that the last record here has ends in a group behind, or with the class.
  __device__ __forceinline__ int64_t false_after_tie() const {
    const int64_t last = task_.first_tile(k_) * kGroups + (task_.records_of(k_) - 1) / 32;
    int64_t g = group_ + 1;
    while (g <= last && task_.tables.starts[g] == 0) ++g;
    const uint32_t ended = g <= last ? below(first_bit(task_.tables.starts[g])) : 0xffffffffu;
    Walk other(task_, k_, g <= last ? g : last, setting_, curve_);
    return other.before(kFalse, task_.limits() + curve_) + __popc(other.falses_ & ended);
  }

  // Bits of doubles that are not negative are in the order of their values.
  __device__ __forceinline__ void raise(int64_t r, double value) const {
    double* sample = task_.run.precision + out_ + task_.run.grid_places[r] * task_.run.sample_stride();
    atomicMax(reinterpret_cast<unsigned long long*>(sample), static_cast<unsigned long long>(bits_of(value)));
  }

  // Samples that this very true positive reaches first carry its score.
  __device__ __forceinline__ void note_score(const int64_t* reach, int64_t r, int64_t index, int bit) const {
    if (reach[r] != index) return;
    const int64_t at = (group_ - task_.first_tile(k_) * kGroups) * 32 + bit;
    const double score = record_score(task_.run.record(task_.run.offsets[k_] + at));
    for (; r >= 0 && reach[r] == index; --r)
      task_.run.scores[out_ + task_.run.grid_places[r] * task_.run.sample_stride()] = score;
  }

  const CurveTask& task_;
  const int64_t k_, group_, setting_, curve_, m_;
  int64_t a_, out_, fp_ = 0, beyond_ = -1;
  uint32_t falses_;
};

// One block a tile: samples become the largest precision of the true positives that fall to them.
template <bool kTied>
__global__ void __launch_bounds__(kTile, kTied ? 2 : 3) raise_kernel(const __grid_constant__ CurveTask task) {
  const int64_t tile = blockIdx.x, k = task.tables.classes[tile];
  if (k < 0) return;
  for (int i = threadIdx.x; i < kGroups * task.settings; i += kTile)
    for (int64_t curve = 0; curve < task.run.curves(); ++curve)
      Walk<kTied>(task, k, tile * kGroups + i / task.settings, i % task.settings, curve).run();
}

// The largest value of this lane and all below, and of `before`.
__device__ __forceinline__ double largest_so_far(double value, double before) {
  if (before > value) value = before;
  for (int offset = 1; offset < 32; offset *= 2) {
    const double other = __shfl_up_sync(Warp::kAll, value, offset);
    if (other > value) value = other;
  }
  return value;
}

// Score of the first record of a class within limit m; false when there is none.
__device__ __forceinline__ bool first_score(const CurveTask& task, int64_t k, int64_t m, double& score) {
  const int64_t begin = task.first_tile(k) * kGroups;
  for (int64_t g = begin; g < begin + task.tiles_of(k) * kGroups; ++g)
    if (const uint32_t word = task.kept(g, m)) {
      score = record_score(task.run.record(task.run.offsets[k] + (g - begin) * 32 + first_bit(word)));
      return true;
    }
  return false;
}

// How many samples of a curve are reached, in ascending order; `score` is that of its first record.
__device__ __forceinline__ int64_t samples_reached(const CurveTask& task, int64_t k, int64_t a, int64_t m,
                                                   int64_t tp, double& score) {
  const int64_t* reach = task.reach(k, a);
  const int64_t reached = partition_point(task.run.shape.recalls, [=](int64_t r) { return reach[r] < tp; });
  if (task.unconditional == 0 || (!task.run.full && reached >= task.unconditional)) return reached;
  return first_score(task, k, m, score) && reached < task.unconditional ? task.unconditional : reached;
}

// Samples of one curve in place, 32 at a time from the last: each is the largest from it on, and 0 from the
// first place that is not reached.
__device__ __forceinline__ void finish_curve(const CurveTask& task, int64_t k, int64_t a, int64_t t,
                                             int64_t curve) {
  const Accumulation& run = task.run;
  const int64_t first = run.first_sample(t, k, a, curve), stride = run.sample_stride(),
                m = task.limit_of(curve);
  const bool absent = run.positives_of(k, a) == 0;
  double score = 0.0, best = 0.0;
  const int64_t tp = task.total(k, m, a * run.shape.thresholds + t);
  const int64_t stop = task.stops[absent ? 0 : samples_reached(task, k, a, m, tp, score)];
  for (int64_t base = run.shape.recalls - 1; base >= 0; base -= 32) {
    const int64_t r = base - Warp().lane(), place = r >= 0 ? run.grid_places[r] : 0,
                  at = first + place * stride;
    best = largest_so_far(r >= 0 ? run.precision[at] : 0.0, best);
    const bool filled = place < stop;
    if (r >= 0) run.precision[at] = absent ? -1.0 : filled ? best : 0.0;
    if (r >= 0 && run.full && (absent || !filled || r < task.unconditional))
      run.scores[at] = absent ? -1.0 : filled ? score : 0.0;
    best = __shfl_sync(Warp::kAll, best, 31);
  }
}

__device__ __forceinline__ void write_recall(const CurveTask& task, int64_t k, int64_t a, int64_t t,
                                             int64_t m) {
  const int64_t positives = task.run.positives_of(k, a),
                tp = task.total(k, m, a * task.run.shape.thresholds + t);
  task.run.recall[task.run.recall_at(t, k, a, m)] =
      positives == 0 ? -1.0 : static_cast<double>(tp) / static_cast<double>(positives);
}

// One warp a curve; recall has all limits whether there are curves of them or not.
__global__ void __launch_bounds__(kTile) finish_kernel(const __grid_constant__ CurveTask task) {
  const CurveShape& shape = task.run.shape;
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * kTile + threadIdx.x) / 32, curves = task.run.curves();
  if (i >= shape.settings() * shape.classes * curves) return;
  const int64_t curve = i % curves, a = i / curves % shape.areas, row = i / curves / shape.areas;
  const int64_t k = row % shape.classes, t = row / shape.classes;
  finish_curve(task, k, a, t, curve);
  for (int64_t m = curve + Warp().lane() * curves; m < shape.limits; m += 32 * curves)
    write_recall(task, k, a, t, m);
}

// Settings are taken 64 at a time; what is left of a pass is in the samples and in the totals.
int32_t launch_all(CurveTask& task, void* stream) {
  const int64_t settings = task.run.shape.settings(), K = task.run.shape.classes;
  const int64_t samples = settings * task.run.shape.recalls * K * task.run.curves();
  const ClearTask zero{{reinterpret_cast<int64_t*>(task.run.precision),
                        reinterpret_cast<int64_t*>(task.run.scores), nullptr, nullptr},
                       {samples, task.run.full ? samples : 0, 0, 0}};
  int32_t status = clear(zero, stream);
  for (int64_t first = 0; first < settings && status == 0; first += kPass) {
    task.first = static_cast<int32_t>(first);
    task.settings = static_cast<int32_t>(settings - first < kPass ? settings - first : kPass);
    const unsigned tiles = static_cast<unsigned>(task.tiles), columns = task.slots() * task.settings;
    status = VALOR_LAUNCH(collect_kernel, tiles, kTile, 0, stream, task);
    if (status == 0)
      status = VALOR_LAUNCH(scan_kernel, dim3(K, (columns + 31) / 32), dim3(32, kScanWarps), 0, stream, task);
    if (status == 0)
      status = task.run.ties == kGiven ? VALOR_LAUNCH(raise_kernel<false>, tiles, kTile, 0, stream, task)
                                       : VALOR_LAUNCH(raise_kernel<true>, tiles, kTile, 0, stream, task);
  }
  const unsigned blocks =
      static_cast<unsigned>((settings * K * task.run.curves() + kTile / 32 - 1) / (kTile / 32));
  return status ? status : VALOR_LAUNCH(finish_kernel, blocks, kTile, 0, stream, task);
}

}  // namespace
}  // namespace valor

// Bytes of workspace that valor_precision_recall_cuda needs for the same sizes: T, A, M, R, K, records.
VALOR_API int32_t valor_precision_recall_workspace_cuda(const int64_t* sizes, int64_t full, int64_t ties,
                                                        int64_t* bytes) {
  using namespace valor;
  CurveTables tables;
  *bytes =
      place_tables(*reinterpret_cast<const CurveSizes*>(sizes), full != 0, ties != kGiven, nullptr, tables);
  return 0;
}

// Fills precision [T, R, K, A, M or 1], scores (likewise when full, else unused) and recall [T, K, A, M]. On
// the host: `sizes` as above. On the device: all else, of which `grid` is float64 [R] ascending recall
// thresholds, int64 [R] their places, int64 [R + 1] the least place from each on; `unconditional` of them are
// not above 0. Less than 2^31 records.
VALOR_API int32_t valor_precision_recall_cuda(const uint8_t* records, const int64_t* order,
                                              const int64_t* offsets, const int64_t* positives,
                                              const int64_t* sizes, const int64_t* grid,
                                              int64_t unconditional, int64_t full, int64_t ties,
                                              double* precision, double* recall, double* scores,
                                              void* workspace, void* stream) {
  using namespace valor;
  const CurveSizes& s = *reinterpret_cast<const CurveSizes*>(sizes);
  if (s.classes == 0 || s.shape().settings() == 0) return 0;
  if (s.records > INT32_MAX) return kInvalidValue;
  CurveTask task = {};
  task.run = Accumulation{s.shape(),        records,   order,
                          offsets,          positives, reinterpret_cast<const double*>(grid),
                          grid + s.recalls, full != 0, static_cast<TieOrder>(ties),
                          precision,        recall,    scores};
  task.stops = grid + 2 * s.recalls;
  task.unconditional = unconditional;
  task.tiles = s.tiles();
  place_tables(s, full != 0, ties != kGiven, workspace, task.tables);
  return launch_all(task, stream);
}
