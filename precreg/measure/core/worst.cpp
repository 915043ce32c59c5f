// The worst errors of a small array, found in a second pass. This file is compiled once for each instruction set.
//
// The counts of errors by size tell how large an error must be to be named. So the second pass compares each error with
// one bound. A list of the worst ones that grows during the first pass costs several times as much.

#include "job.hpp"
#include "lanes.hpp"
#include "reader.hpp"
#include "worst.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>

#ifndef PRECREG_SET
#define PRECREG_SET generic
#endif

namespace precreg {
namespace {

constexpr int STEP = 4 * LANES; // pairs between two branches: most steps have no error to name

struct Bound {
    double exact;
    float least; // a float32 that no error above the bound rounds below

    explicit Bound(double bound) : exact(bound), least(bound < FLT_MAX ? (float)bound : FLT_MAX) {
        if (least > bound) least = std::nextafterf(least, 0.0f);
        least = std::max(least, FLT_TRUE_MIN); // the least error above 0 of two float32
    }
};

template <class A, class R> INLINE Longs are_above(const A* a, const R* r, Doubles bound) {
    return (Longs)(size_of(widen(a) - widen(r)) > bound);
}

// Return false if no error of a step is above the bound.
template <class A, class R> INLINE bool may_be_above(const A* a, const R* r, const Bound& bound) {
    Longs larger = {};
    for (int i = 0; i < STEP; i += WIDTH) larger |= are_above(a + i, r + i, all(bound.exact));
    return any(larger);
}
// Differences of float32 round to float32 in their order, so that twice as many pairs fit in a register.
INLINE bool may_be_above(const float* a, const float* r, const Bound& bound) {
    Longs larger = {};
    for (int i = 0; i < STEP; i += SINGLES)
        larger |= (Longs)(size_of(load<Singles>(a + i) - load<Singles>(r + i)) >= singles_of(bound.least));
    return any(larger);
}

template <class A, class R> void find(const A* a, const R* r, const Job& job, const double* peaks, double bound, std::vector<Worst>& into) {
    const auto look = [&](int64_t at, int64_t end) {
        for (; at < end; at++) {
            const double x = a[at], y = r[at], error = std::fabs(x - y);
            const bool finite = std::fabs(x) <= DBL_MAX && std::fabs(y) <= job.format.largest_reference;
            if (error > bound && finite) into.push_back({error, job.start + at});
        }
    };
    const Bound limit(bound);
    for (int64_t begin = 0; begin < job.n; begin += RUN) {
        if (__builtin_expect(!(peaks[begin / RUN] > bound), 1)) continue;
        const int64_t end = std::min(begin + RUN, job.n);
        int64_t at = begin;
        for (; at + STEP <= end; at += STEP) {
            if (__builtin_expect(!may_be_above(a + at, r + at, limit), 1)) continue;
            for (int i = 0; i < STEP; i += WIDTH)
                if (any(are_above(a + at + i, r + at + i, all(bound)))) look(at + i, at + i + WIDTH);
        }
        look(at, end);
    }
}

template <class A> void find(const A* a, const Job& job, const double* peaks, double bound, std::vector<Worst>& into) {
    if (job.reference.kind == Kind::float64) return find(a, (const double*)job.reference.data, job, peaks, bound, into);
    find(a, (const float*)job.reference.data, job, peaks, bound, into);
}

} // namespace

namespace PRECREG_SET {

void find_worst(const Job& job, const double* peak_of_run, double bound, std::vector<Worst>& into) {
    if (job.actual.kind == Kind::float64) return find((const double*)job.actual.data, job, peak_of_run, bound, into);
    find((const float*)job.actual.data, job, peak_of_run, bound, into);
}

} // namespace PRECREG_SET

} // namespace precreg
