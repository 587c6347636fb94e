// The one way to launch a kernel. A launch neither allocates nor waits; it returns 0 or the cudaError_t.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// VALOR_LAUNCH(kernel, grid, block, shared_bytes, stream, arguments...): a template-id with a comma needs
// parentheses. VALOR_DYNAMIC_SHARED(Type, name) declares the block's shared_bytes, aligned to 16 bytes, and
// VALOR_SHARED(Type, name, [dimensions]) one shared variable: csrc/sim adds their sizes up.
#if defined(VALOR_SIM)

#define VALOR_LAUNCH(kernel, ...) ::valor_sim::launch(#kernel, kernel, __VA_ARGS__)
#define VALOR_DYNAMIC_SHARED(Type, name) Type* const name = static_cast<Type*>(::valor_sim::dynamic_shared())
#define VALOR_SHARED(Type, name, ...)              \
  VALOR_SIM_PLACE_SHARED(Type, name, __VA_ARGS__); \
  ::valor_sim::Machine::instance().declare_shared(&name, sizeof name)

namespace valor {

inline int32_t read_back(void* host, const void* device, int64_t bytes, void*) {
  ::valor_sim::Machine::instance().read_back(host, device, static_cast<size_t>(bytes));
  return 0;
}

}  // namespace valor

#else

#include <cuda_runtime.h>

namespace valor {

template <class... Parameters, class... Arguments>
int32_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes, void* stream,
               Arguments... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  const cudaError_t status = cudaLaunchKernelEx(&config, kernel, arguments...);
  if (status != cudaSuccess) cudaGetLastError();  // reported here: the next launch must not find it again
  return static_cast<int32_t>(status);
}

// Copies to pinned memory and waits until it is there.
inline int32_t read_back(void* host, const void* device, int64_t bytes, void* stream) {
  const cudaStream_t on = static_cast<cudaStream_t>(stream);
  cudaError_t status = cudaMemcpyAsync(host, device, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, on);
  if (status == cudaSuccess) status = cudaStreamSynchronize(on);
  if (status != cudaSuccess) cudaGetLastError();
  return static_cast<int32_t>(status);
}

}  // namespace valor

#define VALOR_LAUNCH(kernel, ...) ::valor::launch(kernel, __VA_ARGS__)
#define VALOR_DYNAMIC_SHARED(Type, name)                        \
  extern __shared__ __align__(16) unsigned char name##_bytes[]; \
  Type* const name = reinterpret_cast<Type*>(name##_bytes)
#define VALOR_SHARED(Type, name, ...) __shared__ Type name __VA_ARGS__

#endif
