// Kernels that probe the simulator itself: each collective once, and each mistake that it must report.
#include "../../csrc/core/platform.h"
#include "early_launch.h"
#include "lane_quads.h"
#include "launch.h"
#include "shared_room.h"

namespace valor {

__global__ void shuffle_kernel(const int* in, int* out) {
  const int lane = static_cast<int>(threadIdx.x), value = in[lane];
  int* row = out + 8 * lane;
  row[0] = __shfl_sync(0xffffffffu, value, 5);
  row[1] = __shfl_xor_sync(0xffffffffu, value, 3);
  row[2] = __shfl_up_sync(0xffffffffu, value, 2);
  row[3] = __shfl_down_sync(0xffffffffu, value, 2);
  row[4] = __shfl_sync(0xffffffffu, value, 1, 8);
  row[5] = static_cast<int>(__ballot_sync(0xffffffffu, value & 1));
  row[6] = __any_sync(0xffffffffu, value == 7) + 2 * __all_sync(0xffffffffu, value >= 0);
  row[7] = static_cast<int>(Warp().sum(static_cast<uint64_t>(value)));
}

// Halves of a warp that run different code with masks of their own.
__global__ void halves_kernel(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane < 16)
    out[lane] = __shfl_sync(0x0000ffffu, lane, 15);
  else
    out[lane] = __shfl_sync(0xffff0000u, lane, 16);
  __syncwarp();
}

// Sum of a block; without the barrier a thread may read what another has not written yet.
template <bool kBarrier>
__global__ void block_sum_kernel(const int* in, int* out) {
  VALOR_DYNAMIC_SHARED(int, values);
  VALOR_SHARED(int, total);
  if (threadIdx.x == 0) total = 0;
  values[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
  if (kBarrier) __syncthreads();
  if (kBarrier) atomicAdd(&total, values[(threadIdx.x + 33) % blockDim.x]);
  if (!kBarrier && threadIdx.x == blockDim.x - 1)
    for (unsigned i = 0; i < blockDim.x; ++i) total += values[i];
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = total;
}

template <class T>
__global__ void unset_shared_kernel(T* out) {
  VALOR_SHARED(T, value);
  out[blockIdx.x] = value;
  value = 1;
}

__global__ void unset_int_kernel(int* out) {
  VALOR_SHARED(int, value);
  out[blockIdx.x] = value;
  value = 1;
}

__global__ void atomics_kernel(double* sums, int* ints, unsigned long long* words) {
  const int i = static_cast<int>(threadIdx.x);
  atomicAdd(sums, 0.5);
  atomicMax(ints, i);
  atomicMin(ints + 1, i);
  atomicCAS(ints + 2, 0, i + 1);
  atomicOr(words, 1ull << (i % 64));
  atomicMax(words + 1, static_cast<unsigned long long>(i));
}

__global__ void divergent_barrier_kernel() {
  if (threadIdx.x < 32) __syncthreads();
  if (threadIdx.x >= 32) __syncwarp();
  if (threadIdx.x >= 32) __syncthreads();
}

__global__ void divergent_warp_kernel() {
  if (threadIdx.x == 3)
    __syncthreads();
  else
    __syncwarp();
}

// Half of a warp in one branch and half in another: each makes the same collective at a line of its own.
__global__ void divergent_call_kernel(int32_t which) {
  const Warp warp;
  const bool low = threadIdx.x < 16;
  if (which == 0) {
    if (low)
      warp.sync();
    else
      warp.sync();
  } else if (which == 1) {
    if (low)
      warp.ballot(true);
    else
      warp.ballot(true);
  } else if (which == 2) {
    if (low)
      warp.max(1.0);
    else
      warp.max(1.0);
  } else if (which == 3) {
    if (low)
      warp.max(int32_t{1});
    else
      warp.max(int32_t{1});
  } else if (which == 4) {
    if (low)
      warp.sum(uint32_t{1});
    else
      warp.sum(uint32_t{1});
  } else {
    if (low)
      warp.sum(uint64_t{1});
    else
      warp.sum(uint64_t{1});
  }
}

// 2 KiB of its own, and 1 KiB more where `more`.
__global__ void static_shared_kernel(int* out, int32_t more) {
  VALOR_SHARED(int, values, [512]);
  values[threadIdx.x] = 1;
  if (more) {
    VALOR_SHARED(int, others, [256]);
    others[threadIdx.x] = 1;
  }
  __syncthreads();
  if (threadIdx.x == 0) out[0] = values[0];
}

template <int kWords>
struct Parameters {
  int64_t words[kWords];
};

template <int kWords>
__global__ void parameters_kernel(const __grid_constant__ Parameters<kWords> parameters, int32_t* out) {
  out[0] = static_cast<int32_t>(parameters.words[kWords - 1]);
}

__global__ void absent_lane_kernel(int* out) {
  out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1, 16);  // launched with 16 threads
}

