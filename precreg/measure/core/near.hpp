// The fast way for near pairs: float32 of one format, where each actual value is at most 31.5 ULPs from its reference.
//
// Each difference is then a float32, and each error a multiple of half an ULP. So one counter, chosen by the exponent of r
// and by U, counts |d| and U together, sums of errors are exact in float32, and products are exact in float64.
#pragma once

#include "job.hpp"
#include "lanes.hpp"
#include "places.hpp"
#include "reader.hpp"
#include "totals.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>

namespace precreg {
namespace {

constexpr double FLOOR = 1e-7, SMALLEST_RATIO_REFERENCE = 1e-12; // as in precreg/measure/numpy_form.py

// Written out, because compilers move counters to registers, and too few registers are left.
INLINE void count_one(uint32_t& counter) {
#if defined(__x86_64__)
    asm("addl $1, %0" : "+m"(counter) : : "cc");
#else
    counter++;
#endif
}

// Count eight values by size. Neighbours go into different tables, so that equal ones do not wait for each other.
template <uint32_t BITS> INLINE void count_sizes(const uint32_t* keys, uint32_t* const* tables) {
    for (int i = 0; i < LANES; i += 2) {
        count_one(tables[0][keys[i] & BITS]);
        count_one(tables[1][keys[i + 1] & BITS]);
    }
}

// The largest float32 at most x, and the smallest at least x: a float32 is above x if it is above the first.
inline float single_below(double x) {
    const float nearest = (float)x;
    return nearest > x ? std::nextafterf(nearest, -INFINITY) : nearest;
}
inline float single_above(double x) { return -single_below(-x); }

// Counts of near pairs in the regions of standards, in float32. Each comparison gives the result of float64.
class NearRegions {
  public:
    explicit NearRegions(const Regions& of)
        : small_end(single_above(of.small_bound)), end(single_above(std::max(of.small_bound, of.cancellation_bound))),
          threshold_end(single_above(of.threshold_bound)), small_error(single_below(of.small_error)),
          threshold_atol(single_below(of.threshold_atol)), rtol((float)of.threshold_rtol) {
        int exponent;
        multiplies_exactly = std::frexp(of.threshold_rtol, &exponent) == 0.5 && exponent <= 1 && exponent > -60;
    }
    bool multiplies_exactly; // rtol |r| is a float32 for every |r| of near pairs

    Singles region_end() const { return singles_of(end); }
    Singles violating_share() const { return singles_of(multiplies_exactly ? rtol : INFINITY); }

    __attribute__((noinline)) int64_t count_violations(const float* a, const float* r) const {
        const Singles below = singles_of(std::nextafterf(threshold_end, -INFINITY)), share = singles_of(rtol);
        Words violations = {};
        for (int i = 0; i < RUN; i += SINGLES) {
            const Singles y = load<Singles>(r + i), size = size_of(y), e = size_of(load<Singles>(a + i) - y);
            violations = count_both(size, below, e, size * share, violations);
        }
        return sum_of(violations);
    }
    // All but errors in the region of cancellation.
    __attribute__((noinline)) void count_small(const float* a, const float* r, Counts& counts) const {
        Words small = {}, all_below = {}, small_errors = {}, violations = {};
        for (int i = 0; i < RUN; i += SINGLES) {
            const Singles y = load<Singles>(r + i), size = size_of(y), e = size_of(load<Singles>(a + i) - y), none = singles_of(-1.0f);
            small = count_both(singles_of(small_end), size, size, none, small);
            all_below = count_both(singles_of(end), size, size, none, all_below);
            small_errors = count_both(singles_of(small_end), size, e, singles_of(small_error), small_errors);
            violations = count_both(singles_of(threshold_end), size, e, singles_of(threshold_atol), violations);
        }
        const int64_t of_small = sum_of(small);
        counts.small_values += of_small;
        counts.small_value_errors += sum_of(small_errors);
        counts.cancellations += sum_of(all_below) - of_small;
        counts.absolute_violations += sum_of(violations);
    }

