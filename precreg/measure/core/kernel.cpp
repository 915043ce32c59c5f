// One pass over the pairs. This file is compiled once for each instruction set, into the namespace PRECREG_SET.
//
// Pairs go through in runs of 128, small enough for the first cache: first their terms (errors, ratios, ULPs, and the
// keys under which they are counted), then sums and counters, which keep different parts of the processor busy. Rare
// pairs (NaN, infinities, zeros, subnormals, small values, violations) are counted only in runs that contain them. No
// multiplication is contracted with an addition, so that every instruction set gives the same bits.

#include "job.hpp"
#include "lanes.hpp"
#include "near.hpp"
#include "places.hpp"
#include "reader.hpp"
#include "totals.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>

#ifndef PRECREG_SET
#define PRECREG_SET generic
#endif

namespace precreg {
namespace {

constexpr double DIFF3_FLOOR = 1e-9; // as in precreg/measure/numpy_form.py

INLINE void set_key(uint32_t* to, Doubles value) { store(to, narrow(((ULongs)value - 1) >> KEY_SHIFT)); }

// The keys of a run, under which its errors, ratios and ULPs are counted by size.
struct Keys {
    alignas(64) uint32_t of[Sketches::SIZE][RUN];
};
struct Counters {
    uint32_t *errors[2], *ratios[2], *ulps[2];
};

class Kernel {
  public:
    Kernel(const Job& job, State& state, bool wide)
        : job(job), state(state), totals(state, job.format, wide),
          tiny(std::max(job.format.smallest_normal, SMALLEST_RATIO_REFERENCE * (1 + 0x1p-40))), near(job, state, totals, tiny), to_ulps(std::ldexp(1.0, job.format.precision - 2)),
          to_grid(std::ldexp(1.5, 53 - job.format.precision)) {
        const Regions& of = job.regions;
        smallest_diff3 = std::max(of.diff3_bound, DBL_MIN); // zero included
        small = std::max({of.small_bound, of.cancellation_bound, of.threshold_bound});
        // A little below the bound on |d| / |r|, because count_violations compares |d| with rtol |r|, which rounds differently.
        alarming = of.threshold_rtol > 0 ? of.threshold_rtol * (1 - 0x1p-40) : INFINITY;
        region_end = std::max(of.small_bound, of.cancellation_bound);
        violating_share = of.threshold_rtol > 0 ? of.threshold_rtol : INFINITY;
        largest_uncancelled = of.cancellation_rtol * (1 - 0x1p-40);
        set_limits();
        for (double& counts : run.counts) counts = 1.0;
        for (auto& keys : nothing.of)
            for (uint32_t& key : keys) key = UNUSED_KEY;
        for (int i = 0; i < 2; i++) {
            counters.errors[i] = state.table[Sketches::absolute].counts[i];
            counters.ratios[i] = state.table[Sketches::relative].counts[i];
            counters.ulps[i] = state.table[Sketches::ulps].counts[i];
        }
    }

    template <class A, class R> void pass(const A* a, const R* r, int64_t n, int64_t first) {
        for (int64_t at = 0; at < n; at += RUN) {
            const int size = (int)std::min<int64_t>(RUN, n - at);
            fetch_ahead(a + at, n - at);
            fetch_ahead(r + at, n - at);
            if (size == RUN) whole_run(a + at, r + at, first + at); else last_run(a + at, r + at, size, first + at);
        }
        near.tile.add(); // the next pairs may overwrite these
        if (sizeof(A) == 4 && sizeof(R) == 4) place_near_maxima();
    }
    // Prefetch a later run: the processor does not foresee two streams that are read in short runs in time.
    template <class T> INLINE static void fetch_ahead(const T* run, int64_t left) {
        constexpr int AHEAD = 8 * RUN, LINE = 64 / sizeof(T);
        if (left < AHEAD + RUN) return;
        for (int i = 0; i < RUN; i += LINE) __builtin_prefetch(run + AHEAD + i);
    }

    void finish() {
        count_pending();
        near.finish();
        state.counts.above += sum_of(close.above), state.counts.equal += sum_of(close.equal);
        state.counts.cancellations += sum_of(close.cancellations), state.counts.relative_violations += sum_of(close.violations);
        totals.flush();
        state.counts.exact_matches = counters.errors[0][ZERO_KEY] + counters.errors[1][ZERO_KEY];
        state.counts.below = state.counts.finite - state.counts.exact_matches - state.counts.above;
    }

  private:
    // Runs of near pairs within these limits have no pair for which look_at_each_size would do anything.
    struct Limits {
        double peak[PEAKS - 1], least;

        INLINE Longs exceeded_by(const Run& run) const {
            Longs result = below(run.least, least);
            for (int m = 0; m < PEAKS - 1; m++) result |= above(run.peak[m], peak[m]);
            return result;
        }
    };

    static constexpr uint64_t INVERSE_ULP = (uint64_t)(0x7FF + 22) << 52; // minus the bits of the binade of r: those of 1 / ulp(r) of float32

    const Job& job;
    State& state;
    Totals totals;
    const double tiny;
    Near near;
    const double to_ulps, to_grid;
    double small, smallest_diff3, alarming, largest_uncancelled, region_end, violating_share;
    struct NearRun {
        const float *actual = nullptr, *reference = nullptr;
        int64_t first = 0;
    };
    NearRun highest_runs[Places::SIZE]; // near runs with maxima that have no place yet
    Limits calm; // of near and close pairs: the loops over them count violations and cancellations
    Counters counters;
    int far = 0, hope = 0, distant = 0, nearness = 0; // the same for near pairs, and for close ones
    Totals::RunSums close_sums; // of the latest run of close pairs
    Lanes<Doubles> close_product;
    // Of all runs of close pairs, and two of the latest: |r| below both regions of standards, |d| > rtol |r|.
    struct {
        Lanes<Longs> above = {}, equal = {}, cancellations = {}, violations = {};
    } close;
    Lanes<Longs> close_below_end, close_violating;
    bool close_zeros = false, stores_nothing = false;
    int off_grid = 0, patience = 1; // runs not to try on the grid from now on, and after the latest failure
    Keys buffers[2], nothing, spare;
    Keys* pending = &nothing; // the keys of the run whose sizes are not counted yet
    Run run;

