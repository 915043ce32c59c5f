// Adding the errors of a run to the groups that its pairs are in.
#pragma once

#include "groups.hpp"
#include "lanes.hpp"
#include "totals.hpp"

namespace precreg {
namespace {

INLINE void add_at(double* sums, Doubles terms) { store(sums, load<Doubles>(sums) + terms); }

void add_to_tile(GroupSums& groups, const double* d, const double* ulps, int n, int64_t position) {
    int64_t offset = position % groups.width;
    while (n > 0) {
        const int here = (int)(n < groups.width - offset ? n : groups.width - offset);
        double *const absolute = groups.place[GROUP_ABSOLUTE] + offset, *const bias = groups.place[GROUP_SIGNED] + offset;
        double *const squared = groups.place[GROUP_SQUARED] + offset, *const ulp = groups.place[GROUP_ULPS] + offset;
        int i = 0;
        for (; i + WIDTH <= here; i += WIDTH) {
            const Doubles difference = load<Doubles>(d + i);
            add_at(absolute + i, size_of(difference));
            add_at(bias + i, difference);
            add_at(squared + i, difference * difference);
            add_at(ulp + i, load<Doubles>(ulps + i));
        }
        for (; i < here; i++) {
            absolute[i] += __builtin_fabs(d[i]);
            bias[i] += d[i];
            squared[i] += d[i] * d[i];
            ulp[i] += ulps[i];
        }
        d += here, ulps += here, n -= here, offset = 0;
    }
}

void add_to_stretch(GroupSums& groups, const double* d, const double* ulps, int n) {
    Lanes<Doubles> absolute = {}, bias = {}, squared = {}, ulp = {};
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int p = 0; p < PARTS; p++) {
            const Doubles difference = load<Doubles>(d + i + p * WIDTH);
            absolute.part[p] += size_of(difference);
            bias.part[p] += difference;
            squared.part[p] += difference * difference;
            ulp.part[p] += load<Doubles>(ulps + i + p * WIDTH);
        }
    double sums[GROUP_SUMS] = {sum_of(absolute), sum_of(bias), sum_of(squared), sum_of(ulp)};
    for (; i < n; i++) {
        sums[GROUP_ABSOLUTE] += __builtin_fabs(d[i]);
        sums[GROUP_SIGNED] += d[i];
        sums[GROUP_SQUARED] += d[i] * d[i];
        sums[GROUP_ULPS] += ulps[i];
    }
    for (int s = 0; s < GROUP_SUMS; s++) groups.stretch[s] += sums[s];
}

INLINE void add_to_groups(GroupSums& groups, const Run& run, int n, int64_t position) {
    if (groups.width) add_to_tile(groups, run.d, run.ulps, n, position);
    if (!groups.in_stretches) return;
    for (int done = 0; done < n;) {
        const int64_t at = position + done;
        if (at >= groups.stretch_end) groups.open_stretch(at);
        const int here = (int)(n - done < groups.stretch_end - at ? n - done : groups.stretch_end - at);
        add_to_stretch(groups, run.d + done, run.ulps + done, here);
        done += here;
    }
}

} // namespace
} // namespace precreg