  private:
    const float small_end, end, threshold_end, small_error, threshold_atol, rtol;
};

// Near pairs of the latest runs, which the tile of the groups still lacks. A row of the tile needs more memory than the first
// cache has; so some rows are added together, a strip of columns at a time. Each place gets its terms in the same order.
class NearTile {
  public:
    NearTile(GroupSums& groups, uint32_t to_ulps) : groups(groups), to_ulps(to_ulps) {}

    // Keep a run, which must stay where it is until it is added.
    INLINE void keep(const float* a, const float* r, int64_t position) {
        if (n == 0 || a != actual + n || r != reference + n || position != begin + n || n >= MOST_PAIRS) {
            add();
            actual = a, reference = r, begin = position;
        }
        n += RUN;
    }
    INLINE void add() {
        if (n) add_kept();
    }

  private:
    // 16 rows of 1,000 elements: 128 KB of the second cache. Rows of 512 elements leave room for the products of all.
    static constexpr int64_t MOST_PAIRS = 1 << 14;
    static constexpr int BITS_OF_FACTOR = 7; // 4 U + 1 is at most 127

    GroupSums& groups;
    const uint32_t to_ulps;
    const float *actual = nullptr, *reference = nullptr;
    int64_t begin = 0, n = 0;

    __attribute__((noinline)) void add_kept() {
        const int64_t width = groups.width, offset = begin % width, rows = n / width;
        if (rows) add_rows(0, rows, width, offset);
        if (n % width) add_rows(rows * width, 1, n % width, offset);
        n = 0;
    }
    // Add the first `count` columns of some rows that begin `from` pairs later. Their first place is `offset`.
    void add_rows(int64_t from, int64_t rows, int64_t count, int64_t offset) {
        constexpr int64_t AT_ONCE = 64;
        for (int64_t row = 0; row < rows; row += AT_ONCE) {
            const int64_t here = std::min(AT_ONCE, rows - row), at = from + row * groups.width, first = std::min(count, groups.width - offset);
            groups.make_room(BITS_OF_FACTOR * (int)here);
            add_columns(actual + at, reference + at, here, first, offset);
            add_columns(actual + at + first, reference + at + first, here, count - first, 0);
        }
    }
    void add_columns(const float* a, const float* r, int64_t rows, int64_t count, int64_t offset) {
        int64_t i = 0;
        for (; i + SINGLES <= count; i += SINGLES) add_strip<true>(a + i, r + i, rows, SINGLES, offset + i);
        if (i < count) add_strip<false>(a + i, r + i, rows, (size_t)(count - i), offset + i);
    }
    template <bool WHOLE, class V, class T> INLINE static V load_some(const T* from, size_t count) {
        if (WHOLE) return load<V>(from);
        V value = {};
        memcpy(&value, from, count * sizeof(T));
        return value;
    }
    template <bool WHOLE, class V, class T> INLINE static void store_some(T* to, V value, size_t count) {
        memcpy(to, &value, WHOLE ? sizeof value : count * sizeof(T));
    }
    struct Two {
        Doubles part[2];
    };
    template <bool WHOLE> INLINE void add_strip(const float* a, const float* r, int64_t rows, size_t columns, int64_t offset) {
        const size_t first = std::min<size_t>(columns, WIDTH), second = columns - first;
        double* const places[] = {groups.place[GroupSum::absolute] + offset, groups.place[GroupSum::signed_] + offset, groups.place[GroupSum::outward] + offset,
                                  groups.place[GroupSum::squared] + offset, groups.place[GroupSum::ulps] + offset, groups.place[GroupSum::squared_ulps] + offset,
                                  groups.mantissa + offset};
        const auto read = [&](double* from) __attribute__((always_inline)) {
            return Two{load_some<WHOLE, Doubles>(from, first), load_some<WHOLE, Doubles>(from + WIDTH, second)};
        };
        Two absolute = read(places[0]), bias = read(places[1]), outward = read(places[2]), squared = read(places[3]), ulps = read(places[4]);
        Two squared_ulps = read(places[5]), product = read(places[6]);
        const Words inverse = (Words){} + to_ulps;
        for (int64_t row = 0; row < rows; row++, a += groups.width, r += groups.width) {
            const Singles y = load_some<WHOLE, Singles>(r, columns), d = load_some<WHOLE, Singles>(a, columns) - y;
            const Singles u = size_of(d) * (Singles)(inverse - ((Words)y & EXPONENT_OF_SINGLE));
            const Doubles differences[2] = {lower_half(d), upper_half(d)}, wide[2] = {lower_half(u), upper_half(u)};
            Doubles outwards[2];
            signed_halves(d, differences, y, outwards);
            for (int half = 0; half < 2; half++) {
                absolute.part[half] += size_of(differences[half]);
                bias.part[half] += differences[half];
                outward.part[half] += outwards[half];
                squared.part[half] = exact_product_plus(differences[half], differences[half], squared.part[half]);
                ulps.part[half] += wide[half];
                squared_ulps.part[half] = exact_product_plus(wide[half], wide[half], squared_ulps.part[half]);
                product.part[half] *= exact_product_plus(wide[half], all(4.0), all(1.0)); // U ends its own bin
            }
        }
        const auto write = [&](double* to, const Two& sums) __attribute__((always_inline)) {
            store_some<WHOLE>(to, sums.part[0], first);
            store_some<WHOLE>(to + WIDTH, sums.part[1], second);
        };
        write(places[0], absolute), write(places[1], bias), write(places[2], outward), write(places[3], squared), write(places[4], ulps);
        write(places[5], squared_ulps), write(places[6], product);
    }
};

class Near {
  public:
    Near(const Job& job, State& state, Totals& totals, double tiny)
        : regions(job.regions), tile(*state.groups, INVERSE + ((uint32_t)(job.format.precision - 1) << 23)), state(state), totals(totals),
          to_ulps(INVERSE + ((uint32_t)(job.format.precision - 1) << 23)),
          smallest_binade(job.format.smallest_binade), spacing(std::ldexp(1.0, 1 - job.format.precision)),
          least_reference(std::max({2 * tiny, LEAST, smallest_binade})), // smaller ones have the ulp of that binade
          largest_reference(std::min(job.format.largest_reference, LARGEST)) {
        for (uint32_t& key : nothing.ratios) key = UNUSED_KEY;
        for (uint32_t& key : nothing.errors) key = NO_ULP;
    }

