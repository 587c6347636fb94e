// What makes one source compile for a CPU lane and for a CUDA warp: function qualifiers and lane groups.
#pragma once
#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define VALOR_HD __host__ __device__ __forceinline__
#else
#define VALOR_HD inline
#endif
#if defined(__CUDACC__) && !defined(VALOR_SIM)
#define VALOR_ROLLED _Pragma("unroll 1")  // before a loop whose unrolling costs registers and saves nothing
#define VALOR_UNROLLED _Pragma("unroll")  // before a loop that indexes an array which is to live in registers
#else
#define VALOR_ROLLED
#define VALOR_UNROLLED
#endif
#if !defined(VALOR_SIM)  // there: parameters with the place of a call, to tell one call from another
#define VALOR_HERE
#define VALOR_AND_HERE
#define VALOR_PASS_HERE
#endif
#define VALOR_API extern "C" __attribute__((visibility("default")))

namespace valor {

// A Group is the set of lanes that work on one segment together. Every lane of a group runs the same
// control flow; collective calls (max, ballot, sync) are reached by all of them.
struct Serial {
  VALOR_HD int lane() const { return 0; }
  VALOR_HD int width() const { return 1; }
  VALOR_HD void sync() const {}
  VALOR_HD uint32_t ballot(bool yes) const { return yes ? 1u : 0u; }
  VALOR_HD double max(double value) const { return value; }
  VALOR_HD int32_t max(int32_t value) const { return value; }
  VALOR_HD uint32_t sum(uint32_t value) const { return value; }
  VALOR_HD uint64_t sum(uint64_t value) const { return value; }
};

#if defined(__CUDACC__)
struct Warp {
  static constexpr uint32_t kAll = 0xffffffffu;
  __device__ __forceinline__ int lane() const { return threadIdx.x & 31; }
  __device__ __forceinline__ int width() const { return 32; }
  __device__ __forceinline__ void sync(VALOR_HERE) const { __syncwarp(kAll VALOR_PASS_HERE); }
  __device__ __forceinline__ uint32_t ballot(bool yes VALOR_AND_HERE) const {
    return __ballot_sync(kAll, yes VALOR_PASS_HERE);
  }
  // `value` of another lane.
  template <class T>
  __device__ __forceinline__ T from(T value, int32_t lane VALOR_AND_HERE) const {
    return __shfl_sync(kAll, value, lane, 32 VALOR_PASS_HERE);
  }
  // The sum of this lane's value and those of all lanes before.
  __device__ __forceinline__ uint32_t running_sum(uint32_t value VALOR_AND_HERE) const {
    for (int by = 1; by < 32; by *= 2) {
      const uint32_t before = __shfl_up_sync(kAll, value, by, 32 VALOR_PASS_HERE);
      if (lane() >= by) value += before;
    }
    return value;
  }
  __device__ __forceinline__ double max(double value VALOR_AND_HERE) const {
    return max_of(value VALOR_PASS_HERE);
  }
  __device__ __forceinline__ int32_t max(int32_t value VALOR_AND_HERE) const {
    return max_of(value VALOR_PASS_HERE);
  }
  __device__ __forceinline__ uint32_t sum(uint32_t value VALOR_AND_HERE) const {
    return sum_of(value VALOR_PASS_HERE);
  }
  __device__ __forceinline__ uint64_t sum(uint64_t value VALOR_AND_HERE) const {
    return sum_of(static_cast<unsigned long long>(value) VALOR_PASS_HERE);
  }

 private:
  template <class T>
  __device__ __forceinline__ T max_of(T value VALOR_AND_HERE) const {
    for (int offset = 16; offset; offset >>= 1) {
      const T other = __shfl_xor_sync(kAll, value, offset, 32 VALOR_PASS_HERE);
      value = other > value ? other : value;
    }
    return value;
  }
  template <class T>
  __device__ __forceinline__ T sum_of(T value VALOR_AND_HERE) const {
    for (int offset = 16; offset; offset >>= 1)
      value += __shfl_xor_sync(kAll, value, offset, 32 VALOR_PASS_HERE);
    return value;
  }
};
#endif

VALOR_HD int count_bits(uint64_t word) {
#if defined(__CUDA_ARCH__)
  return __popcll(static_cast<long long>(word));
#else
  return __builtin_popcountll(word);
#endif
}

// The finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection that spreads every input bit.
VALOR_HD uint64_t mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

VALOR_HD uint64_t bits_of(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

VALOR_HD double double_of(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

VALOR_HD uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

// An unsigned key whose ascending order is descending value; -0.0 ties with 0.0 and NaN comes last.
VALOR_HD uint64_t descending_key(double value) {
  if (value != value) return ~0ull;
  const uint64_t bits = bits_of(value == 0.0 ? 0.0 : value);
  const uint64_t ascending = (bits >> 63) ? ~bits : bits | (1ull << 63);
  return ~ascending;
}

}  // namespace valor