    template <class A, class R> void whole_run(const A* a, const R* r, int64_t first) {
        if (job.format.same && sizeof(A) == sizeof(R) && begin_alike(a, r) && identical(a, r)) return;
        if (nearly(a, r, first)) return;
        near.count_pending();
        near.tile.add();
        if (closely(a, r, first)) return;
        if (__builtin_expect(swiftly<A, R>(a, r), 1)) {
            count_pairs(RUN, 0);
            add_to_groups(*state.groups, run, RUN, first);
            return look_closer(a, r, RUN, first);
        }
        count_pending();
        if (terms(a, r, buffers[0])) return measured(a, r, RUN, first);
        patched(a, r, RUN, first);
    }

    template <class A, class R> void last_run(const A* a, const R* r, int size, int64_t first) {
        A filled_a[RUN] = {};
        R filled_r[RUN] = {};
        memcpy(filled_a, a, size * sizeof(A));
        memcpy(filled_r, r, size * sizeof(R));
        for (int i = size; i < RUN; i++) run.counts[i] = 0.0;
        count_pending();
        near.tile.add();
        if (terms(filled_a, filled_r, buffers[0])) measured(filled_a, filled_r, size, first);
        else patched(filled_a, filled_r, size, first);
        for (double& counts : run.counts) counts = 1.0;
    }

    // The terms of one pair in each lane.
    struct Pair {
        Doubles d, r, e, size, outward;
    };
    struct Quotients {
        Doubles ratio, floored;
    };
    struct Ulps {
        Doubles power, ulps; // the binade of r, and U
    };
    // Maxima and counts over the terms of a run.
    struct Marks {
        Lanes<Doubles> error = {}, ratio = {}, floored = {}, ulp = {}, reference = {}, product = {}, least = lanes_of(DBL_MAX);
        Lanes<Longs> matching = {}, equal = {}, above = {};
    };

    INLINE static Pair pair(Doubles a, Doubles r) {
        const Doubles d = a - r, size = size_of(r);
        const Longs outward = ((Longs)d ^ ((Longs)r & SIGN)) & (Longs)(size > all(0.0)); // d sign(r)
        return {d, r, size_of(d), size, (Doubles)outward};
    }

    INLINE static Quotients quotients(const Pair& of, int p, Marks& marks) {
        const Doubles ratio = (Doubles)((Longs)(of.e / of.size) & (Longs)(of.size > all(0.0)));
        const Doubles floored = of.e / (of.size + all(FLOOR));
        marks.ratio.part[p] = larger(ratio, marks.ratio.part[p]);
        marks.floored.part[p] = larger(floored, marks.floored.part[p]);
        return {ratio, floored};
    }

    // r in the output's format.
    INLINE Doubles rounded(Doubles r, Doubles size, Doubles power) const {
        const Doubles shift = power * all(to_grid), held = (size + shift) - shift;
        return (Doubles)((Longs)held | ((Longs)r & SIGN)) + all(job.format.negative_zero ? -0.0 : 0.0);
    }

    template <bool ROUND> INLINE Ulps ulps(Doubles a, const Pair& of, int p, Marks& marks) const {
        const Doubles power = larger((Doubles)((Longs)of.r & EXPONENT), all(job.format.smallest_binade));
        const Doubles held = ROUND ? rounded(of.r, of.size, power) : of.r;
        const Doubles ulps = of.e * (Doubles)(EXPONENT - (Longs)power) * all(to_ulps); // 2**(1 - e) * 2**(precision - 2)
        marks.equal.part[p] = count_same_bits(a, held, marks.equal.part[p]);
        marks.matching.part[p] = count_at_most(of.e, all(job.atol) + all(job.rtol) * of.size, marks.matching.part[p]);
        marks.above.part[p] = count_larger(of.d, all(0.0), marks.above.part[p]);
        marks.error.part[p] = larger(of.e, marks.error.part[p]);
        marks.ulp.part[p] = larger(ulps, marks.ulp.part[p]);
        marks.product.part[p] = larger(of.e * of.size, marks.product.part[p]);
        marks.reference.part[p] = larger(of.size, marks.reference.part[p]);
        marks.least.part[p] = smaller(of.size, marks.least.part[p]);
        return {power, ulps};
    }

    INLINE void keep(const Marks& marks) {
        run.peak[PEAK_ABSOLUTE] = marks.error, run.peak[PEAK_RELATIVE] = marks.ratio, run.peak[PEAK_FLOORED] = marks.floored;
        run.peak[PEAK_ULPS] = marks.ulp, run.peak[PEAK_MAGNITUDE] = marks.reference, run.peak[PEAK_PRODUCT] = marks.product;
        run.least = marks.least;
        run.matching = sum_of(marks.matching), run.equal = sum_of(marks.equal), run.above = sum_of(marks.above);
    }

    // Compute the terms of 128 pairs. Returns false if a pair is not finite; the terms are then meaningless.
    template <class A, class R> bool terms(const A* a, const R* r, Keys& into) {
        return job.format.same ? terms<A, R, false>(a, r, into) : terms<A, R, true>(a, r, into);
    }
    template <class A, class R, bool ROUND> __attribute__((noinline)) bool terms(const A* a, const R* r, Keys& into) {
        Marks marks;
        Longs odd = {};
        for (int i = 0; i < RUN; i += LANES)
            for (int p = 0; p < PARTS; p++) {
                const int at = i + p * WIDTH;
                const Doubles x = widen(a + at);
                const Pair of = pair(x, widen(r + at));
                const Quotients q = quotients(of, p, marks);
                const Ulps u = ulps<ROUND>(x, of, p, marks);
                odd |= ~((Longs)(of.e <= all(DBL_MAX)) & (Longs)(of.size <= all(job.format.largest_reference)));
                store(run.d + at, of.d);
                store(run.outward + at, of.outward);
                store(run.r + at, of.r);
                store(run.ratio + at, q.ratio);
                store(run.floored + at, q.floored);
                store(run.ulps + at, u.ulps);
                set_key(into.of[Sketches::absolute] + at, of.e);
                set_key(into.of[Sketches::relative] + at, q.ratio);
                set_key(into.of[Sketches::ulps] + at, u.ulps);
            }
        keep(marks);
        return !any(odd);
    }

    INLINE static bool begin_alike(const void* a, const void* r) {
        Longs differ = {};
        for (int i = 0; i < 64; i += BYTES) differ |= load<Longs>((const char*)a + i) ^ load<Longs>((const char*)r + i);
        return !any(differ);
    }