    const NearRegions regions;
    NearTile tile;
    Totals::RunSums sums;
    Lanes<Doubles> product; // of 4 U* + 1
    bool zeros; // some references, and their actual values, are zero
    int64_t zero_pairs = 0; // finish adds their ULPs, and counts their errors
    bool has_widened = false; // the latest run had no room, and has room now

    // Add a run of near pairs to all but the groups. Returns false, with nothing done, for any other run. Counters lag one
    // run behind, so that they and the arithmetic do not wait for each other. STORES keeps d, d sign(r) and U in the run.
    template <bool STORES> __attribute__((noinline)) bool add(const float* a, const float* r, Run& run) {
        Keys& next = pending == &buffers[0] ? buffers[1] : buffers[0];
        Totals::NearAdder adder(totals);
        const Errors errors = add_errors<STORES>(a, r, run, next);
        add_ratios<STORES>(a, r, run, next, adder);
        pending = &nothing;
        has_widened = false;
        if (!fits(errors, run)) return false;
        adder.commit(totals, sums);
        above += counted.positive;
        pending = &next;
        return true;
    }

    // Count the latest run in the regions of standards, if none of its references is small, or below the threshold.
    INLINE void count_regions() {
        cancellations += counted.below_end;
        violations += counted.violating;
    }

