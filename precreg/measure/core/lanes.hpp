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
typedef float Singles __attribute__((vector_size(8 * WIDTH))); // a whole register of float32
typedef uint32_t Words __attribute__((vector_size(8 * WIDTH)));
typedef uint16_t Shorts __attribute__((vector_size(2 * WIDTH)));

constexpr int SINGLES = 2 * WIDTH;
constexpr uint32_t EXPONENT_OF_SINGLE = 0x7F800000, UNSIGNED_SINGLE = 0x7FFFFFFF;
constexpr int64_t EXPONENT = 0x7FF0000000000000, UNSIGNED = 0x7FFFFFFFFFFFFFFF, SIGN = INT64_MIN;

INLINE Doubles all(double x) { return x - (Doubles){}; }
INLINE Doubles size_of(Doubles x) { return (Doubles)((Longs)x & UNSIGNED); }
INLINE Singles singles_of(float x) { return x - (Singles){}; }
INLINE Singles size_of(Singles x) { return (Singles)((Words)x & UNSIGNED_SINGLE); }
// The larger and the smaller of two; the second where one is NaN, as x86's instructions do.
#if defined(__AVX512F__)
INLINE Doubles larger(Doubles a, Doubles b) { return (Doubles)_mm512_max_pd((__m512d)a, (__m512d)b); }
INLINE Doubles smaller(Doubles a, Doubles b) { return (Doubles)_mm512_min_pd((__m512d)a, (__m512d)b); }
INLINE Singles larger(Singles a, Singles b) { return (Singles)_mm512_max_ps((__m512)a, (__m512)b); }
INLINE Singles smaller(Singles a, Singles b) { return (Singles)_mm512_min_ps((__m512)a, (__m512)b); }
INLINE Words smaller(Words a, Words b) { return (Words)_mm512_min_epu32((__m512i)a, (__m512i)b); }
#elif defined(__AVX2__)
INLINE Doubles larger(Doubles a, Doubles b) { return (Doubles)_mm256_max_pd((__m256d)a, (__m256d)b); }
INLINE Doubles smaller(Doubles a, Doubles b) { return (Doubles)_mm256_min_pd((__m256d)a, (__m256d)b); }
INLINE Singles larger(Singles a, Singles b) { return (Singles)_mm256_max_ps((__m256)a, (__m256)b); }
INLINE Singles smaller(Singles a, Singles b) { return (Singles)_mm256_min_ps((__m256)a, (__m256)b); }
INLINE Words smaller(Words a, Words b) { return (Words)_mm256_min_epu32((__m256i)a, (__m256i)b); }
#elif defined(__SSE2__)
INLINE Doubles larger(Doubles a, Doubles b) { return (Doubles)_mm_max_pd((__m128d)a, (__m128d)b); }
INLINE Doubles smaller(Doubles a, Doubles b) { return (Doubles)_mm_min_pd((__m128d)a, (__m128d)b); }
INLINE Singles larger(Singles a, Singles b) { return (Singles)_mm_max_ps((__m128)a, (__m128)b); }
INLINE Singles smaller(Singles a, Singles b) { return (Singles)_mm_min_ps((__m128)a, (__m128)b); }
INLINE Words smaller(Words a, Words b) { return a < b ? a : b; }
#else
INLINE Doubles larger(Doubles a, Doubles b) { return a > b ? a : b; }
INLINE Doubles smaller(Doubles a, Doubles b) { return a < b ? a : b; }
INLINE Singles larger(Singles a, Singles b) { return a > b ? a : b; }
INLINE Singles smaller(Singles a, Singles b) { return a < b ? a : b; }
INLINE Words smaller(Words a, Words b) { return a < b ? a : b; }
#endif