    // Measure a run of near pairs. Returns false, with nothing done, for any other run.
    template <class A, class R> INLINE bool nearly(const A*, const R*, int64_t) { return false; }
    INLINE bool nearly(const float* a, const float* r, int64_t first) {
        if (!job.format.same || far > 0) {
            far -= far > 0;
            return false;
        }
        if (!totals.has_room()) totals.begin_block();
        count_pending();
        GroupSums& groups = *state.groups;
        const bool together = groups.in_one_stretch(first, RUN);
        const auto added = [&] { return together ? near.add<false>(a, r, run) : near.add<true>(a, r, run); };
        // The first runs of a call widen the accumulators several times, and have room afterwards.
        if (!added() && !(near.has_widened && added())) {
            far = hope;
            hope = std::min(2 * hope + 1, 63);
            return false;
        }
        hope = 0;
        if (!together) add_to_stretches(groups, run, RUN, first);
        else if (groups.in_stretches) add_to_stretch(groups, near.sums, near.product);
        if (groups.width) near.tile.keep(a, r, first);
        count_close<true>(a, r, near.zeros, first);
        return true;
    }

    // Count what the loops over near and close pairs leave out.
    template <bool IS_NEAR, class A, class R> INLINE void count_close(const A* a, const R* r, bool zeros, int64_t first) {
        stores_nothing = true; // d may be missing from the run
        state.counts.n += RUN, state.counts.finite += RUN;
        if (zeros) {
            const auto [pairs, other_signs] = count_zeros(a, r);
            if (IS_NEAR) state.counts.equal += pairs - other_signs, near.zero_pairs += pairs;
            else state.sum[Sums::spacing].add((double)pairs * job.format.smallest_binade * std::ldexp(1.0, 1 - job.format.precision));
        }
        const bool all_match = !any_above(run.peak[PEAK_RELATIVE], job.rtol * (1 - 0x1p-40)) || !any_above(run.peak[PEAK_ABSOLUTE], job.atol);
        state.counts.matching += all_match ? RUN : count_matching(a, r);
        keep_peak(first);
        if (any(calm.exceeded_by(run))) {
            look_at_each_size<IS_NEAR>(a, r, RUN, first);
            set_limits();
        } else if (IS_NEAR) near.count_regions();
        else add_counts(close.cancellations, close_below_end), add_counts(close.violations, close_violating);
        stores_nothing = false;
    }

    // Measure a run of close pairs: no error is above half of its reference, or above 2**49 times half an ulp of the
    // smallest reference. Then sums of the errors of a run are exact. Returns false, with nothing done, for any other run.
    template <class A, class R> INLINE bool closely(const A* a, const R* r, int64_t first) {
        if constexpr (sizeof(A) == 4 && sizeof(R) == 4) return false; // swiftly has fewer steps on the grids of float32
        else return closely_wide(a, r, first);
    }
    template <class A, class R> INLINE bool closely_wide(const A* a, const R* r, int64_t first) {
        if (distant > 0) return distant--, false;
        if (!totals.has_room()) totals.begin_block();
        const bool in_stretch = state.groups->in_stretch(first, RUN);
        const bool single = job.format.precision == 24 && job.format.smallest_binade == 0x1p-126;
        const bool done = job.format.same ? (in_stretch ? closely<A, R, 0, false>(a, r) : closely<A, R, 0, true>(a, r))
                        : sizeof(A) == 4 && single ? (in_stretch ? closely<A, R, 1, false>(a, r) : closely<A, R, 1, true>(a, r))
                        : (in_stretch ? closely<A, R, 2, false>(a, r) : closely<A, R, 2, true>(a, r));
        if (!done) {
            distant = nearness;
            nearness = std::min(2 * nearness + 1, 63);
            return false;
        }
        nearness = 0;
        if (in_stretch) add_to_stretch(*state.groups, close_sums, close_product);
        else add_to_groups(*state.groups, run, RUN, first);
        count_close<false>(a, r, close_zeros, first);
        return true;
    }

