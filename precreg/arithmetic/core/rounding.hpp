// Round vectors of float32 or float64 to a number format, once. Rounding in precreg/arithmetic/formats.py names the roundings.
#pragma once

#include <cmath>

#include "job.hpp"
#include "numbers.hpp"

namespace precreg {
namespace {

// A format in terms of the bits of its carrier T.
template <class T> struct Target {
    explicit Target(const Format& format)
        : drop(Carrier<T>::DIGITS - format.precision), rest(((Bit<T>)1 << drop) - 1), half(drop ? (Bit<T>)1 << (drop - 1) : 0),
          last(drop ? 1 : 0), smallest_normal(bits_of((T)std::ldexp(1.0, format.min_exponent))),
          flushed(format.subnormals ? 0 : smallest_normal), largest(bits_of((T)format.largest)),
          beyond(bits_of((T)format.overflow) & ~Carrier<T>::SIGN), zero_sign(format.negative_zero ? -1 : 0),
          narrow(format.min_exponent > Carrier<T>::LEAST), quantum((T)std::ldexp(1.0, format.min_exponent - format.precision + 1)),
          shifter((T)std::ldexp(1.0, format.min_exponent - format.precision + Carrier<T>::DIGITS)),
          // 2**24 / quantum in three factors, because their product may overflow
          scales{(T)std::ldexp(1.0, 24), (T)std::ldexp(1.0, -format.min_exponent / 2),
                 (T)std::ldexp(1.0, format.precision - 1 - format.min_exponent + format.min_exponent / 2)} {}

    int drop; // the number of last bits that a normal number loses
    Bit<T> rest, half, last, smallest_normal, flushed, largest, beyond, zero_sign;
    bool narrow; // subnormal numbers of the format are normal numbers of the carrier
    T quantum, shifter, scales[3];
};

// Round magnitudes to `drop` fewer bits. A carry goes into the exponent, which is right.
template <Rounding R, class T> INLINE Bits<T> fewer_bits(Bits<T> magnitude, Bits<T> negative, Bits<T> draws, const Target<T>& to) {
    typedef typename Carrier<T>::Unsigned Unsigned;
    const Bits<T> rest = every<T>(to.rest), up = plus<T>(magnitude, rest);
    if (R == Rounding::toward_zero) return magnitude & ~rest;
    if (R == Rounding::away) return up & ~rest;
    if (R == Rounding::up) return chosen(negative, magnitude, up) & ~rest;
    if (R == Rounding::down) return chosen(negative, up, magnitude) & ~rest;
    if (R == Rounding::nearest_away) return plus<T>(magnitude, every<T>(to.half)) & ~rest;
    if (R == Rounding::nearest_even) {
        const Bits<T> odd = (Bits<T>)((Unsigned)magnitude >> to.drop) & every<T>(to.last);
        return plus<T>(magnitude, odd + (to.half - to.last)) & ~rest;
    }
    const Bits<T> floor = magnitude & ~rest, left = magnitude & rest;
    if (R == Rounding::odd) return floor | ((Bits<T>)(left != 0) & every<T>(to.rest + 1));
    const Bits<T> parts = to.drop > 24 ? (Bits<T>)((Unsigned)left >> (to.drop - 24)) : left << (24 - to.drop);
    return plus<T>(floor, (Bits<T>)(parts > draws) & every<T>(to.rest + 1));
}

// Round magnitudes below the smallest normal number to multiples of its quantum; others give nonsense.
template <Rounding R, class T> INLINE Bits<T> to_quantum(Bits<T> magnitude, Bits<T> negative, Bits<T> draws, const Target<T>& to) {
    const Number<T> x = (Number<T>)magnitude, shifter = all(to.shifter);
    const Number<T> near = (x + shifter) - shifter; // in the thread's rounding direction
    if (R == Rounding::nearest_even) return (Bits<T>)near;
    const Bits<T> step = (Bits<T>)all(to.quantum);
    const Number<T> floor = near - (Number<T>)((Bits<T>)(near > x) & step), left = x - floor;
    const Bits<T> inexact = (Bits<T>)(left != 0);
    Bits<T> upward = {};
    if (R == Rounding::away) upward = inexact;
    if (R == Rounding::up) upward = inexact & ~negative;
    if (R == Rounding::down) upward = inexact & negative;
    if (R == Rounding::nearest_away) upward = (Bits<T>)(left + left >= all(to.quantum));
    if (R == Rounding::odd) upward = inexact & (((Bits<T>)(floor + shifter) & 1) - 1);
    if (R == Rounding::stochastic) {
        const Number<T> parts = left * all(to.scales[0]) * all(to.scales[1]) * all(to.scales[2]);
        upward = (Bits<T>)(parts >= __builtin_convertvector(draws + 1, Number<T>));
    }
    return (Bits<T>)(floor + (Number<T>)(upward & step)) & ~Carrier<T>::SIGN; // 0 - 0 is -0 if the thread rounds down
}

// `draws` are 24 random bits a lane, for stochastic rounding alone.
template <Rounding R, bool NARROW, class T> INLINE Bits<T> rounded(Bits<T> value, Bits<T> draws, const Target<T>& to) {
    constexpr Bit<T> SIGN = Carrier<T>::SIGN, INFINITE = Carrier<T>::INFINITE;
    const Bits<T> sign = value & SIGN, magnitude = value & ~SIGN, negative = (Bits<T>)(value < 0);
    Bits<T> result = fewer_bits<R, T>(magnitude, negative, draws, to);
    if (NARROW) {
        const Bits<T> small = (Bits<T>)(magnitude < to.smallest_normal);
        result = chosen(small, to_quantum<R, T>(magnitude, negative, draws, to), result);
    }
    Bits<T> limit = every<T>(to.beyond);
    const Bits<T> finite = (Bits<T>)(magnitude < INFINITE);
    if (R == Rounding::toward_zero || R == Rounding::odd) limit = chosen(finite, every<T>(to.largest), limit);
    if (R == Rounding::up) limit = chosen(finite & negative, every<T>(to.largest), limit);
    if (R == Rounding::down) limit = chosen(finite & ~negative, every<T>(to.largest), limit);
    result = chosen((Bits<T>)(result > to.largest), limit, result);
    result &= (Bits<T>)(result >= to.flushed);
    result |= sign & ((Bits<T>)(result != 0) | to.zero_sign);
    return chosen((Bits<T>)(magnitude > INFINITE), value, result);
}

// Return 24 random bits for an index, or for each of a vector: SplitMix64 (Steele, Lea and Flood, 2014).
template <class U> INLINE U random_bits(uint64_t seed, U index) {
    U mixed = seed + (index + 1) * 0x9E3779B97F4A7C15;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
    return (mixed ^ (mixed >> 31)) >> 40;
}

} // namespace
} // namespace precreg
