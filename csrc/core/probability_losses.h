// Losses of probabilities. Logarithms are those of powers.h: a loss has the same bits wherever its row
// stands. Templates take double, or vectors of it whose comparisons give masks.
#pragma once
#include "powers.h"

namespace valor {

// -log(p) where `right`, else -log(1 - p), of p from 0 to 1; inf where that probability is 0.
template <class Real, class Mask>
VALOR_HD __attribute__((always_inline)) Real log_loss_of_probability(const Real& p, const Mask& right) {
  const Real zero = p - p;
  const Parts<Real> u = sum_parts<Real>(right ? zero : zero + 1.0, right ? p : -p);
  const Parts<Real> found = long_log<Real>(u.high);
  return u.high > 0.0 ? -(found.high + (found.low + u.low / u.high)) : zero + kInfinity;
}

// log(1 + exp(-margin)), of any margin but NaN.
VALOR_REAL Real log_loss_of_margin(const Real& margin) {
  const Real zero = {}, size = margin < 0.0 ? -margin : margin;
  const Real within = size < 745.0 ? -size : zero - 745.0;  // where exp is not 0
  return (margin < 0.0 ? -margin : zero) + long_log_of_next<Real>(long_exp<Real>(within, zero));
}

// What a loss adds to two sums: itself in steps of 2^-24, and what that leaves in steps of 2^-48.
constexpr double kCoarse = 0x1.8p28, kFine = 0x1.8p4;  // adding them rounds to such steps, ..
constexpr double kMostRounded = 0x1p27;                // .. of numbers below this

}  // namespace valor
