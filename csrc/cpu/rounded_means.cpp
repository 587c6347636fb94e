// Means of exact sums, rounded once: a whole number of many limbs by the number of rows.
#include <algorithm>
#include <cmath>
#include <vector>

#include "../core/moments.h"
#include "guard.h"

namespace valor {
namespace {

using Wide = unsigned __int128;

constexpr int64_t kQuotientDigits = 4;
constexpr int kDoubleBits = 53, kLeastExponent = -1074;

// A sum as digits of 32 bits from the lowest on, and whether it is below 0.
struct Digits {
  std::vector<uint32_t> digits;
  bool negative = false;

  // The difference of two sums where `second` is not null.
  Digits(const int64_t* first, const int64_t* second, int64_t limbs) : digits(limbs + 2) {
    if (fill(first, second, limbs, 1) < 0) negative = true, fill(first, second, limbs, -1);
  }

 private:
  // The carry out of the highest limb.
  int64_t fill(const int64_t* first, const int64_t* second, int64_t limbs, int sign) {
    int64_t carry = 0;
    for (int64_t i = 0; i < limbs; ++i) {
      const __int128 difference = static_cast<__int128>(first[i]) - (second ? second[i] : 0);
      const __int128 value = sign * difference + carry;
      digits[i] = static_cast<uint32_t>(value);
      carry = static_cast<int64_t>(value >> kLimbBits);
    }
    digits[limbs] = static_cast<uint32_t>(carry);
    digits[limbs + 1] = static_cast<uint32_t>(carry >> kLimbBits);
    return carry;
  }
};

// value * 2^exponent as the nearest double, ties to even; `rest` tells that there is something below `value`.
double rounded(Wide value, int64_t exponent, bool rest) {
  int bits = 0;
  for (Wide left = value; left; left >>= 1) ++bits;
  const int64_t shift = std::max<int64_t>(bits - kDoubleBits, kLeastExponent - exponent);
  if (shift <= 0)
    return std::ldexp(static_cast<double>(static_cast<uint64_t>(value)), static_cast<int>(exponent));
  if (shift > bits) return 0.0;
  const Wide half = Wide{1} << (shift - 1), below = value & (half * 2 - 1);
  uint64_t whole = shift < 128 ? static_cast<uint64_t>(value >> shift) : 0;
  whole += below > half || (below == half && (rest || (whole & 1)));
  return std::ldexp(static_cast<double>(whole), static_cast<int>(exponent + shift));
}

// The sum, in units of 2^(-16 limbs), divided by `rows`.
double mean_of(const Digits& sum, int64_t limbs, int64_t rows) {
  int64_t place = static_cast<int64_t>(sum.digits.size()) - 1, found = 0;
  Wide rest = 0, quotient = 0;
  for (; found < kQuotientDigits && (place >= 0 || rest); --place) {
    rest = rest << kLimbBits | (place >= 0 ? sum.digits[place] : 0);
    const Wide digit = rest / static_cast<uint64_t>(rows);
    rest -= digit * static_cast<uint64_t>(rows);
    quotient = quotient << kLimbBits | digit;
    found += found || digit;
  }
  bool left = rest != 0;
  for (int64_t i = place; i >= 0 && !left; --i) left = sum.digits[i] != 0;
  const double size = rounded(quotient, kLimbBits * (place + 1) - 16 * limbs, left);
  return sum.negative ? -size : size;
}

struct MeanPlan {
  int64_t limbs, differences, is_double;  // differences: of a sum and the next
};

struct MeanCall {                // addresses
  const int64_t *sums, *counts;  // [1 or 2, limbs], [4]
  void* mean;
};

void write_mean(const MeanPlan& plan, const MeanCall& call) {
  const int64_t* counts = call.counts;
  if (counts[kRows] <= 0 || counts[kNans] || counts[kInfinite] || counts[kNegativeInfinite]) throw Refused();
  const Digits sum(call.sums, plan.differences ? call.sums + plan.limbs : nullptr, plan.limbs);
  const double mean = mean_of(sum, plan.limbs, counts[kRows]);
  if (plan.is_double) {
    *static_cast<double*>(call.mean) = mean;
  } else {
    *static_cast<float*>(call.mean) = static_cast<float>(mean);
  }
}

}  // namespace
}  // namespace valor

// The mean of the rows of one sum, whose limbs are at most 2^62 in size; refuses rows that are not finite, or
// none.
VALOR_API int32_t valor_mean_of_sum_cpu(const void* plan_words, const void* call_words) {
  return valor::guarded([&] {
    valor::write_mean(*static_cast<const valor::MeanPlan*>(plan_words),
                      *static_cast<const valor::MeanCall*>(call_words));
  });
}
