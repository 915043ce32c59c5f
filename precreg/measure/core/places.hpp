// Add the errors of a run to the groups of its pairs.
#pragma once

#include "groups.hpp"
#include "lanes.hpp"
#include "totals.hpp"

namespace precreg {
namespace {

INLINE void add_at(double* sums, Doubles terms) { store(sums, load<Doubles>(sums) + terms); }

// U* + 1/4 in parts: a mantissa in [1, 2), and the exponent of 4 U* + 1. U* is the upper end of U's bin.
struct Factor {
    Doubles mantissa;
    Longs exponent;
};
constexpr int64_t BELOW_KEY = ((int64_t)1 << KEY_SHIFT) - 1, QUARTER = (int64_t)1021 << 52;
constexpr double LARGEST_WHOLE = 7.75; // up to this U*, 4 U* + 1 is at most 2**BITS_OF_WHOLE
constexpr int BITS_OF_WHOLE = 5;
constexpr double LARGEST_END = 0x1.FEp1023; // the largest finite end of a bin

INLINE Factor factor_of(Doubles ulps) {
    const Doubles end = (Doubles)((((ULongs)ulps - 1) | BELOW_KEY) + 1);
    const Longs bits = (Longs)(end + all(0.25));
    return {(Doubles)((bits & MANTISSA) | ONE), (Longs)((ULongs)(bits - QUARTER) >> 52)};
}

// The same for one U.
INLINE Product product_of(double ulps) {
    int64_t bits;
    memcpy(&bits, &ulps, sizeof bits);
    bits = (int64_t)((((uint64_t)bits - 1) | BELOW_KEY) + 1);
    double end;
    memcpy(&end, &bits, sizeof end);
    end += 0.25;
    memcpy(&bits, &end, sizeof bits);
    const int64_t exponent = (bits - QUARTER) >> 52;
    bits = (bits & MANTISSA) | ONE;
    memcpy(&end, &bits, sizeof end);
    return {end, exponent};
}

// 4 U* + 1 as one number, where it is small enough that the product of some is finite.
INLINE Doubles whole_factor_of(Doubles ulps) {
    return (Doubles)((((ULongs)ulps - 1) | BELOW_KEY) + 1) * all(4.0) + all(1.0);
}

// Multiply the product at each place with its factor.
template <bool WHOLE> INLINE void multiply_at(double* mantissas, int64_t* exponents, Doubles ulps) {
    if (WHOLE) return store(mantissas, load<Doubles>(mantissas) * whole_factor_of(ulps));
    const Factor by = factor_of(ulps);
    store(mantissas, load<Doubles>(mantissas) * by.mantissa);
    store(exponents, load<Longs>(exponents) + by.exponent);
}

template <bool WHOLE>
void add_to_tile(GroupSums& groups, const double* d, const double* out, const double* ulps, int n, int64_t position) {
    int64_t offset = position % groups.width;
    while (n > 0) {
        const int here = (int)(n < groups.width - offset ? n : groups.width - offset);
        double *const absolute = groups.place[GroupSum::absolute] + offset, *const bias = groups.place[GroupSum::signed_] + offset;
        double *const outward = groups.place[GroupSum::outward] + offset;
        double *const squared_ulp = groups.place[GroupSum::squared_ulps] + offset;
        double *const squared = groups.place[GroupSum::squared] + offset, *const ulp = groups.place[GroupSum::ulps] + offset;
        double* const mantissas = groups.mantissa + offset;
        int64_t* const exponents = groups.exponent + offset;
        int i = 0;
        for (; i + WIDTH <= here; i += WIDTH) {
            const Doubles difference = load<Doubles>(d + i);
            add_at(absolute + i, size_of(difference));
            const Doubles u = load<Doubles>(ulps + i);
            add_at(bias + i, difference);
            add_at(outward + i, load<Doubles>(out + i));
            add_at(squared + i, difference * difference);
            add_at(ulp + i, u);
            add_at(squared_ulp + i, u * u);
            multiply_at<WHOLE>(mantissas + i, exponents + i, u);
        }
        for (; i < here; i++) {
            absolute[i] += __builtin_fabs(d[i]);
            bias[i] += d[i];
            outward[i] += out[i];
            squared[i] += d[i] * d[i];
            ulp[i] += ulps[i];
            squared_ulp[i] += ulps[i] * ulps[i];
            const Product by = product_of(ulps[i]);
            mantissas[i] *= WHOLE ? std::ldexp(by.mantissa, (int)by.exponent) : by.mantissa;
            exponents[i] += WHOLE ? 0 : by.exponent;
        }
        d += here, out += here, ulps += here, n -= here, offset = 0;
    }
}

void add_to_stretch(GroupSums& groups, const double* d, const double* out, const double* ulps, int n) {
    Lanes<Doubles> absolute = {}, bias = {}, outward = {}, squared = {}, ulp = {}, squared_ulp = {}, mantissas = lanes_of(1.0);
    Lanes<Longs> exponents = {};
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int p = 0; p < PARTS; p++) {
            const Doubles difference = load<Doubles>(d + i + p * WIDTH);
            absolute.part[p] += size_of(difference);
            bias.part[p] += difference;
            outward.part[p] += load<Doubles>(out + i + p * WIDTH);
            squared.part[p] += difference * difference;
            const Doubles u = load<Doubles>(ulps + i + p * WIDTH);
            const Factor factor = factor_of(u);
            ulp.part[p] += u;
            squared_ulp.part[p] += u * u;
            mantissas.part[p] *= factor.mantissa; // at most RUN / LANES times
            exponents.part[p] += factor.exponent;
        }
    groups.of_stretch.times(product_of(mantissas), sum_of(exponents));
    double sums[ADDED] = {sum_of(absolute), sum_of(bias), sum_of(outward), sum_of(squared), sum_of(ulp), sum_of(squared_ulp)};
    for (; i < n; i++) {
        sums[GroupSum::absolute] += __builtin_fabs(d[i]);
        sums[GroupSum::signed_] += d[i];
        sums[GroupSum::outward] += out[i];
        sums[GroupSum::squared] += d[i] * d[i];
        sums[GroupSum::ulps] += ulps[i];
        sums[GroupSum::squared_ulps] += ulps[i] * ulps[i];
        const Product by = product_of(ulps[i]);
        groups.of_stretch.times(by.mantissa, by.exponent);
    }
    for (int s = 0; s < ADDED; s++) groups.stretch[s] += sums[s];
}

// (U* 4 + 1), for a product of few. Multiplying by whole numbers rounds as multiplying by their mantissas does.
INLINE Doubles end_of(Doubles ulps) { return (Doubles)(((Longs)ulps + BELOW_KEY) & ~BELOW_KEY); }

// Add the sums of a run, which have the lanes of add_to_stretch above, or are exact, so that their order is of no account.
INLINE void add_to_stretch(GroupSums& groups, const Totals::RunSums& of, const Lanes<Doubles>& product) {
    Lanes<Doubles> mantissas;
    Lanes<Longs> exponents;
    for (int p = 0; p < PARTS; p++) {
        const Longs bits = (Longs)product.part[p];
        mantissas.part[p] = (Doubles)((bits & MANTISSA) | ONE);
        exponents.part[p] = (Longs)((ULongs)(bits - ONE) >> 52);
    }
    groups.of_stretch.times(product_of(mantissas), sum_of(exponents));
    const double sums[ADDED] = {sum_of(of.absolute), sum_of(of.bias), sum_of(of.outward), sum_of(of.squared_error), sum_of(of.ulps), sum_of(of.squared_ulps)};
    for (int s = 0; s < ADDED; s++) groups.stretch[s] += sums[s];
}

INLINE void add_to_stretches(GroupSums& groups, const Run& run, int n, int64_t position) {
    for (int done = 0; done < n;) {
        const int64_t at = position + done;
        if (at >= groups.stretch_end) groups.open_stretch(at);
        const int here = (int)(n - done < groups.stretch_end - at ? n - done : groups.stretch_end - at);
        add_to_stretch(groups, run.d + done, run.outward + done, run.ulps + done, here);
        done += here;
    }
}

INLINE void add_to_groups(GroupSums& groups, const Run& run, int n, int64_t position) {
    if (groups.width) {
        const bool whole = !any_above(run.peak[PEAK_ULPS], LARGEST_WHOLE);
        groups.make_room(whole ? BITS_OF_WHOLE : 1);
        if (whole) add_to_tile<true>(groups, run.d, run.outward, run.ulps, n, position);
        else add_to_tile<false>(groups, run.d, run.outward, run.ulps, n, position);
    }
    if (__builtin_expect(any_above(run.peak[PEAK_ULPS], LARGEST_END), 0))
        for (int i = 0; i < n; i++)
            if (run.ulps[i] > LARGEST_END) groups.overflow(position + i);
    if (groups.in_stretches) add_to_stretches(groups, run, n, position);
}

} // namespace
} // namespace precreg
