// The part of CUDA C++ that csrc/cuda uses, for g++: compile a .cu with `-x c++ -include cuda_sim.h`.
// Test-only. Shows: wrong results, reads of unset shared memory, divergent collectives, limits of a launch
// (grid, block, shared memory, parameters),
// and with sanitizers out-of-bounds accesses. Does not show: the memory model, true concurrency, speed.
#pragma once
#include <type_traits>

#include "machine.h"

#define VALOR_SIM 1
#define __CUDACC__ 1
#define __global__ static
#define __device__
#define __host__
#define __grid_constant__
#define __forceinline__ inline
#define __shared__ declare_it_by_VALOR_SHARED
#define __restrict__
#define __launch_bounds__(...)

typedef void* cudaStream_t;

// Where a collective is called: trailing default arguments that the caller leaves alone.
#define VALOR_SIM_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define VALOR_HERE VALOR_SIM_HERE
#define VALOR_AND_HERE , VALOR_SIM_HERE
#define VALOR_PASS_HERE , file, line

namespace valor_sim {

template <class T, class... Allowed>
constexpr bool one_of = (std::is_same_v<T, Allowed> || ...);

template <class T, class Source>
T shuffle(const Place& place, uint32_t mask, T value, Source source_of) {
  static_assert(one_of<T, int, unsigned, long, unsigned long, long long, unsigned long long, float, double>,
                "CUDA has no shuffle of this type");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  const Lane& lane = Machine::instance().warp_collective(place, mask, bits);
  bits = Machine::instance().brought(lane, source_of(lane.in_warp()), place);
  memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint32_t vote(const Place& place, uint32_t mask, bool yes) {
  const Lane& lane = Machine::instance().warp_collective(place, mask, yes);
  uint32_t votes = 0;
  for (int i = 0; i < kWarpSize; ++i) votes |= static_cast<uint32_t>(lane.seen[i]) << i;
  return votes;
}

// An argument that converts to T, as for CUDA's overloads, and takes no part in deducing it.
template <class T>
using Given = std::common_type_t<T>;

// Fibres switch at collectives alone, so that a plain read and write is atomic.
template <class T, class Operation>
T update(T* address, Operation operation) {
  const T old = *address;
  *address = operation(old);
  return old;
}

}  // namespace valor_sim

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, VALOR_SIM_HERE) {
  const auto from = [=](int lane) { return (lane & ~(width - 1)) | (source & (width - 1)); };
  return valor_sim::shuffle({"__shfl_sync", file, line}, mask, value, from);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, VALOR_SIM_HERE) {
  const auto from = [=](int lane) { return (lane ^ lanes) > (lane | (width - 1)) ? lane : lane ^ lanes; };
  return valor_sim::shuffle({"__shfl_xor_sync", file, line}, mask, value, from);
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, VALOR_SIM_HERE) {
  const int by = static_cast<int>(delta);
  const auto from = [=](int lane) { return lane - by < (lane & ~(width - 1)) ? lane : lane - by; };
  return valor_sim::shuffle({"__shfl_up_sync", file, line}, mask, value, from);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, VALOR_SIM_HERE) {
  const int by = static_cast<int>(delta);
  const auto from = [=](int lane) { return lane + by > (lane | (width - 1)) ? lane : lane + by; };
  return valor_sim::shuffle({"__shfl_down_sync", file, line}, mask, value, from);
}

inline unsigned __ballot_sync(unsigned mask, int yes, VALOR_SIM_HERE) {
  return valor_sim::vote({"__ballot_sync", file, line}, mask, yes != 0);
}

inline int __any_sync(unsigned mask, int yes, VALOR_SIM_HERE) {
  return valor_sim::vote({"__any_sync", file, line}, mask, yes != 0) != 0;
}

inline int __all_sync(unsigned mask, int yes, VALOR_SIM_HERE) {
  return valor_sim::vote({"__all_sync", file, line}, mask, yes == 0) == 0;
}

inline void __syncwarp(unsigned mask = 0xffffffffu, VALOR_SIM_HERE) {
  valor_sim::Machine::instance().warp_collective({"__syncwarp", file, line}, mask, 0);
}

inline void __syncthreads(VALOR_SIM_HERE) {
  valor_sim::Machine::instance().block_barrier({"__syncthreads", file, line});
}

inline void __threadfence() {}
inline void __threadfence_block() {}

// The types that CUDA has each atomic for; uint64_t is unsigned long on Linux and needs a cast there as well.
template <class T>
T atomicAdd(T* address, valor_sim::Given<T> value) {
  static_assert(valor_sim::one_of<T, int, unsigned, unsigned long long, float, double>,
                "CUDA has no atomicAdd of this type");
  return valor_sim::update(address, [=](T old) { return old + value; });
}

template <class T>
T atomicMax(T* address, valor_sim::Given<T> value) {
  static_assert(valor_sim::one_of<T, int, unsigned, long long, unsigned long long>,
                "CUDA has no atomicMax of this type");
  return valor_sim::update(address, [=](T old) { return std::max(old, value); });
}

template <class T>
T atomicMin(T* address, valor_sim::Given<T> value) {
  static_assert(valor_sim::one_of<T, int, unsigned, long long, unsigned long long>,
                "CUDA has no atomicMin of this type");
  return valor_sim::update(address, [=](T old) { return std::min(old, value); });
}

template <class T>
T atomicCAS(T* address, valor_sim::Given<T> expected, valor_sim::Given<T> value) {
  static_assert(valor_sim::one_of<T, int, unsigned, unsigned long long, unsigned short>,
                "CUDA has no atomicCAS of this type");
  return valor_sim::update(address, [=](T old) { return old == expected ? value : old; });
}

template <class T>
T atomicOr(T* address, valor_sim::Given<T> value) {
  static_assert(valor_sim::one_of<T, int, unsigned, unsigned long long>, "CUDA has no atomicOr of this type");
  return valor_sim::update(address, [=](T old) { return old | value; });
}

template <class T>
T __ldg(const T* address) {
  return *address;
}

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)); }
