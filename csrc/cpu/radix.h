// Stable least-significant-digit radix sort; digits that no key differs in are passed over.
#pragma once
#include <stdint.h>

#include <algorithm>

namespace valor {

// Sorts `items` by the unsigned integer `key_of(item)`; `spare` has room for as many.
template <class Item, class KeyOf>
void radix_sort(Item* items, Item* spare, int64_t count, const KeyOf& key_of) {
  using Key = decltype(key_of(*items));
  constexpr int kDigit = 11, kBits = 8 * static_cast<int>(sizeof(Key));
  if (count < 256) {
    std::stable_sort(items, items + count,
                     [&](const Item& a, const Item& b) { return key_of(a) < key_of(b); });
    return;
  }
  Key any = 0, all = ~Key{0};
  for (int64_t i = 0; i < count; ++i) any |= key_of(items[i]), all &= key_of(items[i]);
  Item *from = items, *to = spare;
  // Digits begin at the lowest bit that differs: scores that were float32 have 29 bits of zeros before it.
  const Key differ = any ^ all, mask = (Key{1} << kDigit) - 1;
  for (int shift = differ ? __builtin_ctzll(differ) : kBits; shift < kBits; shift += kDigit) {
    if (((differ >> shift) & mask) == 0) continue;
    int64_t start[1 << kDigit] = {};
    for (int64_t i = 0; i < count; ++i) ++start[(key_of(from[i]) >> shift) & mask];
    int64_t total = 0;
    for (int64_t& s : start) {
      const int64_t size = s;
      s = total;
      total += size;
    }
    for (int64_t i = 0; i < count; ++i) to[start[(key_of(from[i]) >> shift) & mask]++] = from[i];
    std::swap(from, to);
  }
  if (from != items) std::copy(from, from + count, items);
}

}  // namespace valor
