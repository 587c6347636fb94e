// Which of the thresholds a float32 reaches, by one look and one comparison: cells that hold one threshold at
// most.
#pragma once
#include "multiply_add.h"
#include "sweep.h"

namespace valor {

// One cell: what stands below it, and the threshold in it.
struct SweepCell {
  float bound;   // NaN, which nothing reaches, if there is none
  int32_t slot;  // of a score below the bound: 0 for NaN, else 1 + how many thresholds it reaches
};

// How cells follow the scores. Python hands the 32 bytes on.
struct CellShape {
  int64_t cells;  // 0: thresholds do not lie in cells of their own
  int64_t even;   // whether cells have one width
  int64_t last;   // the last cell of even ones
  float scale, offset;
};

// Toward zero; negative numbers and NaN become 0, large ones the largest.
VALOR_HD uint32_t to_unsigned(float value) {
#if defined(__CUDA_ARCH__)
  return __float2uint_rz(value);
#else
  return !(value > 0.0f) ? 0u : value < 0x1p32f ? static_cast<uint32_t>(value) : UINT32_MAX;
#endif
}

// Rises with x and is 0 for NaN, so that comparisons with thresholds of other cells need not be made.
template <bool kEvenCells>
VALOR_HD uint32_t sweep_cell(const CellShape& shape, const Lookup<float>& lookup, float x) {
  if (!kEvenCells) return static_cast<uint32_t>(lookup.cell(x));
  const uint32_t cell = to_unsigned(multiply_add(x, shape.scale, shape.offset));
  const uint32_t last = static_cast<uint32_t>(shape.last);
  return cell < last ? cell : last;
}

VALOR_HD int32_t sweep_slot(const SweepCell& cell, float x) { return cell.slot + (x >= cell.bound ? 1 : 0); }

// ------------------------------------------------------------------------------------- building, on the host

// Writes the cells [lookup_cells(T) + 1] of a shape; false if two thresholds share one.
template <bool kEvenCells>
bool write_cells(const CellShape& shape, const Lookup<float>& lookup, SweepCell* cells) {
  const float none = static_cast<float>(__builtin_nan("")), lowest = -static_cast<float>(__builtin_inf());
  const float* grid = lookup.bounds + 1;
  int64_t next = 0;
  cells[0] = {lowest, 0};
  for (int64_t cell = 1; cell <= lookup.shape.cells; ++cell) {
    cells[cell] = {none, static_cast<int32_t>(next + 1)};
    if (next == lookup.shape.thresholds) continue;
    const int64_t at = sweep_cell<kEvenCells>(shape, lookup, grid[next]);
    if (at < cell) return false;
    if (at == cell) cells[cell].bound = grid[next++];
  }
  return next == lookup.shape.thresholds;
}

// Even cells if thresholds lie apart in them, else none.
inline CellShape build_even_cells(const Lookup<float>& lookup, SweepCell* cells) {
  CellShape shape = {lookup.shape.cells, 1, lookup.shape.cells, 0.0f, 1.0f};
  const int64_t thresholds = lookup.shape.thresholds;
  if (thresholds) {
    const double low = lookup.bounds[1], width = lookup.bounds[thresholds] - low;
    const double scale = width > 0 ? static_cast<double>(shape.cells - 2) / width : 1.0;
    shape.scale = static_cast<float>(scale), shape.offset = static_cast<float>(1.5 - low * scale);
  }
  const float sum = shape.scale + shape.offset;
  if (sum - sum == 0 && write_cells<true>(shape, lookup, cells)) return shape;
  return {0, 0, 0, 0.0f, 0.0f};
}
inline CellShape build_even_cells(const Lookup<double>&, SweepCell*) { return {0, 0, 0, 0.0f, 0.0f}; }

// Cells of the lookup if thresholds lie apart in them, else none.
inline CellShape build_lookup_cells(const Lookup<float>& lookup, SweepCell* cells) {
  const CellShape shape = {lookup.shape.cells, 0, 0, 0.0f, 0.0f};
  return write_cells<false>(shape, lookup, cells) ? shape : CellShape{0, 0, 0, 0.0f, 0.0f};
}
inline CellShape build_lookup_cells(const Lookup<double>&, SweepCell*) { return {0, 0, 0, 0.0f, 0.0f}; }

}  // namespace valor
