// Hard labels on CUDA: some lanes take a row of scores for several of its largest; rows are counted in shared
// memory where the table fits, and weighed by the lanes that own the classes, in row order.
#include "entries.h"
#include "launch.h"
#include "top.h"

namespace valor {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kSharedBytes = 48 << 10;  // that every device has without asking
constexpr int64_t kRowsPerThread = 8;       // labels that pay for a block's own table
constexpr int64_t kMostBlocks = 1024;
constexpr int64_t kFewRows = 1 << 14;   // that may all meet in one cell of device memory
constexpr int64_t kWideGrid = 1 << 20;  // blocks of a loop over rows without shared memory
constexpr int32_t kNone = INT32_MAX;    // in place of a column
constexpr int kFewHeld = 20;            // scores of a row that a lane holds

unsigned blocks_of(int64_t count, int64_t a_block, int64_t most) {
  const int64_t blocks = (count + a_block - 1) / a_block;
  return static_cast<unsigned>(blocks < most ? blocks : most);
}

// Lanes that share a row: a power of two.
int lanes_of(int64_t classes, int64_t scores_a_lane) {
  int lanes = 1;
  while (lanes < 32 && scores_a_lane * lanes < classes) lanes *= 2;
  return lanes;
}

// ------------------------------------------------------------------------------------------- rows of scores

// What `width` lanes found among the columns of one row.
template <class Bits>
struct Largest {
  using Key = decltype(typename Bits::Word() + 0);  // a type that can be shuffled
  Key key = Bits::kLowest;
  int32_t column = kNone, nan = kNone;

  VALOR_HD bool comes_before(Key other, int32_t place) const {
    return (key > other) | ((key == other) & (column < place));
  }
  __device__ void see(typename Bits::Word bits, int32_t place) {
    if (Bits::is_nan(bits) && place < nan) nan = place;
    if (Bits::key(bits) > key) key = Bits::key(bits), column = place;
  }
  __device__ void join(int width) {
    for (int offset = width / 2; offset; offset >>= 1) {
      const Key other = __shfl_xor_sync(Warp::kAll, key, offset);
      const int32_t place = __shfl_xor_sync(Warp::kAll, column, offset);
      const bool kept = comes_before(other, place);
      key = kept ? key : other, column = kept ? column : place;
    }
  }
  __device__ void join_nan(int width) {
    for (int offset = width / 2; offset; offset >>= 1) {
      const int32_t place = __shfl_xor_sync(Warp::kAll, nan, offset);
      if (place < nan) nan = place;
    }
  }
};

struct RoundTask {
  Scores scores;
  int64_t k;
  int lanes;
  int32_t* out;
  int64_t* error;

  __device__ int64_t row() const {
    return (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / lanes;
  }
  __device__ int32_t lane() const { return static_cast<int32_t>(threadIdx.x) & (lanes - 1); }
  __device__ int shift() const { return __ffs(lanes) - 1; }
};

// Rows of at most kHeld scores a lane: they are read once, and each round takes the largest that a lane holds
// from it.
template <class Bits, int kHeld>
__global__ void __launch_bounds__(kThreads) held_kernel(const __grid_constant__ RoundTask task) {
  const int64_t i = task.row();
  const bool there = i < task.scores.rows;
  const int32_t classes = static_cast<int32_t>(task.scores.classes), lane = task.lane();
  const typename Bits::Word* row = task.scores.row<Bits>(there ? i : 0);
  typename Bits::Word words[kHeld];  // the last column stands for those beyond it
  VALOR_UNROLLED for (int j = 0; j < kHeld; ++j) {
    const int32_t c = lane + j * task.lanes;
    words[j] = row[c < classes ? c : classes - 1];
  }
  Largest<Bits> known;
  typename Largest<Bits>::Key keys[kHeld];
  VALOR_UNROLLED for (int j = 0; j < kHeld; ++j) {
    const int32_t c = lane + j * task.lanes;
    if (Bits::is_nan(words[j]) && c < classes && c < known.nan) known.nan = c;
    keys[j] = c < classes ? Bits::key(words[j]) : Bits::kLowest;
  }
  known.join_nan(task.lanes);
  const bool wrong = known.nan != kNone;
  if (there && wrong && lane == 0) lower(task.error, value_error(i, known.nan, kNanScore));
  int32_t taken = kNone;  // which of the keys the round before took from this lane
  for (int64_t round = 0; round < task.k; ++round) {
    Largest<Bits> largest;
    VALOR_UNROLLED for (int j = 0; j < kHeld; ++j) {
      if (j == taken) keys[j] = Bits::kLowest;
      if (keys[j] > largest.key) largest.key = keys[j], largest.column = j;
    }
    if (largest.column != kNone) largest.column = lane + largest.column * task.lanes;
    largest.join(task.lanes);
    if (there && lane == 0) task.out[i * task.k + round] = wrong ? kLeftOut : largest.column;
    taken = (largest.column & (task.lanes - 1)) == lane ? largest.column >> task.shift() : kNone;
  }
}

// Each round reads the row again for the largest that comes after the one before.
template <class Bits>
__global__ void __launch_bounds__(kThreads) top_kernel(const __grid_constant__ RoundTask task) {
  const int64_t i = task.row();
  const bool there = i < task.scores.rows;
  const int32_t classes = there ? static_cast<int32_t>(task.scores.classes) : 0;
  const typename Bits::Word* row = task.scores.row<Bits>(there ? i : 0);
  Largest<Bits> before;
  bool wrong = false;
  for (int64_t round = 0; round < task.k; ++round) {
    Largest<Bits> largest;
    for (int32_t c = task.lane(); c < classes; c += task.lanes)
      if (round == 0 || before.comes_before(Bits::key(row[c]), c)) largest.see(row[c], c);
    largest.join(task.lanes);
    if (round == 0) {
      largest.join_nan(task.lanes);
      wrong = largest.nan != kNone;
      if (wrong && task.lane() == 0) lower(task.error, value_error(i, largest.nan, kNanScore));
    }
    if (there && task.lane() == 0) task.out[i * task.k + round] = wrong ? kLeftOut : largest.column;
    before = largest;
  }
}

// ------------------------------------------------------------------------------------------ pairs of labels

struct PairTask {
  PairRows rows;
  int64_t block_rows;
  double* partial;  // a table for each block of rows; the output itself where there is one block
  void* table;
  int64_t* error;

