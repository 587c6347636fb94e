// Pairwise IoU of ragged boxes on the CPU: rows of boxes1 are split over threads, rows of boxes2 are tiled.
#include "../core/boxes.h"

#include <algorithm>

#include "../core/ragged.h"
#include "guard.h"
#include "pool.h"
#include "simd.h"

namespace valor {
namespace {

constexpr int64_t kTile = 512;

// Boxes as float64 xywh, field by field so that a loop over them vectorises.
struct Tile {
  double x[kTile], y[kTile], w[kTile], h[kTile];
  uint8_t crowd[kTile];

  void load(const BoxPairs& task, int64_t first, int64_t count) {
    for (int64_t j = 0; j < count; ++j) {
      const Box box = task.box2(first + j);
      x[j] = box.x;
      y[j] = box.y;
      w[j] = box.w;
      h[j] = box.h;
      crowd[j] = task.is_crowd(first + j);
    }
  }
};

VALOR_CLONES void iou_row(const Box& detection, const Tile& tile, int64_t count, double* out) {
  for (int64_t j = 0; j < count; ++j)
    out[j] = box_iou(detection, Box{tile.x[j], tile.y[j], tile.w[j], tile.h[j]}, tile.crowd[j]);
}

// Rows [begin, end) of boxes1, all of one segment, against every row of boxes2 there.
void iou_rows(const BoxPairs& task, int64_t segment, int64_t begin, int64_t end) {
  const int64_t start = task.rows2()[segment], stop = task.rows2()[segment + 1];
  double* const out = task.out + task.pairs()[segment];
  Tile tile;
  for (int64_t first = start; first < stop; first += kTile) {
    const int64_t count = std::min(kTile, stop - first);
    tile.load(task, first, count);
    for (int64_t row = begin; row < end; ++row)
      iou_row(task.box1(row), tile, count,
              out + (row - task.rows1()[segment]) * (stop - start) + first - start);
  }
}

}  // namespace
}  // namespace valor

// The arguments are the fields of BoxPairs, see core/boxes.h.
VALOR_API int32_t valor_box_iou_cpu(const void* boxes1, const void* boxes2, int32_t type1, int32_t type2,
                                    int32_t format, const uint8_t* crowd, const int64_t* offsets,
                                    int64_t segments, double* out, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const BoxPairs task = BoxPairs::of(boxes1, boxes2, type1, type2, format, crowd, offsets, segments, out);
    const int64_t rows = task.rows1()[segments];
    if (rows == 0) return;
    auto body = [&task](int64_t begin, int64_t end) {
      for (int64_t s = segment_of(task.rows1(), task.segments, begin); begin < end; ++s) {
        const int64_t stop = std::min(end, task.rows1()[s + 1]);
        iou_rows(task, s, begin, stop);
        begin = stop;
      }
    };
    // About 32,768 pairs a chunk, and at least 4 rows to share a tile.
    const int64_t columns = task.pairs()[segments] / rows + 1;
    parallel_for(rows, std::clamp<int64_t>(32768 / columns, 4, 4096), static_cast<int>(threads), body);
  });
}
