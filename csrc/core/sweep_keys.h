// Which of the thresholds a float32 reaches where even cells do not hold one each: groups of floats, each cut
// into leaves as narrow as its own thresholds need.
#pragma once
#include <vector>

#include "sweep_cells.h"

namespace valor {

// A score becomes a number above 0 that rises with it; its upper bits name the group, and so many of its
// lower bits as the group needs the leaf. Python hands the 48 bytes on.
struct KeyShape {
  int64_t leaves;  // SweepCells, and after them a word of 16 bits for each group; 0: there are none
  int64_t groups;
  int64_t shift;        // bits that a group does not tell apart
  int64_t first;        // upper bits of the first group
  float scale, offset;  // of scores
  float low, high;  // of the numbers: what lies beyond takes the place of these, and NaN that of the lowest
};

// Of a group: its first leaf, above how many bits a leaf does not tell apart.
constexpr int kWidthBits = 5;
constexpr int64_t kMostLeaves = int64_t{1} << (16 - kWidthBits), kMostGroups = 512;
constexpr int64_t kKeyBytes = 12 << 10;  // of leaves and groups

constexpr int32_t kMore = INT32_MIN;  // beside the slot of a leaf of more than one threshold
constexpr int64_t kTogether = 3;      // thresholds of a leaf, at most, which two comparisons tell apart

VALOR_HD int64_t key_bytes(int64_t leaves, int64_t groups) {
  return (leaves * static_cast<int64_t>(sizeof(SweepCell)) + groups * 2 + 7) / 8 * 8;
}

// A place in the order of scores that keeps it; that of the lowest for NaN.
VALOR_HD uint32_t sweep_key(const KeyShape& shape, float x) {
  const float number = multiply_add(x, shape.scale, shape.offset);
#if defined(__CUDA_ARCH__)
  return bits_of(fminf(fmaxf(number, shape.low), shape.high));
#else
  return bits_of(!(number > shape.low) ? shape.low : number < shape.high ? number : shape.high);
#endif
}

// The bits of a key that a leaf of its group tells apart, without the bits below.
VALOR_HD uint32_t leaf_of(const KeyShape& shape, const uint16_t* groups, uint32_t key) {
  const uint32_t shift = static_cast<uint32_t>(shape.shift);
  const uint32_t group = groups[(key >> shift) - static_cast<uint32_t>(shape.first)];
  return (group >> kWidthBits) + ((key & ((1u << shift) - 1)) >> (group & ((1u << kWidthBits) - 1)));
}

// The slot of a score whose leaf is `cell`, of one threshold or of more. Those of later leaves it does not
// reach.
VALOR_HD int32_t shared_slot(const SweepCell& cell, const float* bounds, float x) {
  int32_t slot = cell.slot & INT32_MAX;
  slot += x >= bounds[slot + 1] ? 2 : 0;
  return slot + (x >= bounds[slot] ? 1 : 0);
}
VALOR_HD int32_t key_slot(const SweepCell& cell, const float* bounds, float x) {
  return cell.slot < 0 ? shared_slot(cell, bounds, x) : sweep_slot(cell, x);
}

// ------------------------------------------------------------------------------------- building, on the host

// The keys of -inf and of the thresholds, which rise.
inline void place_bounds(const KeyShape& shape, const Lookup<float>& lookup, std::vector<uint32_t>& keys) {
  keys.clear();
  for (int64_t i = 0; i <= lookup.shape.thresholds; ++i) keys.push_back(sweep_key(shape, lookup.bounds[i]));
}

// Whether leaves that leave so many low bits aside hold `most` of the keys `begin` to `end` at most.
inline bool holds(const std::vector<uint32_t>& keys, size_t begin, size_t end, int64_t width, size_t most) {
  for (size_t i = begin + most; i < end; ++i)
    if (keys[i] >> width == keys[i - most] >> width) return false;
  return true;
}

// How many low bits a leaf may leave aside where keys `begin` to `end` lie in one group: its leaves hold one
// each, or where that takes more than 2^`cap` leaves kTogether at most; -1 if they cannot.
inline int64_t leaf_width(const std::vector<uint32_t>& keys, size_t begin, size_t end, int64_t shift,
                          int64_t cap) {
  const int64_t narrowest = shift > cap ? shift - cap : 0;
  int64_t width = shift;
  while (width > narrowest && !holds(keys, begin, end, width, 1)) --width;
  while (width >= 0 && !holds(keys, begin, end, width, kTogether)) --width;
  return width;
}

// How many leaves of such a width hold more than one of the keys `begin` to `end`.
inline int64_t shared_leaves(const std::vector<uint32_t>& keys, size_t begin, size_t end, int64_t width) {
  int64_t shared = 0;
  for (size_t i = begin + 1; i < end; ++i)
    shared += !holds(keys, i - 1, i + 1, width, 1) && (i == begin + 1 || holds(keys, i - 2, i, width, 1));
  return shared;
}

// Cuts the groups of a shape; fills its sizes and, if given, the leaves with the words of groups after them.
// Returns how many leaves hold more than one threshold, -1 if a group cannot be cut.
inline int64_t cut_groups(KeyShape& shape, const Lookup<float>& lookup, const std::vector<uint32_t>& keys,
                          int64_t cap, SweepCell* leaves) {
  const float none = static_cast<float>(__builtin_nan(""));
  const int64_t shift = shape.shift;
  shape.first = keys.front() >> shift, shape.groups = (bits_of(shape.high) >> shift) - shape.first + 1;
  uint16_t* groups = leaves ? reinterpret_cast<uint16_t*>(leaves + shape.leaves) : nullptr;
  int64_t count = 0, shared = 0;
  size_t next = 0;
  for (int64_t group = 0; group < shape.groups; ++group) {
    size_t end = next;
    while (end < keys.size() && keys[end] >> shift == static_cast<uint32_t>(shape.first + group)) ++end;
    const int64_t width = leaf_width(keys, next, end, shift, cap);
    if (width < 0) return -1;
    shared += shared_leaves(keys, next, end, width);
    const int64_t many = int64_t{1} << (shift - width);
    if (leaves) groups[group] = static_cast<uint16_t>(count << kWidthBits | width);
    for (int64_t i = 0; leaves && i < many; ++i) {
      const uint32_t leaf = static_cast<uint32_t>((shape.first + group) << (shift - width) | i);
      const size_t begin = next;
      while (next < end && keys[next] >> width == leaf) ++next;
      leaves[count + i] = {next > begin ? lookup.bounds[begin] : none,
                           static_cast<int32_t>(begin) | (next > begin + 1 ? kMore : 0)};
    }
    count += many, next = end;
  }
  shape.leaves = count;
  return shared;
}

// The first and the last finite threshold; 0 and 0 without any.
struct Ends {
  float first = 0.0f, last = 0.0f;

