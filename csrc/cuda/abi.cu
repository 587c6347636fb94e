// The hash of the declarations of this library's functions (valor_gpu/_declarations.py): by it
// valor_gpu/native.py knows a library that was built from other sources. setup.py defines it.
#include "../core/platform.h"
#include "launch.h"

#if !defined(VALOR_DECLARATIONS)
#define VALOR_DECLARATIONS 0
#endif

VALOR_API int32_t valor_declarations() { return VALOR_DECLARATIONS; }

#if !defined(VALOR_SIM)
VALOR_API const char* valor_status_text(int32_t status) {
  return cudaGetErrorString(static_cast<cudaError_t>(status));
}
#endif