    void count_pending() {
        if (pending == &nothing) return;
        for (int i = 0; i < RUN; i += LANES) {
            count_sizes<ERROR_BITS>(pending->errors + i, state.near.counts);
            count_sizes<RATIO_BITS>(pending->ratios + i, state.table[Sketches::relative].counts);
        }
        pending = &nothing;
    }

    // Count |d| and U in the tables of their sketches, and add up ulp(r) and the pairs of equal bits.
    void finish() {
        count_pending();
        state.counts.above += sum_of(above);
        state.counts.cancellations += sum_of(cancellations);
        state.counts.relative_violations += sum_of(violations);
        const uint32_t end = std::min(1u << NEAR_BITS, (uint32_t)std::min(2 * state.maximum[Maxima::ulps], 2 * LARGEST_ULPS) + 1);
        uint32_t of_ulps[1 << NEAR_BITS] = {}; // for each multiple of half an ulp, the pairs of all exponents
        for (uint32_t exponent = lowest_exponent; exponent <= highest_exponent; exponent++) {
            const double ulp = std::ldexp(spacing, (int)exponent - 127);
            uint32_t *const first = state.near.counts[0] + (exponent << NEAR_BITS), *const second = state.near.counts[1] + (exponent << NEAR_BITS);
            int64_t pairs = 0;
            // No branch for each counter: the processor does not foresee which are zero.
            for (uint32_t half_ulps = 0; half_ulps < end; half_ulps++) {
                const uint32_t count = first[half_ulps] + second[half_ulps];
                state.table[Sketches::absolute].counts[0][key_of(half_ulps * 0.5 * ulp)] += count;
                of_ulps[half_ulps] += count;
                pairs += count;
            }
            std::fill_n(first, end, 0), std::fill_n(second, end, 0);
            if (pairs) state.sum[Sums::spacing].add((double)pairs * ulp);
        }
        state.counts.equal += of_ulps[0];
        for (uint32_t half_ulps = 0; half_ulps < end; half_ulps++)
            state.table[Sketches::ulps].counts[0][key_of(half_ulps * 0.5)] += of_ulps[half_ulps];
        state.near.counts[0][NO_ULP] = state.near.counts[1][NO_ULP] = 0;
        state.table[Sketches::absolute].counts[0][ZERO_KEY] += (uint32_t)zero_pairs;
        state.table[Sketches::ulps].counts[0][ZERO_KEY] += (uint32_t)zero_pairs;
        state.sum[Sums::spacing].add((double)zero_pairs * smallest_binade * spacing);
    }

  private:
    struct Keys {
        alignas(64) uint32_t errors[RUN], ratios[RUN];
    };
    struct Counted {
        Words positive, below_end, violating; // d > 0; |r| below both regions of standards; |d| > rtol |r|
    };
    struct Errors {
        double largest, largest_ulps, largest_reference, least_reference; // the least above zero
        bool finite;
    };
    // The exponent 0 is that of no ULP. The upper bits of these keys are those of HALF.
    static constexpr uint32_t NO_ULP = 0, ERROR_BITS = 0xFFFF, RATIO_BITS = ~0u;
    static constexpr uint32_t INVERSE = 254u << 23;  // minus the bits of 2**e: those of 2**-e
    static constexpr double LEAST = 0x1p-102;        // ulps of smaller ones have no inverse in float32
    static constexpr float HALF = 0x1p22f;          // its ulp is a half; the lower 16 bits are zero
    static constexpr double LARGEST = 0x1p126, LARGEST_ULPS = 31.5; // 2 U has NEAR_BITS bits
    static constexpr double MOST_UNITS = 0x1p24 / (RUN / SINGLES);  // a lane's sum of integers up to this is exact in float32
    static constexpr int STEP = 16;