  explicit Ends(const Lookup<float>& lookup) {
    int64_t begin = 1, end = lookup.shape.thresholds;
    while (begin <= end && !is_finite(lookup.bounds[begin])) ++begin;
    while (begin <= end && !is_finite(lookup.bounds[end])) --end;
    if (begin <= end) first = lookup.bounds[begin], last = lookup.bounds[end];
  }
  static bool is_finite(float x) { return x - x == 0.0f; }
};

// The shape that makes numbers from `knee` to `knee` + 1 of the scores between the ends: up to 2 knees they
// are even, from there they follow the order of floats.
inline KeyShape knee_shape(const Ends& ends, double knee) {
  const double low = ends.first, width = ends.last - low;
  KeyShape shape = {};
  const double scale = width > 0 ? 1 / width : 1.0;
  shape.scale = static_cast<float>(scale), shape.offset = static_cast<float>(knee - low * scale);
  return shape;
}

// Sets what follows from where the thresholds lie; false if their numbers are none above 0.
inline bool set_ends(KeyShape& shape, const Ends& ends) {
  const float least = multiply_add(ends.first, shape.scale, shape.offset);
  shape.high = multiply_add(ends.last, shape.scale, shape.offset);
  const uint32_t group = bits_of(least) >> shape.shift;
  if (!(least > 0.0f && Ends::is_finite(shape.high) && group)) return false;
  shape.low = float_from_bits((group << shape.shift) - 1);
  return (bits_of(shape.high) >> shape.shift) - (bits_of(shape.low) >> shape.shift) < kMostGroups;
}

// Of all knees and widths of groups, with such a cap on the leaves of a group, that of the fewest shared
// leaves, and of these the smallest.
inline KeyShape best_keys(const Lookup<float>& lookup, int64_t cap, std::vector<uint32_t>& keys) {
  constexpr int kKnees = 25;
  const Ends ends(lookup);
  KeyShape best = {};
  int64_t fewest = INT64_MAX, least = 0;
  for (int knee = 0; knee <= kKnees; ++knee) {
    KeyShape shape = knee_shape(ends, 1.0 / static_cast<double>(int64_t{1} << knee));
    if (knee == kKnees) shape.scale = 1.0f, shape.offset = 0.0f;  // scores as they are
    for (shape.shift = 22; shape.shift >= 12 && set_ends(shape, ends); --shape.shift) {
      place_bounds(shape, lookup, keys);
      const int64_t shared = cut_groups(shape, lookup, keys, cap, nullptr);
      const int64_t bytes = key_bytes(shape.leaves, shape.groups);
      if (shared < 0 || shape.leaves > kMostLeaves || bytes > kKeyBytes) continue;
      if (shared < fewest || (shared == fewest && bytes < least))
        fewest = shared, least = bytes, best = shape;
    }
  }
  return best;
}

// Writes tables of kKeyBytes at most, in which as few leaves as may be hold more than one threshold; none
// where they would take more room, or more than kTogether thresholds lie too near one another.
inline KeyShape build_keys(const Lookup<float>& lookup, SweepCell* leaves) {
  std::vector<uint32_t> keys;
  const bool fits = lookup.shape.thresholds && key_bytes(lookup.shape.thresholds, 1) <= kKeyBytes;
  for (const int64_t cap : {32, 6, 4}) {
    KeyShape best = fits ? best_keys(lookup, cap, keys) : KeyShape{};
    if (best.leaves == 0) continue;
    place_bounds(best, lookup, keys);
    cut_groups(best, lookup, keys, cap, leaves);
    return best;
  }
  return {};
}
inline KeyShape build_keys(const Lookup<double>&, SweepCell*) { return {}; }

}  // namespace valor
