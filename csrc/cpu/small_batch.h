// Updates of small batches: one call reads the old state and the batch and writes the sum to fresh memory, on
// one core. A batch with a bad value returns kRefused; what was written then is not to be used.
#pragma once
#include <new>
#include <stdexcept>

#include "../core/targets.h"
#include "guard.h"

namespace valor {

// Of a function of the C interface that another one calls: its status as an exception again.
inline void require(int32_t status) {
  if (status == kOutOfMemory) throw std::bad_alloc();
  if (status != kDone) throw std::runtime_error("a kernel failed");
}

inline void refuse(int64_t error) {
  if (error != kNoError) throw Refused();
}

// The target with the address of this batch.
inline Target at_address(Target target, const void* data) {
  target.data = data;
  return target;
}

// seen: rows, and targets equal to the index to ignore.
inline void add_seen(const Target& target, int64_t rows, const int64_t* old, int64_t* now) {
  const int64_t count = rows * (target.per_element ? target.classes : 1);
  int64_t ignored = 0;
  for (int64_t i = 0; target.has_ignore && i < count; ++i) ignored += target.value(i) == target.ignore;
  now[0] = old[0] + rows;
  now[1] = old[1] + ignored;
}

}  // namespace valor
