// CPU driver of cosines of tokens: tiles of tokens of both texts, whose dot products stay in registers.
#include "../core/greedy_cosines.h"

#include <algorithm>

#include "guard.h"
#include "rows.h"
#include "simd.h"

namespace valor {
namespace {

constexpr int kRows = 4, kColumns = 2;       // of a tile
constexpr int64_t kLeastElements = 1 << 16;  // of vectors that are worth a thread

VALOR_INLINE float fold(float* lanes) {
  for (int half = kDotLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
}

VALOR_CLONES float sum_squares(const float* x, int64_t size) {
  float lanes[kDotLanes] = {};
  for (int64_t d = 0; d < size; d += kDotLanes)
    for (int i = 0; i < kDotLanes; ++i) lanes[i] += x[d + i] * x[d + i];
  return fold(lanes);
}

// Dot products of kRows with kColumns vectors.
VALOR_FUSED_CLONES void multiply_tile(const float* const* rows, const float* const* columns, int64_t size,
                                      float* dots) {
  const float *a0 = rows[0], *a1 = rows[1], *a2 = rows[2], *a3 = rows[3], *b0 = columns[0], *b1 = columns[1];
  float lanes[kRows * kColumns][kDotLanes] = {};
  for (int64_t d = 0; d < size; d += kDotLanes)
    for (int i = 0; i < kDotLanes; ++i) {
      lanes[0][i] += a0[d + i] * b0[d + i], lanes[1][i] += a0[d + i] * b1[d + i];
      lanes[2][i] += a1[d + i] * b0[d + i], lanes[3][i] += a1[d + i] * b1[d + i];
      lanes[4][i] += a2[d + i] * b0[d + i], lanes[5][i] += a2[d + i] * b1[d + i];
      lanes[6][i] += a3[d + i] * b0[d + i], lanes[7][i] += a3[d + i] * b1[d + i];
    }
  for (int i = 0; i < kRows * kColumns; ++i) dots[i] = fold(lanes[i]);
}

int64_t measure(const CosineTask& task, int side, int64_t begin, int64_t end) {
  int64_t error = kNoError;
  for (int64_t token = begin; token < end; ++token) {
    const float squares = sum_squares(task.vector(side, token), task.size);
    if (!has_direction(squares)) error = std::min(error, value_error(token, side, kNanScore));
    task.inverse[side][token] = inverse_length(squares);
    task.best[side][token] = -2.0f;
  }
  return error;
}

void match_tile(const CosineTask& task, const int64_t* first, const int64_t* last) {
  const float *rows[kRows], *columns[kColumns];
  float dots[kRows * kColumns];
  // Beyond the end the last token comes again, which changes no maximum.
  const auto token = [&](int side, int i) { return std::min(first[side] + i, last[side] - 1); };
  for (int i = 0; i < kRows; ++i) rows[i] = task.vector(0, token(0, i));
  for (int j = 0; j < kColumns; ++j) columns[j] = task.vector(1, token(1, j));
  multiply_tile(rows, columns, task.size, dots);
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kColumns; ++j) {
      const int64_t a = token(0, i), b = token(1, j);
      const float cosine = cosine_of(dots[i * kColumns + j], task.inverse[0][a], task.inverse[1][b]);
      task.best[0][a] = std::max(task.best[0][a], cosine);
      task.best[1][b] = std::max(task.best[1][b], cosine);
    }
}

int64_t match_pair(const CosineTask& task, int64_t pair) {
  int64_t error = kNoError, begin[2], end[2];
  for (int side = 0; side < 2; ++side) {
    begin[side] = task.offsets[side][pair], end[side] = task.offsets[side][pair + 1];
    error = std::min(error, measure(task, side, begin[side], end[side]));
  }
  if (error != kNoError) return error;
  for (int64_t a = begin[0]; a < end[0]; a += kRows)
    for (int64_t b = begin[1]; b < end[1]; b += kColumns) {
      const int64_t first[2] = {a, b};
      match_tile(task, first, end);
    }
  return kNoError;
}

void match_pairs(const CosineTask& task, int64_t* error, int64_t threads) {
  const int64_t elements = (task.tokens[0] + task.tokens[1]) * task.size / std::max<int64_t>(task.pairs, 1);
  const int64_t grain = std::max<int64_t>(1, kLeastElements / std::max<int64_t>(elements, 1));
  over_rows(task.pairs, grain, threads, error, [&](int64_t begin, int64_t end) {
    int64_t first = kNoError;
    for (int64_t pair = begin; pair < end; ++pair) first = std::min(first, match_pair(task, pair));
    return first;
  });
}

}  // namespace
}  // namespace valor

// Fills `best` and `inverse`, and lowers `error`. task_words are a CosineTask.
VALOR_API int32_t valor_greedy_cosines_cpu(const void* task_words, int64_t* error, int64_t threads) {
  return valor::guarded(
      [&] { valor::match_pairs(*static_cast<const valor::CosineTask*>(task_words), error, threads); });
}
