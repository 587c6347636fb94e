// Copies between shared and device memory, and zeros, by one warp.
#pragma once
#include "../core/platform.h"

namespace valor {

// Copies bytes whose source and destination are equal modulo 16, in words of 16 where they are whole.
__device__ __forceinline__ void copy_bytes(const Warp& warp, uint8_t* to, const uint8_t* from,
                                           int64_t bytes) {
  const int64_t before = -reinterpret_cast<intptr_t>(to) & 15, head = before < bytes ? before : bytes;
  const int64_t words = (bytes - head) / 16;
  for (int64_t i = warp.lane(); i < head; i += 32) to[i] = from[i];
  for (int64_t i = warp.lane(); i < words; i += 32)
    memcpy(__builtin_assume_aligned(to + head + 16 * i, 16),
           __builtin_assume_aligned(from + head + 16 * i, 16), 16);
  for (int64_t i = head + 16 * words + warp.lane(); i < bytes; i += 32) to[i] = from[i];
}

// Zeros in words of 16 where they are whole.
__device__ __forceinline__ void zero_bytes(const Warp& warp, uint8_t* to, int64_t bytes) {
  const int64_t before = -reinterpret_cast<intptr_t>(to) & 15, head = before < bytes ? before : bytes;
  const int64_t words = (bytes - head) / 16;
  for (int64_t i = warp.lane(); i < head; i += 32) to[i] = 0;
  for (int64_t i = warp.lane(); i < words; i += 32)
    memset(__builtin_assume_aligned(to + head + 16 * i, 16), 0, 16);
  for (int64_t i = head + 16 * words + warp.lane(); i < bytes; i += 32) to[i] = 0;
}

}  // namespace valor