    // Compute and add a run of close pairs. ROUNDING: 0 for references of the output's format, 1 for outputs of float32, 2 for others.
    template <class A, class R, int ROUNDING, bool STORES> __attribute__((noinline)) bool closely(const A* a, const R* r) {
        Totals::CloseAdder adder(totals);
        Totals::RunSums sums;
        Lanes<Doubles> binades = {}, factors = lanes_of(1.0), peak = {}, peak_ulps = {}, most = {}, smallest = lanes_of(DBL_MAX);
        Lanes<Longs> equal = {}, above = {};
        const Keys& before = *pending;
        const Counters to = counters;
        Keys& next = pending == &buffers[0] ? buffers[1] : buffers[0];
        constexpr int STEP = 16;
        for (int i = 0; i < RUN; i += STEP) {
#pragma GCC unroll 4
            for (int q = 0; q < STEP; q += 2 * WIDTH) {
                Longs errors[2], ulps[2];
#pragma GCC unroll 2
                for (int half = 0; half < 2; half++) {
                    const int at = i + q + half * WIDTH, p = (q / WIDTH + half) % PARTS;
                    const Doubles x = widen(a + at), y = widen(r + at), d = x - y, e = size_of(d), size = size_of(y);
                    const Doubles out = signed_by(d, y); // d sign(r), or d is zero
                    const Doubles power = larger_size((Doubles)((Longs)y & EXPONENT), all(job.format.smallest_binade));
                    const Doubles u = ROUNDING == 1 ? e * (Doubles)(INVERSE_ULP - (ULongs)power) : e * (Doubles)(EXPONENT - (Longs)power) * all(to_ulps);
                    const Doubles square = d * d, squared_ulp = u * u;
                    sums.absolute.part[p] += e;
                    sums.bias.part[p] += d;
                    sums.outward.part[p] += out;
                    sums.ulps.part[p] += u;
                    binades.part[p] += power;
                    adder.squared_error.two_step(p, square);
                    adder.squared_ulps.two_step(p, squared_ulp);
                    peak.part[p] = larger_size(e, peak.part[p]);
                    peak_ulps.part[p] = larger_size(u, peak_ulps.part[p]);
                    most.part[p] = larger_size(size, most.part[p]);
                    smallest.part[p] = smaller_size(size, smallest.part[p]);
                    above.part[p] = count_larger(d, all(0.0), above.part[p]);
                    equal.part[p] = count_equal<ROUNDING>(a + at, x, y, power, equal.part[p]);
                    if (STORES) {
                        store(run.d + at, d);
                        store(run.outward + at, out);
                        store(run.ulps + at, u);
                    } else {
                        sums.squared_error.part[p] += square;
                        sums.squared_ulps.part[p] += squared_ulp;
                        factors.part[p] *= exact_product_plus(end_of(u), all(4.0), all(1.0));
                    }
                    errors[half] = (Longs)e - 1, ulps[half] = (Longs)u - 1;
                }
                store(next.of[Sketches::absolute] + i + q, upper_halves(errors[0], errors[1]) >> (KEY_SHIFT - 32));
                store(next.of[Sketches::ulps] + i + q, upper_halves(ulps[0], ulps[1]) >> (KEY_SHIFT - 32));
            }
            for (int at = i; at < i + STEP; at += LANES) {
                count_sizes<~0u>(before.of[Sketches::absolute] + at, to.errors);
                count_sizes<~0u>(before.of[Sketches::ulps] + at, to.ulps);
            }
        }
        Lanes<Doubles> ratios = {}, floored_ratios = {};
        Lanes<Longs> below_end = {}, violating = {};
        for (int i = 0; i < RUN; i += STEP) {
#pragma GCC unroll 4
            for (int q = 0; q < STEP; q += 2 * WIDTH) {
                Longs below[2];
#pragma GCC unroll 2
                for (int half = 0; half < 2; half++) {
                    const int at = i + q + half * WIDTH, p = (q / WIDTH + half) % PARTS;
                    const Doubles y = widen(r + at), d = widen(a + at) - y, e = size_of(d), size = size_of(y);
                    const Doubles ratio = e / larger_size(size, all(DBL_MIN)), floored = e / (size + all(FLOOR)); // 0 / 0 is 0
                    ratios.part[p] = larger_size(ratio, ratios.part[p]);
                    floored_ratios.part[p] = larger_size(floored, floored_ratios.part[p]);
                    adder.relative.two_step(p, ratio);
                    adder.floored.two_step(p, floored);
                    adder.add_references(p, d, y, size);
                    below_end.part[p] = count_larger(all(region_end), size, below_end.part[p]);
                    violating.part[p] = count_larger(e, all(violating_share) * size, violating.part[p]);
                    below[half] = (Longs)ratio - 1;
                }
                store(next.of[Sketches::relative] + i + q, upper_halves(below[0], below[1]) >> (KEY_SHIFT - 32));
            }
            for (int at = i; at < i + STEP; at += LANES) count_sizes<~0u>(before.of[Sketches::relative] + at, to.ratios);
        }
        pending = &nothing;
        run.peak[PEAK_RELATIVE] = ratios, run.peak[PEAK_FLOORED] = floored_ratios;
        run.peak[PEAK_ABSOLUTE] = peak, run.peak[PEAK_ULPS] = peak_ulps, run.peak[PEAK_MAGNITUDE] = most;
        close_zeros = any_below(smallest, DBL_MIN);
        double least = lowest(smallest);
        if (__builtin_expect(close_zeros, 0)) {
            const AboveZero of = above_zero(r);
            least = lowest(of.least), binades = of.binades;
        }
        if (!is_finite(sums.absolute) || !fits_closely(least)) return false;
        run.least = close_zeros ? lanes_of(0.0) : smallest;
        add_counts(close.equal, equal), add_counts(close.above, above);
        close_below_end = below_end, close_violating = violating;
        if (!adder.lossless()) add_products_exactly(a, r);
        adder.commit(totals, sums, binades);
        close_sums = sums, close_product = factors;
        pending = &next;
        return true;
    }

    // The references of a run that are not zero: the smallest in each lane, and the sums of their binades.
    struct AboveZero {
        Lanes<Doubles> least, binades;
    };
    template <class R> __attribute__((noinline)) AboveZero above_zero(const R* r) const {
        AboveZero of = {lanes_of(DBL_MAX), {}};
        for (int i = 0; i < RUN; i += LANES)
            for (int p = 0; p < PARTS; p++) {
                const Doubles y = widen(r + i + p * WIDTH), size = size_of(y);
                of.least.part[p] = smaller_above_zero(size, of.least.part[p]);
                of.binades.part[p] += where_not_zero(size, larger((Doubles)((Longs)y & EXPONENT), all(job.format.smallest_binade)));
            }
        return of;
    }
    INLINE static void add_counts(Lanes<Longs>& to, const Lanes<Longs>& counts) {
        for (int p = 0; p < PARTS; p++) to.part[p] += counts.part[p];
    }

    // Add the products of a run for which the second accumulator loses bits. The adder keeps them out: it stays in registers
    // only while no function takes its address.
    template <class A, class R> __attribute__((noinline)) void add_products_exactly(const A* a, const R* r) {
        alignas(64) double products[RUN];
        for (int i = 0; i < RUN; i += WIDTH) {
            const Doubles y = widen(r + i);
            store(products + i, y * (widen(a + i) - y));
        }
        add_exactly(products, state.sum[Sums::product]);
    }

    template <int ROUNDING, class A> INLINE Longs count_equal(const A* a, Doubles x, Doubles y, Doubles power, Longs counts) const {
        if constexpr (ROUNDING == 0) return count_same_bits(x, y, counts);
        if constexpr (ROUNDING == 1 && sizeof(A) == 4) return count_rounded((const float*)a, y, counts);
        return count_same_bits(x, rounded(y, size_of(y), power), counts);
    }

    static bool is_finite(const Lanes<Doubles>& sums) {
        Longs bad = {};
        for (int p = 0; p < PARTS; p++) bad |= (Longs)(sums.part[p] - sums.part[p] != all(0.0));
        return !any(bad);
    }

