// Exact ROC AUC and average precision, and curves, of columns that are sorted whole: for a target per
// element, or weights. As many columns as have room are sorted at a time, in one sort.
#include "rank_task.h"

namespace valor {
namespace {

constexpr int kTile = 32;                                 // rows and columns that a block turns around
constexpr int kStretchThreads = 32;                       // a thread a stretch of a running sum
constexpr int kStretchBlocks = kLanes / kStretchThreads;  // of a column
constexpr int kChunk = 16;           // elements of a stretch in shared memory: 128 bytes of narrow words
constexpr int kFinishThreads = 512;  // positives of a column whose terms are found at a time

// What a stretch of a column adds up to. Those of float64 are kLanes, as in csrc/core/ranks.h.
template <class Sum>
struct StretchSum {
  Sum tp, fp;
  int64_t positives;
};

// Sums up to each element, itself included, in the room of the spare words; and what an element adds.
template <class Sum>
struct RunningSums;
template <>
struct RunningSums<int64_t> {
  uint32_t* tps;
  __device__ __forceinline__ void set(int64_t i, int64_t tp, int64_t) { tps[i] = static_cast<uint32_t>(tp); }
  __device__ __forceinline__ int64_t tp(int64_t i) const { return tps[i]; }
  __device__ __forceinline__ int64_t fp(int64_t i) const { return i + 1 - tps[i]; }
  __device__ __forceinline__ static int64_t weight(const RankTask&, uint32_t) { return 1; }
};
template <>
struct RunningSums<double> {
  double2* both;
  __device__ __forceinline__ void set(int64_t i, double tp, double fp) { both[i] = {tp, fp}; }
  __device__ __forceinline__ double tp(int64_t i) const { return both[i].x; }
  __device__ __forceinline__ double fp(int64_t i) const { return both[i].y; }
  __device__ __forceinline__ static double weight(const RankTask& task, uint32_t row_and_truth) {
    return task.weight[row_and_truth >> 1];
  }
};

// Some columns from `column` on. An element is a word: from the highest bits on its column here, its score
// upside down, so that ascending words descend by score, in Word128 its row, and whether it is positive.
template <class Word, class Sum>
struct RankColumns {
  static constexpr int kKey = sizeof(Word) == 16 ? 32 : 1;  // first bit of column and score: the key
  int64_t column, width, rows, score_bits;
  SortWords<Word> words;       // [width, rows]
  StretchSum<Sum>* stretches;  // [width, kLanes + 1], the last one of the whole column
  uint32_t* places;            // [width, rows] of positives
  unsigned char* scratch;
  int64_t scratch_bytes;

  // Sorts, or without scratch asks how large that must be.
  int32_t sort(void* stream) {
    const int end = static_cast<int>(kKey + score_bits) + bits_up_to(width - 1);
    return sort_words(words, width * rows, kKey, end, scratch, scratch_bytes, stream);
  }
  VALOR_HD Word key(int64_t j, uint64_t score_key) const {
    return static_cast<Word>(j) << score_bits | ((~0ull >> (64 - score_bits)) - score_key);
  }
  VALOR_HD Word left_out(int64_t j) const { return key(j, 0); }
  VALOR_HD Word word(int64_t j, int64_t i) const { return words.now[j * rows + i]; }
  VALOR_HD Word key_at(int64_t j, int64_t i) const { return word(j, i) >> kKey; }
  VALOR_HD StretchSum<Sum>* stretches_of(int64_t j) const { return stretches + j * (kLanes + 1); }
  VALOR_HD RunningSums<Sum> sums(int64_t j) const {
    using Cell = std::conditional_t<std::is_same_v<Sum, double>, double2, uint32_t>;
    static_assert(sizeof(Cell) <= sizeof(Word), "they take the room of the spare words");
    return {reinterpret_cast<Cell*>(words.spare) + j * rows};
  }
};

// Key of a score, 0 for what is left out.
template <class Order>
__device__ __forceinline__ uint64_t key_of(const RankTask& task, int64_t row, int64_t column, Truth truth) {
  const bool counts = truth == kPositive || truth == kNegative;
  uint64_t key = 0;
  if (truth == kBadTruth) note(task, value_error(row, task.target.per_element ? column : 0, kTarget));
  if (counts) {
    const auto raw = task.raw<Order>(row, column);
    key = Order::key(raw);
    if (Order::is_nan(raw)) note(task, value_error(row, column, kNanScore));
  }
  if (!task.weight) return key;
  const double weight = task.weight[row];
  if (counts && !good_weight(weight)) note(task, value_error(row, 0, kWeight));
  return weight > 0.0 ? key : 0;
}

// One block per tile, whose words it turns around.
template <class Order, class Word, class Sum>
__global__ void __launch_bounds__(kThreads)
    word_kernel(const __grid_constant__ RankTask task,
                const __grid_constant__ RankColumns<Word, Sum> columns) {
  VALOR_SHARED(Word, tile, [kTile][kTile + 1]);
  const unsigned across = blocks_of(columns.width, kTile);
  const int64_t row0 = static_cast<int64_t>(blockIdx.x / across) * kTile;
  const int64_t j0 = static_cast<int64_t>(blockIdx.x % across) * kTile;
  const int x = threadIdx.x % kTile;
  for (int y = threadIdx.x / kTile; y < kTile; y += kThreads / kTile) {
    const int64_t row = row0 + y, j = j0 + x;
    if (row >= task.rows || j >= columns.width) continue;
    const Truth truth = task.target.at(row, columns.column + j);
    const Word key = columns.key(j, key_of<Order>(task, row, columns.column + j, truth));
    const uint32_t rest = (columns.kKey > 1 ? static_cast<uint32_t>(row) << 1 : 0) | (truth == kPositive);
    tile[y][x] = key << columns.kKey | rest;
  }
  __syncthreads();
  for (int y = threadIdx.x / kTile; y < kTile; y += kThreads / kTile) {
    const int64_t row = row0 + x, j = j0 + y;
    if (row < task.rows && j < columns.width) columns.words.now[j * task.rows + row] = tile[x][y];
  }
}

// The stretches of a block, a thread each. Elements come and go by way of shared memory, where neighbours of
// one stretch are neighbours of one load.
template <class Word, class Sum>
class StretchBlock {
 public:
  struct Shared {
    Sum tp[kStretchThreads][kChunk + 1], fp[kStretchThreads][kChunk + 1];
  };

