// What the core of arithmetic is told. precreg/arith says what each of it means.
#pragma once

#include <cstdint>

namespace precreg {

enum class Rounding : int { nearest_even, nearest_away, toward_zero, up, down, away, odd, stochastic };
constexpr int ROUNDINGS = 8;

// A format of at least two digits, all of whose numbers the carrier (float32 or float64) has.
struct Format {
    int32_t precision, min_exponent, negative_zero, subnormals;
    double largest, overflow;
};

// Rounding n values that lie one after another; `start` is the index of the first one's random bits.
template <class T> struct RoundingJob {
    const T* values;
    T* results;
    int64_t n;
    Format format;
    Rounding rounding;
    uint64_t seed, start;
};

#define PRECREG_KERNELS(set) namespace set { void round(const RoundingJob<float>&); void round(const RoundingJob<double>&); }
PRECREG_KERNELS(generic)
PRECREG_KERNELS(avx2)
PRECREG_KERNELS(avx512)
#undef PRECREG_KERNELS

} // namespace precreg
