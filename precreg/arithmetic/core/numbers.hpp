// float32 and float64 as bits, in vectors that fill the registers of the instruction set.
#pragma once

#include "registers.hpp"

namespace precreg {
namespace {

// `Number` and `Bits` are vectors of `LANES` numbers and of their bits. IEEE 754 defines DIGITS and exponents LEAST, MOST.
template <class T> struct Carrier;
template <> struct Carrier<float> {
    typedef int32_t Bit;
    typedef float Number __attribute__((vector_size(BYTES)));
    typedef int32_t Bits __attribute__((vector_size(BYTES)));
    typedef uint32_t Unsigned __attribute__((vector_size(BYTES)));
    static constexpr int DIGITS = 24, LEAST = -126, MOST = 127, LANES = BYTES / 4;
    static constexpr Bit INFINITE = 0x7F800000, SIGN = INT32_MIN;
};
template <> struct Carrier<double> {
    typedef int64_t Bit;
    typedef double Number __attribute__((vector_size(BYTES)));
    typedef int64_t Bits __attribute__((vector_size(BYTES)));
    typedef uint64_t Unsigned __attribute__((vector_size(BYTES)));
    static constexpr int DIGITS = 53, LEAST = -1022, MOST = 1023, LANES = BYTES / 8;
    static constexpr Bit INFINITE = 0x7FF0000000000000, SIGN = INT64_MIN;
};

template <class T> using Number = typename Carrier<T>::Number;
template <class T> using Bits = typename Carrier<T>::Bits;
template <class T> using Bit = typename Carrier<T>::Bit;

template <class V> INLINE V load(const void* from) {
    V value;
    memcpy(&value, from, sizeof value);
    return value;
}
template <class V> INLINE void store(void* to, V value) { memcpy(to, &value, sizeof value); }

// Store past the caches, for arrays that do not fit into them; `to` is aligned.
template <class V> INLINE void stream(void* to, V value) {
#if defined(__AVX512F__)
    _mm512_stream_si512((__m512i*)to, (__m512i)value);
#elif defined(__AVX2__)
    _mm256_stream_si256((__m256i*)to, (__m256i)value);
#elif defined(__SSE2__)
    _mm_stream_si128((__m128i*)to, (__m128i)value);
#else
    store(to, value);
#endif
}
INLINE void finish_streaming() {
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

template <class T> INLINE Bit<T> bits_of(T value) {
    Bit<T> bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

template <class T> INLINE Bits<T> every(Bit<T> x) { return x - (Bits<T>){}; }
template <class T> INLINE Number<T> all(T x) { return (Number<T>)every<T>(bits_of(x)); } // by bits: x - 0 may be -0
// Unsigned, because the sums of NaN's bits may pass the largest signed integer.
template <class T> INLINE Bits<T> plus(Bits<T> a, Bits<T> b) {
    typedef typename Carrier<T>::Unsigned Unsigned;
    return (Bits<T>)((Unsigned)a + (Unsigned)b);
}
template <class B> INLINE B chosen(B mask, B yes, B no) { return (mask & yes) | (~mask & no); }

} // namespace
} // namespace precreg