    // Return true if the sums of a run of close pairs are exact, and if the accumulators have room for them. `least` is the
    // smallest |r| above zero, or DBL_MAX.
    INLINE bool fits_closely(double least) {
        constexpr int BITS = 53; // half an ulp of r is 2**-BITS of its binade
        const double error = highest(run.peak[PEAK_ABSOLUTE]), magnitude = highest(run.peak[PEAK_MAGNITUDE]), ulps = highest(run.peak[PEAK_ULPS]);
        if (least < 2 * tiny || least < 0x1p-900 || magnitude > job.format.largest_reference || any_above(run.peak[PEAK_RELATIVE], 0.5)) return false;
        least = std::min(least, std::max(magnitude, 1.0)); // 1 if all references are zero
        const double unit = power_below(least) * std::ldexp(1.0, -BITS), binade = job.format.smallest_binade;
        double ulp_unit = std::ldexp(1.0, job.format.precision - 1 - BITS);
        if (least < binade) ulp_unit = std::min(ulp_unit, unit / (binade * std::ldexp(1.0, 1 - job.format.precision)));
        constexpr double MOST = 0x1p49; // the 16 numbers of a lane up to this have a sum of 53 bits
        if (error > MOST * unit || ulps > MOST * ulp_unit || magnitude > MOST * std::max(least, binade)) return false;
        run.peak[PEAK_PRODUCT] = lanes_of(error * magnitude);
        if (error > 0 && error * least < SMALL_PRODUCT) return false;
        if (!totals.fits(run)) return totals.widen_to(run), false;
        return totals.keeps_errors(unit);
    }
    static double power_below(double x) {
        int64_t bits;
        memcpy(&bits, &x, sizeof bits);
        bits &= EXPONENT;
        memcpy(&x, &bits, sizeof x);
        return x;
    }

    // Count the pairs of zeros of a run of near or close pairs.
    struct Zeros {
        int64_t pairs, other_signs;
    };
    template <class A, class R> __attribute__((noinline)) Zeros count_zeros(const A* a, const R* r) {
        Lanes<Longs> zero = {}, signs = {};
        for (int i = 0; i < RUN; i += WIDTH) {
            const Doubles x = widen(a + i), y = widen(r + i);
            const Longs is_zero = y == all(0.0);
            zero.part[0] -= is_zero;
            signs.part[0] -= is_zero & (((Longs)x ^ (Longs)y) >> 63);
        }
        const int64_t zeros = sum_of(zero), differ = sum_of(signs);
        state.counts.zero_references += zeros;
        if (job.format.negative_zero) state.counts.zero_sign_differences += differ;
        state.table[Sketches::relative].counts[0][ZERO_KEY] -= (uint32_t)zeros; // they are counted there, and have no ratio
        state.without_ratio += zeros;
        return {zeros, differ};
    }

    template <class A, class R> __attribute__((noinline)) int64_t count_matching(const A* a, const R* r) {
        Lanes<Longs> matching = {};
        for (int i = 0; i < RUN; i += WIDTH) {
            const Doubles y = widen(r + i), e = size_of(widen(a + i) - y);
            matching.part[0] = count_at_most(e, all(job.atol) + all(job.rtol) * size_of(y), matching.part[0]);
        }
        return sum_of(matching);
    }

    // Compute, add and count in one pass, for a run of finite pairs whose terms fit the accumulators. Returns false, with
    // nothing done, for any other run. Counters lag one run behind, so that they and the arithmetic do not wait for each
    // other. Two loops, because one would need more registers than there are.
    template <class A, class R> INLINE bool swiftly(const A* a, const R* r) {
        if (!totals.has_room()) totals.begin_block();
        constexpr bool WIDE = sizeof(A) == 8 || sizeof(R) == 8;
        const bool same = job.format.same;
        if (!WIDE && off_grid == 0) {
            if (same ? swiftly<A, R, false, true>(a, r) : swiftly<A, R, true, true>(a, r)) {
                patience = 1;
                return true;
            }
            patience = std::min(2 * patience, 64);
            off_grid = patience;
        }
        off_grid -= off_grid > 0;
        if (WIDE && totals.scaled()) return false;
        return same ? swiftly<A, R, false, false>(a, r) : swiftly<A, R, true, false>(a, r);
    }

    template <class A, class R, bool ROUND, bool ON_GRID> __attribute__((noinline)) bool swiftly(const A* a, const R* r) {
        Marks marks;
        typename Totals::Adder<ON_GRID, false> adder(totals);
        const Keys& before = *pending;
        const Counters to = counters;
        Keys& next = pending == &buffers[0] ? buffers[1] : buffers[0];
        for (int i = 0; i < RUN; i += LANES) {
            for (int p = 0; p < PARTS; p++) {
                const int at = i + p * WIDTH;
                const Doubles x = widen(a + at);
                const Pair of = pair(x, widen(r + at));
                const Ulps u = ulps<ROUND>(x, of, p, marks);
                set_key(next.of[Sketches::absolute] + at, of.e);
                set_key(next.of[Sketches::ulps] + at, u.ulps);
                store(run.d + at, of.d);
                store(run.outward + at, of.outward);
                store(run.ulps + at, u.ulps);
                adder.add_errors(p, of.d, of.e, of.outward, of.r, of.size, u.power, u.ulps);
            }
            count_sizes<~0u>(before.of[Sketches::absolute] + i, to.errors);
            count_sizes<~0u>(before.of[Sketches::ulps] + i, to.ulps);
        }
        for (int i = 0; i < RUN; i += LANES) {
            for (int p = 0; p < PARTS; p++) {
                const int at = i + p * WIDTH;
                const Quotients q = quotients(pair(widen(a + at), widen(r + at)), p, marks);
                set_key(next.of[Sketches::relative] + at, q.ratio);
                adder.add_quotients(p, q.ratio, q.floored);
            }
            count_sizes<~0u>(before.of[Sketches::relative] + i, to.ratios);
        }
        pending = &nothing;
        keep(marks);
        if (adder.failed() || !totals.fits(run) || any_above(run.peak[PEAK_MAGNITUDE], job.format.largest_reference)) return false;
        if (ON_GRID && !totals.on_grid(run)) return false;
        adder.commit(totals);
        pending = &next;
        return true;
    }

    void count_pairs(int size, int filled) {
        state.counts.n += size;
        state.counts.finite += size;
        state.counts.matching += run.matching - filled;
        state.counts.equal += run.equal - filled;
        state.counts.above += run.above;
    }

    // Add the terms of a run of finite pairs. All but `size` of them are pairs of zeros that do not count.
    template <class A, class R> void measured(const A* a, const R* r, int size, int64_t first) {
        const int filled = RUN - size;
        count_pairs(size, filled);
        pending = &buffers[0];
        add_to_groups(*state.groups, run, (int)std::min<int64_t>(RUN, job.start + job.n - first), first);
        look_closer(a, r, size, first);
        totals.add(run);
        for (const Table& table : state.table) table.counts[0][ZERO_KEY] -= (uint32_t)filled;
    }

    void count_pending() {
        if (pending == &nothing) return;
        for (int i = 0; i < RUN; i += LANES) {
            count_sizes<~0u>(pending->of[Sketches::absolute] + i, counters.errors);
            count_sizes<~0u>(pending->of[Sketches::relative] + i, counters.ratios);
            count_sizes<~0u>(pending->of[Sketches::ulps] + i, counters.ulps);
        }
        pending = &nothing;
    }

