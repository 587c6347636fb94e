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

// Elements of neighbouring columns, in as few loads as their bytes allow.
template <class T, int N>
struct Vector {
  T values[N];
  __device__ __forceinline__ void load(const T* from) {
    constexpr int kBytes = sizeof(T) * N < 16 ? static_cast<int>(sizeof(T)) * N : 16;
    memcpy(values, __builtin_assume_aligned(from, kBytes), sizeof values);
  }
};

}  // namespace valor
