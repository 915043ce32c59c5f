// What the measuring core is told, and what it adds up. precreg/measure/tally.py says what each figure means.
#pragma once

#include <cstdint>
#include <vector>

#include "groups.hpp"

namespace precreg {

enum class Kind : int { float32, float64, float16, bfloat16, byte, int16, uint16, int32, uint32 };

// One side of the pairs: flat, in C order. A `byte` dtype is read through a table of what its 256 patterns mean.
struct Side {
    Kind kind;
    const void* data;
    const float* table;
    bool integer;
};

// The output's number format. ulp(r) is 2**(e - precision + 1) with e the exponent of r, but at least that of
// `smallest_binade`; integers have precision 53 and smallest_binade 2**52, which makes every ulp 1.
struct Format {
    int precision;
    double smallest_binade;   // 2**min_exponent
    double smallest_normal;   // 0 where there are no subnormals
    double largest_reference; // a larger |r| becomes an infinity or a NaN in the output dtype
    bool negative_zero;
    bool overflow_is_nan;     // what lies beyond is a NaN, not an infinity
    bool same; // the reference has the output's dtype: nothing is rounded
};

struct Regions {
    double small_bound, small_error, cancellation_bound, cancellation_rtol;
    double threshold_bound, threshold_rtol, threshold_atol, diff3_bound;
};

struct Job {
    Side actual, reference;
    int64_t n, start;
    double rtol, atol;
    int64_t worst;
    Format format;
    Regions regions;
};

enum Count {
    N, FINITE, NAN_MATCHED, NAN_MISMATCHED, PLUS_INF_MATCHED, MINUS_INF_MATCHED, PLUS_INF_MISMATCHED, MINUS_INF_MISMATCHED,
    ZERO_REFERENCES, ACTUAL_SUBNORMALS, REFERENCE_SUBNORMALS, FLUSHED_SUBNORMALS, EXACT_MATCHES, ZERO_SIGN_DIFFERENCES,
    ABOVE, BELOW, EQUAL, MATCHING, THOUSANDTHS, TEN_THOUSANDTHS, SMALL_VALUES, SMALL_VALUE_ERRORS, CANCELLATIONS,
    CANCELLATION_ERRORS, RELATIVE_VIOLATIONS, ABSOLUTE_VIOLATIONS, COUNTS
};
enum Total {
    ABSOLUTE, SIGNED, RELATIVE, FLOORED, ULPS, SPACING, MAGNITUDE, SQUARED_ERROR, SQUARED_REFERENCE, PRODUCT, WEIGHTED_ERROR,
    SUMS
};
enum Maximum { MAX_ABSOLUTE, MAX_RELATIVE, MAX_FLOORED, MAX_ULPS, MAX_DIFF3, MAX_MAGNITUDE, MAXIMA, PLACES = MAX_DIFF3 };
enum Figure { ERRORS, RATIOS, ULP_ERRORS, FIGURES };

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

struct State {
    int64_t count[COUNTS] = {};
    Exact sum[SUMS];
    double infinite[SUMS] = {}; // the sum of infinite terms and NaN, 0 without any
    Exact scaled[SUMS][5]; // [.][k + 2]: sums of terms * 2**(600 k), which are too small or too large for `sum`
    double maximum[MAXIMA] = {};
    int64_t place[PLACES] = {-1, -1, -1, -1};
    Table table[FIGURES];
    std::vector<Worst> worst;
    std::vector<int64_t> non_finite;
    GroupSums* groups = nullptr;

    void add(int which, double term);
    int64_t without_ratio = 0;   // finite pairs with |r| <= 1e-12, which the table of ratios leaves out
    double least_of_worst = 0.0; // an error must be larger to be named

    // Name an error that is larger than `least_of_worst`. Errors come by rising index, so that of equal ones the first
    // stays. Now and then all but the worst are thrown away, which costs less than keeping them in order.
    void name_worst(Worst next, int64_t most);
    void keep_worst(int64_t most);
    void name_non_finite(int64_t index, int64_t most);
};

// The same source, compiled for several instruction sets: same results, bit for bit. All else is compiled once: what is
// inline in a header might otherwise be taken, by the linker, from instructions that the processor does not have.
namespace generic { void measure(const Job&, State&); }
namespace avx2 { void measure(const Job&, State&); }
namespace avx512 { void measure(const Job&, State&); }

} // namespace precreg
