// Ordering and searching on a segment, for the lanes of a Group together.
#pragma once
#include "platform.h"

namespace valor {

// Calls exchange(low, high) for low < high below `count` in such an order that items are sorted once each
// call has put the smaller of its two items first: a bitonic network in which items beyond the end would
// count as the largest and never move, so that any count goes without padding. Every lane may read the items
// afterwards.
template <class Group, class Exchange>
VALOR_HD void exchange_network(const Group& group, uint32_t count, const Exchange& exchange) {
  for (uint32_t block_bit = 0; (1u << block_bit) < count; ++block_bit) {
    for (uint32_t bit = block_bit + 1; bit-- > 0;) {
      group.sync();
      const uint32_t below = (1u << bit) - 1;
      const uint32_t partner =
          bit == block_bit ? 2 * below + 1 : 1u << bit;  // a block begins with its mirror image
      for (uint32_t pair = group.lane();; pair += group.width()) {
        const uint32_t low = (pair & ~below) << 1 | (pair & below), high = low ^ partner;
        if (low >= count) break;
        if (high < count) exchange(low, high);
      }
    }
  }
  group.sync();
}

// Sorts in place by operator<, which must leave no two items equal.
template <class Group, class Item>
VALOR_HD void sort_network(const Group& group, Item* items, uint32_t count) {
  exchange_network(group, count, [=](uint32_t low, uint32_t high) {
    if (items[high] < items[low]) {
      const Item larger = items[low];
      items[low] = items[high];
      items[high] = larger;
    }
  });
}

// The first index below `count` for which `before` is false, `count` if there is none: true ones come first.
template <class Index, class Before>
VALOR_HD Index partition_point(Index count, const Before& before) {
  Index low = 0;
  while (low < count) {
    const Index middle = low + (count - low) / 2;
    if (before(middle))
      low = middle + 1;
    else
      count = middle;
  }
  return low;
}

}  // namespace valor
