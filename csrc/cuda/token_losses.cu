// Losses of tokens on CUDA: a block takes a row, which it reads once, and again only where the token is very
// unlikely. Sums over tokens are whole numbers, so that the order of blocks changes nothing.
#include "../core/token_losses.h"
#include "formats.h"
#include "launch.h"

namespace valor {
namespace {

constexpr int kThreads = kSumLanes;  // a thread a lane
constexpr int kAhead = 8;            // columns that a thread loads before it uses them

// The first half of the lanes joins the other, until one is left; every thread gets the sum.
__device__ __forceinline__ double fold(double* lanes, double value) {
  static_assert(kSumLanes == 128, "two steps between warps are written out");
  __syncthreads();
  lanes[threadIdx.x] = value;
  __syncthreads();
  if (threadIdx.x < 32) {
    const unsigned i = threadIdx.x;
    double sum = (lanes[i] + lanes[i + 64]) + (lanes[i + 32] + lanes[i + 96]);
    for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(Warp::kAll, sum, by);
    __syncwarp();
    if (i == 0) lanes[0] = sum;
  }
  __syncthreads();
  return lanes[0];
}

template <class Format>
class Row {
 public:
  using Real = typename Format::Real;
  using Raw = typename Format::Raw;

  __device__ __forceinline__ Row(const TokenTask& task, int64_t row)
      : logits_(static_cast<const Raw*>(task.logits) + task.start(row)),
        stride_(task.column_stride),
        classes_(task.target.classes) {}

  __device__ __forceinline__ Real at(int64_t column) const {
    return Format::value(logits_[column * stride_]);
  }

  // This thread's part of the sum of exp(logit - anchor).
  __device__ __forceinline__ Real sum_exps(Real anchor) const {
    Real sum = 0;
    int64_t column = threadIdx.x;
    for (; column + (kAhead - 1) * kThreads < classes_; column += kAhead * kThreads) {
      Raw raw[kAhead];
      VALOR_UNROLLED for (int i = 0; i < kAhead; ++i) raw[i] = logits_[(column + i * kThreads) * stride_];
      VALOR_UNROLLED for (int i = 0; i < kAhead; ++i) sum =
          add_exp(Format::value(raw[i]), anchor, ExpLimits<Real>(), sum);
    }
    for (; column < classes_; column += kThreads) sum = add_exp(at(column), anchor, ExpLimits<Real>(), sum);
    return sum;
  }

  // The largest logit of this thread's columns; `bad` becomes the first that is NaN or inf.
  __device__ __forceinline__ double highest(long long& bad) const {
    double highest = -static_cast<double>(INFINITY);
    for (int64_t column = threadIdx.x; column < classes_; column += kThreads) {
      const double x = static_cast<double>(at(column));
      if (!(x < static_cast<double>(INFINITY))) {
        bad = column;
        break;
      }
      highest = x > highest ? x : highest;
    }
    return highest;
  }

 private:
  const Raw* logits_;
  const int64_t stride_, classes_;
};

struct Outputs {
  unsigned long long* sums;  // [kTokenSums]
  long long* error;
};

// The largest logit of the row, and its first bad column or -1; every thread gets both.
template <class Format>
__device__ double highest_logit(const Row<Format>& row, double* lanes, long long* first, int64_t& column) {
  constexpr long long kNone = INT64_MAX;
  if (threadIdx.x == 0) *first = kNone;
  long long bad = kNone;
  const double own = row.highest(bad);
  __syncthreads();
  lanes[threadIdx.x] = own;
  if (bad != kNone) atomicMin(first, bad);
  __syncthreads();
  double highest = lanes[0];
  for (int i = 1; i < kThreads; ++i) highest = lanes[i] > highest ? lanes[i] : highest;
  column = *first != kNone ? *first : highest == -static_cast<double>(INFINITY) ? 0 : -1;
  return highest;
}

template <class Format>
__global__ void __launch_bounds__(kThreads)
    sum_losses_kernel(const __grid_constant__ TokenTask task, const __grid_constant__ Outputs out) {
  using Real = typename Format::Real;
  VALOR_SHARED(double, lanes, [kThreads]);
  VALOR_SHARED(long long, first);
  const int64_t index = blockIdx.x, c = task.target.row_class(index);
  if (c < 0) {
    if (c == kBadRow && threadIdx.x == 0)
      atomicMin(out.error, static_cast<long long>(value_error(index, 0, kTarget)));
    return;
  }
  const Row<Format> row(task, index);
  const double logit = static_cast<double>(row.at(c));
  double anchor = logit, sum = fold(lanes, static_cast<double>(row.sum_exps(static_cast<Real>(anchor))));
  if (!settles<Real>(sum)) {
    int64_t bad;
    anchor = highest_logit(row, lanes, &first, bad);
    if (bad >= 0) {
      if (threadIdx.x == 0) atomicMin(out.error, static_cast<long long>(value_error(index, bad, kNanScore)));
      return;
    }
    sum = fold(lanes, static_cast<double>(row.sum_exps(static_cast<Real>(anchor))));
  }
  if (threadIdx.x == 0)
    add_loss(anchor, logit, sum, [&](int which, int64_t count) {
      if (count) atomicAdd(out.sums + which, static_cast<unsigned long long>(count));
    });
}

}  // namespace
}  // namespace valor

// Adds to sums [kTokenSums] and lowers `error`, both on the device. task_words are a TokenTask.
VALOR_API int32_t valor_sum_token_losses_cuda(const void* task_words, int64_t* sums, int64_t* error,
                                              void* stream) {
  using namespace valor;
  const TokenTask& task = *static_cast<const TokenTask*>(task_words);
  if (task.rows == 0) return 0;
  const Outputs out{reinterpret_cast<unsigned long long*>(sums), reinterpret_cast<long long*>(error)};
  return with_format(task.type, [&](auto format) {
    return VALOR_LAUNCH(sum_losses_kernel<decltype(format)>, static_cast<unsigned>(task.rows), kThreads, 0,
                        stream, task, out);
  });
}