  __device__ Pair pair(int64_t row) const {
    return judge_pair(rows, row, rows.target.value(row),
                      load_int(rows.preds, row, static_cast<IntType>(rows.preds_type)));
  }
};

template <class Cells, bool Shared>
__global__ void __launch_bounds__(kThreads) count_kernel(const __grid_constant__ PairTask task) {
  VALOR_DYNAMIC_SHARED(uint32_t, own);
  const Cells cells{task.rows.target.classes};
  unsigned long long* table = static_cast<unsigned long long*>(task.table);
  for (int64_t cell = threadIdx.x; Shared && cell < cells.size(); cell += kThreads) own[cell] = 0;
  __syncthreads();
  int64_t error = kNoError;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < task.rows.rows; i += step) {
    const Pair pair = task.pair(i);
    if (pair.error < error) error = pair.error;
    if (!pair.counts) continue;
    cells.add(pair, [&](int64_t cell, bool counts) {
      if (!counts) return;
      if (Shared)
        atomicAdd(own + cell, 1u);
      else
        atomicAdd(table + cell, 1ull);
    });
  }
  lower(task.error, error);
  __syncthreads();
  for (int64_t cell = threadIdx.x; Shared && cell < cells.size(); cell += kThreads)
    if (own[cell]) atomicAdd(table + cell, static_cast<unsigned long long>(own[cell]));
}

// Rows of a tile in shared memory; -1 in place of the classes of rows that do not count.
struct Tile {
  int32_t true_class[kThreads], predicted[kThreads];
  double weight[kThreads];

  __device__ void load(const PairTask& task, int64_t row, int64_t end) {
    Pair pair{-1, -1, kNoError, false};
    if (row < end) pair = task.pair(row);
    lower(task.error, pair.error);
    true_class[threadIdx.x] = pair.counts ? static_cast<int32_t>(pair.true_class) : -1;
    predicted[threadIdx.x] = pair.counts ? static_cast<int32_t>(pair.predicted) : -1;
    weight[threadIdx.x] = pair.counts ? task.rows.weight[row] : 0.0;
  }
};

// What a lane adds up for the one class that it owns.
struct ClassSums {
  static constexpr bool kOfPredicted = true;  // whether rows predicted as the class matter as well
  const PairTask& task;
  int32_t own;
  double true_positives = 0.0, predicted = 0.0, true_rows = 0.0;

  __device__ ClassSums(const PairTask& task, int32_t own) : task(task), own(own) {}
  __device__ void add(int32_t true_class, int32_t guess, double weight) {
    if (true_class == own) true_rows += weight;
    if (guess == own) predicted += weight;
    if (true_class == own && guess == own) true_positives += weight;
  }
  __device__ void store() const {
    const int64_t classes = task.rows.target.classes;
    double* table = task.partial + blockIdx.y * (3 * classes);
    if (own >= classes) return;
    table[own] = true_positives, table[classes + own] = predicted, table[2 * classes + own] = true_rows;
  }
};

// A lane owns a row of the matrix, which is zero before.
struct PairSums {
  static constexpr bool kOfPredicted = false;
  double* table;
  int64_t classes;
  int32_t own;