  __device__ __forceinline__ StretchBlock(const RankTask& task, const RankColumns<Word, Sum>& columns,
                                          Shared& shared)
      : task_(task),
        columns_(columns),
        shared_(shared),
        j_(blockIdx.x / kStretchBlocks),
        first_(blockIdx.x % kStretchBlocks * kStretchThreads),
        own_(first_ + threadIdx.x) {
    const Word left_out = columns.left_out(j_);
    count_ = partition_point(static_cast<uint32_t>(columns.rows),
                             [&](uint32_t i) { return columns.key_at(j_, i) < left_out; });
    size_ = (count_ + kLanes - 1) / kLanes;
  }

  __device__ __forceinline__ void add() { columns_.stretches_of(j_)[own_] = walk<false>({}); }

  __device__ __forceinline__ void run() {
    StretchSum<Sum>* stretches = columns_.stretches_of(j_);
    StretchSum<Sum> sum{};
    for (uint32_t s = 0; s < own_; ++s)
      sum.tp += stretches[s].tp, sum.fp += stretches[s].fp, sum.positives += stretches[s].positives;
    sum = walk<true>(sum);
    if (own_ + 1 == kLanes) stretches[kLanes] = sum;
  }

 private:
  // Adds up a stretch after those `before` it; with kWrite writes the running sums and the places of
  // positives.
  template <bool kWrite>
  __device__ __forceinline__ StretchSum<Sum> walk(const StretchSum<Sum>& before) {
    uint32_t* places = columns_.places + j_ * columns_.rows + before.positives;
    RunningSums<Sum> sums = columns_.sums(j_);
    StretchSum<Sum> inside{};
    Word words[kChunk];
    fetch(0, words);
    for (uint32_t base = 0; base < size_; base += kChunk) {
      for_chunk([&](uint32_t step, uint32_t stretch, uint32_t c) {
        const uint32_t rest = static_cast<uint32_t>(words[step]);
        const Sum weight = sums.weight(task_, rest);
        shared_.tp[stretch][c] = rest & 1 ? weight : 0, shared_.fp[stretch][c] = rest & 1 ? 0 : weight;
      });
      __syncwarp();
      fetch(base + kChunk, words);
      for (uint32_t c = 0; c < kChunk && holds(own_, base + c); ++c) {
        Sum &tp = shared_.tp[threadIdx.x][c], &fp = shared_.fp[threadIdx.x][c];
        if (kWrite && tp > 0) places[inside.positives] = index(own_, base + c);
        inside.positives += tp > 0, inside.tp += tp, inside.fp += fp;
        if (kWrite) tp = before.tp + inside.tp, fp = before.fp + inside.fp;
      }
      __syncwarp();
      if (kWrite)
        for_chunk([&](uint32_t, uint32_t stretch, uint32_t c) {
          if (holds(first_ + stretch, base + c))
            sums.set(index(first_ + stretch, base + c), shared_.tp[stretch][c], shared_.fp[stretch][c]);
        });
      __syncwarp();
    }
    return {before.tp + inside.tp, before.fp + inside.fp, before.positives + inside.positives};
  }

