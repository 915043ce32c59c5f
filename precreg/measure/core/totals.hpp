// Sums without rounding, by extraction (Ogita, Rump, Oishi 2008).
//
// An accumulator starts at a power of two far above its terms, so that each addition rounds to a fixed grid and is exact
// on it. A second accumulator takes the rests of these roundings; its own rounding is 2**-70 of the sum. Sums of d and
// of r * d may cancel, so that not even this may be lost. Where it would be, add_exactly adds the terms of the run level
// by level until no rest is left.
#pragma once

#include "job.hpp"
#include "lanes.hpp"

#include <cfloat>
#include <cmath>
#include <cstring>

namespace precreg {
namespace {

constexpr int RUNS_IN_BLOCK = 64; // 1024 terms a lane, which HEADROOM allows
constexpr int HEADROOM = 12;      // 1024 terms a lane stay below 2**10 times the largest, and so within half a binade
constexpr double LOW_SHARE = 0x1p-41; // 2**(HEADROOM - 53)
constexpr double OUT_OF_RANGE = 0x1p900; // larger terms are added slowly: accumulators start 2**12 times above their terms
// Products are scaled outside these bounds, so that none overflows and none loses bits to subnormal numbers.
// Squares of ULPs outside these bounds overflow, or lose bits to subnormal numbers.
constexpr double LARGE_ULPS = 0x1p440, SMALL_ULPS = 0x1p-440;
constexpr double LARGE = 0x1p400, SMALL = 0x1p-400, SMALL_ERROR = 0x1p-480, SMALL_PRODUCT = 0x1p-900;
constexpr double SCALES[3] = {0x1p-600, 1.0, 0x1p600}; // indexed by 1 + scale

enum Peak { PEAK_ABSOLUTE, PEAK_RELATIVE, PEAK_FLOORED, PEAK_ULPS, PEAK_MAGNITUDE, PEAK_PRODUCT, PEAKS };

// The terms of up to 128 pairs; pairs of zeros fill the rest.
struct Run {
    alignas(64) double counts[RUN]; // 1, or 0 for a pair of zeros that fills a gap
    alignas(64) double d[RUN], r[RUN], outward[RUN], ratio[RUN], floored[RUN], ulps[RUN];
    Lanes<Doubles> peak[PEAKS];
    Lanes<Doubles> least;        // the smallest |r|
    int64_t matching, equal, above;
};

// Two accumulators of one sum, and their starting values.
struct Accumulator {
    Lanes<Doubles> high, low;
    double origin, low_origin;

    void start(double largest_term) {
        origin = 1.5 * (largest_term * (1 << HEADROOM));
        low_origin = origin * LOW_SHARE;
        high = lanes_of(origin);
        low = lanes_of(low_origin);
    }
    void add(const Lanes<Doubles>& terms) {
        for (int p = 0; p < PARTS; p++) {
            const Doubles sum = high.part[p] + terms.part[p];
            low.part[p] += terms.part[p] - (sum - high.part[p]);
            high.part[p] = sum;
        }
    }
    void empty_into(Exact& sum) const {
        Lanes<Doubles> first = high, second = low;
        for (int p = 0; p < PARTS; p++) first.part[p] -= all(origin), second.part[p] -= all(low_origin);
        sum.add(sum_of(first));
        sum.add(sum_of(second));
    }
};

INLINE double power_above(double x) {
    if (x < DBL_MIN) return x > 0 ? std::ldexp(1.0, std::ilogb(x) + 1) : 0.0;
    int64_t bits; // not ldexp: the first runs of a call raise the powers of 13 sums several times
    memcpy(&bits, &x, sizeof bits);
    bits = (bits & EXPONENT) + ((int64_t)1 << 52);
    memcpy(&x, &bits, sizeof x);
    return x;
}

// Add finite terms of any range exactly. Overwrites `terms`.
void add_exactly(double* terms, Exact& sum) {
    for (;;) {
        Lanes<Doubles> peak = {};
        for (int i = 0; i < RUN; i += LANES)
            for (int p = 0; p < PARTS; p++) peak.part[p] = larger(size_of(load<Doubles>(terms + i + p * WIDTH)), peak.part[p]);
        const double largest = highest(peak);
        if (largest == 0.0) return;
        const double origin = 1.5 * (power_above(largest) * (1 << HEADROOM));
        Lanes<Doubles> total = {};
        for (int i = 0; i < RUN; i += LANES)
            for (int p = 0; p < PARTS; p++) {
                const Doubles term = load<Doubles>(terms + i + p * WIDTH), on_grid = (all(origin) + term) - all(origin);
                total.part[p] += on_grid;
                store(terms + i + p * WIDTH, term - on_grid);
            }
        sum.add(sum_of(total));
    }
}

class Totals {
  public:
    Totals(State& state, const Format& format, bool wide)
        : state(state), spacing(std::ldexp(1.0, 1 - format.precision)), smallest_binade(format.smallest_binade), wide(wide) {
        start();
    }

