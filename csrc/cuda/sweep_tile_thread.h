// A thread's part of the histograms of csrc/cuda/sweep_tile_kernels.h: what it loads, which elements count,
// what they become, and where they are counted.
#pragma once
#include <type_traits>

#include "formats.h"
#include "launch.h"
#include "sweep_tiles.h"

namespace valor {

constexpr int kUnderWay = 16;        // scores of a thread
constexpr int64_t kFewClasses = 8;   // whose positives are too many to be counted one by one in global memory
constexpr uint32_t kLeftOutRow = 8;  // in place of a class below kFewClasses
constexpr uint32_t kPositiveOne = 1u << 16;  // where positives and negatives share a word

using Word = unsigned long long;

// How blocks divide the wide rows.
struct TilePlan {
  int64_t wide_rows;
  uint32_t width;           // elements of a load
  uint32_t fold;            // rows of a wide row
  uint32_t columns;         // of a wide row
  uint32_t vectors, tiles;  // loads of a row of a tile; tiles
  uint32_t chunk;           // wide rows of a block
  uint32_t copies, stride;  // of the counts of a tile; words of one column, odd for the sake of banks
  uint32_t staged;          // bytes of the cells
};

__device__ __forceinline__ void note(const TileTask& task, int64_t row, int64_t column) {
  atomicMin(reinterpret_cast<long long*>(task.error), static_cast<long long>(task.error_of(row, column)));
}

// How a kernel finds cells: those of the lookup, even ones, leaves of keys, or any as the task says.
enum Cells { kLookupCells, kEvenCells, kKeyCells, kAnyCells };

template <Cells kCells>
__device__ __forceinline__ const SweepCell& cell_of(const TileTask& task, const SweepCell* cells, float x) {
  if (kCells == kKeyCells || (kCells == kAnyCells && task.keys.leaves)) {
    const uint16_t* groups = reinterpret_cast<const uint16_t*>(cells + task.keys.leaves);
    return cells[leaf_of(task.keys, groups, sweep_key(task.keys, x))];
  }
  const bool even = kCells == kAnyCells ? task.shape.even != 0 : kCells == kEvenCells;
  return cells[even ? sweep_cell<true>(task.shape, task.lookup, x)
                    : sweep_cell<false>(task.shape, task.lookup, x)];
}

// Where x is counted; `counts` begin with those of NaN.
template <Cells kCells, class Count>
__device__ __forceinline__ Count* place_of(const TileTask& task, const SweepCell* cells, float x,
                                           Count* counts) {
  const SweepCell cell = cell_of<kCells>(task, cells, x);
  if (kCells == kKeyCells || kCells == kAnyCells) return counts + key_slot(cell, task.lookup.bounds, x);
  Count* place = counts + cell.slot;
  return x >= cell.bound ? place + 1 : place;
}

// ---------------------------------------------------------------------------------------- targets of
// elements

// Class indices, of which each row has a byte: half of its own, half of the next row, each kLeftOutRow or,
// with kSides, the class. The elements of a load lie in two rows at most, and in the same places of every
// wide row.
template <int N, bool kSides>
class RowTarget {
 public:
  static constexpr bool kPairs = kSides;
  using Data = uint32_t;

  __device__ __forceinline__ RowTarget(const TileTask& task, const TilePlan& plan, int64_t row,
                                       uint32_t column)
      : stride_(plan.fold) {
    const uint32_t classes = static_cast<uint32_t>(task.sweep.target.classes), own = column / classes;
    const int left = static_cast<int>((own + 1) * classes - column);  // elements in the first row
    flags_ = task.flags + row * plan.fold + own;
    mask_ = left < N ? kLeftOutRow * 17u : kLeftOutRow;
    for (int i = 0; kSides && i < N; ++i) {
      shifts_[i] = i < left ? 0 : 4;
      classes_[i] = (column + static_cast<uint32_t>(i)) % classes;
    }
  }
  __device__ __forceinline__ void load(uint32_t row, Data& data) const {
    data = flags_[static_cast<uint64_t>(row) * stride_];
  }
  __device__ __forceinline__ bool plain(Data data) const { return (data & mask_) == 0; }
  __device__ __forceinline__ uint32_t one(Data data, int i) const {
    return kSides && (data >> shifts_[i] & 7u) == classes_[i] ? kPositiveOne : 1u;
  }

 private:
  const uint8_t* flags_;
  uint32_t stride_, mask_;
  uint32_t shifts_[kSides ? N : 1], classes_[kSides ? N : 1];
};

// A value for each element.
template <int N, class Bits>
class ElementTarget {
 public:
  static constexpr bool kPairs = true;
  using Data = Vector<Bits, N>;

