// The input and the sums of the measuring core. precreg/measure/tally.py defines each figure.
#pragma once

#include <cstdint>
#include <vector>

#include "../../arithmetic/core/declarations.hpp"
#include "groups.hpp"

namespace precreg {

// `byte` is any dtype of one byte: a table gives the meaning of its 256 patterns.
PRECREG_ENUM(Kind, float32, float64, float16, bfloat16, byte, int16, uint16, int32, uint32)

// One side of the pairs: flat, in C order.
struct Side {
    Kind kind;
    const void* data;
    const float* table;
    bool is_integer;
};

// The number format of the output. ulp(r) is 2**(e - precision + 1) with e the exponent of r, but at least the exponent of
// `smallest_binade`. Integers have precision 53 and smallest_binade 2**52, which makes every ulp 1.
PRECREG_STRUCT(Format,
    int32_t precision;
    double smallest_binade;   // 2**min_exponent
    double smallest_normal;   // 0 without subnormals
    double largest_reference; // a larger |r| becomes an infinity or a NaN in the output dtype
    bool negative_zero;
    bool overflow_is_nan;     // numbers beyond the largest become NaN, not an infinity
    bool same;                // the reference has the output's dtype: nothing is rounded
)

// Regions in precreg/measure/metrics.py explains each bound.
PRECREG_STRUCT(Regions,
    double small_bound, small_error, cancellation_bound, cancellation_rtol;
    double threshold_bound, threshold_rtol, threshold_atol, diff3_bound;
)

// All that a pair of dtypes decides. native.py packs it once for each pair.
PRECREG_STRUCT(Plan,
    Kind actual, reference;
    bool actual_is_integer, reference_is_integer;
    Format format;
    Regions regions;
)

struct Job {
    Side actual, reference;
    int64_t n, start;
    double rtol, atol;
    int64_t worst;
    Format format;
    Regions regions;
};

PRECREG_STRUCT(Counts,
    int64_t n, finite, nan_matched, nan_mismatched, plus_inf_matched, minus_inf_matched, plus_inf_mismatched,
            minus_inf_mismatched, zero_references, actual_subnormals, reference_subnormals, flushed_subnormals, exact_matches,
            zero_sign_differences, above, below, equal, matching, thousandths, ten_thousandths, small_values,
            small_value_errors, cancellations, cancellation_errors, relative_violations, absolute_violations;
)
// Sums and maxima are arrays with indices, because loops go over them.
PRECREG_INDEX(Sums, absolute, signed_, outward, relative, floored, ulps, squared_ulps, spacing, magnitude, squared_error, squared_reference, product,
              weighted_error)
PRECREG_INDEX(Maxima, absolute, relative, floored, ulps, diff3, magnitude)
PRECREG_INDEX(Places, absolute, relative, floored, ulps) // the first maxima
PRECREG_INDEX(Sketches, absolute, relative, ulps)
// The results of measure and of sizes: tuples.
PRECREG_INDEX(Result, counts, sums, maxima, places, sketches, errors, worst, non_finite, groups, scaled)
// The result of describe: a tuple, in the order of the fields of a Comparison.
PRECREG_INDEX(Described, metrics, counts, worst, non_finite, histogram, heat, places, groups)
PRECREG_INDEX(Sizes, percentiles, above, mean_log2, bins, counts)

// A sum without rounding: floats that do not overlap, smallest first (Shewchuk, Adaptive Precision Floating-Point
// Arithmetic, 1997: "grow expansion" and "compress"). Packed, 41 floats hold any sum.
struct Exact {
    static constexpr int CAPACITY = 64;
    double part[CAPACITY];
    int size = 0;

    void add(double term);

  private:
    void pack();
};

constexpr int RUN = 128; // pairs; their terms take 7 kB of the first cache

struct Worst {
    double error;
    int64_t index; // within the call
    bool operator<(const Worst& other) const { // the worse error is less, and comes first
        return error > other.error || (error == other.error && index < other.index);
    }
};

// Counters of values by size: two tables, used in turn, so that equal neighbours do not wait for each other.
constexpr int KEYS = 1 << 19, ZERO_KEY = KEYS - 1, UNUSED_KEY = KEYS - 2;
struct Table {
    uint32_t* counts[2]; // all zero between calls
};

// Counters of near pairs (near.hpp): 64 multiples of half an ULP for each of the 256 exponents of float32.
constexpr int NEAR_BITS = 6, NEAR_KEYS = 256 << NEAR_BITS;

struct State {
    Counts counts{};
    Exact sum[Sums::SIZE];
    double infinite[Sums::SIZE] = {}; // the sum of infinite terms and NaN, 0 without any
    Exact scaled[Sums::SIZE][5]; // [.][k + 2]: sums of terms * 2**(600 k), which are too small or too large for `sum`
    double maximum[Maxima::SIZE] = {};
    int64_t place[Places::SIZE] = {-1, -1, -1, -1};
    Table table[Sketches::SIZE];
    Table near; // all zero between calls, too
    std::vector<Worst> worst;
    std::vector<int64_t> non_finite;
    GroupSums* groups = nullptr;
    double* peak_of_run = nullptr; // for each run of RUN pairs its largest error; null if nobody needs them
    int64_t without_ratio = 0;   // finite pairs with |r| <= 1e-12, which the table of ratios leaves out
    double least_of_worst = 0.0; // name_worst takes larger errors only

    void add(int which, double term);

    // Keep an error that is larger than `least_of_worst`. Errors come by rising index, so that of equal ones the first
    // stays. Now and then all but the worst are thrown away, which costs less than keeping them in order.
    void name_worst(Worst next, int64_t most);
    void keep_worst(int64_t most);
    void name_non_finite(int64_t index, int64_t most);
};

// The same source, compiled for several instruction sets, gives the same bits. All else is compiled once, because the linker
// might take an inline function of a header from instructions that the processor does not have.
namespace generic { void measure(const Job&, State&); }
namespace avx2 { void measure(const Job&, State&); }
namespace avx512 { void measure(const Job&, State&); }

} // namespace precreg