    State& state;
    Totals& totals;
    const uint32_t to_ulps; // minus the bits of the binade of r: those of the inverse of its ulp
    const double smallest_binade, spacing, least_reference, largest_reference;
    Counted counted;                                     // of the latest run
    Words above = {}, cancellations = {}, violations = {}; // lanes of counts: a call has at most 2**28 pairs
    uint32_t lowest_exponent = 255, highest_exponent = 0;
    Keys buffers[2], nothing;
    Keys* pending = &nothing; // the keys of the run whose sizes are not counted yet

    static int key_of(double value) {
        int64_t bits;
        memcpy(&bits, &value, sizeof bits);
        return (int)((uint64_t)(bits - 1) >> KEY_SHIFT);
    }

    template <bool STORES> INLINE Errors add_errors(const float* a, const float* r, Run& run, Keys& next) {
        Singles absolute = {}, bias = {}, outward = {}, ulps = {}, squared_ulps = {}, largest = {}, largest_ulp = {}, most = {};
        Singles least = singles_of(FLT_MAX);
        Words positive = {}, below_end = {}, violating = {};
        const Singles end = regions.region_end(), share = regions.violating_share();
        Lanes<Doubles> factors = lanes_of(1.0);
        const Words inverse = (Words){} + to_ulps;
        for (int i = 0; i < RUN; i += STEP) {
#pragma GCC unroll 4
            for (int q = 0; q < STEP; q += SINGLES) {
                const Singles y = load<Singles>(r + i + q), d = load<Singles>(a + i + q) - y, e = size_of(d), size = size_of(y);
                const Words power = (Words)y & EXPONENT_OF_SINGLE; // 0 for zeros, whose d is zero
                const Singles u = e * (Singles)(inverse - power);
                absolute += e;
                bias += d;
                outward += signed_by(d, y); // d sign(r), or d is zero
                ulps += u;
                squared_ulps = exact_product_plus(u, u, squared_ulps);
                largest = larger(e, largest);
                largest_ulp = larger(u, largest_ulp);
                most = larger(size, most);
                least = smaller(size, least);
                positive = count_larger(d, (Singles){}, positive);
                below_end = count_larger(end, size, below_end);
                violating = count_larger(e, size * share, violating);
                store(next.errors + i + q, (power >> (23 - NEAR_BITS)) + (Words)(u + singles_of(HALF)));
                const Singles factor = exact_product_plus(u, singles_of(4.0f), singles_of(1.0f)); // U ends its own bin
                if (STORES) {
                    store(run.ulps + i + q, lower_half(u));
                    store(run.ulps + i + q + WIDTH, upper_half(u));
                } else {
                    factors.part[q / WIDTH % PARTS] *= lower_half(factor);
                    factors.part[(q / WIDTH + 1) % PARTS] *= upper_half(factor);
                }
            }
        }
        sums.absolute = lanes_of(absolute), sums.bias = lanes_of(bias), sums.outward = lanes_of(outward);
        sums.ulps = lanes_of(ulps), sums.squared_ulps = lanes_of(squared_ulps);
        product = factors;
        counted = {positive, below_end, violating};
        const float smallest = lowest(least);
        zeros = smallest == 0.0f;
        return {highest(largest), highest(largest_ulp), highest(most), zeros ? least_above_zero(r) : smallest, is_finite(absolute)};
    }
    template <bool STORES> INLINE void add_ratios(const float* a, const float* r, Run& run, Keys& next, Totals::NearAdder& adder) {
        Lanes<Doubles> magnitude = {}, squared = {}, largest = {}, largest_floored = {};
        const Keys& before = *pending;
        uint32_t* const errors[2] = {state.near.counts[0], state.near.counts[1]};
        uint32_t* const ratios[2] = {state.table[Sketches::relative].counts[0], state.table[Sketches::relative].counts[1]};
        for (int i = 0; i < RUN; i += STEP) {
#pragma GCC unroll 4
            for (int q = 0; q < STEP; q += SINGLES) {
                Longs below[2];
                for (int half = 0; half < 2; half++) {
                    const int at = i + q + half * WIDTH, p = (q / WIDTH + half) % PARTS;
                    const Doubles y = widen(r + at), d = widen(a + at) - y, e = size_of(d), size = size_of(y);
                    const Doubles ratio = e / larger(size, all(DBL_MIN)); // 0 / 0 is 0
                    const Doubles floored = e / (size + all(FLOOR));
                    magnitude.part[p] += size;
                    squared.part[p] = exact_product_plus(d, d, squared.part[p]);
                    largest.part[p] = larger(ratio, largest.part[p]);
                    largest_floored.part[p] = larger(floored, largest_floored.part[p]);
                    adder.add(p, d, y, ratio, floored);
                    below[half] = (Longs)ratio - 1;
                    if (STORES) {
                        store(run.d + at, d);
                        store(run.outward + at, (Doubles)((Longs)d ^ ((Longs)y & SIGN)));
                    }
                }
                store(next.ratios + i + q, upper_halves(below[0], below[1]) >> (KEY_SHIFT - 32));
            }
            count_sizes<ERROR_BITS>(before.errors + i, errors);
            count_sizes<ERROR_BITS>(before.errors + i + LANES, errors);
            count_sizes<RATIO_BITS>(before.ratios + i, ratios);
            count_sizes<RATIO_BITS>(before.ratios + i + LANES, ratios);
        }
        sums.magnitude = magnitude, sums.squared_error = squared;
        run.peak[PEAK_RELATIVE] = largest, run.peak[PEAK_FLOORED] = largest_floored;
    }

