// The figures of one call, without the arrays. They become objects of Python when somebody reads them.
#pragma once

#include "job.hpp"
#include "reader.hpp"

#include <cstdint>
#include <vector>

namespace precreg {

// Values counted by size; Sketch in precreg/measure/tally.py defines keys.
struct Sketch {
    std::vector<int32_t> keys;
    std::vector<int64_t> counts;
};

// A pair as it was when it was measured: the caller may change its arrays afterwards.
struct NamedPair {
    Worst place; // its error is 0 for a pair that is not finite
    double actual, reference;
    bool operator<(const NamedPair& other) const { return place < other.place; }
};

// The sum of terms * 2**-exponent, largest part first.
struct ScaledSum {
    int sum, exponent;
    std::vector<double> parts;
};

// An expansion in memory of others, largest part first.
struct Expansion {
    const double *first, *last;

    const double* begin() const { return first; }
    const double* end() const { return last; }
};

inline void append_parts(const Exact& exact, std::vector<double>& to) {
    to.insert(to.end(), std::make_reverse_iterator(exact.part + exact.size), std::make_reverse_iterator(exact.part));
}

struct Found {
    Counts counts;
    double maximum[Maxima::SIZE];
    int64_t place[Places::SIZE];
    Sketch sketches[Sketches::SIZE];
    std::vector<NamedPair> worst; // not in order yet
    std::vector<NamedPair> non_finite;
    std::vector<Axis> axes;
    std::vector<ScaledSum> scaled;
    bool actual_is_integer, reference_is_integer;
    bool has_small_values, has_threshold; // regions that are not empty

    Found(const Job& job, State& state) : counts(state.counts), axes(std::move(state.groups->finish())) {
        memcpy(maximum, state.maximum, sizeof maximum);
        memcpy(place, state.place, sizeof place);
        parts.reserve(4 * Sums::SIZE);
        for (int s = 0; s < Sums::SIZE; s++) {
            if (state.infinite[s] != 0.0) parts.push_back(state.infinite[s]);
            else append_parts(state.sum[s], parts);
            end_of_sum[s] = (int)parts.size();
            for (int k = 0; k < 5; k++) {
                if (!state.scaled[s][k].size) continue;
                scaled.push_back({s, -600 * (k - 2), {}});
                append_parts(state.scaled[s][k], scaled.back().parts);
            }
        }
        const auto named = [&](Worst of) {
            const int64_t at = of.index - job.start;
            return NamedPair{of, value_at(job.actual, at), value_at(job.reference, at)};
        };
        worst.reserve(state.worst.size());
        for (const Worst& each : state.worst) worst.push_back(named(each));
        for (int64_t index : state.non_finite) non_finite.push_back(named({0.0, index}));
        actual_is_integer = job.actual.is_integer, reference_is_integer = job.reference.is_integer;
        has_small_values = job.regions.small_bound != 0.0, has_threshold = job.regions.threshold_bound != 0.0;
    }

    Expansion sum(int which) const { return {parts.data() + (which ? end_of_sum[which - 1] : 0), parts.data() + end_of_sum[which]}; }

  private:
    std::vector<double> parts; // of all sums, in one vector: 13 would be 13 allocations
    int end_of_sum[Sums::SIZE];
};

} // namespace precreg