    // Handle rare pairs: maxima and the worst errors, zeros, subnormals, small values, violations.
    template <class A, class R> INLINE void look_closer(const A* a, const R* r, int size, int64_t first) {
        // An |a| below half of |r| has a ratio above a half.
        if (any_below(run.least, 2 * tiny) || any_above(run.peak[PEAK_RELATIVE], 0.5)) look_at_tiny(a, r, size);
        keep_peak(first);
        look_at_each_size<false>(a, r, size, first);
    }
    INLINE void keep_peak(int64_t first) {
        if (state.peak_of_run) state.peak_of_run[(first - job.start) / RUN] = highest(run.peak[PEAK_ABSOLUTE]);
    }
    // Maxima only grow, so that limits of before a change are too low, and still right.
    void set_limits() {
        const Regions& of = job.regions;
        const double* const most = state.maximum;
        calm.peak[PEAK_ABSOLUTE] = std::min(most[Maxima::absolute], state.least_of_worst);
        calm.peak[PEAK_RELATIVE] = std::min({1e-4, most[Maxima::diff3], most[Maxima::relative]});
        if (!near.regions.multiplies_exactly) calm.peak[PEAK_RELATIVE] = std::min(calm.peak[PEAK_RELATIVE], alarming);
        if (of.cancellation_bound > 0) calm.peak[PEAK_RELATIVE] = std::min(calm.peak[PEAK_RELATIVE], largest_uncancelled);
        calm.peak[PEAK_FLOORED] = most[Maxima::floored], calm.peak[PEAK_ULPS] = most[Maxima::ulps], calm.peak[PEAK_MAGNITUDE] = most[Maxima::magnitude];
        calm.least = std::max({of.small_bound, of.threshold_bound, smallest_diff3});
    }
    template <bool IS_NEAR, class A, class R> INLINE void look_at_each_size(const A* a, const R* r, int size, int64_t first) {
        if (any_below(run.least, small)) {
            const bool no_cancelled_errors = !any_above(run.peak[PEAK_RELATIVE], largest_uncancelled);
            if (IS_NEAR && no_cancelled_errors) count_small_near(a, r); else look_at_small(a, r, RUN - size);
        }
        if (any_above(run.peak[PEAK_RELATIVE], 1e-4)) count_thousandths(a, r);
        if (any_above(run.peak[PEAK_RELATIVE], alarming)) {
            if (IS_NEAR && near.regions.multiplies_exactly) count_violations_near(a, r); else count_violations(a, r);
        }
        // diff3's term is at most |d| / |r| where |r| is not small.
        if (any_above(run.peak[PEAK_RELATIVE], state.maximum[Maxima::diff3]) || any_below(run.least, smallest_diff3)) diff3(a, r);
        if (any_above(run.peak[PEAK_ABSOLUTE], state.least_of_worst)) {
            if (stores_nothing) store_differences(a, r);
            name_worst(first);
        }
        bool record = false;
        for (int m = 0; m < Places::SIZE; m++) record |= any_above(run.peak[m], state.maximum[m]);
        record |= any_above(run.peak[PEAK_MAGNITUDE], state.maximum[Maxima::magnitude]);
        if (__builtin_expect(record, 0)) {
            if constexpr (IS_NEAR) return raise_maxima(a, r, first);
            terms(a, r, spare);
            maxima(first);
        }
    }

    template <class A, class R> INLINE void count_small_near(const A*, const R*) {}
    INLINE void count_small_near(const float* a, const float* r) { near.regions.count_small(a, r, state.counts); }
    template <class A, class R> INLINE void count_violations_near(const A*, const R*) {}
    INLINE void count_violations_near(const float* a, const float* r) { state.counts.relative_violations += near.regions.count_violations(a, r); }
    template <class A, class R> INLINE void store_differences(const A* a, const R* r) {
        for (int i = 0; i < RUN; i += WIDTH) store(run.d + i, widen(a + i) - widen(r + i));
    }

    // Raise the maxima to those of the run. Call `changed` for each that grows.
    template <class Changed> INLINE void raise(Changed changed) {
        for (int m = 0; m < Places::SIZE; m++) {
            if (!any_above(run.peak[m], state.maximum[m])) continue;
            state.maximum[m] = highest(run.peak[m]);
            changed(m);
        }
        state.maximum[Maxima::magnitude] = std::max(state.maximum[Maxima::magnitude], highest(run.peak[PEAK_MAGNITUDE]));
    }
    // Return the first position of a maximum in the run, which has the terms of its pairs.
    int position_of(int m) const {
        const double* const terms[] = {nullptr, run.ratio, run.floored, run.ulps};
        int at = 0;
        while ((terms[m] ? terms[m][at] : std::fabs(run.d[at])) != state.maximum[m]) at++;
        return at;
    }
    void maxima(int64_t first) {
        raise([&](int m) { state.place[m] = first + position_of(m), highest_runs[m] = {}; });
    }
    // The same for near pairs, without places: a search needs the terms, and the first runs raise the maxima many times.
    __attribute__((noinline)) void raise_maxima(const float* a, const float* r, int64_t first) {
        raise([&](int m) { highest_runs[m] = {a, r, first}; });
    }
    void place_near_maxima() {
        const float* latest = nullptr;
        for (int m = 0; m < Places::SIZE; m++) {
            const NearRun of = highest_runs[m];
            if (!of.actual) continue;
            if (of.actual != latest) terms(of.actual, of.reference, spare);
            latest = of.actual;
            state.place[m] = of.first + position_of(m), highest_runs[m] = {};
        }
    }

    __attribute__((noinline)) void name_worst(int64_t first) {
        for (int i = 0; i < RUN; i += WIDTH) {
            const Doubles e = size_of(load<Doubles>(run.d + i));
            if (!any((Longs)(e > all(state.least_of_worst)))) continue;
            for (int j = 0; j < WIDTH; j++)
                if (e[j] > state.least_of_worst) state.name_worst({e[j], first + i + j}, job.worst);
        }
    }

