// The exponential of numbers up to 0, correctly rounded: the same bits on every device, whatever the
// libraries and vector units there (numpy alone has three exponentials, which differ in the last bit).
#pragma once
#include <math.h>

#include "platform.h"
#include "two_doubles.h"

namespace valor {

// |a| >= |b|.
VALOR_HD TwoDoubles sum_of(const TwoDoubles& a, const TwoDoubles& b) {
  const TwoDoubles high = fast_sum(a.high, b.high), low = fast_sum(a.low, b.low);
  const TwoDoubles sum = fast_sum(high.high, high.low + low.high);
  return fast_sum(sum.high, sum.low + low.low);
}

// clang-format off: two powers a line
// 2 ** (j / 64) for j from 0 to 63.
VALOR_HD TwoDoubles power_of_64th(int j) {
  static const double table[64][2] = {
    {0x1.0000000000000p0, 0x0.0p0}, {0x1.02c9a3e778061p0, -0x1.19083535b085dp-56},
    {0x1.059b0d3158574p0, 0x1.d73e2a475b465p-55}, {0x1.0874518759bc8p0, 0x1.186be4bb284ffp-57},
    {0x1.0b5586cf9890fp0, 0x1.8a62e4adc610bp-54}, {0x1.0e3ec32d3d1a2p0, 0x1.03a1727c57b53p-59},
    {0x1.11301d0125b51p0, -0x1.6c51039449b3ap-54}, {0x1.1429aaea92de0p0, -0x1.32fbf9af1369ep-54},
    {0x1.172b83c7d517bp0, -0x1.19041b9d78a76p-55}, {0x1.1a35beb6fcb75p0, 0x1.e5b4c7b4968e4p-55},
    {0x1.1d4873168b9aap0, 0x1.e016e00a2643cp-54}, {0x1.2063b88628cd6p0, 0x1.dc775814a8495p-55},
    {0x1.2387a6e756238p0, 0x1.9b07eb6c70573p-54}, {0x1.26b4565e27cddp0, 0x1.2bd339940e9d9p-55},
    {0x1.29e9df51fdee1p0, 0x1.612e8afad1255p-55}, {0x1.2d285a6e4030bp0, 0x1.0024754db41d5p-54},
    {0x1.306fe0a31b715p0, 0x1.6f46ad23182e4p-55}, {0x1.33c08b26416ffp0, 0x1.32721843659a6p-54},
    {0x1.371a7373aa9cbp0, -0x1.63aeabf42eae2p-54}, {0x1.3a7db34e59ff7p0, -0x1.5e436d661f5e3p-56},
    {0x1.3dea64c123422p0, 0x1.ada0911f09ebcp-55}, {0x1.4160a21f72e2ap0, -0x1.ef3691c309278p-58},
    {0x1.44e086061892dp0, 0x1.89b7a04ef80d0p-59}, {0x1.486a2b5c13cd0p0, 0x1.3c1a3b69062f0p-56},
    {0x1.4bfdad5362a27p0, 0x1.d4397afec42e2p-56}, {0x1.4f9b2769d2ca7p0, -0x1.4b309d25957e3p-54},
    {0x1.5342b569d4f82p0, -0x1.07abe1db13cadp-55}, {0x1.56f4736b527dap0, 0x1.9bb2c011d93adp-54},
    {0x1.5ab07dd485429p0, 0x1.6324c054647adp-54}, {0x1.5e76f15ad2148p0, 0x1.ba6f93080e65ep-54},
    {0x1.6247eb03a5585p0, -0x1.383c17e40b497p-54}, {0x1.6623882552225p0, -0x1.bb60987591c34p-54},
    {0x1.6a09e667f3bcdp0, -0x1.bdd3413b26456p-54}, {0x1.6dfb23c651a2fp0, -0x1.bbe3a683c88abp-57},
    {0x1.71f75e8ec5f74p0, -0x1.16e4786887a99p-55}, {0x1.75feb564267c9p0, -0x1.0245957316dd3p-54},
    {0x1.7a11473eb0187p0, -0x1.41577ee04992fp-55}, {0x1.7e2f336cf4e62p0, 0x1.05d02ba15797ep-56},
    {0x1.82589994cce13p0, -0x1.d4c1dd41532d8p-54}, {0x1.868d99b4492edp0, -0x1.fc6f89bd4f6bap-54},
    {0x1.8ace5422aa0dbp0, 0x1.6e9f156864b27p-54}, {0x1.8f1ae99157736p0, 0x1.5cc13a2e3976cp-55},
    {0x1.93737b0cdc5e5p0, -0x1.75fc781b57ebcp-57}, {0x1.97d829fde4e50p0, -0x1.d185b7c1b85d1p-54},
    {0x1.9c49182a3f090p0, 0x1.c7c46b071f2bep-56}, {0x1.a0c667b5de565p0, -0x1.359495d1cd533p-54},
    {0x1.a5503b23e255dp0, -0x1.d2f6edb8d41e1p-54}, {0x1.a9e6b5579fdbfp0, 0x1.0fac90ef7fd31p-54},
    {0x1.ae89f995ad3adp0, 0x1.7a1cd345dcc81p-54}, {0x1.b33a2b84f15fbp0, -0x1.2805e3084d708p-57},
    {0x1.b7f76f2fb5e47p0, -0x1.5584f7e54ac3bp-56}, {0x1.bcc1e904bc1d2p0, 0x1.23dd07a2d9e84p-55},
    {0x1.c199bdd85529cp0, 0x1.11065895048ddp-55}, {0x1.c67f12e57d14bp0, 0x1.2884dff483cadp-54},
    {0x1.cb720dcef9069p0, 0x1.503cbd1e949dbp-56}, {0x1.d072d4a07897cp0, -0x1.cbc3743797a9cp-54},
    {0x1.d5818dcfba487p0, 0x1.2ed02d75b3707p-55}, {0x1.da9e603db3285p0, 0x1.c2300696db532p-54},
    {0x1.dfc97337b9b5fp0, -0x1.1a5cd4f184b5cp-54}, {0x1.e502ee78b3ff6p0, 0x1.39e8980a9cc8fp-55},
    {0x1.ea4afa2a490dap0, -0x1.e9c23179c2893p-54}, {0x1.efa1bee615a27p0, 0x1.dc7f486a4b6b0p-54},
    {0x1.f50765b6e4540p0, 0x1.9d3e12dd8a18bp-54}, {0x1.fa7c1819e90d8p0, 0x1.74853f3a5931ep-55},
  };
  return {table[j][0], table[j][1]};
}
// clang-format on

// exp(r) - 1 for |r| at most log(2) / 128, to 100 bits: r + r**2 / 2! + .. + r**12 / 12!.
VALOR_HD TwoDoubles long_power_series(const TwoDoubles& r) {
  static const double inverse_factorials[11][2] = {{0x1.0000000000000p-1, 0.0},
                                                   {0x1.5555555555555p-3, 0x1.5555555555555p-57},
                                                   {0x1.5555555555555p-5, 0x1.5555555555555p-59},
                                                   {0x1.1111111111111p-7, 0x1.1111111111111p-63},
                                                   {0x1.6c16c16c16c17p-10, -0x1.f49f49f49f49fp-65},
                                                   {0x1.a01a01a01a01ap-13, 0x1.a01a01a01a01ap-73},
                                                   {0x1.a01a01a01a01ap-16, 0x1.a01a01a01a01ap-76},
                                                   {0x1.71de3a556c734p-19, -0x1.c154f8ddc6c00p-73},
                                                   {0x1.27e4fb7789f5cp-22, 0x1.cbbc05b4fa99ap-76},
                                                   {0x1.ae64567f544e4p-26, -0x1.c062e06d1f209p-80},
                                                   {0x1.1eed8eff8d898p-29, -0x1.2aec959e14c06p-83}};
  TwoDoubles sum{inverse_factorials[10][0], inverse_factorials[10][1]};
  VALOR_ROLLED for (int n = 9; n >= 0; --n) sum =
      sum_of({inverse_factorials[n][0], inverse_factorials[n][1]}, product_of(sum, r));
  return product_of(r, sum_of({1.0, 0.0}, product_of(sum, r)));
}

// exp(x) for x <= 0, the nearest double to the exact value; 0 below -708, where that is less than 1e-307.
// Computed in float64 first, to within 2**-58 of a number from 1 to 2; where that does not decide the last
// bit, once in about 30 times, again with twice as many bits.
VALOR_HD double exp_of_negative(double x) {
  if (!(x >= -708.0)) return 0.0;
  const double rounded = (x * 0x1.71547652b82fep6 + 0x1.8p52) - 0x1.8p52;  // to an integer
  const int steps = static_cast<int>(rounded), j = steps & 63;
  const TwoDoubles power = power_of_64th(j);
  // log(2) / 64 in three parts, of which the first two have 36 bits: their products are exact.
  const double part = x - rounded * 0x1.62e42fefa0000p-7;
  const double r = part - rounded * 0x1.cf79abc9e3b3ap-46;
  const double series =
      r +
      r * r *
          (0.5 + r * (0x1.5555555555555p-3 +
                      r * (0x1.5555555555555p-5 + r * (0x1.1111111111111p-7 + r * 0x1.6c16c16c16c17p-10))));
  const TwoDoubles sum = fast_sum(power.high, power.low + power.high * series);
  double result = sum.high + (sum.low - 0x1.2p-58);
  if (result != sum.high + (sum.low + 0x1.2p-58)) {
    const double middle = rounded * 0x1.cf79abc9e0000p-46, first = part - middle;
    const double lost = (part - first) - middle;
    const TwoDoubles exact = fast_sum(first, lost - rounded * 0x1.d9cc01f97b57ap-85);
    result = sum_of(power, product_of(power, long_power_series(exact))).high;
  }
  return result * double_of(static_cast<uint64_t>((steps >> 6) + 1023) << 52);
}

}  // namespace valor
