// Round arrays to block formats. This file is compiled once for each instruction set, into the namespace PRECREG_SET.
//
// A block is read twice: once for its largest magnitude, and again, now from the first cache, for its elements. So memory
// is read once and written once.
#include "steps.hpp"

#include <algorithm>

#ifndef PRECREG_SET
#define PRECREG_SET generic
#endif

namespace precreg {
namespace {

constexpr int64_t LARGE = 1 << 22; // bytes: larger results are stored past the caches
constexpr int LANES = Carrier<float>::LANES;
typedef Bits<float> Ints;
typedef Number<float> Floats;

// Return 2**exponent, which may be subnormal: exponents from -127 to 127.
INLINE float power_of_two(int exponent) {
    const int32_t bits = exponent == -127 ? 0x00400000 : (exponent + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

INLINE int32_t largest_lane(Ints lanes) {
#if defined(__AVX512F__)
    return _mm512_reduce_max_epi32((__m512i)lanes);
#else
    int32_t each[LANES];
    store(each, lanes);
    for (int width = LANES / 2; width; width /= 2)
        for (int i = 0; i < width; i++) each[i] = std::max(each[i], each[i + width]);
    return each[0];
#endif
}

// Return the bits of the largest magnitude of a block. NaN and infinities have the largest bits.
INLINE int32_t largest_of(const float* from, int64_t count) {
    Ints most = {};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        const Ints bits = load<Ints>(from + i) & ~Carrier<float>::SIGN;
        most = bits > most ? bits : most;
    }
    int32_t rest = 0;
    for (; i < count; i++) rest = std::max(rest, bits_of(from[i]) & ~Carrier<float>::SIGN);
    return std::max(rest, largest_lane(most));
}

// Round magnitudes to nearest even, in the thread's rounding, for a format that saturates and has subnormals.
struct Nearest {
    const Ints smallest_normal, step;
    const Floats largest;
    explicit Nearest(const Target<float>& to)
        : smallest_normal(every<float>(to.smallest_normal)), step(every<float>(to.drop << 23)), largest((Floats)every<float>(to.largest)) {}

    // The last bit of the shifter is the spacing of the format in the magnitude's binade, and its binade has the sum.
    INLINE Ints operator()(Ints magnitude) const {
        Ints binade = magnitude & Carrier<float>::INFINITE;
        binade = binade > smallest_normal ? binade : smallest_normal;
        const Floats shifter = (Floats)(binade + step);
        const Floats near = ((Floats)magnitude + shifter) - shifter;
        return (Ints)(near < largest ? near : largest);
    }
};

// Round magnitudes by any rounding to any format.
template <Rounding R> struct General {
    const Target<float> target;
    explicit General(const Target<float>& to) : target(to) {}
    INLINE Ints operator()(Ints magnitude) const { return rounded<R, true, float>(magnitude, Ints{}, target); }
};

// Rounds blocks whose scales are powers of two: of the scaled magnitudes nothing is lost but what rounds to zero.
template <class Rounded> struct PowerScaled {
    const BlockJob& job;
    const Rounded rounded_magnitude;
    const Bit<float> zero_sign;
    const bool stream_results;

    INLINE int exponent_of(int32_t largest_bits) const {
        // Subnormal numbers get exponent -127 here, and the limit of scales is not below it.
        const int binade = (largest_bits >> 23) - 127;
        const int exponent = std::max(job.least_scale, std::min(job.most_scale, binade - job.top_binade));
        if (job.rule == ScaleRule::floor || exponent == job.most_scale) return exponent;
        // The next power of two, if the scaled magnitude would pass the largest number. The product is exact.
        float magnitude;
        memcpy(&magnitude, &largest_bits, sizeof magnitude);
        return exponent + (magnitude * power_of_two(-exponent) > (float)job.format.largest);
    }

    INLINE Ints rounded_to(const void* from, Floats down, Floats up) const {
        const Ints bits = load<Ints>(from);
        const Floats scaled = (Floats)(bits & ~Carrier<float>::SIGN) * down;
        const Ints result = (Ints)((Floats)rounded_magnitude((Ints)scaled) * up);
        return result | (bits & Carrier<float>::SIGN & ((Ints)(result != 0) | zero_sign));
    }

    // Round a block; return false for one with NaN or infinities, which stays as it is.
    INLINE bool block(const float* from, float* to, int64_t count) const {
        const int32_t bits = largest_of(from, count);
        if (bits >= Carrier<float>::INFINITE) return false;
        const int exponent = exponent_of(bits);
        const Floats down = all(power_of_two(-exponent)), up = all(power_of_two(exponent));
        int64_t i = 0;
        if (stream_results)
            for (; i + LANES <= count; i += LANES) stream(to + i, rounded_to(from + i, down, up));
        for (; i + LANES <= count; i += LANES) store(to + i, rounded_to(from + i, down, up));
        if (i < count) {
            float some[LANES] = {};
            memcpy(some, from + i, (size_t)(count - i) * sizeof(float));
            store(some, rounded_to(some, down, up));
            memcpy(to + i, some, (size_t)(count - i) * sizeof(float));
        }
        return true;
    }

    int64_t pass() const {
        int64_t left = 0;
        for (int64_t row = 0; row < job.rows; row++)
            for (int64_t place = 0; place < job.columns; place += job.length) {
                const int64_t at = row * job.columns + place;
                left += !block(job.values + at, job.results + at, std::min(job.length, job.columns - place));
            }
        if (stream_results) finish_streaming();
        return left;
    }
};

// Return true if the results are large, and all vectors of them are aligned.
template <class Job> bool streams(const Job& job) {
    const bool aligned = (uintptr_t)job.results % BYTES == 0 && job.length % LANES == 0 && job.columns % LANES == 0;
    return aligned && job.rows * job.columns * (int64_t)sizeof(float) >= LARGE && job.results != job.values;
}

template <class Rounded> int64_t pass(const BlockJob& job) {
    const Target<float> target(job.format);
    return PowerScaled<Rounded>{job, Rounded(target), target.zero_sign, streams(job)}.pass();
}

// Rounds quotients of values by the divisor of their block, and multiplies them by the factor of their block. No remainder
// that matters underflows, because Python leaves out divisors below 2**-60.
template <class Rounded> struct Quotients {
    const QuotientJob& job;
    const Rounded rounded_magnitude;
    const Bit<float> zero_sign;
    const bool stream_results;
    const Floats bound; // beyond the largest number, where all roundings saturate, and within the range of shifters

    INLINE Ints at(const void* from, Floats divisor, Floats factor) const {
        const Ints bits = load<Ints>(from);
        Ints magnitude = bits & ~Carrier<float>::SIGN;
        const Ints finite = (Ints)(magnitude < Carrier<float>::INFINITE);
        magnitude &= finite;
        const Floats nearest = (Floats)magnitude / divisor;
        const Floats lost = fused<float>(-nearest, divisor, (Floats)magnitude);
        // To odd (Boldo and Melquiond, 2008), so that rounding again to far fewer bits is as rounding once.
        const Ints inexact = (Ints)(lost < 0) | (Ints)(lost > 0), even = ((Ints)nearest & 1) - 1;
        Floats odd = (Floats)((Ints)nearest + (inexact & even & (1 | (Ints)(lost < 0))));
        odd = odd < bound ? odd : bound;
        const Ints result = rounded_magnitude((Ints)odd);
        const Ints sign = bits & finite & Carrier<float>::SIGN & ((Ints)(result != 0) | zero_sign);
        return (Ints)((Floats)(result | sign) * factor);
    }

    void block(const float* from, float* to, int64_t count, float divisor, float factor) const {
        const Floats down = all(divisor), up = all(factor);
        int64_t i = 0;
        if (stream_results)
            for (; i + LANES <= count; i += LANES) stream(to + i, at(from + i, down, up));
        for (; i + LANES <= count; i += LANES) store(to + i, at(from + i, down, up));
        if (i == count) return;
        float some[LANES] = {};
        memcpy(some, from + i, (size_t)(count - i) * sizeof(float));
        store(some, at(some, down, up));
        memcpy(to + i, some, (size_t)(count - i) * sizeof(float));
    }

    void pass() const {
        int64_t number = 0;
        for (int64_t row = 0; row < job.rows; row++)
            for (int64_t place = 0; place < job.columns; place += job.length, number++) {
                const int64_t at = row * job.columns + place;
                block(job.values + at, job.results + at, std::min(job.length, job.columns - place), job.divisors[number], job.factors[number]);
            }
        if (stream_results) finish_streaming();
    }
};

template <class Rounded> void quotients(const QuotientJob& job) {
    const Target<float> target(job.format);
    Quotients<Rounded>{job, Rounded(target), target.zero_sign, streams(job), all((float)job.format.largest * 2)}.pass();
}

} // namespace

namespace PRECREG_SET {

int64_t round_blocks(const BlockJob& job) {
    switch (job.rounding) {
    case Rounding::nearest_even:
        if (job.format.subnormals && job.format.overflow == job.format.largest) return pass<Nearest>(job);
        return pass<General<Rounding::nearest_even>>(job);
    case Rounding::nearest_away: return pass<General<Rounding::nearest_away>>(job);
    default: return pass<General<Rounding::toward_zero>>(job);
    }
}

void block_maxima(const MaximaJob& job) {
    int64_t number = 0;
    for (int64_t row = 0; row < job.rows; row++)
        for (int64_t place = 0; place < job.columns; place += job.length) {
            const int32_t bits = largest_of(job.values + row * job.columns + place, std::min(job.length, job.columns - place));
            memcpy(job.results + number++, &bits, sizeof bits);
        }
}

void round_quotients(const QuotientJob& job) {
    switch (job.rounding) {
    case Rounding::nearest_even:
        if (job.format.subnormals && job.format.overflow == job.format.largest) return quotients<Nearest>(job);
        return quotients<General<Rounding::nearest_even>>(job);
    case Rounding::nearest_away: return quotients<General<Rounding::nearest_away>>(job);
    default: return quotients<General<Rounding::toward_zero>>(job);
    }
}

} // namespace PRECREG_SET
} // namespace precreg
