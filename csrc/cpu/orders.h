// Random orders of units, of which none is ever held whole: units are looked at by ranges of their keys.
#pragma once
#include <algorithm>
#include <vector>

#include "philox.h"

namespace valor {

struct KeyedUnit {
  uint64_t key;
  uint32_t unit;
  bool operator<(const KeyedUnit& other) const {
    return key != other.key ? key < other.key : unit < other.unit;
  }
};

// How many keys of a replicate begin with each value of their first kKeyBits.
class KeyCounts {
 public:
  KeyCounts(const Replicate& from, uint32_t units);
  // The first value before which, with itself, more than `rank` keys lie; `before`: how many lie before it.
  int64_t at_rank(int64_t rank, int64_t* before) const;
  // The end of a range of values from `begin` on: at least one, and as many as hold at most kRangeKeys keys.
  int64_t range_end(int64_t begin) const;

  static constexpr int kKeyBits = 12;
  static constexpr int64_t kValues = int64_t{1} << kKeyBits, kRangeKeys = int64_t{1} << 21;
  static int64_t value(uint64_t key) { return static_cast<int64_t>(key >> (64 - kKeyBits)); }

 private:
  std::vector<int64_t> counts_;
};

// Units whose keys begin with a value in [begin, end), sorted.
std::vector<KeyedUnit> sorted_keys(const Replicate& from, uint32_t units, int64_t begin, int64_t end);

// What is drawn of a half: all units whose key is at most this.
KeyedUnit last_of_half(const Replicate& from, uint32_t units);

}  // namespace valor
