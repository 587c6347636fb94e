// The hash of the declarations of this library's functions (valor_gpu/_declarations.py): by it
// valor_gpu/native.py knows a library that was built from other sources. setup.py defines it.
#include "../core/platform.h"

#if !defined(VALOR_DECLARATIONS)
#define VALOR_DECLARATIONS 0
#endif

VALOR_API int32_t valor_declarations() { return VALOR_DECLARATIONS; }