__global__ void foreign_mask_kernel() { __syncwarp(0xfffffffeu); }

// One access of each kind that needs an aligned address.
__global__ void vector_kernel(const char* in, char* out, int32_t which) {
  if (which == 0) *reinterpret_cast<uint4*>(out) = *reinterpret_cast<const uint4*>(in);
  if (which == 1) *reinterpret_cast<uint2*>(out) = *reinterpret_cast<const uint2*>(in);
  if (which == 2) *out = static_cast<char>(__ldg(reinterpret_cast<const uint4*>(in)).x);
  if (which == 3) reinterpret_cast<float4*>(out)->x = reinterpret_cast<const float4*>(in)->w;
  if (which == 4) *reinterpret_cast<uint64_t*>(out) = *reinterpret_cast<const uint64_t*>(in);
  if (which == 5) memcpy(__builtin_assume_aligned(out, 16), __builtin_assume_aligned(in, 16), 16);
  if (which == 6) atomicAdd(reinterpret_cast<unsigned long long*>(out), 1ull);
}

// Shared bytes have no alignment, words theirs.
template <class T>
__global__ void shared_vector_kernel() {
  VALOR_SHARED(T, values, [16 / sizeof(T)]);
  memset(__builtin_assume_aligned(values, 8), 0, 8);
}

// The last block to run decides.
__global__ void last_block_kernel(int* out) { *out = static_cast<int>(blockIdx.x); }

// Each block writes, and the last to be done reads. A fence that is left out (11) is a mistake, and a write
// after it (12).
template <class T>
__device__ void read_at_last(T* out, int32_t which) {
  const int block = static_cast<int>(blockIdx.x);
  out[1 + block] = block;
  if (which != 11) __threadfence();
  if (which == 12) out[1 + block] = block;
  if (atomicAdd(out, 1) == 1) out[4 + block] = out[1] + out[2];
  if (which == 10 && block == 0) out[3] = 1;
}

// What two blocks do to one place: 0 to 3, 11 and 12 are mistakes, 4 to 10 are none.
template <class T>
__global__ void conflict_kernel(T* out, int32_t which) {
  VALOR_SHARED(T, own);
  VALOR_DYNAMIC_SHARED(int, more);
  const int block = static_cast<int>(blockIdx.x);
  if (which == 0) out[0] += 1;
  if (which == 1) out[0] = 1;
  if (which == 2 && block == 0) out[0] = 7;
  if (which == 2 && block == 1) out[1] = out[0];
  if (which == 3 && block == 0) atomicAdd(out, 1);
  if (which == 3 && block == 1) out[0] = 0;
  if (which == 4) atomicAdd(out, 1);
  if (which == 5) reinterpret_cast<char*>(out)[block] = 1;
  if (which == 6) own = more[0] = block, out[block] = own + more[0];
  if (which == 7 && out[0] < 2) atomicAdd(out, 1);
  if (which == 8) out[1 + block] = out[0];
  if (which >= 9) read_at_last(out, which);
}

// What a kernel may do before it waits for the one ahead, which writes out[0]: 0 to 3 are mistakes, 4 to 6
// none.
__global__ void early_kernel(int* out, int32_t which) {
  const int block = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  if (which == 0 && block == 1 && thread == 1) return;
  int seen = 0;
  if (which == 1) seen = out[0];
  if (which == 2) out[2 + 2 * block + thread] = 1;
  if (which == 3) atomicAdd(out + 1, 1);
  if (which == 4) seen = out[7];
  wait_for_kernel_ahead();
  if (which == 5) seen = out[0];
  if (which == 6) atomicAdd(out + 1, 1);
  if (which < 6) out[2 + 2 * block + thread] = seen;
}

// Polygons have room for 5 corners before they count as bent.
__global__ void lane_iou_kernel(const Quad* quads1, const Quad* quads2, double* out, int32_t pairs) {
  const int32_t at = static_cast<int32_t>(blockIdx.x) * 64 + static_cast<int32_t>(threadIdx.x);
  const int32_t row = at < pairs ? at : 0;
  const double iou = lane_iou<64, 5>(Warp(), quads1 + row, quads2 + row, at % 5 == 0, at < pairs);
  if (at < pairs) out[at] = iou;
}

__global__ void overflow_kernel(int* out, int count) {
  if (static_cast<int>(threadIdx.x) < count) out[threadIdx.x] = 1;
}

}  // namespace valor

using namespace valor;

