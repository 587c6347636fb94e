// Histograms of scores on CUDA. Blocks take tiles of columns and chunks of rows and count in shared memory by
// integer atomics, two counts of 16 bits a word; sums of weights run in row order, one thread a column and
// block of rows.
#include "entries.h"
#include "launch.h"
#include "sweep_tiles.h"

namespace valor {
namespace {

constexpr int kThreads = 256;
constexpr int kBatch = 4;              // scores under way at once
constexpr int64_t kShared = 48 << 10;  // bytes
constexpr int64_t kStaged = 12 << 10;  // bytes of lookup that are worth a place in shared memory
constexpr int64_t kTile = 32;          // columns: the lanes of a warp read neighbours
constexpr int64_t kNarrowest = 4;      // columns of a tile that does not hold all
constexpr int64_t kFewClasses = 8;  // whose positives are too many to be counted one by one in global memory
constexpr int64_t kLeastRows = 1024, kMostRows = 65535;  // of a chunk: counts have 16 bits

using Word = unsigned long long;

struct Counted {
  int64_t* histogram;  // [2, classes, thresholds + 1], zero before
  int64_t* error;
};

// How blocks divide the elements, and what they keep in shared memory.
struct CountPlan {
  int64_t columns, tiles, rows;
  int64_t sides;   // 2 if positives have counts of their own in shared memory, else 1
  int64_t copies;  // of all counts, for lanes that share a column
  int64_t stride;  // words of one side of a column; odd, so that columns lie in different banks
  int64_t staged;  // whether the lookup is copied to shared memory
  int64_t direct;  // whether nothing is counted in shared memory

  VALOR_HD int64_t words() const { return direct ? 0 : copies * columns * sides * stride; }
};

__device__ __forceinline__ void add_one(int64_t* count) {
  atomicAdd(reinterpret_cast<Word*>(count), Word{1});
}

__device__ __forceinline__ void note(const SweepTask& task, const Counted& out, int64_t row, int64_t column) {
  atomicMin(reinterpret_cast<long long*>(out.error), static_cast<long long>(task.error(row, column)));
}

// The lookup with its tables in shared memory, where `to` has room for them.
template <class Real>
__device__ __forceinline__ Lookup<Real> staged(const Lookup<Real>& lookup, void* to) {
  Real* bounds = static_cast<Real*>(to);
  int32_t* first = reinterpret_cast<int32_t*>(bounds + lookup_bounds(lookup.shape.thresholds));
  for (int64_t i = threadIdx.x; i < lookup_bounds(lookup.shape.thresholds); i += kThreads)
    bounds[i] = lookup.bounds[i];
  for (int64_t i = threadIdx.x; i <= lookup.shape.cells; i += kThreads) first[i] = lookup.first[i];
  return {lookup.shape, bounds, first};
}

template <class Real>
__device__ __forceinline__ Real load_score(const SweepTask& task, int64_t at) {
  const FloatType type = static_cast<FloatType>(task.type);
  return sizeof(Real) == 8 ? static_cast<Real>(static_cast<const double*>(task.scores)[at])
                           : static_cast<Real>(load_float32(task.scores, at, type));
}

// One thread's part of a tile: one column, and every so many rows.
template <class Real, int64_t kSpread>
class Column {
 public:
  __device__ __forceinline__ Column(const SweepTask& task, const Lookup<Real>& lookup, const CountPlan& plan,
                                    const Counted& out, int64_t column, uint32_t* counts)
      : task_(task), lookup_(lookup), plan_(plan), out_(out), column_(column), counts_(counts) {}

  __device__ __forceinline__ void read(int64_t row, int64_t end, int64_t step) const {
    const int64_t classes = task_.target.classes;
    for (; row < end; row += kBatch * step) {
      Real x[kBatch];
      for (int j = 0; j < kBatch; ++j)
        if (row + j * step < end) x[j] = load_score<Real>(task_, (row + j * step) * classes + column_);
      for (int j = 0; j < kBatch; ++j)
        if (row + j * step < end) count(row + j * step, x[j]);
    }
  }

