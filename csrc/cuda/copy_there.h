// A copy from one place of the device to another, in order with what the stream does.
#pragma once
#include "launch.h"

namespace valor {

#if defined(VALOR_SIM)

inline int32_t copy_there(void* to, const void* from, int64_t bytes, void*) {
  memcpy(to, from, static_cast<size_t>(bytes));
  return 0;
}

#else

inline int32_t copy_there(void* to, const void* from, int64_t bytes, void* stream) {
  const cudaError_t status = cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice,
                                             static_cast<cudaStream_t>(stream));
  if (status != cudaSuccess) cudaGetLastError();
  return static_cast<int32_t>(status);
}

#endif

}  // namespace valor
