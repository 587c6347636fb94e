// The boundary pixels of every class of every image as lists, from one pass over a label map.
#pragma once
#include <vector>

#include "../core/surface.h"
#include "pool.h"
#include "simd.h"

namespace valor {

struct BoundaryPixel {
  int32_t plane, row, column;
};
using BoundaryList = std::vector<BoundaryPixel>;

// Whether pixels of a row differ from a neighbour: in the row itself, and in the rows of `others`.
template <class Label>
VALOR_CLONES void mark_row(const Label* row, const Label* const* others, int count, int64_t width,
                           uint8_t* out) {
  out[0] = out[width - 1] = 1;
  for (int64_t x = 1; x < width - 1; ++x) out[x] = (row[x] != row[x - 1]) | (row[x] != row[x + 1]);
  for (int i = 0; i < count; ++i) {
    const Label* const other = others[i];
    for (int64_t x = 0; x < width; ++x) out[x] |= row[x] != other[x];
  }
}

// Calls visit with the label and place of every pixel of an image that differs from a neighbour or lies at
// the edge of the image, in the order of the image.
template <class Label, class Visit>
void visit_edges(const SurfaceTask& task, const Label* image, const Visit& visit) {
  const int64_t height = task.height, width = task.width, area = height * width;
  std::vector<uint8_t> marks(width + 8);
  for (int64_t z = 0; z < task.depth; ++z) {
    const bool outer = task.volume && (z == 0 || z == task.depth - 1);
    for (int64_t y = 0; y < height; ++y) {
      const Label* const row = image + z * area + y * width;
      if (outer || y == 0 || y == height - 1) {
        std::fill(marks.begin(), marks.begin() + width, 1);
      } else {
        const Label* const others[4] = {row - width, row + width, row - area, row + area};
        mark_row(row, others, task.volume ? 4 : 2, width, marks.data());
      }
      for (int64_t x = 0; x < width; ++x) {
        uint64_t eight;  // `marks` has room for what follows the row
        memcpy(&eight, marks.data() + x, 8);
        if (eight == 0) {
          x += 7;
        } else if (marks[x]) {
          visit(row[x],
                BoundaryPixel{static_cast<int32_t>(z), static_cast<int32_t>(y), static_cast<int32_t>(x)});
        }
      }
    }
  }
}

// Lists [images, kept classes, 2 sides], each in the order of its image.
inline std::vector<BoundaryList> list_boundaries(const SurfaceTask& task, int threads) {
  const int64_t kept = task.kept();
  std::vector<BoundaryList> lists(2 * task.pairs());
  if (task.pixels() == 0) return lists;
  for (int side = 0; side < 2; ++side) {
    const SurfaceSide& from = task.sides[side];
    const auto list = [&](int64_t image, int64_t label) -> BoundaryList& {
      return lists[2 * (image * kept + label - task.first_class) + side];
    };
    auto by_label = [&](int64_t begin, int64_t end) {
      for (int64_t image = begin; image < end; ++image) {
        const int32_t* const labels = static_cast<const int32_t*>(from.data) + image * task.pixels();
        visit_edges(task, labels, [&](int32_t label, BoundaryPixel pixel) {
          if (label >= task.first_class && label < task.classes) list(image, label).push_back(pixel);
        });
      }
    };
    auto by_mask = [&](int64_t begin, int64_t end) {
      for (int64_t pair = begin; pair < end; ++pair) {
        const int64_t image = pair / kept, label = task.first_class + pair % kept;
        const uint8_t* const mask =
            static_cast<const uint8_t*>(from.data) + (image * task.classes + label) * task.pixels();
        BoundaryList& out = list(image, label);
        visit_edges(task, mask, [&](uint8_t set, BoundaryPixel pixel) {
          if (set) out.push_back(pixel);
        });
      }
    };
    if (from.masks)
      parallel_for(task.pairs(), 1, threads, by_mask);
    else
      parallel_for(task.images, 1, threads, by_label);
  }
  return lists;
}

}  // namespace valor