 private:
  __device__ __forceinline__ void count(int64_t row, Real x) const {
    const Truth truth = task_.target.at(row, column_);
    if (truth == kIgnored) return;
    const int32_t slot = lookup_.slot(x, lookup_.template cell<kSpread>(x));
    if (truth == kBadTruth || slot == 0) {
      note(task_, out_, row, column_);
    } else if (plan_.direct || (truth == kPositive && plan_.sides == 1)) {
      const int64_t buckets = lookup_.shape.thresholds + 1, cells = task_.target.classes * buckets;
      int64_t* place = out_.histogram + column_ * buckets + slot - 1;
      if (truth == kPositive) add_one(place);
      add_one(place + cells);
    } else {
      uint32_t* side = counts_ + (truth == kPositive ? plan_.stride : 0);
      atomicAdd(side + slot / 2, slot % 2 ? 1u << 16 : 1u);
    }
  }

  const SweepTask& task_;
  const Lookup<Real>& lookup_;
  const CountPlan& plan_;
  const Counted& out_;
  const int64_t column_;
  uint32_t* counts_;
};

// Adds the counts of a block to the histogram.
__device__ __forceinline__ void flush(const CountPlan& plan, const Counted& out, int64_t classes, int buckets,
                                      int64_t first, int columns, const uint32_t* counts) {
  const int sides = static_cast<int>(plan.sides), stride = static_cast<int>(plan.stride);
  for (int i = threadIdx.x; i < columns * buckets; i += kThreads) {
    const int column = i / buckets, slot = i % buckets + 1;
    Word sums[2] = {0, 0};
    for (int copy = 0; copy < plan.copies; ++copy)
      for (int side = 0; side < sides; ++side) {
        const int place = ((copy * static_cast<int>(plan.columns) + column) * sides + side) * stride;
        const Word found = counts[place + slot / 2] >> (slot % 2 * 16) & 0xffffu;
        (side ? sums[1] : sums[0]) += found;
      }
    Word* total = reinterpret_cast<Word*>(out.histogram + (first + column) * buckets + slot - 1);
    if (sums[1]) atomicAdd(total, sums[1]);
    if (sums[0] + sums[1]) atomicAdd(total + classes * buckets, sums[0] + sums[1]);
  }
}

// One block a tile of columns and chunk of rows.
template <class Real, int64_t kSpread>
__global__ void __launch_bounds__(kThreads)
    count_kernel(const __grid_constant__ SweepTask task, const __grid_constant__ Lookup<Real> given,
                 const __grid_constant__ CountPlan plan, const __grid_constant__ Counted out) {
  VALOR_DYNAMIC_SHARED(uint32_t, shared);
  const unsigned tiles = static_cast<unsigned>(plan.tiles);
  const int64_t classes = task.target.classes;
  const int64_t first = blockIdx.x % tiles * plan.columns, begin = blockIdx.x / tiles * plan.rows;
  const int64_t end = begin + plan.rows < task.rows ? begin + plan.rows : task.rows;
  const int columns = static_cast<int>(classes - first < plan.columns ? classes - first : plan.columns);
  const Lookup<Real> lookup = plan.staged ? staged(given, shared) : given;
  uint32_t* counts = shared + plan.staged / 4;
  const int words = static_cast<int>(plan.words());
  for (int i = threadIdx.x; i < words; i += kThreads) counts[i] = 0;
  __syncthreads();
  const int step = kThreads / columns, row = threadIdx.x / columns, column = threadIdx.x % columns;
  const int copy = row % static_cast<int>(plan.copies);
  uint32_t* own = counts + (plan.direct ? 0 : (copy * plan.columns + column) * plan.sides * plan.stride);
  if (row < step)
    Column<Real, kSpread>(task, lookup, plan, out, first + column, own).read(begin + row, end, step);
  __syncthreads();
  const int buckets = static_cast<int>(lookup.shape.thresholds) + 1;
  if (!plan.direct) flush(plan, out, classes, buckets, first, columns, counts);
}

// Bytes of one lookup that the kernels of this file keep in shared memory.
template <class Real>
int64_t lookup_bytes(int64_t thresholds) {
  return lookup_bounds(thresholds) * static_cast<int64_t>(sizeof(Real)) + (lookup_cells(thresholds) + 1) * 4;
}

CountPlan plan_counts(const SweepTask& task, int64_t thresholds, int64_t lookup) {
  const int64_t classes = task.target.classes, buckets = thresholds + 1;
  CountPlan plan = {};
  plan.staged = lookup <= kStaged ? (lookup + 15) / 16 * 16 : 0;
  plan.sides = task.target.per_element || classes <= kFewClasses ? 2 : 1;
  plan.stride = (thresholds + 3) / 2 | 1;
  const int64_t fit = (kShared - plan.staged) / (4 * plan.sides * plan.stride);
  plan.columns = classes < kTile ? classes : kTile;
  if (plan.columns > fit)
    for (plan.columns = kTile; plan.columns > fit && plan.columns > kNarrowest;) plan.columns /= 2;
  plan.direct = plan.columns > fit;
  if (plan.direct) plan.columns = classes < kTile ? classes : kTile;
  plan.copies = 1;
  while (!plan.direct && 2 * plan.copies * plan.columns <= (fit < kTile ? fit : kTile)) plan.copies *= 2;
  plan.tiles = (classes + plan.columns - 1) / plan.columns;
  const int64_t worth = 4 * buckets;
  plan.rows = worth < kLeastRows ? kLeastRows : worth > kMostRows ? kMostRows : worth;
  return plan;
}

template <class Real>
int32_t launch_counts(const SweepTask& task, const Lookup<Real>& lookup, const Counted& out, void* stream) {
  const int64_t thresholds = lookup.shape.thresholds;
  const CountPlan plan = plan_counts(task, thresholds, lookup_bytes<Real>(thresholds));
  const unsigned blocks = static_cast<unsigned>(plan.tiles * ((task.rows + plan.rows - 1) / plan.rows));
  const auto kernel = lookup.shape.spread == kEven         ? count_kernel<Real, kEven>
                      : lookup.shape.spread == kFloatOrder ? count_kernel<Real, kFloatOrder>
                                                           : count_kernel<Real, kMirrored>;
  return VALOR_LAUNCH(kernel, blocks, kThreads, plan.staged + 4 * plan.words(), stream, task, lookup, plan,
                      out);
}

// ------------------------------------------------------------------------------------- sums of weights

struct Weighed {
  double* tables;     // [blocks, classes, 2, thresholds + 2], zero before
  double* histogram;  // [2, classes, thresholds + 1]
  int64_t* error;
  int64_t block, blocks;  // rows of a block, and how many there are
};

// One thread a column and block of rows.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    weigh_kernel(const __grid_constant__ SweepTask task, const __grid_constant__ Lookup<Real> lookup,
                 const __grid_constant__ Weighed out) {
  const int64_t classes = task.target.classes, slots = lookup.shape.thresholds + 2;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x, block = blockIdx.y;
  if (column >= classes) return;
  double* table = out.tables + (block * classes + column) * 2 * slots;
  const int64_t begin = block * out.block;
  const int64_t end = begin + out.block < task.rows ? begin + out.block : task.rows;
  for (int64_t row = begin; row < end; ++row) {
    const Truth truth = task.target.at(row, column);
    if (truth == kIgnored) continue;
    const int32_t slot = lookup.slot(load_score<Real>(task, row * classes + column));
    if (truth == kBadTruth || slot == 0 || !task.good_row(row))
      note(task, {nullptr, out.error}, row, column);
    else
      table[(truth == kPositive ? slots : 0) + slot] += task.weight[row];
  }
}

// One thread a bucket of a column: sums of blocks, in their order.
__global__ void __launch_bounds__(kThreads)
    join_kernel(const __grid_constant__ Weighed out, int64_t classes, int64_t buckets) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x, slots = buckets + 1;
  if (i >= classes * buckets) return;
  double sums[2] = {0.0, 0.0};
  for (int64_t block = 0; block < out.blocks; ++block)
    for (int64_t side = 0; side < 2; ++side)
      sums[side] += out.tables[((block * classes + i / buckets) * 2 + side) * slots + i % buckets + 1];
  out.histogram[i] = sums[1];
  out.histogram[classes * buckets + i] = sums[0] + sums[1];
}