// The larger and the smaller of two sizes: finite, and not negative. Comparisons of floats compete with additions for ports;
// those of integers do not.
#if defined(__AVX512F__)
INLINE Doubles larger_size(Doubles a, Doubles b) { return (Doubles)_mm512_max_epi64((__m512i)a, (__m512i)b); }
INLINE Doubles smaller_size(Doubles a, Doubles b) { return (Doubles)_mm512_min_epi64((__m512i)a, (__m512i)b); }
#else
INLINE Doubles larger_size(Doubles a, Doubles b) { return larger(a, b); }
INLINE Doubles smaller_size(Doubles a, Doubles b) { return smaller(a, b); }
#endif

// a * b + c and a * b - c, for products that are exact: then a fused operation gives the bits of two operations.
#if defined(__AVX512F__)
INLINE Doubles exact_product_plus(Doubles a, Doubles b, Doubles c) { return (Doubles)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c); }
INLINE Doubles exact_product_minus(Doubles a, Doubles b, Doubles c) { return (Doubles)_mm512_fmsub_pd((__m512d)a, (__m512d)b, (__m512d)c); }
INLINE Singles exact_product_plus(Singles a, Singles b, Singles c) { return (Singles)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
#elif defined(__AVX2__) && defined(__FMA__)
INLINE Doubles exact_product_plus(Doubles a, Doubles b, Doubles c) { return (Doubles)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c); }
INLINE Doubles exact_product_minus(Doubles a, Doubles b, Doubles c) { return (Doubles)_mm256_fmsub_pd((__m256d)a, (__m256d)b, (__m256d)c); }
INLINE Singles exact_product_plus(Singles a, Singles b, Singles c) { return (Singles)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
#else
INLINE Doubles exact_product_plus(Doubles a, Doubles b, Doubles c) { return a * b + c; }
INLINE Doubles exact_product_minus(Doubles a, Doubles b, Doubles c) { return a * b - c; }
INLINE Singles exact_product_plus(Singles a, Singles b, Singles c) { return a * b + c; }
#endif

// x with its sign changed where y is negative.
#if defined(__AVX512F__)
INLINE Singles signed_by(Singles x, Singles y) {
    return (Singles)_mm512_ternarylogic_epi32((__m512i)x, (__m512i)y, _mm512_set1_epi32(INT32_MIN), 0x78);
}
INLINE Doubles signed_by(Doubles x, Doubles y) {
    return (Doubles)_mm512_ternarylogic_epi64((__m512i)x, (__m512i)y, _mm512_set1_epi64(INT64_MIN), 0x78);
}
#else
INLINE Singles signed_by(Singles x, Singles y) { return (Singles)((Words)x ^ ((Words)y & ~UNSIGNED_SINGLE)); }
INLINE Doubles signed_by(Doubles x, Doubles y) { return (Doubles)((Longs)x ^ ((Longs)y & SIGN)); }
#endif

// The smaller of x and least where x is not zero, elsewhere least; and y where x is not zero, elsewhere 0.
#if defined(__AVX512F__)
INLINE Doubles smaller_above_zero(Doubles x, Doubles least) {
    const __mmask8 nonzero = _mm512_cmp_pd_mask((__m512d)x, _mm512_setzero_pd(), _CMP_NEQ_UQ);
    return (Doubles)_mm512_mask_min_pd((__m512d)least, nonzero, (__m512d)x, (__m512d)least);
}
INLINE Doubles where_not_zero(Doubles x, Doubles y) {
    return (Doubles)_mm512_maskz_mov_pd(_mm512_cmp_pd_mask((__m512d)x, _mm512_setzero_pd(), _CMP_NEQ_UQ), (__m512d)y);
}
#else
INLINE Doubles smaller_above_zero(Doubles x, Doubles least) {
    return smaller((Doubles)((Longs)x | ((Longs)(x == all(0.0)) & EXPONENT)), least); // infinity in the place of zero
}
INLINE Doubles where_not_zero(Doubles x, Doubles y) { return (Doubles)((Longs)y & (Longs)(x != all(0.0))); }
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
// Add one to the counts where a > b and c > d.
INLINE Words count_both(Singles a, Singles b, Singles c, Singles d, Words counts) {
    const __mmask16 first = _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ);
    const __mmask16 mask = _mm512_mask_cmp_ps_mask(first, (__m512)c, (__m512)d, _CMP_GT_OQ);
    return (Words)_mm512_mask_sub_epi32((__m512i)counts, mask, (__m512i)counts, _mm512_set1_epi32(-1));
}
// Count the float32 that are the nearest to a float64, in bits.
INLINE Longs count_rounded(const float* a, Doubles r, Longs counts) {
    const __m256i rounded = _mm256_castps_si256(_mm512_cvtpd_ps((__m512d)r));
    return plus_where(_mm256_cmpeq_epi32_mask(_mm256_loadu_si256((const __m256i*)a), rounded), counts);
}
INLINE Words count_larger(Singles a, Singles b, Words counts) {
    const __mmask16 mask = _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ);
    return (Words)_mm512_mask_sub_epi32((__m512i)counts, mask, (__m512i)counts, _mm512_set1_epi32(-1));
}
#else
INLINE Words count_both(Singles a, Singles b, Singles c, Singles d, Words counts) { return counts - ((Words)(a > b) & (Words)(c > d)); }
INLINE Words count_larger(Singles a, Singles b, Words counts) { return counts - (Words)(a > b); }
INLINE Longs count_at_most(Doubles a, Doubles b, Longs counts) { return counts - (Longs)(a <= b); }
INLINE Longs count_larger(Doubles a, Doubles b, Longs counts) { return counts - (Longs)(a > b); }
INLINE Longs count_same_bits(Doubles a, Doubles b, Longs counts) { return counts - (Longs)((Longs)a == (Longs)b); }
INLINE Longs count_rounded(const float* a, Doubles r, Longs counts) {
    return count_same_bits(widen(a), __builtin_convertvector(__builtin_convertvector(r, Floats), Doubles), counts);
}
#endif

