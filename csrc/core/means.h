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

// Sum of the next `size` values, at most a block; 32 bits save registers. `part` has room for 8 running sums.
template <class Values, class Parts>
VALOR_HD double sum_block(Values values, int32_t size, Parts&& part) {
  double sum = 0.0;
  int32_t i = 0;
  if (size >= 8) {
    for (int p = 0; p < 8; ++p) part[p] = values.next();
    for (i = 8; i < size - size % 8; i += 8)
      for (int p = 0; p < 8; ++p) part[p] += values.next();
    sum = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
  }
  for (; i < size; ++i) sum += values.next();
  return sum;
}

template <class Values>
VALOR_HD double sum_block(Values values, int32_t size) {
  double part[8];
  return sum_block(values, size, part);
}

// Where sum_tree keeps the running sums of a block, and of the left halves above it.
struct LocalSums {
  // More halvings than an array in memory can need: 128 * 2^48 values of 8 bytes are 2^58 bytes, and an
  // address space has at most 2^57.
  static constexpr int kMostHalvings = 48;
  double part[8], lefts[kMostHalvings];

  VALOR_HD double& operator[](int p) { return part[p]; }
  VALOR_HD double& left(int step) { return lefts[step]; }
};

// Sum of the next `size` values, whatever their number, block after block.
template <class Values, class Sums>
VALOR_HD double sum_tree(const Values& values, int64_t size, Sums&& sums) {
  int64_t path = 0;
  for (int steps = 0;;) {
    SumNode node{0, size};
    node.follow(path, steps);
    for (; node.splits(); node = node.left(), ++steps) path *= 2;
    double sum = sum_block(values, static_cast<int32_t>(node.size), sums);
    for (; path & 1; path /= 2) sum = sums.left(--steps) + sum;
    if (steps == 0) return sum;
    sums.left(steps - 1) = sum;
    path |= 1;
  }
}

}  // namespace valor