    bool scaled() const { return error_scale || reference_scale; }
    bool has_room() const { return runs < RUNS_IN_BLOCK; }
    void begin_block() {
        flush();
        start();
    }
    void flush() {
        for (int s = 0; s < Sums::SIZE; s++) of[s].empty_into(destination(s));
    }

    // The accumulators during one run: by name, because compilers keep arrays in memory. ON_GRID serves runs whose |d|, d,
    // d sign(r), U, ulp(r) and |r| lie on the grids of their first accumulators; SCALED serves scaled products.
    template <bool ON_GRID, bool SCALED> struct Adder {
        struct Sum {
            Lanes<Doubles> high, low;

            INLINE void one_step(int p, Doubles term) {
                if (ON_GRID) high.part[p] += term; else two_step(p, term);
            }
            INLINE void two_step(int p, Doubles term) {
                const Doubles sum = high.part[p] + term;
                low.part[p] += term - (sum - high.part[p]);
                high.part[p] = sum;
            }
            // Returns bits other than the sign's where the second accumulator loses bits.
            INLINE Longs two_step_and_check(int p, Doubles term) {
                const Doubles sum = high.part[p] + term, rest = term - (sum - high.part[p]), low_sum = low.part[p] + rest;
                const Longs lost = (Longs)rest ^ (Longs)(low_sum - low.part[p]);
                low.part[p] = low_sum;
                high.part[p] = sum;
                return lost;
            }
        };
        Sum absolute, bias, outward, relative, floored, ulps, squared_ulps, spacing, magnitude, squared_error, squared_reference, product, weighted;
        Doubles scale_d, scale_r, unit;
        Longs lost = {};

        INLINE explicit Adder(Totals& totals) {
            each([&](int s, Sum& sum) __attribute__((always_inline)) { sum = {totals.of[s].high, totals.of[s].low}; });
            scale_d = all(SCALES[1 + totals.error_scale]);
            scale_r = all(SCALES[1 + totals.reference_scale]);
            unit = all(totals.spacing);
        }
        template <class Do> INLINE void each(Do with) {
            with(Sums::absolute, absolute), with(Sums::signed_, bias), with(Sums::outward, outward), with(Sums::relative, relative), with(Sums::floored, floored);
            with(Sums::ulps, ulps), with(Sums::squared_ulps, squared_ulps), with(Sums::spacing, spacing), with(Sums::magnitude, magnitude);
            with(Sums::squared_error, squared_error), with(Sums::squared_reference, squared_reference);
            with(Sums::product, product), with(Sums::weighted_error, weighted);
        }
        INLINE void add_errors(int p, Doubles d, Doubles e, Doubles out, Doubles r, Doubles size, Doubles power, Doubles u) {
            absolute.one_step(p, e);
            if (ON_GRID) bias.one_step(p, d); else lost |= bias.two_step_and_check(p, d);
            if (ON_GRID) outward.one_step(p, out); else lost |= outward.two_step_and_check(p, out);
            ulps.one_step(p, u);
            squared_ulps.two_step(p, u * u);
            spacing.one_step(p, power * unit);
            magnitude.one_step(p, size);
            if (SCALED) d *= scale_d, r *= scale_r;
            const Doubles rd = r * d;
            squared_error.two_step(p, d * d);
            squared_reference.two_step(p, r * r);
            if (ON_GRID) product.two_step(p, rd); else lost |= product.two_step_and_check(p, rd);
            weighted.two_step(p, size_of(rd));
        }
        INLINE void add_quotients(int p, Doubles ratio, Doubles floored_ratio) {
            relative.two_step(p, ratio);
            floored.two_step(p, floored_ratio);
        }
        // Return true if a NaN or an infinity came in, or if a sum that may cancel lost bits.
        INLINE bool failed() const {
            Longs bad = lost & UNSIGNED;
            for (int p = 0; p < PARTS; p++) bad |= (Longs)(absolute.high.part[p] - absolute.high.part[p] != all(0.0));
            return any(bad);
        }
        INLINE bool lossless() const { return !any(lost & UNSIGNED); }
        INLINE void commit(Totals& totals) {
            each([&](int s, Sum& sum) __attribute__((always_inline)) { totals.of[s].high = sum.high, totals.of[s].low = sum.low; });
            totals.runs++;
        }
        INLINE void commit_all_but_cancelling(Totals& totals) {
            bias = {totals.of[Sums::signed_].high, totals.of[Sums::signed_].low};
            outward = {totals.of[Sums::outward].high, totals.of[Sums::outward].low};
            product = {totals.of[Sums::product].high, totals.of[Sums::product].low};
            commit(totals);
        }
    };