template <class Real>
int32_t launch_sums(const SweepTask& task, const Lookup<Real>& lookup, const Weighed& out, void* stream) {
  const int64_t classes = task.target.classes, buckets = lookup.shape.thresholds + 1;
  const dim3 grid(static_cast<unsigned>((classes + kThreads - 1) / kThreads),
                  static_cast<unsigned>(out.blocks));
  if (const int32_t status = VALOR_LAUNCH(weigh_kernel<Real>, grid, kThreads, 0, stream, task, lookup, out))
    return status;
  const unsigned blocks = static_cast<unsigned>((classes * buckets + kThreads - 1) / kThreads);
  return VALOR_LAUNCH(join_kernel, blocks, kThreads, 0, stream, out, classes, buckets);
}

// Numbers of a lookup as they travel; the tables hold its bounds and first ones, then cells or leaves.
struct Travel {
  int64_t bytes;  // of the tables
  LookupShape shape;
  CellShape cells;
  KeyShape keys;
};
static_assert(sizeof(Travel) == 19 * 8, "valor_gpu/ops/score_histogram/op.py makes room for it");

template <class Real>
int64_t cells_begin(int64_t thresholds) {
  return (lookup_bytes<Real>(thresholds) + 7) / 8 * 8;
}

template <class Real>
void write_lookup(const double* thresholds, int64_t count, void* tables, Travel& words) {
  const int64_t begin = cells_begin<Real>(count);
  const int64_t cells_bytes = (lookup_cells(count) + 1) * static_cast<int64_t>(sizeof(SweepCell));
  words.bytes = begin + (cells_bytes > kKeyBytes ? cells_bytes : kKeyBytes);
  if (!tables) return;
  Real* bounds = static_cast<Real*>(tables);
  int32_t* first = reinterpret_cast<int32_t*>(bounds + lookup_bounds(count));
  words.shape = build_lookup(thresholds, count, bounds, first);
  const Lookup<Real> lookup{words.shape, bounds, first};
  SweepCell* cells = reinterpret_cast<SweepCell*>(static_cast<uint8_t*>(tables) + begin);
  words.keys = {};
  words.cells = build_even_cells(lookup, cells);
  if (words.cells.cells == 0) words.keys = build_keys(lookup, cells);
  if (words.cells.cells == 0 && words.keys.leaves == 0) words.cells = build_lookup_cells(lookup, cells);
}

