// A table of the host on the device, as other functions of the library ask for it.
#pragma once
#include <stdint.h>

// Writes `count` words of the host to the device, in order with what the stream does.
extern "C" int32_t valor_upload_cuda(const int64_t* words, int64_t count, int64_t* to, void* stream);