    // Add the terms of any run. Overwrites d and d sign(r).
    void add(Run& run) {
        if (!make_room(run)) return add_slowly(run);
        if (!has_room()) begin_block();
        Adder<false, true> adder(*this);
        for (int i = 0; i < RUN; i += LANES)
            for (int p = 0; p < PARTS; p++) {
                const int at = i + p * WIDTH;
                const Doubles d = load<Doubles>(run.d + at), r = load<Doubles>(run.r + at);
                const Doubles power = power_of(r) * load<Doubles>(run.counts + at);
                adder.add_errors(p, d, size_of(d), load<Doubles>(run.outward + at), r, size_of(r), power, load<Doubles>(run.ulps + at));
                adder.add_quotients(p, load<Doubles>(run.ratio + at), load<Doubles>(run.floored + at));
            }
        if (adder.lossless()) return adder.commit(*this);
        adder.commit_all_but_cancelling(*this);
        alignas(64) double products[RUN];
        for (int i = 0; i < RUN; i++) products[i] = run.r[i] * SCALES[1 + reference_scale] * (run.d[i] * SCALES[1 + error_scale]);
        add_exactly(products, destination(Sums::product));
        add_exactly(run.d, state.sum[Sums::signed_]);
        add_exactly(run.outward, state.sum[Sums::outward]);
    }

    // The same for bit-identical pairs: only three of their sums are not zero, and that of the binades of a run is exact.
    // SINGLE serves float32, whose squares are exact in float64, as is the sum of |r| of a run that fits.
    template <bool SINGLE> struct IdenticalAdder {
        typename Adder<SINGLE, false>::Sum magnitude, squared;

        INLINE explicit IdenticalAdder(const Totals& totals)
            : squared{totals.of[Sums::squared_reference].high, totals.of[Sums::squared_reference].low} {
            if (SINGLE) magnitude = {};
            else magnitude = {totals.of[Sums::magnitude].high, totals.of[Sums::magnitude].low};
        }
        INLINE void add(int p, Doubles size) {
            magnitude.one_step(p, size);
            if (!SINGLE) return squared.two_step(p, size * size);
            const Doubles sum = exact_product_plus(size, size, squared.high.part[p]);
            squared.low.part[p] += exact_product_minus(size, size, sum - squared.high.part[p]);
            squared.high.part[p] = sum;
        }
        INLINE void commit(Totals& totals, Lanes<Doubles> binades) const {
            for (int p = 0; p < PARTS; p++) binades.part[p] *= all(totals.spacing);
            totals.of[Sums::spacing].add(binades);
            if (SINGLE) totals.of[Sums::magnitude].add(magnitude.high);
            else totals.of[Sums::magnitude].high = magnitude.high, totals.of[Sums::magnitude].low = magnitude.low;
            totals.of[Sums::squared_reference].high = squared.high, totals.of[Sums::squared_reference].low = squared.low;
            totals.runs++;
        }
    };

