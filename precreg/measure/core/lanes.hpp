// Eight virtual lanes on registers of any width, so that every instruction set does the same arithmetic.
#pragma once

#include "../../arithmetic/core/registers.hpp"

namespace precreg {
namespace {

constexpr int WIDTH = BYTES / 8, LANES = 8, PARTS = LANES / WIDTH;

typedef double Doubles __attribute__((vector_size(8 * WIDTH)));
typedef int64_t Longs __attribute__((vector_size(8 * WIDTH)));
typedef uint64_t ULongs __attribute__((vector_size(8 * WIDTH)));
typedef float Floats __attribute__((vector_size(4 * WIDTH)));
typedef uint32_t Ints __attribute__((vector_size(4 * WIDTH)));
typedef uint16_t Shorts __attribute__((vector_size(2 * WIDTH)));

constexpr int64_t EXPONENT = 0x7FF0000000000000, UNSIGNED = 0x7FFFFFFFFFFFFFFF, SIGN = INT64_MIN;

INLINE Doubles all(double x) { return x - (Doubles){}; }
INLINE Doubles size_of(Doubles x) { return (Doubles)((Longs)x & UNSIGNED); }
// The larger and the smaller of two; the second where one is NaN, as x86's instructions do.
#if defined(__AVX512F__)
INLINE Doubles larger(Doubles a, Doubles b) { return (Doubles)_mm512_max_pd((__m512d)a, (__m512d)b); }
INLINE Doubles smaller(Doubles a, Doubles b) { return (Doubles)_mm512_min_pd((__m512d)a, (__m512d)b); }
#elif defined(__AVX2__)
INLINE Doubles larger(Doubles a, Doubles b) { return (Doubles)_mm256_max_pd((__m256d)a, (__m256d)b); }
INLINE Doubles smaller(Doubles a, Doubles b) { return (Doubles)_mm256_min_pd((__m256d)a, (__m256d)b); }
#elif defined(__SSE2__)
INLINE Doubles larger(Doubles a, Doubles b) { return (Doubles)_mm_max_pd((__m128d)a, (__m128d)b); }
INLINE Doubles smaller(Doubles a, Doubles b) { return (Doubles)_mm_min_pd((__m128d)a, (__m128d)b); }
#else
INLINE Doubles larger(Doubles a, Doubles b) { return a > b ? a : b; }
INLINE Doubles smaller(Doubles a, Doubles b) { return a < b ? a : b; }
#endif

// Add one to the counts where a comparison holds. Written out for masks, because compilers emit three instructions for each.
#if defined(__AVX512F__)
INLINE Longs plus_where(__mmask8 mask, Longs counts) {
    return (Longs)_mm512_mask_sub_epi64((__m512i)counts, mask, (__m512i)counts, _mm512_set1_epi64(-1));
}
INLINE Longs count_at_most(Doubles a, Doubles b, Longs counts) {
    return plus_where(_mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_LE_OQ), counts);
}
INLINE Longs count_larger(Doubles a, Doubles b, Longs counts) {
    return plus_where(_mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_GT_OQ), counts);
}
INLINE Longs count_same_bits(Doubles a, Doubles b, Longs counts) {
    return plus_where(_mm512_cmpeq_epi64_mask((__m512i)a, (__m512i)b), counts);
}
#else
INLINE Longs count_at_most(Doubles a, Doubles b, Longs counts) { return counts - (Longs)(a <= b); }
INLINE Longs count_larger(Doubles a, Doubles b, Longs counts) { return counts - (Longs)(a > b); }
INLINE Longs count_same_bits(Doubles a, Doubles b, Longs counts) { return counts - (Longs)((Longs)a == (Longs)b); }
#endif