  __device__ __forceinline__ ElementTarget(const TileTask& task, const TilePlan& plan, int64_t row,
                                           uint32_t column)
      : stride_(plan.columns * static_cast<uint32_t>(sizeof(Bits))) {
    values_ = reinterpret_cast<const uint8_t*>(static_cast<const Bits*>(task.sweep.target.data) +
                                               row * plan.columns + column);
  }
  __device__ __forceinline__ void load(uint32_t row, Data& data) const {
    data.load(reinterpret_cast<const Bits*>(values_ + static_cast<uint64_t>(row) * stride_));
  }
  __device__ __forceinline__ bool plain(const Data& data) const {
    Bits every = 0;
    for (int i = 0; i < N; ++i) every |= data.values[i];
    return every <= 1;
  }
  __device__ __forceinline__ uint32_t one(const Data& data, int i) const {
    return data.values[i] ? kPositiveOne : 1u;
  }

 private:
  const uint8_t* values_;
  uint32_t stride_;  // bytes
};

// ----------------------------------------------------------------------------------------------------
// what scores become

template <class Format>
__device__ __forceinline__ float rounded(float x) {
  if (std::is_same<Format, F16>::value) return round_to_half(x);
  return std::is_same<Format, BF16>::value ? round_to_bfloat16(x) : x;
}

// kOfRows, kOfElements: the targets that it serves. kMayBeGuessed: whether scores may lie outside [0, 1]
// against expectation.
template <class Format>
struct AsTheyAre {
  static constexpr bool kMayBeGuessed = true, kOfRows = true, kOfElements = true;
  struct Data {};
  __device__ __forceinline__ AsTheyAre(const TileTask&, const TilePlan&, int64_t, uint32_t) {}
  __device__ __forceinline__ void load(uint32_t, Data&) const {}
  __device__ __forceinline__ float value(const Data&, int, float x) const { return x; }
};

template <class Format>
struct Sigmoids : AsTheyAre<Format> {
  static constexpr bool kMayBeGuessed = false, kOfRows = false;
  using AsTheyAre<Format>::AsTheyAre;
  __device__ __forceinline__ float value(const typename AsTheyAre<Format>::Data&, int, float x) const {
    return rounded<Format>(short_sigmoid(x));
  }
};

// As in RowTarget, a load has elements of two rows at most.
template <class Format>
class Softmaxes {
 public:
  static constexpr bool kMayBeGuessed = false, kOfRows = true, kOfElements = false;
  struct Data {
    RowShare own, next;
  };
  __device__ __forceinline__ Softmaxes(const TileTask& task, const TilePlan& plan, int64_t row,
                                       uint32_t column)
      : stride_(plan.fold) {
    const uint32_t classes = static_cast<uint32_t>(task.sweep.target.classes), own = column / classes;
    left_ = static_cast<int>((own + 1) * classes - column);
    shares_ = task.shares + row * plan.fold + own;
  }
  __device__ __forceinline__ void load(uint32_t row, Data& data) const {
    const RowShare* from = shares_ + static_cast<uint64_t>(row) * stride_;
    data.own = from[0], data.next = from[1];
  }
  __device__ __forceinline__ float value(const Data& data, int i, float x) const {
    return rounded<Format>(short_softmax(x, i < left_ ? data.own : data.next));
  }

 private:
  const RowShare* shares_;
  uint32_t stride_;
  int left_;  // elements in the first row
};

// ----------------------------------------------------------------------------------------------------
// counting

// One thread's part of a tile: neighbouring columns, and every so many rows.
template <class Format, Cells kCells, class Target, class Read, int N>
class TileThread {
 public:
  using Raw = typename Format::Raw;

  // Counts of an element begin `next` words after those of the element before.
  __device__ __forceinline__ TileThread(const TileTask& task, const TilePlan& plan, int64_t row,
                                        uint32_t column, const SweepCell* cells, uint32_t* counts,
                                        uint32_t next)
      : task_(task),
        cells_(cells),
        target_(task, plan, row, column),
        read_(task, plan, row, column),
        first_row_(row),
        stride_(plan.columns * static_cast<uint32_t>(sizeof(Raw))),
        fold_(plan.fold),
        column_(column),
        next_(next) {
    scores_ = reinterpret_cast<const uint8_t*>(static_cast<const Raw*>(task.sweep.scores) +
                                               row * plan.columns + column);
    for (uint32_t i = 0; i < N; ++i) counts_[i] = counts + i * next;
  }

  // Counts rows from `first` to `end` of those that the thread was made for; stops at a score that is no
  // probability where scores are guessed to be some.
  __device__ __forceinline__ void read(uint32_t first, uint32_t end, uint32_t step) const {
    const bool guessed = Read::kMayBeGuessed && task_.reading == kProbabilities;
    Found found;
    found.bound = guessed ? bits_of(1.0f) : UINT32_MAX;
    uint32_t row = first;
    read_loads<kUnderWay / N>(row, end, step, found);
    if (!found.outside) read_loads<1>(row, end, step, found);
    VALOR_ROLLED
    for (row = first; found.left && row < end && !found.outside; row += step) take_left(row, found);
    if (found.outside) *task_.outside = 1;
  }

 private:
  // What was seen: loads of which not all elements count; whether a score lies outside [0, 1]; and the
  // largest bits of scores, which for probabilities are at most those of 1 unless one lies outside, is -0 or
  // NaN.
  struct Found {
    bool left = false, outside = false;
    uint32_t most = 0, bound;