  __device__ PairSums(const PairTask& task, int32_t own) : classes(task.rows.target.classes), own(own) {
    table = task.partial + blockIdx.y * (classes * classes);
  }
  __device__ void add(int32_t true_class, int32_t guess, double weight) {
    if (true_class == own) table[own * classes + guess] += weight;
  }
  __device__ void store() const {}
};

// One block for a block of rows and kThreads classes.
template <class Sums>
__global__ void __launch_bounds__(kThreads) weigh_kernel(const __grid_constant__ PairTask task) {
  VALOR_SHARED(Tile, tile);
  const Warp warp;
  const int32_t first = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x / 32 * 32);
  const auto owned = [first](int32_t c) { return static_cast<uint32_t>(c - first) < 32u; };
  Sums sums(task, first + warp.lane());
  const int64_t begin = blockIdx.y * task.block_rows;
  const int64_t end = begin + task.block_rows < task.rows.rows ? begin + task.block_rows : task.rows.rows;
  for (int64_t base = begin; base < end; base += kThreads) {
    tile.load(task, base + threadIdx.x, end);
    __syncthreads();
    for (int group = 0; group < kThreads; group += 32) {
      const int at = group + warp.lane();
      uint32_t wanted =
          warp.ballot(owned(tile.true_class[at]) || (Sums::kOfPredicted && owned(tile.predicted[at])));
      for (; wanted; wanted &= wanted - 1) {
        const int row = group + __ffs(static_cast<int>(wanted)) - 1;
        sums.add(tile.true_class[row], tile.predicted[row], tile.weight[row]);
      }
    }
    __syncthreads();
  }
  sums.store();
}

__global__ void __launch_bounds__(kThreads)
    fold_kernel(const double* partial, int64_t blocks, int64_t size, double* table) {
  const int64_t cell = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (cell >= size) return;
  double total = 0.0;
  for (int64_t block = 0; block < blocks; ++block) total += partial[block * size + cell];
  table[cell] = total;
}

template <class Cells, class Sums>
int32_t tabulate(const void* pair_words, int64_t block_rows, double* partial, void* table, int64_t* error,
                 void* stream) {
  const PairRows& rows = *static_cast<const PairRows*>(pair_words);
  if (rows.rows == 0) return 0;
  const Cells cells{rows.target.classes};
  const int64_t size = cells.size(), shared = size * static_cast<int64_t>(sizeof(uint32_t));
  PairTask task{rows, block_rows, partial, table, error};
  if (!rows.weight && shared <= kSharedBytes)
    return VALOR_LAUNCH((count_kernel<Cells, true>),
                        blocks_of(rows.rows, kThreads * kRowsPerThread, kMostBlocks), kThreads, shared,
                        stream, task);
  if (!rows.weight)
    return VALOR_LAUNCH((count_kernel<Cells, false>), blocks_of(rows.rows, kThreads, kWideGrid), kThreads, 0,
                        stream, task);
  const int64_t blocks = (rows.rows + block_rows - 1) / block_rows;
  if (blocks == 1) task.partial = static_cast<double*>(table);
  const dim3 grid(blocks_of(rows.target.classes, kThreads, INT32_MAX), static_cast<unsigned>(blocks));
  const int32_t status = VALOR_LAUNCH(weigh_kernel<Sums>, grid, kThreads, 0, stream, task);
  if (status || blocks == 1) return status;
  return VALOR_LAUNCH(fold_kernel, blocks_of(size, kThreads, INT32_MAX), kThreads, 0, stream, partial, blocks,
                      size, static_cast<double*>(table));
}

// -------------------------------------------------------------------------------------------- rows of cells

struct CellTask {
  const void* cells;
  int64_t type, rows, num_cells, k, place;
  int64_t* first;  // [num_cells, k]
};

// Finds the row at one place of each cell: the smallest after that at the place before.
__global__ void __launch_bounds__(kThreads) place_kernel(const __grid_constant__ CellTask task) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= task.rows) return;
  const int64_t cell = load_int(task.cells, i, static_cast<IntType>(task.type));
  if (static_cast<uint64_t>(cell) >= static_cast<uint64_t>(task.num_cells)) return;
  int64_t* found = task.first + cell * task.k + task.place;
  if ((task.place == 0 || i > found[-1]) && i < *found)
    atomicMin(reinterpret_cast<long long*>(found), static_cast<long long>(i));
}