    // The sums over the pairs of one run, which are exact in every order (near.hpp).
    struct RunSums {
        Lanes<Doubles> absolute = {}, bias = {}, outward = {}, ulps = {}, squared_ulps = {}, magnitude = {}, squared_error = {};
    };

    // The same for close pairs. RunSums has their sums of d, of U and of the binades of r.
    struct CloseAdder {
        typename Adder<false, false>::Sum relative, floored, squared_ulps, magnitude, squared_error, squared_reference, product, weighted;
        Longs lost = {};

        INLINE explicit CloseAdder(const Totals& totals) {
            const auto take = [&](int s, auto& sum) __attribute__((always_inline)) { sum = {totals.of[s].high, totals.of[s].low}; };
            take(Sums::relative, relative), take(Sums::floored, floored), take(Sums::squared_ulps, squared_ulps), take(Sums::magnitude, magnitude);
            take(Sums::squared_error, squared_error), take(Sums::squared_reference, squared_reference);
            take(Sums::product, product), take(Sums::weighted_error, weighted);
        }
        INLINE void add_references(int p, Doubles d, Doubles r, Doubles size) {
            magnitude.two_step(p, size);
            squared_reference.two_step(p, r * r);
            // |r d| has the two parts of r d, with the sign of r d taken from each.
            const Doubles rd = r * d, sum = product.high.part[p] + rd, part = sum - product.high.part[p], rest = rd - part;
            const Doubles low_sum = product.low.part[p] + rest;
            lost |= (Longs)rest ^ (Longs)(low_sum - product.low.part[p]);
            product.low.part[p] = low_sum;
            product.high.part[p] = sum;
            weighted.high.part[p] += signed_by(part, rd);
            weighted.low.part[p] += signed_by(rest, rd);
        }
        INLINE bool lossless() const { return !any(lost & UNSIGNED); }
        // Products that lost bits are left out.
        INLINE void commit(Totals& totals, const RunSums& run, const Lanes<Doubles>& binades) const {
            const auto give = [&](int s, const auto& sum) __attribute__((always_inline)) { totals.of[s].high = sum.high, totals.of[s].low = sum.low; };
            give(Sums::relative, relative), give(Sums::floored, floored), give(Sums::squared_ulps, squared_ulps), give(Sums::magnitude, magnitude);
            give(Sums::squared_error, squared_error), give(Sums::squared_reference, squared_reference);
            give(Sums::weighted_error, weighted);
            if (lossless()) give(Sums::product, product);
            totals.of[Sums::absolute].add(run.absolute);
            totals.of[Sums::signed_].add(run.bias);
            totals.of[Sums::outward].add(run.outward);
            totals.of[Sums::ulps].add(run.ulps);
            Lanes<Doubles> spacings = binades;
            for (int p = 0; p < PARTS; p++) spacings.part[p] *= all(totals.spacing);
            totals.of[Sums::spacing].add(spacings);
            totals.runs++;
        }
    };

    // The same for near pairs (near.hpp), whose products are exact. The other sums of their run are RunSums.
    struct NearAdder {
        typename Adder<true, false>::Sum relative, floored, squared_reference, product, weighted;

