// Division by a number that is known before the launch.
#pragma once
#include <stdint.h>

namespace valor {

// Division by a number that the host knows: a 64-bit one would be a call, for which registers are spilled.
struct Divisor {
  int64_t by;
  double inverse;

  explicit Divisor(int64_t by) : by(by), inverse(1.0 / static_cast<double>(by)) {}
  __device__ int64_t divide(int64_t value, int64_t* rest) const {  // of a value below 2^52
    int64_t quotient = static_cast<int64_t>(static_cast<double>(value) * inverse);
    *rest = value - quotient * by;
    if (*rest < 0) --quotient, *rest += by;
    if (*rest >= by) ++quotient, *rest -= by;
    return quotient;
  }
};

}  // namespace valor
