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

constexpr int STEP = 16;

struct Bound {
    double exact;
    float below; // a float32 that every error above the bound exceeds, rounded to float32

    explicit Bound(double bound) : exact(bound), below(bound < FLT_MAX ? (float)bound : FLT_MAX) {
        if (below > bound) below = std::nextafterf(below, 0.0f);
        below = std::max(below, FLT_TRUE_MIN); // the least error above 0 of two float32
        below = std::nextafterf(below, 0.0f);
    }
};

// Append the positions of a step whose error may be above the bound; return how many there are.
template <class A, class R> INLINE int append_above(const A* a, const R* r, const Bound& bound, int64_t at, int32_t* to) {
    int size = 0;
    for (int i = 0; i < STEP; i += WIDTH)
        size += append_larger(size_of(widen(a + at + i) - widen(r + at + i)), all(bound.exact), (int32_t)at + i, to + size);
    return size;
}
// Differences of float32 round to float32 in their order, so that twice as many pairs fit in a register.
INLINE int append_above(const float* a, const float* r, const Bound& bound, int64_t at, int32_t* to) {
    int size = 0;
    for (int i = 0; i < STEP; i += SINGLES) {
        const Singles error = size_of(load<Singles>(a + at + i) - load<Singles>(r + at + i));
        size += append_larger(error, singles_of(bound.below), (int32_t)at + i, to + size);
    }
    return size;
}

template <class A, class R> void find(const A* a, const R* r, const Job& job, const double* peaks, double bound, std::vector<Worst>& into) {
    const auto look = [&](int64_t at) {
        const double x = a[at], y = r[at], error = std::fabs(x - y);
        const bool finite = std::fabs(x) <= DBL_MAX && std::fabs(y) <= job.format.largest_reference;
        if (error > bound && finite) into.push_back({error, job.start + at});
    };
    const Bound limit(bound);
    // Many runs at once: a loop over those of one run alone ends where the processor does not foresee it.
    int32_t candidates[8 * RUN];
    int size = 0;
    const auto look_at_candidates = [&] {
        for (int i = 0; i < size; i++) look(candidates[i]);
        size = 0;
    };
    for (int64_t begin = 0; begin < job.n; begin += RUN) {
        if (!(peaks[begin / RUN] > bound)) continue;
        const int64_t end = std::min(begin + RUN, job.n);
        int64_t at = begin;
        if (size > 7 * RUN - STEP) look_at_candidates();
        for (; at + STEP <= end; at += STEP) size += append_above(a, r, limit, at, candidates + size);
        if (at == end) continue;
        look_at_candidates();
        for (; at < end; at++) look(at);
    }
    look_at_candidates();
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
