// How much dynamic shared memory the blocks of a launch may take.
#pragma once
#include <algorithm>

#include "launch.h"

namespace valor {

constexpr int64_t kUnaskedShared = 48 << 10;  // bytes that a block has without allow_shared

// What a device has, in bytes of shared memory.
struct SharedRoom {
  int64_t multiprocessors, of_multiprocessor;
  int64_t of_block;  // at most, for a kernel that allow_shared has been called for
  int64_t reserved;  // by the system, for each block

  // Bytes of dynamic shared memory for each of so many blocks that a multiprocessor runs at once. A block has
  // `fixed` bytes besides.
  int64_t of_each(int64_t blocks, int64_t fixed) const {
    constexpr int64_t kUnit = 128;  // shared memory is given out by so many bytes
    const int64_t each = std::min(of_block, of_multiprocessor / blocks - reserved) - fixed;
    return std::max<int64_t>(0, each / kUnit * kUnit);
  }
  // The most blocks with so much dynamic shared memory each; 0 where not even one has room.
  int64_t blocks(int64_t bytes, int64_t fixed) const {
    int64_t most = of_multiprocessor / (bytes + fixed + reserved);
    while (most > 0 && of_each(most, fixed) < bytes) --most;
    return most;
  }
};

#if defined(VALOR_SIM)

inline int32_t find_shared_room(SharedRoom& room) {
  room = SharedRoom{valor_sim::kMultiprocessors, valor_sim::kSharedOfMultiprocessor,
                    valor_sim::kSharedOfBlock, valor_sim::kSharedReserved};
  return 0;
}

template <class... Parameters>
int32_t allow_shared(void (*kernel)(Parameters...), int64_t bytes) {
  return valor_sim::allow_shared(kernel, bytes);
}

#else

// Of the current device.
inline int32_t find_shared_room(SharedRoom& room) {
  constexpr cudaDeviceAttr kAttributes[] = {
      cudaDevAttrMultiProcessorCount, cudaDevAttrMaxSharedMemoryPerMultiprocessor,
      cudaDevAttrMaxSharedMemoryPerBlockOptin, cudaDevAttrReservedSharedMemoryPerBlock};
  int device = 0, values[4] = {};
  cudaError_t status = cudaGetDevice(&device);
  for (int i = 0; i < 4 && status == cudaSuccess; ++i)
    status = cudaDeviceGetAttribute(&values[i], kAttributes[i], device);
  if (status != cudaSuccess) cudaGetLastError();
  room = SharedRoom{values[0], values[1], values[2], values[3]};
  return static_cast<int32_t>(status);
}

// Lets blocks of a kernel take more than 48 KiB on the current device. Threads may call it at once if all
// pass the same for a kernel and a device; a stream that is captured does not mind.
template <class... Parameters>
int32_t allow_shared(void (*kernel)(Parameters...), int64_t bytes) {
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (status != cudaSuccess) cudaGetLastError();
  return static_cast<int32_t>(status);
}

#endif

}  // namespace valor
