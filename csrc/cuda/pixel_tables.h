// Tables of counts of pixels, as the kernels of label maps and of logits fill them: in shared memory where
// they fit.
#pragma once
#include <type_traits>

#include "../core/pixel_counts.h"
#include "divisor.h"
#include "early_launch.h"

namespace valor {

constexpr int64_t kSharedBytes = 48 << 10;  // that every device has without asking
constexpr int64_t kRoundsPixels = 61440;    // of a block, so that 16-bit cells hold their counts

// Where a block counts. Kernels are templates of it.
enum Room : int32_t {
  kClassRoom,   // shared, 32 bits: right pixels, then wrong ones by prediction and by truth
  kPairRoom,    // shared, 16 bits
  kDeviceRoom,  // the output itself
};

struct CountTask {
  PixelTask pixels;
  Divisor rows, columns, code_pixels;
  Room room;
  int32_t rounds;         // tiles of a block
  uint32_t table_blocks;  // blocks of a table
  unsigned long long* tables;
  int64_t* error;

  // Divides tiles of so many pixels among about so many blocks; returns how many there are.
  int64_t plan(int64_t tile, int64_t wanted_blocks) {
    const int64_t tiles = (pixels.table_pixels() + tile - 1) / tile, most = kRoundsPixels / tile;
    const int64_t wanted = (tiles * pixels.tables() + wanted_blocks - 1) / wanted_blocks;
    const int64_t count = wanted < most ? wanted : most;
    rounds = static_cast<int32_t>(count);
    table_blocks = static_cast<uint32_t>((tiles + count - 1) / count);
    return table_blocks * pixels.tables();
  }

  __device__ int32_t classes() const { return static_cast<int32_t>(pixels.classes); }
  __device__ PixelPlace place(int64_t pixel) const {
    PixelPlace found;
    const int64_t line = columns.divide(pixel, &found.column);
    found.image = rows.divide(line, &found.row);
    return found;
  }
  __device__ void note(int64_t pixel, ValueError kind) const {
    wait_for_kernel_ahead();
    int64_t place;
    const int64_t row = code_pixels.divide(pixel, &place);
    atomicMin(reinterpret_cast<long long*>(error), static_cast<long long>(value_error(row, place, kind)));
  }
};

inline int64_t shared_bytes(const PixelTask& task, Room room) {
  if (room == kClassRoom) return 3 * task.classes * 4;
  return room == kPairRoom ? (task.classes * task.classes + 1) / 2 * 4 : 0;
}

inline Room room_of(const PixelTask& task) {
  const Room room = task.pairs ? kPairRoom : kClassRoom;
  return shared_bytes(task, room) <= kSharedBytes ? room : kDeviceRoom;
}

// Calls visit with a constant of a room.
template <class Visit>
auto with_room(Room room, Visit visit) {
  switch (room) {
    case kClassRoom:
      return visit(std::integral_constant<Room, kClassRoom>());
    case kPairRoom:
      return visit(std::integral_constant<Room, kPairRoom>());
    default:
      return visit(std::integral_constant<Room, kDeviceRoom>());
  }
}

// The counts of a block of so many threads. A kernel ahead lets the tables hold what is added to: it may be
// at that while this one reads and counts in shared memory.
template <int kThreads, Room kRoom>
struct Counter {
  const CountTask& task;
  unsigned long long* table;  // of this block's image
  uint32_t* own;              // shared

  __device__ void clear() const {
    const int32_t classes = task.classes();
    const int32_t words = kRoom == kClassRoom ? 3 * classes : (classes * classes + 1) / 2;
    if constexpr (kRoom == kDeviceRoom) {
      wait_for_kernel_ahead();
    } else {
      VALOR_ROLLED for (int32_t i = threadIdx.x; i < words; i += kThreads) own[i] = 0;
      __syncthreads();
    }
  }
  __device__ __forceinline__ void add(int32_t row, int32_t column, int32_t count) const {
    const int32_t classes = task.classes();
    if constexpr (kRoom == kClassRoom) {
      const bool right = row == column;
      atomicAdd(own + column + (right ? 0 : classes), static_cast<uint32_t>(count));
      if (!right) atomicAdd(own + 2 * classes + row, static_cast<uint32_t>(count));
    } else if constexpr (kRoom == kPairRoom) {
      const int32_t cell = row * classes + column;
      atomicAdd(own + cell / 2, static_cast<uint32_t>(count) << (16 * (cell & 1)));
    } else {
      put(row, column, static_cast<unsigned long long>(count));
    }
  }
  __device__ void put(int64_t row, int64_t column, unsigned long long count) const {
    const int64_t classes = task.classes();
    if (task.pixels.pairs) {
      atomicAdd(table + row * classes + column, count);
      return;
    }
    if (row == column) atomicAdd(table + row, count);
    atomicAdd(table + classes + column, count);
    atomicAdd(table + 2 * classes + row, count);
  }
  // Adds the block's counts to the table.
  __device__ void fold() const {
    const int32_t classes = task.classes();
    if constexpr (kRoom != kDeviceRoom) __syncthreads();
    wait_for_kernel_ahead();
    if constexpr (kRoom == kClassRoom)
      VALOR_ROLLED for (int32_t c = threadIdx.x; c < classes; c += kThreads) {
        const unsigned long long right = own[c];
        add_some(table + c, right);
        add_some(table + classes + c, right + own[classes + c]);
        add_some(table + 2 * classes + c, right + own[2 * classes + c]);
      }
    if constexpr (kRoom == kPairRoom)
      VALOR_ROLLED for (int32_t cell = threadIdx.x; cell < classes * classes; cell += kThreads)
          add_some(table + cell, own[cell / 2] >> (16 * (cell & 1)) & 0xffffu);
  }
  __device__ static void add_some(unsigned long long* cell, unsigned long long count) {
    if (count) atomicAdd(cell, count);
  }
};

// Counts maps of labels that lie one pixel after another, at addresses that loads of several pixels may read;
// false, and nothing is done, for others. `task` needs no plan of blocks.
bool launch_label_maps(const CountTask& task, void* stream, int32_t* status);

}  // namespace valor