        INLINE explicit NearAdder(const Totals& totals)
            : relative{totals.of[Sums::relative].high, totals.of[Sums::relative].low},
              floored{totals.of[Sums::floored].high, totals.of[Sums::floored].low},
              squared_reference{totals.of[Sums::squared_reference].high, totals.of[Sums::squared_reference].low},
              product{totals.of[Sums::product].high, totals.of[Sums::product].low},
              weighted{totals.of[Sums::weighted_error].high, totals.of[Sums::weighted_error].low} {}
        INLINE void add(int p, Doubles d, Doubles r, Doubles ratio, Doubles floored_ratio) {
            relative.two_step(p, ratio);
            floored.two_step(p, floored_ratio);
            const Doubles square = exact_product_plus(r, r, squared_reference.high.part[p]);
            squared_reference.low.part[p] += exact_product_minus(r, r, square - squared_reference.high.part[p]);
            squared_reference.high.part[p] = square;
            // |r d| has the two parts of r d, with the sign of r d taken from each.
            const Doubles sum = exact_product_plus(r, d, product.high.part[p]), part = sum - product.high.part[p];
            const Doubles rest = exact_product_minus(r, d, part);
            const Doubles sign = (Doubles)((Longs)r ^ (Longs)d);
            product.low.part[p] += rest;
            product.high.part[p] = sum;
            weighted.high.part[p] += signed_by(part, sign);
            weighted.low.part[p] += signed_by(rest, sign);
        }
        INLINE void commit(Totals& totals, const RunSums& run) const {
            totals.of[Sums::relative].high = relative.high, totals.of[Sums::relative].low = relative.low;
            totals.of[Sums::floored].high = floored.high, totals.of[Sums::floored].low = floored.low;
            totals.of[Sums::squared_reference].high = squared_reference.high, totals.of[Sums::squared_reference].low = squared_reference.low;
            totals.of[Sums::product].high = product.high, totals.of[Sums::product].low = product.low;
            totals.of[Sums::weighted_error].high = weighted.high, totals.of[Sums::weighted_error].low = weighted.low;
            totals.of[Sums::absolute].add(run.absolute);
            totals.of[Sums::signed_].add(run.bias);
            totals.of[Sums::outward].add(run.outward);
            totals.of[Sums::ulps].add(run.ulps);
            totals.of[Sums::squared_ulps].add(run.squared_ulps);
            totals.of[Sums::magnitude].add(run.magnitude);
            totals.of[Sums::squared_error].add(run.squared_error);
            totals.runs++;
        }
    };

    // Return true if no sum of near pairs loses bits. Their numbers are multiples of `unit`, and the second accumulator
    // of a sum keeps multiples of 2**-80 of its largest term.
    bool keeps(double unit) const { return keeps_errors(unit) && unit * unit >= cap[PEAK_PRODUCT] * 0x1p-80; }
    bool keeps_errors(double unit) const { return unit >= cap[PEAK_ABSOLUTE] * 0x1p-80; }

    // Restart the accumulators with room for the peaks of a run, if no products must be scaled. The peak of products may be a
    // bound.
    void widen_to(const Run& run) {
        const double error = highest(run.peak[PEAK_ABSOLUTE]), magnitude = highest(run.peak[PEAK_MAGNITUDE]);
        const bool ordinary = error >= SMALL && error <= LARGE && magnitude >= SMALL && magnitude <= LARGE;
        if (!wide || (!scaled() && ordinary && error * magnitude >= SMALL_PRODUCT)) make_room(run);
    }

    // Return true if the accumulators have room for every term of a run, with products that are not scaled.
    bool fits(const Run& run) const {
        Longs too_large = {};
        for (int m = 0; m < PEAKS; m++) too_large |= above(run.peak[m], cap[m]);
        if (any(too_large)) return false;
        if (!wide) return true;
        const double error = highest(run.peak[PEAK_ABSOLUTE]);
        return !scaled() && scale_for(error, SMALL_ERROR, 0) == 0 && scale_for(highest(run.peak[PEAK_MAGNITUDE]), SMALL, 0) == 0 &&
               (error == 0.0 || highest(run.peak[PEAK_PRODUCT]) >= SMALL_PRODUCT);
    }

