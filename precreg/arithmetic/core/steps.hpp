// Add one product to a partial sum, in vectors, as precreg/arithmetic/exact.py does for one number.
#pragma once

#include "rounding.hpp"

namespace precreg {
namespace {

template <class T> INLINE Number<T> fused(Number<T> a, Number<T> b, Number<T> c) {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 4) return (Number<T>)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
    else return (Number<T>)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__AVX2__)
    if constexpr (sizeof(T) == 4) return (Number<T>)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
    else return (Number<T>)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    Number<T> result;
    for (int i = 0; i < Carrier<T>::LANES; i++) result[i] = sizeof(T) == 4 ? (T)__builtin_fmaf((float)a[i], (float)b[i], (float)c[i])
                                                                            : (T)__builtin_fma((double)a[i], (double)b[i], (double)c[i]);
    return result;
#endif
}

// Rounds further to a format, in the direction in which the processor rounded.
template <class T> struct Directed {
    Directed(const Format& format, Rounding rounding) : to(format) {
        const bool up = rounding == Rounding::up, down = rounding == Rounding::down, inward = rounding == Rounding::toward_zero;
        positive = up ? -1 : 0, negative = down ? -1 : 0;
        limit = inward || down ? to.largest : to.beyond, negative_limit = inward || up ? to.largest : to.beyond;
        const bool whole = to.largest == Carrier<T>::INFINITE - 1 - to.rest && to.beyond == Carrier<T>::INFINITE;
        simple = whole && !to.narrow && to.zero_sign && (inward || to.rest == 0);
    }

    INLINE Number<T> operator()(Number<T> value) const {
        constexpr Bit<T> SIGN = Carrier<T>::SIGN, INFINITE = Carrier<T>::INFINITE;
        const Bits<T> bits = (Bits<T>)value, sign = bits & SIGN, magnitude = bits & ~SIGN, below = (Bits<T>)(bits < 0);
        const Bits<T> away = chosen(below, every<T>(negative), every<T>(positive));
        Bits<T> result = plus<T>(magnitude, away & to.rest) & ~to.rest;
        if (to.narrow) {
            const Bits<T> floor = to_quantum<Rounding::toward_zero, T>(magnitude, below, Bits<T>{}, to);
            const Bits<T> inexact = (Bits<T>)((Number<T>)floor != (Number<T>)magnitude) & away;
            const Number<T> small = (Number<T>)floor + (Number<T>)(inexact & (Bits<T>)all(to.quantum));
            result = chosen((Bits<T>)(magnitude < to.smallest_normal), (Bits<T>)small & ~SIGN, result);
        }
        const Bits<T> stays = chosen(below, every<T>(negative_limit), every<T>(limit));
        const Bits<T> most = chosen((Bits<T>)(magnitude < INFINITE), stays, every<T>(to.beyond));
        result = chosen((Bits<T>)(result > to.largest), most, result);
        result &= (Bits<T>)(result >= to.flushed);
        result |= sign & ((Bits<T>)(result != 0) | to.zero_sign);
        return (Number<T>)chosen((Bits<T>)(magnitude > INFINITE), bits, result);
    }

    Target<T> to;
    Bit<T> positive, negative;    // all ones where rounding goes away from zero
    Bit<T> limit, negative_limit; // the results of finite numbers beyond the largest
    bool simple;                  // only last bits fall away, and subnormal numbers if the format has none
};

// The rounding left after the processor's: none, dropping last bits, or any other.
enum class Rest { nothing, bits, anything };

// Sums by the processor. The kind of product is a template argument, unless the remaining rounding takes far longer.
template <class T, Rest REST, Product PRODUCT> struct Step {
    typedef T Value;
    // As many sums as registers hold, and at least as many as the additions that the processor overlaps.
    static constexpr int ROWS = REST == Rest::anything || PRODUCT == Product::rounded ? 1 : BYTES == 64 ? 4 : 2, VECTORS = 4;

    explicit Step(const SumJob<T>& job) : sum(job.accumulator, job.rounding), product(job.product_format, job.rounding), kind(job.product) {}

    INLINE Number<T> finished(Number<T> value) const {
        if (REST == Rest::nothing) return value;
        if (REST == Rest::anything) return sum(value);
        const Bits<T> kept = (Bits<T>)value & ~sum.to.rest;
        const Bits<T> normal = (Bits<T>)((kept & ~Carrier<T>::SIGN) >= sum.to.flushed);
        return (Number<T>)(kept & (normal | Carrier<T>::SIGN));
    }
    // The last two arguments are indices of random bits, which the processor's roundings do not use.
    INLINE Number<T> add(Number<T> x, Number<T> y, const Bits<T>&, uint64_t) const { return finished(x + y); }
    INLINE Number<T> add_product(Number<T> a, Number<T> b, Number<T> c, const Bits<T>&, uint64_t) const {
        const Product made = REST == Rest::anything ? kind : PRODUCT;
        if (made == Product::fused) return finished(fused<T>(a, b, c));
        if (made == Product::multiplied) return finished(a * b + c);
        return finished(product(a * b) + c);
    }

    const Directed<T> sum, product;
    const Product kind;
};

// Round to odd (Boldo and Melquiond, 2008): return `nearest` if it is exact, else the neighbour of the exact result whose
// last bit is 1. `lost` is exact - nearest; only its sign matters.
INLINE Number<double> to_odd(Number<double> nearest, Number<double> lost) {
    typedef Bits<double> Longs;
    const Longs bits = (Longs)nearest, inexact = (Longs)(lost < 0) | (Longs)(lost > 0);
    const Longs too_large = (Longs)((bits ^ (Longs)lost) < 0); // in magnitude
    const Longs even = (bits & 1) - 1;
    return (Number<double>)(bits + (inexact & even & (1 | too_large)));
}
INLINE Number<double> sum_to_odd(Number<double> x, Number<double> y) {
    const Number<double> sum = x + y, part = sum - x;
    return to_odd(sum, (x - (sum - part)) + (y - part));
}

// Float32 numbers in float64, by any rounding: products are exact, and sums are rounded to odd first.
template <Rounding R> struct ExtendedStep {
    typedef double Value;
    typedef Number<double> Doubles;
    typedef Bits<double> Longs;
    static constexpr int ROWS = 1, VECTORS = 2;

    explicit ExtendedStep(const SumJob<double>& job) : sum(job.accumulator), product(job.product_format), rounds_product(job.product == Product::rounded), seed(job.seed) {}

    INLINE static Longs draws(uint64_t seed, const Longs& first, uint64_t index) {
        if (R != Rounding::stochastic) return Longs{};
        return (Longs)random_bits(seed, (Carrier<double>::Unsigned)first + index);
    }
    INLINE Doubles add(Doubles x, Doubles y, const Longs& first, uint64_t index) const {
        const Longs odd = (Longs)sum_to_odd(x, y);
        return (Doubles)rounded<R, true, double>(odd, draws(seed, first, index), sum);
    }
    INLINE Doubles add_product(Doubles a, Doubles b, Doubles c, const Longs& first, uint64_t index) const {
        Doubles exact = a * b;
        if (rounds_product)
            exact = (Doubles)rounded<R, true, double>((Longs)exact, draws(seed + 1, first, index), product);
        return add(exact, c, first, index);
    }

    const Target<double> sum, product;
    const bool rounds_product;
    const uint64_t seed;
};

} // namespace
} // namespace precreg
