// The mean of numpy.mean over a contiguous float64 array, to the last bit: pairwise summation, whose blocks
// of up to 128 values have eight running sums. Definition: numpy, loops_utils.h.src, DOUBLE_pairwise_sum.
#pragma once
#include "platform.h"

namespace valor {

// A part of the array in the tree of halves.
struct SumNode {
  static constexpr int64_t kBlock = 128;
  int64_t start, size;

  VALOR_HD bool splits() const { return size > kBlock; }
  VALOR_HD int64_t left_size() const { return size / 2 - size / 2 % 8; }
  VALOR_HD SumNode left() const { return {start, left_size()}; }
  VALOR_HD SumNode right() const { return {start + left_size(), size - left_size()}; }
  // Follows `steps` bits of the path, the highest first, 1 to the right. False where it leads below a block,
  // unless all bits that are left are 0: a block is the end of one path alone.
  VALOR_HD bool follow(int64_t path, int steps) {
    for (int bit = steps - 1; bit >= 0; --bit) {
      if (!splits()) return (path & ((int64_t{2} << bit) - 1)) == 0;
      *this = (path >> bit & 1) ? right() : left();
    }
    return true;
  }
};

// Halvings after which no part of `size` values is larger than a block: the larger half is at most 8 above a
// half.
VALOR_HD int halvings(int64_t size) {
  int steps = 0;
  for (; size > SumNode::kBlock; size = size / 2 + 8) ++steps;
  return steps;
}

// Sum of the next `size` values, at most a block.
template <class Values>
VALOR_HD double sum_block(Values values, int64_t size) {
  double sum = 0.0;
  int64_t i = 0;
  if (size >= 8) {
    double part[8];
    for (double& p : part) p = values.next();
    for (i = 8; i < size - size % 8; i += 8)
      for (double& p : part) p += values.next();
    sum = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
  }
  for (; i < size; ++i) sum += values.next();
  return sum;
}

}  // namespace valor
