// A kernel that begins before the one ahead of it in its stream has ended (programmatic dependent launch,
// from compute capability 9.0 on): it reads and counts, and waits before it touches what that one writes. It
// reads nothing that other kernels write late: the one ahead is launched as usual, after all before it.
#pragma once
#include <initializer_list>

#include "launch.h"

namespace valor {

// Whether the code that a device runs was compiled with what wait_for_kernel_ahead does; `archs`: such as
// 900. Only code for its own major version runs on it as it is. Else PTX is translated: that may be of any in
// the list, such as 8.0, which does not wait.
inline bool code_waits(std::initializer_list<int> archs, int major, int minor) {
  for (const int arch : archs)
    if (arch >= 900 && arch / 100 == major && arch <= 100 * major + 10 * minor) return true;
  return false;
}

}  // namespace valor

// VALOR_LAUNCH_EARLY takes what VALOR_LAUNCH takes. Every thread of such a kernel calls
// wait_for_kernel_ahead().
#if defined(VALOR_SIM)

#define VALOR_LAUNCH_EARLY(kernel, ...) \
  (::valor_sim::Machine::instance().begin_early(), VALOR_LAUNCH(kernel, __VA_ARGS__))

namespace valor {

inline void let_next_begin() {}
inline void wait_for_kernel_ahead() { ::valor_sim::Machine::instance().wait_for_kernel_ahead(); }

}  // namespace valor

#else

namespace valor {

// In the kernel ahead: the next one may begin once every block has called this, or ended.
__device__ __forceinline__ void let_next_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

// Returns when the kernel ahead has ended and all that it wrote is seen.
__device__ __forceinline__ void wait_for_kernel_ahead() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

inline bool begins_early() {
  int device = 0, major = 0, minor = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess)
    return false;
  return code_waits({__CUDA_ARCH_LIST__}, major, minor);
}

template <class... Parameters, class... Arguments>
int32_t launch_early(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes, void* stream,
                     Arguments... arguments) {
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &early;
  config.numAttrs = begins_early() ? 1 : 0;
  const cudaError_t status = cudaLaunchKernelEx(&config, kernel, arguments...);
  if (status != cudaSuccess) cudaGetLastError();  // reported here: the next launch must not find it again
  return static_cast<int32_t>(status);
}

}  // namespace valor

#define VALOR_LAUNCH_EARLY(kernel, ...) ::valor::launch_early(kernel, __VA_ARGS__)

#endif