    // Return true if |d|, d, U, ulp(r) and |r| of a run of float32 lie on the grids of their accumulators: each is a
    // multiple of the ulp of the smallest number.
    bool on_grid(const Run& run) const {
        if (any_above(run.peak[PEAK_RELATIVE], 0.5)) return false;
        const double least = lowest(run.least) * 0.5; // no |a| is smaller
        int64_t bits;
        memcpy(&bits, &least, sizeof bits);
        if (bits < (int64_t)40 << 52) return false; // the ulp below would not be a normal number
        bits = (bits & EXPONENT) + ((int64_t)(53 - HEADROOM - 1 - 23) << 52);
        double unit; // the ulp of the smallest, times 2**40
        memcpy(&unit, &bits, sizeof unit);
        return unit >= largest_on_grid;
    }

  private:
    State& state;
    const double spacing, smallest_binade;
    const bool wide; // float64 on either side
    double cap[PEAKS] = {}, largest_on_grid = 0.0;
    int error_scale = 0, reference_scale = 0; // -1, 0, 1: errors and references are multiplied by 2**(600 * that)
    int runs = 0;
    Accumulator of[Sums::SIZE];

    INLINE Doubles power_of(Doubles r) const {
        return larger((Doubles)((Longs)r & EXPONENT), all(smallest_binade));
    }

    Exact& destination(int s) {
        const int degree = s == Sums::squared_error ? 2 * error_scale
                         : s == Sums::squared_reference ? 2 * reference_scale
                         : s == Sums::product || s == Sums::weighted_error ? error_scale + reference_scale : 0;
        return degree ? state.scaled[s][degree + 2] : state.sum[s];
    }

    void start() {
        const double e = cap[PEAK_ABSOLUTE], r = cap[PEAK_MAGNITUDE];
        const double binade = std::fmax(r, smallest_binade);
        const double es = e * SCALES[1 + error_scale], rs = r * SCALES[1 + reference_scale];
        const double product = cap[PEAK_PRODUCT], u = cap[PEAK_ULPS];
        const double largest[] = {e, e, e, cap[PEAK_RELATIVE], cap[PEAK_FLOORED], u, u * u, binade * spacing, r,
                                  es * es, rs * rs, product, product};
        static_assert(sizeof largest / sizeof *largest == Sums::SIZE, "every sum starts from its largest term");
        for (int s = 0; s < Sums::SIZE; s++) of[s].start(largest[s]);
        largest_on_grid = std::fmax(std::fmax(e, r), cap[PEAK_ULPS] * binade * spacing);
        runs = 0;
    }

    static int scale_for(double peak, double small, int current) {
        return peak == 0.0 ? current : peak < small ? 1 : peak > LARGE ? -1 : 0;
    }

    // Restart the accumulators if they have no room for this run. Returns false for terms out of their range.
    bool make_room(const Run& run) {
        double most[PEAKS];
        for (int m = 0; m < PEAKS; m++) most[m] = highest(run.peak[m]);
        const int errors = wide ? scale_for(most[PEAK_ABSOLUTE], SMALL_ERROR, error_scale) : 0;
        const int references = wide ? scale_for(most[PEAK_MAGNITUDE], SMALL, reference_scale) : 0;
        if (errors || references || (wide && most[PEAK_PRODUCT] < SMALL_PRODUCT))
            most[PEAK_PRODUCT] = largest_product(run, SCALES[1 + errors], SCALES[1 + references]);
        const double ulps = most[PEAK_ULPS];
        if (!(ulps < LARGE_ULPS) || (ulps > 0.0 && ulps < SMALL_ULPS)) return false;
        bool room = errors == error_scale && references == reference_scale;
        for (int m = 0; m < PEAKS; m++) {
            if (!(most[m] < OUT_OF_RANGE)) return false;
            room &= most[m] <= cap[m];
        }
        if (room) return true;
        flush();
        if (errors != error_scale) cap[PEAK_ABSOLUTE] = cap[PEAK_PRODUCT] = 0.0;
        if (references != reference_scale) cap[PEAK_MAGNITUDE] = cap[PEAK_PRODUCT] = 0.0;
        error_scale = errors, reference_scale = references;
        for (int m = 0; m < PEAKS; m++) cap[m] = most[m] > cap[m] ? power_above(most[m]) : cap[m];
        start();
        return true;
    }

