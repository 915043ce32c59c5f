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

template <class A, class R> INLINE Longs are_above(const A* a, const R* r, Doubles bound) {
    return (Longs)(size_of(widen(a) - widen(r)) > bound);
}

template <class A, class R> void find(const A* a, const R* r, const Job& job, double bound, std::vector<Worst>& into) {
    const auto look = [&](int64_t at, int64_t end) {
        for (; at < end; at++) {
            const double x = a[at], y = r[at], error = std::fabs(x - y);
            const bool finite = std::fabs(x) <= DBL_MAX && std::fabs(y) <= job.format.largest_reference;
            if (error > bound && finite) into.push_back({error, job.start + at});
        }
    };
    int64_t at = 0;
    for (; at + STEP <= job.n; at += STEP) {
        Longs larger = {};
        for (int i = 0; i < STEP; i += WIDTH) larger |= are_above(a + at + i, r + at + i, all(bound));
        if (__builtin_expect(!any(larger), 1)) continue;
        for (int i = 0; i < STEP; i += WIDTH)
            if (any(are_above(a + at + i, r + at + i, all(bound)))) look(at + i, at + i + WIDTH);
    }
    look(at, job.n);
}

template <class A> void find(const A* a, const Job& job, double bound, std::vector<Worst>& into) {
    if (job.reference.kind == Kind::float64) return find(a, (const double*)job.reference.data, job, bound, into);
    find(a, (const float*)job.reference.data, job, bound, into);
}

} // namespace

namespace PRECREG_SET {

void find_worst(const Job& job, double bound, std::vector<Worst>& into) {
    if (job.actual.kind == Kind::float64) return find((const double*)job.actual.data, job, bound, into);
    find((const float*)job.actual.data, job, bound, into);
}

} // namespace PRECREG_SET

} // namespace precreg
