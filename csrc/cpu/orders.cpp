// Random orders of units for draws without replacement.
#include "orders.h"

namespace valor {
namespace {

void count_keys(const Replicate& from, uint32_t units, int64_t* counts) {
  for_keys(from, units, [&](uint64_t key, uint32_t) { ++counts[KeyCounts::value(key)]; });
}

void gather_keys(const Replicate& from, uint32_t units, int64_t begin, int64_t end,
                 std::vector<KeyedUnit>& found) {
  for_keys(from, units, [&](uint64_t key, uint32_t unit) {
    const int64_t value = KeyCounts::value(key);
    if (value >= begin && value < end) found.push_back({key, unit});
  });
}

}  // namespace

KeyCounts::KeyCounts(const Replicate& from, uint32_t units) : counts_(kValues) {
  count_keys(from, units, counts_.data());
}

int64_t KeyCounts::at_rank(int64_t rank, int64_t* before) const {
  int64_t value = 0;
  *before = 0;
  for (; *before + counts_[value] <= rank; ++value) *before += counts_[value];
  return value;
}

int64_t KeyCounts::range_end(int64_t begin) const {
  int64_t end = begin + 1;
  for (int64_t keys = counts_[begin]; end < kValues && keys + counts_[end] <= kRangeKeys; ++end)
    keys += counts_[end];
  return end;
}

std::vector<KeyedUnit> sorted_keys(const Replicate& from, uint32_t units, int64_t begin, int64_t end) {
  std::vector<KeyedUnit> found;
  gather_keys(from, units, begin, end, found);
  std::sort(found.begin(), found.end());
  return found;
}

KeyedUnit last_of_half(const Replicate& from, uint32_t units) {
  int64_t before = 0;
  const int64_t rank = units / 2 - 1;
  const int64_t value = KeyCounts(from, units).at_rank(rank, &before);
  return sorted_keys(from, units, value, value + 1)[rank - before];
}

}  // namespace valor
