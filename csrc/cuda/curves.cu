// Precision-recall accumulation on CUDA, even whatever the class sizes. The ordered records of a class are
// cut into tiles, in which each setting has one word of true and one of false positives for every 32 records;
// counts of tiles are summed over the class; then every true positive knows its precision and raises the
// recall sample that it falls to.
#include "accumulate_stages.h"
#include "clear.h"
#include "curve_group.h"
#include "launch.h"

namespace valor {
namespace {

constexpr int kScanWarps = 16;
constexpr int kFew = 4;               // loads under way where most threads have no more
constexpr int kShares = 8;            // threads of a curve that is finished
constexpr int kBatch = 13;            // samples of each in a turn: 101 of them take one turn
constexpr int32_t kInvalidValue = 1;  // cudaErrorInvalidValue

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

// load_bits of a field of a row: the aligned words that hold a byte of it, which begin within the row and may
// end in the next. Only where they would end behind all rows is each byte read alone.
__device__ __forceinline__ uint64_t load_field(const uint8_t* field, int64_t bytes, int64_t first,
                                               const uint8_t* end) {
  const uint8_t* from = field + first / 8;
  const int64_t left = bytes - first / 8;
  const int held = left < 8 ? static_cast<int>(left) : 8,
            skipped = static_cast<int>(reinterpret_cast<uintptr_t>(from) & 3);
  if (from - skipped + (skipped + held + 3) / 4 * 4 > end) {
    uint64_t alone = 0;
    VALOR_ROLLED
    for (int i = 0; i < held; ++i) alone |= static_cast<uint64_t>(from[i]) << (8 * i);
    return alone;
  }
  const uint32_t* words = reinterpret_cast<const uint32_t*>(from - skipped);
  const uint32_t one = words[0], two = skipped + held > 4 ? words[1] : 0,
                 three = skipped + held > 8 ? words[2] : 0;
  const uint64_t low = (static_cast<uint64_t>(two) << 32 | one) >> (8 * skipped),
                 high = (static_cast<uint64_t>(three) << 32 | two) >> (8 * skipped);
  return (high << 32 | (low & 0xffffffffu)) & (~0ull >> (64 - 8 * held));
}

__device__ __forceinline__ Bits load_record(const CurveTask& task, int64_t at) {
  const CurveShape& shape = task.run.shape;
  const uint8_t* row = task.run.record(at);
  const uint64_t settings = task.settings == 64 ? ~0ull : (1ull << task.settings) - 1;
  const uint64_t matched = load_field(row + 13, shape.setting_bytes(), task.first, task.end);
  const uint64_t ignored =
      load_field(row + 13 + shape.setting_bytes(), shape.setting_bytes(), task.first, task.end);
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
    VALOR_UNROLLED
    for (int g = 0; g < kGroups; ++g)
      sum += __popc(task.mask(tile * kGroups + g, kind, setting) & task.kept(tile * kGroups + g, m));
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

// The class of a tile: a warp looks at 32 classes at a time, since each look waits for memory.
__device__ __forceinline__ int64_t class_of(const CurveTask& task, int64_t tile) {
  int64_t low = 0, count = task.run.shape.classes;  // those among which the first that begins later is
  while (count > 0) {
    const int64_t step = (count + 31) / 32, at = Warp().lane() * step;
    const int passed = __popc(Warp().ballot(at < count && task.first_tile(low + at) <= tile));
    if (passed == 0) break;
    const int64_t left = count - (passed - 1) * step - 1;
    low += (passed - 1) * step + 1;
    count = left < step - 1 ? left : step - 1;
  }
  return low - 1;
}

// One block a tile, one thread a record.
__global__ void __launch_bounds__(kTile) collect_kernel(const __grid_constant__ CurveTask task) {
  const int64_t tile = blockIdx.x;
  const int64_t k = class_of(task, tile);
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
  for (int64_t i = begin; i < end; i += kFew) {
    int32_t own[kFew];
    for (int j = 0; j < kFew; ++j) own[j] = i + j < end ? counts[(i + j) * stride] : 0;
    for (int j = 0; j < kFew; ++j) {
      if (i + j < end) counts[(i + j) * stride] = before;
      before += own[j];
    }
  }
}

// Blocks of 32 columns (slot, setting) of a class: counts become those of the tiles before.
__global__ void __launch_bounds__(32 * kScanWarps, 3) scan_kernel(const __grid_constant__ CurveTask task) {
  VALOR_SHARED(int32_t, sums, [kScanWarps][32]);
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
}

// Raises by the true positives that are listed, of the settings from `first` on.
template <bool kTied>
__device__ __forceinline__ void raise_listed(const CurveTask& task, const TileWords& shared, int64_t k,
                                             int64_t tile, int64_t first, int64_t curve) {
  for (uint32_t i = threadIdx.x; i < shared.listed; i += kTile) {
    const int record = shared.list[i] / kShare, at = shared.list[i] % kShare, g = record / 32;
    const auto& held = shared.words[g];
    const auto& earlier = shared.before[g];
    const Group<kTied> found{task,
                             k,
                             tile * kGroups + g,
                             first + at,
                             curve,
                             held[kTrue][at],
                             held[kFalse][at],
                             earlier[kTrue][at],
                             earlier[kFalse][at]};
    found.run(record % 32);
  }
}

// One block a tile and some settings: samples become the largest precision of the true positives that fall to
// them. These are listed first, so that all threads have as many of them, and none waits for another's loads.
template <bool kTied>
__global__ void __launch_bounds__(kTile, 4) raise_kernel(const __grid_constant__ CurveTask task) {
  VALOR_SHARED(TileWords, shared, );
  const int64_t tile = blockIdx.x, k = task.tables.classes[tile];
  const int lane = Warp().lane(), own = static_cast<int>(threadIdx.x) / 32,
            share = (task.settings + gridDim.y - 1) / gridDim.y, first = blockIdx.y * share;
  const bool there = lane < share && first + lane < task.settings;
  for (int64_t curve = 0; curve < task.run.curves(); ++curve) {
    const int64_t group = tile * kGroups + own, m = task.limit_of(curve),
                  slots[] = {m, task.limits() + curve};
    const uint32_t kept = task.kept(group, m);
    uint32_t words[2] = {};
    int32_t before[2] = {};
    for (int kind = kTrue; there && kind <= kFalse; ++kind) {
      words[kind] = task.mask(group, kind, first + lane) & kept;
      before[kind] = task.count(tile, slots[kind], first + lane);
    }
    if (k < 0) return;  // all loads are under way by then
    __syncthreads();
    for (int kind = kTrue; kind <= kFalse; ++kind) shared.words[own][kind][lane] = words[kind];
    if (threadIdx.x == 0) shared.listed = 0;
    __syncthreads();
    for (int kind = kTrue; kind <= kFalse; ++kind) {
      for (int g = 0; g < own; ++g) before[kind] += __popc(shared.words[g][kind][lane]);
      shared.before[own][kind][lane] = before[kind];
    }
    list_own<kTied>(task, share, shared);
    __syncthreads();
    raise_listed<kTied>(task, shared, k, tile, first, curve);
  }
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
  const int64_t reached = task.samples_reached(tp, task.run.positives_of(k, a));
  if (task.unconditional == 0 || (!task.run.full && reached >= task.unconditional)) return reached;
  return first_score(task, k, m, score) && reached < task.unconditional ? task.unconditional : reached;
}

struct Curve {
  int64_t k, a, t, curve;
};

// Samples of one curve in place: each is the largest from it on, and 0 from the first place that is not
// reached. The threads of a column share them, and `most` has the largest of each share: kBatch samples, the
// last first, in turns where there are more.
__device__ __forceinline__ void finish_curve(const CurveTask& task, const Curve& of, bool there,
                                             double (&most)[kShares][32]) {
  const Accumulation& run = task.run;
  const int64_t first = run.first_sample(of.t, of.k, of.a, of.curve), stride = run.sample_stride();
  const int64_t m = task.limit_of(of.curve);
  const bool absent = run.positives_of(of.k, of.a) == 0;
  const int share = static_cast<int>(threadIdx.y), lane = static_cast<int>(threadIdx.x);
  double score = 0.0, best = 0.0;
  const int64_t tp = task.total(of.k, m, of.a * run.shape.thresholds + of.t);
  const int64_t stop = task.stops[absent ? 0 : samples_reached(task, of.k, of.a, m, tp, score)];
  for (int64_t end = run.shape.recalls; end > 0; end -= kShares * kBatch) {
    const int64_t last = end - 1 - share * kBatch;
    const int held = !there || last < 0 ? 0 : last < kBatch ? static_cast<int>(last) + 1 : kBatch;
    double own[kBatch];
    VALOR_UNROLLED
    for (int j = 0; j < kBatch; ++j)
      own[j] = j < held && !absent ? run.precision[first + run.grid_places[last - j] * stride] : 0.0;
    VALOR_UNROLLED
    for (int j = 1; j < kBatch; ++j) own[j] = own[j - 1] > own[j] ? own[j - 1] : own[j];
    most[share][lane] = own[kBatch - 1];
    __syncthreads();
    double before = best;
    VALOR_ROLLED
    for (int s = 0; s < kShares; ++s) {
      if (s == share) before = best;
      best = most[s][lane] > best ? most[s][lane] : best;
    }
    __syncthreads();
    VALOR_UNROLLED
    for (int j = 0; j < kBatch; ++j) {
      if (j >= held) continue;
      const int64_t place = run.grid_places[last - j], at = first + place * stride;
      const bool filled = place < stop;
      const double value = own[j] > before ? own[j] : before;
      run.precision[at] = absent ? -1.0 : filled ? value : 0.0;
      if (run.full && (absent || !filled || last - j < task.unconditional))
        run.scores[at] = absent ? -1.0 : filled ? score : 0.0;
    }
  }
}

__device__ __forceinline__ void write_recall(const CurveTask& task, int64_t k, int64_t a, int64_t t,
                                             int64_t m) {
  const int64_t positives = task.run.positives_of(k, a),
                tp = task.total(k, m, a * task.run.shape.thresholds + t);
  task.run.recall[task.run.recall_at(t, k, a, m)] =
      positives == 0 ? -1.0 : static_cast<double>(tp) / static_cast<double>(positives);
}

// One column of threads a curve, so that neighbours read and write neighbouring samples; recall has all
// limits whether there are curves of them or not.
__global__ void __launch_bounds__(32 * kShares, 3) finish_kernel(const __grid_constant__ CurveTask task) {
  VALOR_SHARED(double, most, [kShares][32]);
  const CurveShape& shape = task.run.shape;
  const int64_t all = shape.settings() * shape.classes * task.run.curves(), curves = task.run.curves();
  const int64_t own = static_cast<int64_t>(blockIdx.x) * 32 + threadIdx.x, i = own < all ? own : all - 1;
  const int64_t curve = i % curves, a = i / curves % shape.areas, row = i / curves / shape.areas;
  const int64_t k = row % shape.classes, t = row / shape.classes;
  finish_curve(task, {k, a, t, curve}, own < all, most);
  for (int64_t m = curve + threadIdx.y * curves; own < all && m < shape.limits; m += kShares * curves)
    write_recall(task, k, a, t, m);
}

int32_t clear_samples(const SampleTables& samples, void* stream) {
  const ClearTask zero{
      {reinterpret_cast<int64_t*>(samples.precision), reinterpret_cast<int64_t*>(samples.scores)},
      {samples.precision_samples, samples.score_samples}};
  return clear(zero, stream);
}

// Settings are taken 64 at a time; what is left of a pass is in the samples and in the totals.
int32_t launch_all(CurveTask& task, void* stream) {
  const int64_t settings = task.run.shape.settings(), K = task.run.shape.classes;
  int32_t status = 0;
  for (int64_t first = 0; first < settings && status == 0; first += kPass) {
    task.first = static_cast<int32_t>(first);
    task.settings = static_cast<int32_t>(settings - first < kPass ? settings - first : kPass);
    const unsigned tiles = static_cast<unsigned>(task.tiles), columns = task.slots() * task.settings;
    const dim3 parts(tiles, (task.settings + kShare - 1) / kShare);
    status = VALOR_LAUNCH(collect_kernel, tiles, kTile, 0, stream, task);
    if (status == 0)
      status = VALOR_LAUNCH(scan_kernel, dim3(K, (columns + 31) / 32), dim3(32, kScanWarps), 0, stream, task);
    if (status == 0)
      status = task.run.ties == kGiven ? VALOR_LAUNCH(raise_kernel<false>, parts, kTile, 0, stream, task)
                                       : VALOR_LAUNCH(raise_kernel<true>, parts, kTile, 0, stream, task);
  }
  const unsigned blocks = static_cast<unsigned>((settings * K * task.run.curves() + 31) / 32);
  return status ? status : VALOR_LAUNCH(finish_kernel, blocks, dim3(32, kShares), 0, stream, task);
}

}  // namespace

int64_t curve_workspace(const CurveSizes& sizes, bool full, bool ties) {
  CurveTables tables;
  return place_tables(sizes, full, ties, nullptr, tables);
}

int32_t run_curves(const CurveRun& curves, void* workspace, void* stream) {
  const CurveSizes& sizes = curves.sizes;
  if (sizes.classes == 0 || sizes.shape().settings() == 0) return 0;
  CurveTask task = {};
  task.run = curves.run;
  task.stops = curves.stops;
  task.unconditional = curves.unconditional;
  task.tiles = sizes.tiles();
  task.end = task.run.records + sizes.records * task.run.shape.row_bytes();
  place_tables(sizes, task.run.full, task.run.ties != kGiven, workspace, task.tables);
  const int32_t status = curves.cleared ? 0 : clear_samples(curves.samples(), stream);
  return status ? status : launch_all(task, stream);
}

}  // namespace valor

// Bytes of workspace that valor_precision_recall_cuda needs for the same sizes: T, A, M, R, K, records.
VALOR_API int32_t valor_precision_recall_workspace_cuda(const int64_t* sizes, int64_t full, int64_t ties,
                                                        int64_t* bytes) {
  using namespace valor;
  *bytes = curve_workspace(*reinterpret_cast<const CurveSizes*>(sizes), full != 0, ties != kGiven);
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
  if (s.records > INT32_MAX) return kInvalidValue;
  const Accumulation run{s.shape(),        records,   order,
                         offsets,          positives, reinterpret_cast<const double*>(grid),
                         grid + s.recalls, full != 0, static_cast<TieOrder>(ties),
                         precision,        recall,    scores};
  return run_curves({run, s, grid + 2 * s.recalls, unconditional, false}, workspace, stream);
}