// The upper halves of the lanes of two registers, in any order.
#if defined(__AVX512F__)
INLINE Words upper_halves(Longs a, Longs b) {
    return (Words)_mm512_shuffle_ps(_mm512_castsi512_ps((__m512i)a), _mm512_castsi512_ps((__m512i)b), 0xDD);
}
INLINE Doubles lower_half(Singles x) { return (Doubles)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)x)); }
INLINE Doubles upper_half(Singles x) { return (Doubles)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)x, 1)); }
#elif defined(__AVX2__)
INLINE Words upper_halves(Longs a, Longs b) {
    return (Words)_mm256_shuffle_ps(_mm256_castsi256_ps((__m256i)a), _mm256_castsi256_ps((__m256i)b), 0xDD);
}
INLINE Doubles lower_half(Singles x) { return (Doubles)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x)); }
INLINE Doubles upper_half(Singles x) { return (Doubles)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x, 1)); }
#else
INLINE Words upper_halves(Longs a, Longs b) {
#if defined(__SSE2__)
    return (Words)_mm_shuffle_ps(_mm_castsi128_ps((__m128i)a), _mm_castsi128_ps((__m128i)b), 0xDD);
#else
    const ULongs x = (ULongs)a >> 32, y = (ULongs)b >> 32;
    return (Words){(uint32_t)x[0], (uint32_t)x[1], (uint32_t)y[0], (uint32_t)y[1]};
#endif
}
INLINE Doubles lower_half(Singles x) { return (Doubles){x[0], x[1]}; }
INLINE Doubles upper_half(Singles x) { return (Doubles){x[2], x[3]}; }
#endif

// The halves of x with their signs changed where y is negative. Changing them after the widening saves two of four.
INLINE void signed_halves(Singles x, const Doubles* halves, Singles y, Doubles* to) {
#if defined(__AVX512F__)
    const __mmask16 negative = _mm512_movepi32_mask((__m512i)y);
    const __m512i sign = _mm512_set1_epi64(INT64_MIN);
    to[0] = (Doubles)_mm512_mask_xor_epi64((__m512i)halves[0], (__mmask8)negative, (__m512i)halves[0], sign);
    to[1] = (Doubles)_mm512_mask_xor_epi64((__m512i)halves[1], (__mmask8)(negative >> 8), (__m512i)halves[1], sign);
#else
    const Singles changed = signed_by(x, y);
    to[0] = lower_half(changed), to[1] = upper_half(changed);
#endif
}

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

