// The version of the C interface, compared with valor_gpu/native.py when the library loads, and what a status
// of it means.
#include "../core/platform.h"
#include "launch.h"

VALOR_API int32_t valor_abi_version() { return 1; }

#if !defined(VALOR_SIM)
VALOR_API const char* valor_status_text(int32_t status) {
  return cudaGetErrorString(static_cast<cudaError_t>(status));
}
#endif