  // Reads elements `base` to `base` + kChunk of all stretches, anything beyond their ends.
  __device__ __forceinline__ void fetch(uint32_t base, Word* words) {
    if (base >= size_) return;
    for_chunk([&](uint32_t step, uint32_t stretch, uint32_t c) {
      const uint32_t i = index(first_ + stretch, base + c);
      words[step] = columns_.word(j_, i < count_ ? i : 0);
    });
  }

  // Calls use(step, stretch, c) for kChunk elements of all stretches, neighbours by neighbouring threads.
  template <class Use>
  __device__ __forceinline__ static void for_chunk(const Use& use) {
    VALOR_UNROLLED
    for (uint32_t step = 0; step < kChunk; ++step) {
      const uint32_t at = step * kStretchThreads + threadIdx.x;
      use(step, at / kChunk, at % kChunk);
    }
  }

  __device__ __forceinline__ uint32_t index(uint32_t stretch, uint32_t k) const {
    return size_ * stretch + k;
  }
  __device__ __forceinline__ bool holds(uint32_t stretch, uint32_t k) const {
    return k < size_ && index(stretch, k) < count_;
  }

  const RankTask& task_;
  const RankColumns<Word, Sum>& columns_;
  Shared& shared_;
  const int64_t j_;
  const uint32_t first_, own_;
  uint32_t count_, size_;
};

// Adds up each stretch alone; in a second launch, with kRun, runs through it with what stands before it.
template <class Word, class Sum, bool kRun>
__global__ void __launch_bounds__(kStretchThreads)
    stretch_kernel(const __grid_constant__ RankTask task,
                   const __grid_constant__ RankColumns<Word, Sum> columns) {
  using Shared = typename StretchBlock<Word, Sum>::Shared;
  VALOR_SHARED(Shared, shared);
  StretchBlock<Word, Sum> block(task, columns, shared);
  kRun ? block.run() : block.add();
}

// One block per column. Positive k belongs to part k % kLanes of a sum.
template <class Word, class Sum>
__global__ void __launch_bounds__(kFinishThreads)
    finish_kernel(const __grid_constant__ RankTask task,
                  const __grid_constant__ RankColumns<Word, Sum> columns) {
  VALOR_SHARED(Sum, wins, [kFinishThreads]);
  VALOR_SHARED(double, precisions, [kFinishThreads]);
  const int64_t j = blockIdx.x;
  const auto key_at = [&](int64_t i) { return columns.key_at(j, i); };
  const RunningSums<Sum> sums = columns.sums(j);
  const StretchSum<Sum> all = columns.stretches_of(j)[kLanes];
  Sum all_wins = 0;
  double all_precisions = 0.0;
  for (int64_t base = 0; base < all.positives; base += kFinishThreads) {
    const int64_t k = base + threadIdx.x;
    wins[threadIdx.x] = 0, precisions[threadIdx.x] = 0.0;
    if (k < all.positives) {
      const int64_t i = columns.places[j * columns.rows + k];
      const int64_t first = first_equal(key_at, i), last = last_equal(key_at, i, columns.rows);
      const Standing<Sum> at{sums.tp(last), sums.fp(last), first ? sums.fp(first - 1) : Sum{}};
      const Sum weight = sums.weight(task, static_cast<uint32_t>(columns.word(j, i)));
      wins[threadIdx.x] = weight * wins_of(at, all.fp);
      precisions[threadIdx.x] = static_cast<double>(weight) * precision_of(at);
    }
    __syncthreads();
    for (int part = threadIdx.x; threadIdx.x < kLanes && part < kFinishThreads; part += kLanes)
      all_wins += wins[part], all_precisions += precisions[part];
    __syncthreads();
  }
  all_wins = block_sum(wins, all_wins);
  all_precisions = block_sum(precisions, all_precisions);
  if (threadIdx.x == 0)
    write_auroc_and_ap<Sum>(task, columns.column + j, all_wins, all_precisions, all.tp, all.fp);
}

// Points of curves, [width, rows]: those at the `last` of equal scores.
struct RankPoints {
  uint8_t* last;
  void *thresholds, *tp, *fp;
};

template <class Order, class Word, class Sum>
__global__ void __launch_bounds__(kThreads)
    point_kernel(const __grid_constant__ RankColumns<Word, Sum> columns,
                 const __grid_constant__ RankPoints points) {
  const unsigned across = blocks_of(columns.rows, kThreads);
  const int64_t j = blockIdx.x / across;
  const int64_t i = static_cast<int64_t>(blockIdx.x % across) * kThreads + threadIdx.x;
  if (i >= columns.rows) return;
  const int64_t at = j * columns.rows + i;
  const Word key = columns.key_at(j, i), left_out = columns.left_out(j);
  const bool last = key != left_out && (i + 1 == columns.rows || columns.key_at(j, i + 1) != key);
  points.last[at] = last;
  if (!last) return;
  static_cast<typename Order::Raw*>(points.thresholds)[at] =
      Order::raw(static_cast<typename Order::Key>(left_out - key));
  static_cast<Sum*>(points.tp)[at] = columns.sums(j).tp(i);
  static_cast<Sum*>(points.fp)[at] = columns.sums(j).fp(i);
}

// Places the tables; `bytes` gets how many they take.
template <class Word, class Sum>
int32_t place_tables(RankColumns<Word, Sum>& columns, void* room, int64_t* bytes) {
  const int64_t count = columns.width * columns.rows;
  TableLayout layout(room);
  layout.place(columns.words.now, count);  // aligned to 16 bytes, as the spare words
  layout.place(columns.words.spare, count);
  layout.place(columns.stretches, columns.width * (kLanes + 1));
  layout.place(columns.places, count);
  const int32_t status = columns.sort(nullptr);
  layout.place(columns.scratch, columns.scratch_bytes);
  *bytes = layout.bytes();
  return status;
}

// Sorts columns and adds them up; then finds their points if these are asked for, else their AUROC and AP.
template <class Order, class Word, class Sum>
int32_t rank(const RankTask& task, RankColumns<Word, Sum>& columns, const RankPoints& points, void* stream) {
  int32_t status = 0;
  const unsigned width = static_cast<unsigned>(columns.width), stretches = width * kStretchBlocks;
  const unsigned tiles = blocks_of(width, kTile) * blocks_of(task.rows, kTile);
  const unsigned parts = width * blocks_of(task.rows, kThreads);
  if (tiles > 0)
    status = VALOR_LAUNCH((word_kernel<Order, Word, Sum>), tiles, kThreads, 0, stream, task, columns);
  if (status == 0) status = columns.sort(stream);
  if (status == 0)
    status = VALOR_LAUNCH((stretch_kernel<Word, Sum, false>), stretches, kStretchThreads, 0, stream, task,
                          columns);
  if (status == 0)
    status =
        VALOR_LAUNCH((stretch_kernel<Word, Sum, true>), stretches, kStretchThreads, 0, stream, task, columns);
  if (status != 0) return status;
  if (points.last == nullptr)
    return VALOR_LAUNCH((finish_kernel<Word, Sum>), width, kFinishThreads, 0, stream, task, columns);
  if (parts == 0) return 0;
  return VALOR_LAUNCH((point_kernel<Order, Word, Sum>), parts, kThreads, 0, stream, columns, points);
}

}  // namespace
}  // namespace valor

