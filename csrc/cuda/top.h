// The largest scores of rows, which csrc/cuda/top.cu finds.
#pragma once
#include "../core/labels.h"
#include "../core/sweep.h"

namespace valor {

struct TopTask {
  Scores scores;
  Target target;  // without data every row counts
  int64_t k;
  int32_t* out;                // [rows] or null
  unsigned long long* matrix;  // [C, C] or null
  int64_t* error;
};

#if defined(__CUDACC__)
__device__ __forceinline__ void lower(int64_t* error, int64_t found) {
  if (found != kNoError) atomicMin(reinterpret_cast<long long*>(error), static_cast<long long>(found));
}
#endif

// Writes the prediction of each row: its target if that is among the k largest, else the class of the
// largest.
int32_t launch_largest(const TopTask& task, void* stream);

}  // namespace valor