// Append the numbers of the lanes where a > b, with `first` for the first lane; return how many there are. The memory has
// room for a number of each lane. With AVX-512 no branch depends on the lanes.
#if defined(__AVX512F__)
INLINE int append_larger(Singles a, Singles b, int32_t first, int32_t* to) {
    const __m512i numbers = _mm512_add_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), _mm512_set1_epi32(first));
    const __mmask16 mask = _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ);
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(mask, numbers));
    return __builtin_popcount(mask);
}
INLINE int append_larger(Doubles a, Doubles b, int32_t first, int32_t* to) {
    const __m256i numbers = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(first));
    const __mmask8 mask = _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_GT_OQ);
    _mm256_storeu_si256((__m256i*)to, _mm256_maskz_compress_epi32(mask, numbers));
    return __builtin_popcount(mask);
}
#else
template <class V> INLINE int append_larger(V a, V b, int32_t first, int32_t* to) {
    if (!any((Longs)(a > b))) return 0;
    int size = 0;
    for (int i = 0; i < (int)(sizeof(V) / sizeof a[0]); i++) to[size] = first + i, size += a[i] > b[i];
    return size;
}
#endif

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
#if defined(__AVX2__)
#if defined(__AVX512F__)
    const __m256d four = _mm512_castpd512_pd256((__m512d)lanes.part[0]) * _mm512_extractf64x4_pd((__m512d)lanes.part[0], 1);
#else
    const __m256d four = (__m256d)(lanes.part[0] * lanes.part[1]);
#endif
    const __m128d two = _mm256_castpd256_pd128(four) * _mm256_extractf128_pd(four, 1);
#else
    const Doubles two = (lanes.part[0] * lanes.part[2]) * (lanes.part[1] * lanes.part[3]);
#endif
    return two[0] * two[1];
}

// Halves of float32 as eight lanes of float64; sums of few exact terms, in any order.
INLINE Lanes<Doubles> lanes_of(Singles x) {
    Lanes<Doubles> lanes = {};
    lanes.part[0] = lower_half(x);
    lanes.part[1 % PARTS] += upper_half(x);
    return lanes;
}
#if defined(__AVX512F__)
INLINE int64_t sum_of(Words words) { return (uint32_t)_mm512_reduce_add_epi32((__m512i)words); }
INLINE float highest(Singles x) { return _mm512_reduce_max_ps((__m512)x); }
INLINE float lowest(Singles x) { return _mm512_reduce_min_ps((__m512)x); }
INLINE uint32_t lowest(Words x) { return _mm512_reduce_min_epu32((__m512i)x); }
#else
INLINE int64_t sum_of(Words words) {
    int64_t result = 0;
    for (int i = 0; i < SINGLES; i++) result += words[i];
    return result;
}
INLINE float highest(Singles x) {
    float result = x[0];
    for (int i = 1; i < SINGLES; i++) result = x[i] > result ? x[i] : result;
    return result;
}
INLINE float lowest(Singles x) {
    float result = x[0];
    for (int i = 1; i < SINGLES; i++) result = x[i] < result ? x[i] : result;
    return result;
}
INLINE uint32_t lowest(Words x) {
    uint32_t result = x[0];
    for (int i = 1; i < SINGLES; i++) result = x[i] < result ? x[i] : result;
    return result;
}
#endif

INLINE int64_t sum_of(const Lanes<Longs>& lanes) {
    Longs sum = lanes.part[0];
    for (int p = 1; p < PARTS; p++) sum += lanes.part[p];
    int64_t result = 0;
    for (int i = 0; i < WIDTH; i++) result += sum[i];
    return result;
}

} // namespace
} // namespace precreg