VALOR_API int32_t probe_shuffles(const int* in, int* out) {
  return VALOR_LAUNCH(shuffle_kernel, 1, 32, 0, nullptr, in, out);
}
VALOR_API int32_t probe_halves(int* out) { return VALOR_LAUNCH(halves_kernel, 1, 32, 0, nullptr, out); }
VALOR_API int32_t probe_block_sum(const int* in, int* out, int32_t blocks, int32_t threads, int32_t barrier) {
  const size_t shared = threads * sizeof(int);
  if (barrier) return VALOR_LAUNCH(block_sum_kernel<true>, blocks, threads, shared, nullptr, in, out);
  return VALOR_LAUNCH(block_sum_kernel<false>, blocks, threads, shared, nullptr, in, out);
}
VALOR_API int32_t probe_allowed_shared(const int* in, int* out, int64_t allowed, int64_t shared) {
  if (const int32_t status = allow_shared(block_sum_kernel<true>, allowed)) return status;
  return VALOR_LAUNCH(block_sum_kernel<true>, 1, 32, static_cast<size_t>(shared), nullptr, in, out);
}
VALOR_API int32_t probe_conflict(int* out, int32_t which) {
  return VALOR_LAUNCH(conflict_kernel<int>, 2, 1, sizeof(int), nullptr, out, which);
}
VALOR_API int32_t probe_early(int* out, int32_t which) {
  if (const int32_t status = VALOR_LAUNCH(last_block_kernel, 1, 1, 0, nullptr, out)) return status;
  return VALOR_LAUNCH_EARLY(early_kernel, 2, 2, 0, nullptr, out, which);
}
VALOR_API int32_t probe_lane_iou(const void* quads1, const void* quads2, double* out, int32_t pairs) {
  return VALOR_LAUNCH(lane_iou_kernel, static_cast<unsigned>((pairs + 63) / 64), 64, 0, nullptr,
                      static_cast<const Quad*>(quads1), static_cast<const Quad*>(quads2), out, pairs);
}
VALOR_API int32_t probe_code_waits(int32_t first, int32_t second, int32_t major, int32_t minor) {
  return valor::code_waits({first, second}, major, minor);
}
VALOR_API int32_t probe_unset_shared(int* out, int32_t blocks, int32_t of_template) {
  if (of_template) return VALOR_LAUNCH(unset_shared_kernel<int>, blocks, 1, 0, nullptr, out);
  return VALOR_LAUNCH(unset_int_kernel, blocks, 1, 0, nullptr, out);
}
VALOR_API int32_t probe_atomics(double* sums, int* ints, unsigned long long* words) {
  return VALOR_LAUNCH(atomics_kernel, 1, 96, 0, nullptr, sums, ints, words);
}
VALOR_API int32_t probe_divergent_barrier() {
  return VALOR_LAUNCH(divergent_barrier_kernel, 1, 64, 0, nullptr);
}
VALOR_API int32_t probe_divergent_warp() { return VALOR_LAUNCH(divergent_warp_kernel, 1, 32, 0, nullptr); }
VALOR_API int32_t probe_divergent_call(int32_t which) {
  return VALOR_LAUNCH(divergent_call_kernel, 1, 32, 0, nullptr, which);
}
VALOR_API int32_t probe_static_shared(int* out, int64_t dynamic, int32_t more) {
  return VALOR_LAUNCH(static_shared_kernel, 1, 32, static_cast<size_t>(dynamic), nullptr, out, more);
}
VALOR_API int32_t probe_parameters(int32_t* out, int32_t words) {
  if (words == 511) return VALOR_LAUNCH(parameters_kernel<511>, 1, 1, 0, nullptr, Parameters<511>{}, out);
  return VALOR_LAUNCH(parameters_kernel<512>, 1, 1, 0, nullptr, Parameters<512>{}, out);
}
VALOR_API int32_t probe_read_back(int64_t* host, const int64_t* device, int64_t words) {
  return valor::read_back(host, device, static_cast<int64_t>(sizeof *host) * words, nullptr);
}
VALOR_API int32_t probe_absent_lane(int* out) {
  return VALOR_LAUNCH(absent_lane_kernel, 1, 16, 0, nullptr, out);
}
VALOR_API int32_t probe_foreign_mask() { return VALOR_LAUNCH(foreign_mask_kernel, 1, 32, 0, nullptr); }
VALOR_API int32_t probe_limits(int32_t threads, int64_t shared) {
  return VALOR_LAUNCH(divergent_barrier_kernel, 1, threads, static_cast<size_t>(shared), nullptr);
}
VALOR_API int32_t probe_vector(const char* in, char* out, int32_t which) {
  return VALOR_LAUNCH(vector_kernel, 1, 1, 0, nullptr, in, out, which);
}
VALOR_API int32_t probe_shared_vector(int32_t words) {
  if (words) return VALOR_LAUNCH(shared_vector_kernel<uint64_t>, 1, 1, 0, nullptr);
  return VALOR_LAUNCH(shared_vector_kernel<uint8_t>, 1, 1, 0, nullptr);
}
VALOR_API int32_t probe_last_block(int* out, int32_t blocks) {
  return VALOR_LAUNCH(last_block_kernel, blocks, 1, 0, nullptr, out);
}
VALOR_API int32_t probe_overflow(int* out, int32_t count) {
  return VALOR_LAUNCH(overflow_kernel, 1, 64, 0, nullptr, out, count);
}