// What the tiles of csrc/cuda/sweep_tiles.h count.
TileTask tile_task(const SweepTask& task, const void* tables, const Travel& words, uint8_t* flags,
                   const Counted& out) {
  const int64_t thresholds = words.shape.thresholds;
  const float* bounds = static_cast<const float*>(tables);
  const int32_t* first = reinterpret_cast<const int32_t*>(bounds + lookup_bounds(thresholds));
  const uint8_t* cells = static_cast<const uint8_t*>(tables) + cells_begin<float>(thresholds);
  return {task,
          {words.shape, bounds, first},
          words.cells,
          words.keys,
          reinterpret_cast<const SweepCell*>(cells),
          flags,
          out.histogram,
          out.error,
          kAsTheyAre,
          nullptr,
          nullptr};
}

template <class Real>
int32_t launch(const SweepTask& task, const void* tables, const LookupShape& shape, const Weighed& out,
               void* stream) {
  const Real* bounds = static_cast<const Real*>(tables);
  const Lookup<Real> lookup = {shape, bounds,
                               reinterpret_cast<const int32_t*>(bounds + lookup_bounds(shape.thresholds))};
  if (task.weight) return launch_sums(task, lookup, out, stream);
  return launch_counts(task, lookup, {reinterpret_cast<int64_t*>(out.histogram), out.error}, stream);
}

}  // namespace
}  // namespace valor