    INLINE static bool is_finite(Singles sums) {
        Words bad = (Words)(sums - sums) & UNSIGNED_SINGLE;
        return !any((Longs)bad);
    }
    __attribute__((noinline)) static double least_above_zero(const float* r) {
        Words least = (Words){} - 1; // zero is the largest, too
        for (int i = 0; i < RUN; i += SINGLES) least = smaller((Words)size_of(load<Singles>(r + i)) - 1, least);
        const uint32_t bits = lowest(least) + 1;
        if (bits == 0) return 1.0; // all references are zero
        return from_bits(bits);
    }

    // Return true if every sum of the run is exact, and if the accumulators have room for it.
    INLINE bool fits(const Errors& of, Run& run) {
        if (!of.finite || !(of.largest_ulps <= LARGEST_ULPS) || !(of.largest_reference <= largest_reference)) return false;
        if (of.least_reference < least_reference || any_above(run.peak[PEAK_RELATIVE], 0.5)) return false;
        int64_t bits;
        memcpy(&bits, &of.least_reference, sizeof bits);
        bits = (bits & EXPONENT) - ((int64_t)24 << 52);
        double unit; // half the ulp of the smallest reference: no actual value has a smaller ulp
        memcpy(&unit, &bits, sizeof unit);
        if (of.largest > MOST_UNITS * unit) return false;
        run.peak[PEAK_ABSOLUTE] = lanes_of(of.largest), run.peak[PEAK_ULPS] = lanes_of(of.largest_ulps);
        run.peak[PEAK_MAGNITUDE] = lanes_of(of.largest_reference), run.peak[PEAK_PRODUCT] = lanes_of(of.largest * of.largest_reference);
        run.least = lanes_of(zeros ? 0.0 : of.least_reference);
        if (!totals.fits(run)) return totals.widen_to(run), has_widened = true, false;
        if (!totals.keeps(unit)) return false;
        lowest_exponent = std::min(lowest_exponent, exponent_of(of.least_reference));
        highest_exponent = std::max(highest_exponent, exponent_of(of.largest_reference));
        return true;
    }
    // The biased exponent in float32.
    INLINE static uint32_t exponent_of(double reference) {
        const float single = (float)reference;
        uint32_t bits;
        memcpy(&bits, &single, sizeof bits);
        return bits >> 23;
    }
};

} // namespace
} // namespace precreg
