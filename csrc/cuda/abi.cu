// The version of the C interface, compared with valor_gpu/native.py when the library loads.
#include "../core/platform.h"

VALOR_API int32_t valor_abi_version() { return 1; }