template <class T> INLINE T load(const void* from) {
    T value;
    memcpy(&value, from, sizeof value);
    return value;
}
#if defined(__AVX512F__)
INLINE Doubles widen(const float* from) { return (Doubles)_mm512_cvtps_pd(_mm256_loadu_ps(from)); }
#elif defined(__AVX2__)
INLINE Doubles widen(const float* from) { return (Doubles)_mm256_cvtps_pd(_mm_loadu_ps(from)); }
#else
INLINE Doubles widen(const float* from) { return __builtin_convertvector(load<Floats>(from), Doubles); }
#endif
INLINE Doubles widen(const double* from) { return load<Doubles>(from); }
template <class T> INLINE void store(void* to, T value) { memcpy(to, &value, sizeof value); }
INLINE Ints narrow(ULongs values) { return __builtin_convertvector(values, Ints); }

// Return true if any bit is set.
INLINE bool any(Longs bits) {
#if defined(__AVX512F__)
    return _mm512_test_epi64_mask((__m512i)bits, (__m512i)bits) != 0;
#elif defined(__AVX2__)
    return !_mm256_testz_si256((__m256i)bits, (__m256i)bits);
#else
    return (bits[0] | bits[1]) != 0;
#endif
}

template <class V> struct Lanes {
    V part[PARTS];

    auto operator[](int lane) const { return part[lane / WIDTH][lane % WIDTH]; }
};

INLINE Lanes<Doubles> lanes_of(double value) {
    Lanes<Doubles> lanes;
    for (int p = 0; p < PARTS; p++) lanes.part[p] = all(value);
    return lanes;
}

INLINE double highest(const Lanes<Doubles>& lanes) {
    double result = lanes[0];
    for (int i = 1; i < LANES; i++) result = lanes[i] > result ? lanes[i] : result;
    return result;
}

INLINE double lowest(const Lanes<Doubles>& lanes) {
    double result = lanes[0];
    for (int i = 1; i < LANES; i++) result = lanes[i] < result ? lanes[i] : result;
    return result;
}

// Mark the lanes above or below a bound; all parts share one mask.
INLINE Longs above(const Lanes<Doubles>& lanes, double bound) {
    Longs result = {};
    for (int p = 0; p < PARTS; p++) result |= (Longs)(lanes.part[p] > all(bound));
    return result;
}
INLINE Longs below(const Lanes<Doubles>& lanes, double bound) {
    Longs result = {};
    for (int p = 0; p < PARTS; p++) result |= (Longs)(lanes.part[p] < all(bound));
    return result;
}
INLINE bool any_above(const Lanes<Doubles>& lanes, double bound) { return any(above(lanes, bound)); }
INLINE bool any_below(const Lanes<Doubles>& lanes, double bound) { return any(below(lanes, bound)); }

// Add, and multiply, lanes in one order on every machine: (((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7)). Compilers take single
// lanes from wide registers one by one.
INLINE double sum_of(const Lanes<Doubles>& lanes) {
#if defined(__AVX2__)
#if defined(__AVX512F__)
    const __m256d four = _mm512_castpd512_pd256((__m512d)lanes.part[0]) + _mm512_extractf64x4_pd((__m512d)lanes.part[0], 1);
#else
    const __m256d four = (__m256d)(lanes.part[0] + lanes.part[1]);
#endif
    const __m128d two = _mm256_castpd256_pd128(four) + _mm256_extractf128_pd(four, 1);
#else
    const Doubles two = (lanes.part[0] + lanes.part[2]) + (lanes.part[1] + lanes.part[3]);
#endif
    return two[0] + two[1];
}

INLINE double product_of(const Lanes<Doubles>& lanes) {
    return ((lanes[0] * lanes[4]) * (lanes[2] * lanes[6])) * ((lanes[1] * lanes[5]) * (lanes[3] * lanes[7]));
}

INLINE int64_t sum_of(const Lanes<Longs>& lanes) {
    Longs sum = lanes.part[0];
    for (int p = 1; p < PARTS; p++) sum += lanes.part[p];
    int64_t result = 0;
    for (int i = 0; i < WIDTH; i++) result += sum[i];
    return result;
}

} // namespace
} // namespace precreg
