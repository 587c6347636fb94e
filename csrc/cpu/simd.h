// VALOR_CLONES compiles a function for AVX2 as well; the loader picks by the processor it finds. What it
// calls becomes part of the clones where it is VALOR_INLINE.
#pragma once
#include <stdint.h>

#if defined(__x86_64__) && defined(__GLIBC__)
#define VALOR_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define VALOR_CLONES
#endif
// Likewise with fused multiply-add, and for AVX-512 as well: for loops of fmaf, which is a call elsewhere.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && __GNUC__ >= 12 && !defined(__clang__)
#define VALOR_FUSED_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define VALOR_FUSED_CLONES VALOR_CLONES
#endif
#define VALOR_INLINE inline __attribute__((always_inline))
