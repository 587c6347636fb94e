// Scores as kernels that are templates of their format read them: raw words, loaded up to 16 bytes at a time.
#pragma once
#include "../core/load.h"

namespace valor {

struct F16 {
  using Real = float;
  using Raw = uint16_t;
  static __device__ __forceinline__ float value(Raw raw) { return half_to_float(raw); }
};
struct BF16 {
  using Real = float;
  using Raw = uint16_t;
  static __device__ __forceinline__ float value(Raw raw) { return bfloat16_to_float(raw); }
};
struct F32 {
  using Real = float;
  using Raw = float;
  static __device__ __forceinline__ float value(Raw raw) { return raw; }
};

struct F64 {
  using Real = double;
  using Raw = double;
  static __device__ __forceinline__ double value(Raw raw) { return raw; }
};

// Calls visit with the format of a FloatType.
template <class Visit>
auto with_format(int64_t type, Visit visit) {
  switch (type) {
    case kFloat16:
      return visit(F16());
    case kBFloat16:
      return visit(BF16());
    case kFloat32:
      return visit(F32());
    default:
      return visit(F64());
  }
}

// Elements of neighbouring columns, in as few loads as their bytes allow. Half types come in whole registers:
// of a load that it may split, nvcc repeats a part or not, by a hash of the path that it compiles.
template <class T, int N>
struct Vector {
  T values[N];
  __device__ __forceinline__ void load(const T* from) {
    constexpr int kBytes = static_cast<int>(sizeof values);
    if constexpr (sizeof(T) == 2 && kBytes % 16 == 0) {
      const uint4* parts = reinterpret_cast<const uint4*>(from);
      VALOR_UNROLLED
      for (int i = 0; i < kBytes / 16; ++i) {
        const uint4 part = __ldg(parts + i);
        memcpy(values + 8 * i, &part, sizeof part);
      }
      return;
    }
    memcpy(values, __builtin_assume_aligned(from, kBytes < 16 ? kBytes : 16), sizeof values);
  }
};

}  // namespace valor