    __device__ __forceinline__ bool is_odd() const { return Read::kMayBeGuessed && most > bound; }
  };

  template <int kBatch>
  __device__ __forceinline__ void read_loads(uint32_t& row, uint32_t end, uint32_t step, Found& found) const {
    const auto more = [&] { return row + (kBatch - 1) * step < end; };
    for (;;) {
      VALOR_ROLLED
      for (; more() && !found.is_odd(); row += kBatch * step) take<kBatch>(row, step, found);
      if (!found.is_odd()) return;
      found.outside = any_outside(row - kBatch * step, step, kBatch);
      if (found.outside) return;
      found.most = 0;
    }
  }

  // Counts the loads whose elements all count.
  template <int kBatch>
  __device__ __forceinline__ void take(uint32_t row, uint32_t step, Found& found) const {
    const uint64_t stride = stride_;
    Vector<Raw, N> scores[kBatch];
    typename Target::Data data[kBatch];
    typename Read::Data shared[kBatch];
    VALOR_UNROLLED
    for (int j = 0; j < kBatch; ++j) {
      scores[j].load(reinterpret_cast<const Raw*>(scores_ + (row + j * step) * stride));
      target_.load(row + j * step, data[j]);
      read_.load(row + j * step, shared[j]);
    }
    VALOR_UNROLLED
    for (int j = 0; j < kBatch; ++j) {
      if (!target_.plain(data[j])) {
        found.left = true;
        continue;
      }
      if constexpr (kCells == kKeyCells) {
        count_keys(scores[j], data[j], shared[j], found);
      } else {
        VALOR_UNROLLED
        for (int i = 0; i < N; ++i) {
          const float x = Format::value(scores[j].values[i]);
          if (Read::kMayBeGuessed) found.most = bits_of(x) > found.most ? bits_of(x) : found.most;
          atomicAdd(place_of<kCells>(task_, cells_, read_.value(shared[j], i, x), counts_[i]),
                    target_.one(data[j], i));
        }
      }
    }
  }
  // Counts the elements of a load; once for all of them asks whether a leaf has more than one threshold.
  __device__ __forceinline__ void count_keys(const Vector<Raw, N>& scores, const typename Target::Data& data,
                                             const typename Read::Data& shared, Found& found) const {
    float values[N];
    int32_t slots[N], more = 0;
    SweepCell cells[N];
    VALOR_UNROLLED
    for (int i = 0; i < N; ++i) {
      const float x = Format::value(scores.values[i]);
      if (Read::kMayBeGuessed) found.most = bits_of(x) > found.most ? bits_of(x) : found.most;
      values[i] = read_.value(shared, i, x);
      cells[i] = cell_of<kKeyCells>(task_, cells_, values[i]);
      slots[i] = sweep_slot(cells[i], values[i]), more |= cells[i].slot;
    }
    if (more < 0) {
      VALOR_UNROLLED
      for (int i = 0; i < N; ++i) slots[i] = shared_slot(cells[i], task_.lookup.bounds, values[i]);
    }
    VALOR_UNROLLED
    for (int i = 0; i < N; ++i) atomicAdd(counts_[i] + slots[i], target_.one(data, i));
  }
  // Whether among so many loads one whose elements all count has a score outside [0, 1].
  __device__ __forceinline__ bool any_outside(uint32_t row, uint32_t step, int loads) const {
    VALOR_ROLLED
    for (; loads; --loads, row += step) {
      typename Target::Data data;
      target_.load(row, data);
      if (!target_.plain(data)) continue;
      const Raw* scores = reinterpret_cast<const Raw*>(scores_ + static_cast<uint64_t>(row) * stride_);
      VALOR_ROLLED
      for (int i = 0; i < N; ++i)
        if (lies_outside(Format::value(scores[i]))) return true;
    }
    return false;
  }
  __device__ __forceinline__ void take_left(uint32_t row, Found& found) const {
    typename Target::Data data;
    target_.load(row, data);
    if (target_.plain(data)) return;
    const uint32_t classes = static_cast<uint32_t>(task_.sweep.target.classes);
    VALOR_ROLLED
    for (uint32_t i = 0; i < N; ++i) {
      const int64_t own = (first_row_ + row) * fold_ + (column_ + i) / classes;
      const int64_t column = (column_ + i) % classes;
      const Truth truth = task_.sweep.target.at(own, column);
      if (truth == kBadTruth) note(task_, own, column);
      if (truth == kBadTruth || truth == kIgnored) continue;
      const float x = task_.value(own, column);
      found.outside |= Read::kMayBeGuessed && task_.reading == kProbabilities && lies_outside(x);
      atomicAdd(place_of<kCells>(task_, cells_, x, counts_[0] + i * next_),
                Target::kPairs && truth == kPositive ? kPositiveOne : 1u);
    }
  }

  const TileTask& task_;
  const SweepCell* cells_;
  const Target target_;
  const Read read_;
  const int64_t first_row_;
  const uint8_t* scores_;
  const uint32_t stride_, fold_, column_, next_;  // the stride in bytes
  uint32_t* counts_[N];
};

}  // namespace valor