    template <class A, class R> __attribute__((noinline)) void diff3(const A* a, const R* r) {
        Doubles peak = {};
        for (int i = 0; i < RUN; i += WIDTH) {
            const Doubles y = widen(r + i), e = size_of(widen(a + i) - y), size = size_of(y);
            peak = larger(size < all(job.regions.diff3_bound) ? e : e / (size + all(DIFF3_FLOOR)), peak);
        }
        for (int i = 0; i < WIDTH; i++) state.maximum[Maxima::diff3] = std::max(state.maximum[Maxima::diff3], (double)peak[i]);
    }

    // Count zeros, subnormals, and references too small for a ratio.
    template <class A, class R> __attribute__((noinline)) void look_at_tiny(const A* a, const R* r, int size) {
        const Doubles normal = all(job.format.smallest_normal), binade = all(job.format.smallest_binade), none = {};
        Lanes<Longs> zero = {}, actual_subnormal = {}, subnormal = {}, flushed = {}, signs = {}, uncounted = {};
        for (int i = 0; i < RUN; i += WIDTH) {
            const Doubles x = widen(a + i), y = widen(r + i), actual = size_of(x), reference = size_of(y);
            const Longs is_zero = reference == none, actual_zero = actual == none;
            const Longs is_subnormal = (Longs)(reference < normal) & ~is_zero;
            const Doubles shift = larger((Doubles)((Longs)y & EXPONENT), binade) * all(to_grid);
            const Doubles held = job.format.same ? reference : (reference + shift) - shift;
            const Longs left_out = reference <= all(SMALLEST_RATIO_REFERENCE);
            zero.part[0] -= is_zero;
            actual_subnormal.part[0] -= (Longs)(actual < normal) & ~actual_zero;
            subnormal.part[0] -= is_subnormal;
            flushed.part[0] -= (Longs)(held < normal) & (Longs)(held > none) & actual_zero;
            signs.part[0] -= is_zero & actual_zero & (((Longs)x ^ (Longs)y) >> 63);
            uncounted.part[0] -= left_out;
            uint32_t* const keys = pending->of[Sketches::relative] + i;
            store(keys, load<Ints>(keys) | narrow((ULongs)left_out & ZERO_KEY));
        }
        const int64_t filled = RUN - size;
        state.counts.zero_references += sum_of(zero) - filled;
        state.counts.actual_subnormals += sum_of(actual_subnormal);
        state.counts.reference_subnormals += sum_of(subnormal);
        state.counts.flushed_subnormals += sum_of(flushed);
        if (job.format.negative_zero) state.counts.zero_sign_differences += sum_of(signs);
        // These keys will be counted as zeros.
        state.table[Sketches::relative].counts[0][ZERO_KEY] -= (uint32_t)(sum_of(uncounted) - filled);
        state.without_ratio += sum_of(uncounted) - filled;
    }

    template <class A, class R> __attribute__((noinline)) void look_at_small(const A* a, const R* r, int filled) {
        const Regions& of = job.regions;
        const Doubles small_bound = all(of.small_bound), bound = all(std::max(of.small_bound, of.cancellation_bound));
        Lanes<Longs> small = {}, below = {}, small_errors = {}, cancelled_errors = {}, violations = {};
        for (int i = 0; i < RUN; i += WIDTH) {
            const Doubles y = widen(r + i), size = size_of(y), e = size_of(widen(a + i) - y);
            const Longs is_small = size < small_bound, is_below = size < bound;
            small.part[0] -= is_small;
            below.part[0] -= is_below;
            small_errors.part[0] -= is_small & (Longs)(e > all(of.small_error));
            cancelled_errors.part[0] -= (is_below & ~is_small) & (Longs)(e > all(of.cancellation_rtol) * size);
            violations.part[0] -= (Longs)(size < all(of.threshold_bound)) & (Longs)(e > all(of.threshold_atol));
        }
        const int64_t filled_small = of.small_bound > 0 ? filled : 0, filled_below = bound[0] > 0 ? filled : 0;
        state.counts.small_values += sum_of(small) - filled_small;
        state.counts.small_value_errors += sum_of(small_errors);
        state.counts.cancellations += (sum_of(below) - filled_below) - (sum_of(small) - filled_small);
        state.counts.cancellation_errors += sum_of(cancelled_errors);
        state.counts.absolute_violations += sum_of(violations);
    }

    template <class A, class R> __attribute__((noinline)) void count_thousandths(const A* a, const R* r) {
        Lanes<Longs> thousandths = {}, ten_thousandths = {};
        for (int i = 0; i < RUN; i += WIDTH) {
            const Doubles y = widen(r + i), size = size_of(y), e = size_of(widen(a + i) - y);
            const Doubles ratio = (Doubles)((Longs)(e / size) & (Longs)(size > all(0.0)));
            thousandths.part[0] = count_larger(ratio, all(1e-3), thousandths.part[0]);
            ten_thousandths.part[0] = count_larger(ratio, all(1e-4), ten_thousandths.part[0]);
        }
        state.counts.thousandths += sum_of(thousandths);
        state.counts.ten_thousandths += sum_of(ten_thousandths);
    }

    template <class A, class R> __attribute__((noinline)) void count_violations(const A* a, const R* r) {
        const Doubles bound = all(job.regions.threshold_bound), rtol = all(job.regions.threshold_rtol);
        Lanes<Longs> violations = {};
        for (int i = 0; i < RUN; i += WIDTH) {
            const Doubles y = widen(r + i), size = size_of(y), e = size_of(widen(a + i) - y);
            violations.part[0] -= (Longs)(size >= bound) & (Longs)(e > rtol * size);
        }
        state.counts.relative_violations += sum_of(violations);
    }