// Host only: the bytes of the lookup tables and, where `tables` is given, the tables and their numbers, for
// float64 scores if `wide`. `words` is nineteen: Travel.
VALOR_API int32_t valor_sweep_lookup_cuda(const double* thresholds, int64_t count, int64_t wide, void* tables,
                                          int64_t* words) {
  using namespace valor;
  Travel& travel = *reinterpret_cast<Travel*>(words);
  if (wide)
    write_lookup<double>(thresholds, count, tables, travel);
  else
    write_lookup<float>(thresholds, count, tables, travel);
  return 0;
}

// On the host: `target` (a Target) and `words`. `histogram` is zero before, `error` kNoError. `workspace` is
// with weights float64 [blocks, classes, 2, thresholds + 2] of zeros, for blocks of `block` rows, else uint8
// [rows] of anything.
VALOR_API int32_t valor_sweep_cuda(const void* scores, int64_t type, int64_t rows, const void* target,
                                   const void* tables, const int64_t* words, const double* weight,
                                   int64_t block, void* workspace, void* histogram, int64_t* error,
                                   void* stream) {
  using namespace valor;
  if (rows == 0) return 0;
  const SweepTask task = {scores, type, rows, *static_cast<const Target*>(target), weight};
  const Travel& travel = *reinterpret_cast<const Travel*>(words);
  const Counted counted = {static_cast<int64_t*>(histogram), error};
  int32_t status = 0;
  if (!weight && type != kFloat64) {
    uint8_t* flags = static_cast<uint8_t*>(workspace);
    if (launch_tiles(tile_task(task, tables, travel, flags, counted), stream, &status)) return status;
  }
  const Weighed out = {static_cast<double*>(workspace), static_cast<double*>(histogram), error, block,
                       (rows + block - 1) / block};
  return type == kFloat64 ? launch<double>(task, tables, travel.shape, out, stream)
                          : launch<float>(task, tables, travel.shape, out, stream);
}

// As valor_sweep_cuda without weights for scores of up to 32 bits, of probabilities that are made of logits
// by `reading`: kSigmoid for labels, kSoftmax for class indices. With `outside`, 0 before, scores that all
// lie in [0, 1] are counted as they are. `flags` are [rows], `shares` for the softmax [rows + 1] pairs of
// floats, of anything. On the host: `served` becomes 0, and nothing is counted, where there is no kernel for
// the task.
VALOR_API int32_t valor_sweep_activated_cuda(const void* scores, int64_t type, int64_t rows,
                                             const void* target, const void* tables, const int64_t* words,
                                             int64_t reading, void* flags, void* shares, void* outside,
                                             void* histogram, int64_t* error, int64_t* served, void* stream) {
  using namespace valor;
  const SweepTask task = {scores, type, rows, *static_cast<const Target*>(target), nullptr};
  const Counted counted = {static_cast<int64_t*>(histogram), error};
  const Travel& travel = *reinterpret_cast<const Travel*>(words);
  TileTask tiles = tile_task(task, tables, travel, static_cast<uint8_t*>(flags), counted);
  tiles.reading = reading, tiles.shares = static_cast<const RowShare*>(shares);
  tiles.outside = static_cast<uint32_t*>(outside);
  int32_t status = 0;
  *served = launch_activated_tiles(tiles, stream, &status);
  return status;
}
