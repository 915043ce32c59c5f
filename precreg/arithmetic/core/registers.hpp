// The width of the registers of the instruction set that a kernel is compiled for.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#define INLINE inline __attribute__((always_inline))

namespace precreg {
namespace {

#if defined(__AVX512F__) && defined(__AVX512DQ__)
constexpr int BYTES = 64;
#elif defined(__AVX2__)
constexpr int BYTES = 32;
#else
constexpr int BYTES = 16;
#endif

} // namespace
} // namespace precreg