// Fills the AUROC and AP of the columns from `column` on, or with a null room gives the `bytes` that it
// needs. With `last` it finds points of curves instead, [width, rows]: 1 where the last of equal scores
// stands, else 0; there also the score and the numbers, int64_t or with weights double, of what stands at or
// above it. `words`: RankTask.
VALOR_API int32_t valor_rank_columns_cuda(const void* words, int64_t column, int64_t width, void* room,
                                          int64_t* bytes, uint8_t* last, void* thresholds, void* tp, void* fp,
                                          void* stream) {
  using namespace valor;
  const RankTask& task = *static_cast<const RankTask*>(words);
  int32_t status = 0;
  with_order(task.type, [&](auto order) {
    using Order = decltype(order);
    const auto run = [&](auto columns) {
      columns.column = column, columns.width = width, columns.rows = task.rows;
      columns.score_bits = kScoreBits<Order>;
      status = place_tables(columns, room, bytes);
      if (status == 0 && room) status = rank<Order>(task, columns, {last, thresholds, tp, fp}, stream);
    };
    using Narrow = std::conditional_t<kScoreBits<Order> == 64, Word128, uint64_t>;
    task.weight ? run(RankColumns<Word128, double>{}) : run(RankColumns<Narrow, int64_t>{});
  });
  return status;
}