    // Measure bit-identical pairs, whose errors are zero: |r|, r**2 and ulp(r). Returns false, with nothing done, for a run
    // that is not identical, or that has zeros, subnormals or non-finite pairs.
    template <class A, class R> __attribute__((noinline)) bool identical(const A* a, const R* r) {
        if (!totals.has_room()) totals.begin_block();
        Lanes<Doubles> peak = {}, least = lanes_of(DBL_MAX), binades = {};
        Totals::IdenticalAdder<false> adder(totals);
        Longs differ = {};
        for (int i = 0; i < RUN; i += LANES)
            for (int p = 0; p < PARTS; p++) {
                const Doubles x = widen(a + i + p * WIDTH), y = widen(r + i + p * WIDTH), size = size_of(y);
                differ |= (Longs)x ^ (Longs)y;
                peak.part[p] = larger(size, peak.part[p]);
                least.part[p] = smaller(size, least.part[p]);
                binades.part[p] += (Doubles)((Longs)y & EXPONENT);
                adder.add(p, size);
            }
        return !any(differ) && is_finite(adder.magnitude.high) && add_identical(r, peak, least, binades, adder, 0x1p48);
    }
    // The same for float32 in half as many registers.
    __attribute__((noinline)) bool identical(const float* a, const float* r) {
        if (!totals.has_room()) totals.begin_block();
        Singles peak = {}, least = singles_of(FLT_MAX), binades = {};
        Totals::IdenticalAdder<true> adder(totals);
        Words differ = {};
        for (int i = 0; i < RUN; i += SINGLES) {
            const Singles y = load<Singles>(r + i), size = size_of(y);
            differ |= load<Words>(a + i) ^ (Words)y;
            peak = larger(size, peak);
            least = smaller(size, least);
            binades += (Singles)((Words)y & EXPONENT_OF_SINGLE);
            adder.add(i / WIDTH % PARTS, lower_half(size));
            adder.add((i / WIDTH + 1) % PARTS, upper_half(size));
        }
        if (any((Longs)differ) || !is_finite(adder.magnitude.high)) return false;
        Lanes<Doubles> peaks, leasts;
        for (Doubles& part : peaks.part) part = larger(lower_half(peak), upper_half(peak));
        for (Doubles& part : leasts.part) part = smaller(lower_half(least), upper_half(least));
        if (!any_above(peaks, 0x1p120) && add_identical(r, peaks, leasts, lanes_of(binades), adder, 0x1p20)) return true;
        return identical<float, float>(a, r);
    }
    // Add a run of identical pairs, whose binades have an exact sum if the largest |r| is at most `range` times the smallest.
    template <class R, class Adder>
    INLINE bool add_identical(const R* r, const Lanes<Doubles>& peak, const Lanes<Doubles>& least, Lanes<Doubles> binades, const Adder& adder, double range) {
        for (Lanes<Doubles>& of : run.peak) of = {};
        run.peak[PEAK_MAGNITUDE] = peak, run.least = least;
        if (any_below(least, tiny) || !totals.fits(run)) return false;
        const double binade = job.format.smallest_binade;
        if (!any_above(peak, binade)) binades = lanes_of(RUN / LANES * binade); // integers: each ulp is 1
        else if (any_below(least, binade) || any_above(peak, range * lowest(least) * 0.5)) return false;
        if (any_above(peak, state.maximum[Maxima::magnitude])) state.maximum[Maxima::magnitude] = highest(peak);
        adder.commit(totals, binades);
        if (any_below(least, small)) count_regions(r);
        state.counts.n += RUN, state.counts.finite += RUN, state.counts.matching += RUN, state.counts.equal += RUN;
        for (const Table& table : state.table) table.counts[0][ZERO_KEY] += RUN;
        return true;
    }
    template <class R> __attribute__((noinline)) void count_regions(const R* r) {
        Lanes<Longs> small = {}, below = {};
        const double bound = std::max(job.regions.small_bound, job.regions.cancellation_bound);
        for (int i = 0; i < RUN; i += WIDTH) {
            const Doubles size = size_of(widen(r + i));
            small.part[0] = count_larger(all(job.regions.small_bound), size, small.part[0]);
            below.part[0] = count_larger(all(bound), size, below.part[0]);
        }
        state.counts.small_values += sum_of(small);
        state.counts.cancellations += sum_of(below) - sum_of(small);
    }

    // Measure a run with non-finite pairs: count these, put pairs of zeros in their places, and measure the others.
    template <class A, class R> __attribute__((noinline)) void patched(const A* a, const R* r, int size, int64_t first) {
        A filled_a[RUN];
        R filled_r[RUN];
        memcpy(filled_a, a, sizeof filled_a);
        memcpy(filled_r, r, sizeof filled_r);
        int dropped = 0;
        for (int i = 0; i < size; i++) {
            const double x = a[i], y = r[i];
            if (std::fabs(x) <= DBL_MAX && std::fabs(y) <= job.format.largest_reference) continue;
            classify(x, y, first + i);
            state.groups->leave_out(first + i);
            filled_a[i] = 0, filled_r[i] = 0, run.counts[i] = 0.0;
            dropped++;
        }
        terms(filled_a, filled_r, buffers[0]);
        measured(filled_a, filled_r, size - dropped, first);
        for (double& counts : run.counts) counts = 1.0;
        state.counts.n += dropped;
    }

    void classify(double x, double y, int64_t index) {
        const double most = job.format.largest_reference;
        const bool nan_y = y != y || (job.format.overflow_is_nan && std::fabs(y) > most), nan_x = x != x;
        Counts& counts = state.counts;
        if (nan_x || nan_y) {
            (nan_x && nan_y ? counts.nan_matched : counts.nan_mismatched)++;
            if (nan_x && nan_y) counts.matching++, counts.equal++;
            else state.name_non_finite(index, job.worst);
            return;
        }
        const double held = std::fabs(y) > most ? std::copysign(INFINITY, y) : y;
        if (x == held) {
            (x > 0 ? counts.plus_inf_matched : counts.minus_inf_matched)++;
            counts.matching++, counts.equal++;
            return;
        }
        const double infinite = std::fabs(held) > DBL_MAX ? held : x;
        (infinite > 0 ? counts.plus_inf_mismatched : counts.minus_inf_mismatched)++;
        state.name_non_finite(index, job.worst);
    }
};

// Measure pairs of any two kinds, read as float32 or float64.
template <class A, class R> void measure_as(const Job& job, State& state) {
    Kernel kernel(job, state, sizeof(A) == 8 || sizeof(R) == 8);
    Reader<A> actual(job.actual);
    Reader<R> reference(job.reference);
    const int64_t piece = actual.direct() && reference.direct() ? job.n : PIECE;
    for (int64_t at = 0; at < job.n; at += piece) {
        const int64_t n = std::min(piece, job.n - at);
        kernel.pass(actual.read(at, n), reference.read(at, n), n, job.start + at);
    }
    kernel.finish();
}

} // namespace

namespace PRECREG_SET {

void measure(const Job& job, State& state) {
    const bool wide_actual = needs_float64(job.actual.kind), wide_reference = needs_float64(job.reference.kind);
    if (wide_actual) return wide_reference ? measure_as<double, double>(job, state) : measure_as<double, float>(job, state);
    return wide_reference ? measure_as<float, double>(job, state) : measure_as<float, float>(job, state);
}

} // namespace PRECREG_SET

} // namespace precreg