    // Returns infinity where even scaled products are so small that they would lose bits.
    static double largest_product(const Run& run, double scale_d, double scale_r) {
        double most = 0.0;
        bool any = false;
        for (int i = 0; i < RUN; i++) {
            any |= run.d[i] != 0.0 && run.r[i] != 0.0;
            most = std::fmax(most, std::fabs(run.d[i] * scale_d * (run.r[i] * scale_r)));
        }
        return any && most < SMALL_PRODUCT ? INFINITY : most;
    }

    // For terms from anywhere in the range of float64.
    void add_slowly(const Run& run) {
        alignas(64) double terms[Sums::squared_error][RUN];
        for (int i = 0; i < RUN; i += WIDTH) {
            const Doubles d = load<Doubles>(run.d + i), r = load<Doubles>(run.r + i);
            store(terms[Sums::absolute] + i, size_of(d));
            store(terms[Sums::magnitude] + i, size_of(r));
            store(terms[Sums::spacing] + i, power_of(r) * load<Doubles>(run.counts + i) * all(spacing));
        }
        for (int i = 0; i < RUN; i++) terms[Sums::squared_ulps][i] = run.ulps[i] * run.ulps[i];
        memcpy(terms[Sums::signed_], run.d, sizeof run.d);
        memcpy(terms[Sums::outward], run.outward, sizeof run.outward);
        memcpy(terms[Sums::relative], run.ratio, sizeof run.ratio);
        memcpy(terms[Sums::floored], run.floored, sizeof run.floored);
        memcpy(terms[Sums::ulps], run.ulps, sizeof run.ulps);
        add_products(Sums::squared_error, run.d, run.d);
        add_products(Sums::squared_reference, run.r, run.r);
        add_products(Sums::product, run.r, run.d);
        add_products(Sums::weighted_error, terms[Sums::magnitude], terms[Sums::absolute]);
        for (int s = 0; s < Sums::squared_error; s++) add_terms(s, terms[s]);
    }

    void add_terms(int s, double* terms) {
        bool ordinary = true;
        for (int i = 0; i < RUN; i++) ordinary &= std::fabs(terms[i]) < OUT_OF_RANGE;
        if (ordinary) return add_exactly(terms, state.sum[s]);
        for (int i = 0; i < RUN; i++) state.add(s, terms[i]);
    }

    void add_products(int s, const double* x, const double* y) {
        alignas(64) double terms[RUN];
        bool ordinary = true;
        for (int i = 0; i < RUN; i++) {
            terms[i] = x[i] * y[i];
            const double size = std::fabs(terms[i]);
            ordinary &= (size > SMALL_PRODUCT && size < OUT_OF_RANGE) || x[i] == 0.0 || y[i] == 0.0;
        }
        if (ordinary) return add_exactly(terms, state.sum[s]);
        for (int i = 0; i < RUN; i++) add_product(s, x[i], y[i]);
    }

    // Add a product of 53 bits with an unbounded exponent.
    void add_product(int s, double x, double y) {
        if (x == 0.0 || y == 0.0) return;
        if (!(std::fabs(x) <= DBL_MAX && std::fabs(y) <= DBL_MAX)) return state.add(s, x * y);
        int ex, ey;
        const double mantissa = std::frexp(x, &ex) * std::frexp(y, &ey);
        const int exponent = ex + ey, degree = exponent < -960 ? 2 : exponent > 960 ? -2 : 0;
        const double term = std::ldexp(mantissa, exponent + 600 * degree);
        if (degree) state.scaled[s][degree + 2].add(term); else state.add(s, term);
    }
};

} // namespace
} // namespace precreg
