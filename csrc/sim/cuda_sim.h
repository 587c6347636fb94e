// The part of CUDA C++ that csrc/cuda uses, for g++: compile a .cu with `-x c++ -include cuda_sim.h`.
// Test-only. README.md says what it shows, and what a GPU alone can.
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

// A device aligns a shared variable as its type asks and no better. So does this, by odd bytes ahead of it,
// but where AddressSanitizer puts bytes of its own there.
#if VALOR_SIM_ASAN
#define VALOR_SIM_PLACE_SHARED(Type, name, ...) static Type name __VA_ARGS__
#else
#define VALOR_SIM_PLACE_SHARED(Type, name, ...) \
  static __attribute__((aligned(64))) struct {  \
    char odd[alignof(Type)];                    \
    Type value __VA_ARGS__;                     \
  } name##_placed;                              \
  auto& name = name##_placed.value
#endif

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

// A CPU reads at any address, a GPU only where the address is a multiple of the bytes that it reads.
inline void check_aligned(const Place& place, const void* address, size_t bytes) {
  if (reinterpret_cast<uintptr_t>(address) % bytes != 0)
    Machine::instance().misaligned(place, address, bytes);
}

// What __builtin_assume_aligned promises, and a device takes as 16 or 8 bytes in one access.
inline void* assume_aligned(const void* address, size_t bytes, VALOR_SIM_HERE) {
  check_aligned({"__builtin_assume_aligned", file, line}, address, bytes);
  return const_cast<void*>(address);
}

// An argument that converts to T, as for CUDA's overloads, and takes no part in deducing it.
template <class T>
using Given = std::common_type_t<T>;

// Fibres switch at collectives alone, so that a plain read and write is atomic.
template <class T, class Operation>
T update(const Place& place, T* address, Operation operation) {
  check_aligned(place, address, sizeof(T));
  Machine::instance().update(true);
  const T old = *address;
  *address = operation(old);
  Machine::instance().update(false);
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

inline void __threadfence() { valor_sim::Machine::instance().fence(); }
inline void __threadfence_block() {}

// The types that CUDA has each atomic for; uint64_t is unsigned long on Linux and needs a cast there as well.
template <class T>
T atomicAdd(T* address, valor_sim::Given<T> value, VALOR_SIM_HERE) {
  static_assert(valor_sim::one_of<T, int, unsigned, unsigned long long, float, double>,
                "CUDA has no atomicAdd of this type");
  return valor_sim::update({"atomicAdd", file, line}, address, [=](T old) { return old + value; });
}

template <class T>
T atomicMax(T* address, valor_sim::Given<T> value, VALOR_SIM_HERE) {
  static_assert(valor_sim::one_of<T, int, unsigned, long long, unsigned long long>,
                "CUDA has no atomicMax of this type");
  return valor_sim::update({"atomicMax", file, line}, address, [=](T old) { return std::max(old, value); });
}

template <class T>
T atomicMin(T* address, valor_sim::Given<T> value, VALOR_SIM_HERE) {
  static_assert(valor_sim::one_of<T, int, unsigned, long long, unsigned long long>,
                "CUDA has no atomicMin of this type");
  return valor_sim::update({"atomicMin", file, line}, address, [=](T old) { return std::min(old, value); });
}

template <class T>
T atomicCAS(T* address, valor_sim::Given<T> expected, valor_sim::Given<T> value, VALOR_SIM_HERE) {
  static_assert(valor_sim::one_of<T, int, unsigned, unsigned long long, unsigned short>,
                "CUDA has no atomicCAS of this type");
  return valor_sim::update({"atomicCAS", file, line}, address,
                           [=](T old) { return old == expected ? value : old; });
}

template <class T>
T atomicOr(T* address, valor_sim::Given<T> value, VALOR_SIM_HERE) {
  static_assert(valor_sim::one_of<T, int, unsigned, unsigned long long>, "CUDA has no atomicOr of this type");
  return valor_sim::update({"atomicOr", file, line}, address, [=](T old) { return old | value; });
}

template <class T>
T __ldg(const T* address, VALOR_SIM_HERE) {
  valor_sim::check_aligned({"__ldg", file, line}, address, alignof(T));
  return *address;
}

#define __builtin_assume_aligned(address, bytes) ::valor_sim::assume_aligned(address, bytes)

// CUDA's vectors with their alignment; -fsanitize=alignment checks every access to one, as to any other type.
#define VALOR_SIM_VECTORS(Name, Type)                      \
  struct alignas(2 * sizeof(Type)) Name##2 { Type x, y; }; \
  struct alignas(sizeof(Type) > 4 ? 16 : 4 * sizeof(Type)) Name##4 { Type x, y, z, w; }
VALOR_SIM_VECTORS(char, signed char);
VALOR_SIM_VECTORS(uchar, unsigned char);
VALOR_SIM_VECTORS(short, short);
VALOR_SIM_VECTORS(ushort, unsigned short);
VALOR_SIM_VECTORS(int, int);
VALOR_SIM_VECTORS(uint, unsigned);
VALOR_SIM_VECTORS(float, float);
VALOR_SIM_VECTORS(double, double);
VALOR_SIM_VECTORS(longlong, long long);
VALOR_SIM_VECTORS(ulonglong, unsigned long long);
#undef VALOR_SIM_VECTORS

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)); }