__global__ void __launch_bounds__(kThreads) mark_absent_kernel(const __grid_constant__ CellTask task) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at < task.num_cells * task.k && task.first[at] == INT64_MAX) task.first[at] = -1;
}

// The fewest lanes that hold a row, since a round costs steps between lanes; where a row fills 32 lanes, it
// is read in every round.
template <class Bits>
int32_t launch_rounds(RoundTask task, void* stream) {
  constexpr int kMostHeld = sizeof(typename Bits::Word) == 8 ? kFewHeld : 32;  // more would be spilled
  const int64_t classes = task.scores.classes;
  const bool held = classes <= 32 * kMostHeld;
  task.lanes = lanes_of(classes, held ? kMostHeld : 4);
  const auto kernel = !held                              ? top_kernel<Bits>
                      : classes <= task.lanes * kFewHeld ? held_kernel<Bits, kFewHeld>
                                                         : held_kernel<Bits, kMostHeld>;
  const unsigned blocks = blocks_of(task.scores.rows * task.lanes, kThreads, INT32_MAX);
  return VALOR_LAUNCH(kernel, blocks, kThreads, 0, stream, task);
}

}  // namespace
}  // namespace valor

// classes: [rows, k].
VALOR_API int32_t valor_top_classes_cuda(const void* scores, int64_t type, int64_t rows, int64_t columns,
                                         int64_t k, int32_t* classes, int64_t* error, void* stream) {
  using namespace valor;
  if (rows == 0) return 0;
  if (k == 1) return launch_largest({{scores, type, rows, columns}, {}, 1, classes, nullptr, error}, stream);
  const RoundTask task{{scores, type, rows, columns}, k, 1, classes, error};
  return with_bits(type, [&](auto bits) { return launch_rounds<decltype(bits)>(task, stream); });
}

// Fills counts [3, C], which are 0, int64 or with weights float64, and lowers `error`. partial: with
// weights and several blocks of rows as many tables. On the host: pair_words, a PairRows.
VALOR_API int32_t valor_count_labels_cuda(const void* pair_words, int64_t block_rows, double* partial,
                                          void* counts, int64_t* error, void* stream) {
  using namespace valor;
  return tabulate<ClassCells, ClassSums>(pair_words, block_rows, partial, counts, error, stream);
}

// Likewise matrix [C, C]; partial must be 0 as well.
VALOR_API int32_t valor_count_pairs_cuda(const void* pair_words, int64_t block_rows, double* partial,
                                         void* matrix, int64_t* error, void* stream) {
  using namespace valor;
  return tabulate<PairCells, PairSums>(pair_words, block_rows, partial, matrix, error, stream);
}

// Writes the class that each row predicts, kLeftOut for rows that do not count, counts rows in matrix [C, C],
// which is 0 before, and lowers `error`. On the host: target_words, a Target.
VALOR_API int32_t valor_confuse_scores_cuda(const void* scores, int64_t type, int64_t rows,
                                            const void* target_words, int64_t block_rows, int32_t* predicted,
                                            int64_t* matrix, int64_t* error, void* stream) {
  using namespace valor;
  if (rows == 0) return 0;
  const Target& target = *static_cast<const Target*>(target_words);
  const int64_t classes = target.classes, cells = classes * classes;
  const bool spread = rows <= kFewRows || cells * static_cast<int64_t>(sizeof(uint32_t)) > kSharedBytes;
  unsigned long long* counts = spread ? reinterpret_cast<unsigned long long*>(matrix) : nullptr;
  const int32_t status =
      launch_largest({{scores, type, rows, classes}, target, 1, predicted, counts, error}, stream);
  if (status || spread) return status;
  const PairRows pairs{predicted, kInt32, 1, nullptr, rows, target};
  return tabulate<PairCells, PairSums>(&pairs, block_rows, nullptr, matrix, error, stream);
}

// Fills first [num_cells, k], which holds INT64_MAX.
VALOR_API int32_t valor_first_in_cells_cuda(const void* cells, int64_t type, int64_t rows, int64_t num_cells,
                                            int64_t k, int64_t* first, void* stream) {
  using namespace valor;
  if (num_cells * k == 0) return 0;
  CellTask task{cells, type, rows, num_cells, k, 0, first};
  for (; rows > 0 && task.place < k; ++task.place)
    if (const int32_t status =
            VALOR_LAUNCH(place_kernel, blocks_of(rows, kThreads, INT32_MAX), kThreads, 0, stream, task))
      return status;
  return VALOR_LAUNCH(mark_absent_kernel, blocks_of(num_cells * k, kThreads, INT32_MAX), kThreads, 0, stream,
                      task);
}
