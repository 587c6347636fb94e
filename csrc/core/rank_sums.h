// Sums over the ranks of two columns: what rank correlations are made of. All are whole numbers.
#pragma once
#include "platform.h"

namespace valor {

// What one column of pairs gives; RANK_SUMS in valor_gpu/ops/rank_sums/cpu.py. Cubes and products are in two
// words: their sums exceed 64 bits from two million rows on.
struct RankSums {
  int64_t nan_rows;              // rows with NaN; unless 0, the rest is 0
  int64_t groups_x, groups_y;    // different values
  int64_t squares_x, squares_y;  // of the sizes of groups of equal values
  int64_t cubes_x_high, cubes_x_low, cubes_y_high, cubes_y_low;
  int64_t products_high, products_low;  // of centred ranks
  int64_t concordant, discordant;       // pairs of rows
};

// A whole number of more than 64 bits: high * 2^32 + low.
struct WideSum {
  int64_t high = 0, low = 0;
  VALOR_HD void add(int64_t value) { high += value >> 32, low += value & 0xffffffff; }
  // Adds square * factor, which may exceed 64 bits.
  VALOR_HD void add(int64_t square, int64_t factor) {
    high += (square >> 32) * factor;
    low += (square & 0xffffffff) * factor;
  }
};

// Twice the mid-rank of a group of equal values, less the sum of the first and the last rank.
VALOR_HD int64_t centred_rank(int64_t before, int64_t size, int64_t rows) { return 2 * before + size - rows; }

VALOR_HD int64_t pairs_of(int64_t rows) { return rows * (rows - 1) / 2; }

// An unsigned integer that rises with the number; -0 is 0.
VALOR_HD uint32_t order_key(float value) {
  value += 0.0f;
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
VALOR_HD uint64_t order_key(double value) {
  value += 0.0;
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits >> 63 ? ~bits : bits | 0x8000000000000000u;
}

}  // namespace valor
