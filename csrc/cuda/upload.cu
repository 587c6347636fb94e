// A table of the host on the device, by way of kernel parameters: no pinned memory is needed, nothing waits,
// and a CUDA graph can capture it.
#include "../core/platform.h"
#include "launch.h"
#include "upload.h"

namespace valor {
namespace {

constexpr int64_t kWords = 500, kThreads = 128;

struct Words {
  int64_t* to;
  int64_t count;
  int64_t words[kWords];
};
static_assert(sizeof(Words) <= 4096, "kernel parameters are limited to 4 KiB");

__global__ void __launch_bounds__(kThreads) upload_kernel(const __grid_constant__ Words part) {
  for (int64_t i = threadIdx.x; i < part.count; i += kThreads) part.to[i] = part.words[i];
}

}  // namespace
}  // namespace valor

VALOR_API int32_t valor_upload_cuda(const int64_t* words, int64_t count, int64_t* to, void* stream) {
  using namespace valor;
  for (int64_t first = 0; first < count; first += kWords) {
    Words part = {};
    part.to = to + first;
    part.count = count - first < kWords ? count - first : kWords;
    memcpy(part.words, words + first, 8 * part.count);
    const int32_t status = VALOR_LAUNCH(upload_kernel, 1, static_cast<unsigned>(kThreads), 0, stream, part);
    if (status != 0) return status;
  }
  return 0;
}
