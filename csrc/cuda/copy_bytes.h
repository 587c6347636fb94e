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

// Copies words of `kBytes` at addresses that are multiples of it.
template <int kBytes>
__device__ __forceinline__ void copy_words(const Warp& warp, uint8_t* to, const uint8_t* from,
                                           int64_t bytes) {
  for (int64_t i = kBytes * warp.lane(); i < bytes; i += 32 * kBytes)
    memcpy(__builtin_assume_aligned(to + i, kBytes), __builtin_assume_aligned(from + i, kBytes), kBytes);
}

// Copies bytes from any address to any other, in the widest words that both addresses and the size allow.
__device__ __forceinline__ void copy_anywhere(const Warp& warp, uint8_t* to, const uint8_t* from,
                                              int64_t bytes) {
  const int64_t odd = reinterpret_cast<intptr_t>(to) | reinterpret_cast<intptr_t>(from) | bytes;
  if (odd % 16 == 0) return copy_words<16>(warp, to, from, bytes);
  if (odd % 8 == 0) return copy_words<8>(warp, to, from, bytes);
  if (odd % 4 == 0) return copy_words<4>(warp, to, from, bytes);
  copy_words<1>(warp, to, from, bytes);
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
