// Sizes of the errors of an array in one pass. This file is compiled once for each instruction set, into PRECREG_SET.
//
// Sums run in four lanes, whatever the width of registers, so that every instruction set gives the same bits.
#include "numbers.hpp"
#include "job.hpp"

#ifndef PRECREG_SET
#define PRECREG_SET generic
#endif

namespace precreg {
namespace {

typedef double Doubles __attribute__((vector_size(32)));
typedef int64_t Longs __attribute__((vector_size(32)));
constexpr int LANES = 4;
constexpr int64_t BLOCK = 2048; // elements whose range is taken while they are in the cache

INLINE Doubles widened(const double* from) { return load<Doubles>(from); }
INLINE Doubles widened(const float* from) {
    typedef float Floats __attribute__((vector_size(16)));
    return __builtin_convertvector(load<Floats>(from), Doubles);
}
INLINE double total(Doubles lanes) { return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]); }
INLINE double larger(double a, double b) { return a > b ? a : b; }

// The errors of one kind in a row. A NaN is in the squares alone.
struct Row {
    Doubles squares = {}, largest = {};

    INLINE void add(Doubles error) {
        squares += error * error;
        const Doubles size = (Doubles)((Longs)error & INT64_MAX);
        largest = (Doubles)chosen((Longs)(size > largest), (Longs)size, (Longs)largest);
    }
};

// Those of all rows: the sum of squares, that of the worst row, and the largest error.
struct Errors {
    double squares = 0, worst = 0, largest = 0;

    INLINE void add(const Row& row) {
        const double sum = total(row.squares);
        squares += sum;
        worst = larger(sum, worst);
        for (int lane = 0; lane < LANES; lane++) largest = larger(row.largest[lane], largest);
    }
    void report(double* to) const { to[0] = squares, to[1] = worst, to[2] = largest; }
};

// Masks hold values beyond it, infinite ones among them (MASK_LIMIT in precreg/shadow/sizes.py). Where two numbers lie there
// on the same side, they have no error and no size.
constexpr double MASK_LIMIT = 1e30;

// Return all bits for lanes that count, and none for those of masks.
INLINE Longs counting(Doubles a, Doubles b) {
    const Doubles size = (Doubles)((Longs)a & INT64_MAX), other = (Doubles)((Longs)b & INT64_MAX);
    const Longs masked = (Longs)(size > MASK_LIMIT) & (Longs)(other > MASK_LIMIT) & (Longs)(((Longs)a ^ (Longs)b) >= 0);
    return ~masked;
}
template <bool MASKED> INLINE Doubles kept_lanes(Doubles values, Longs counts) {
    return MASKED ? (Doubles)((Longs)values & counts) : values;
}

template <bool OWN, bool MASKED> struct Pass {
    Errors all, inherited, own;
    Doubles scale = {}, own_scale = {};

    template <class T> INLINE void add_row(const T* low, const double* exact, const double* beside, float* kept, int64_t columns) {
        Row all_row, inherited_row, own_row;
        Doubles squares = {}, own_squares = {};
        const auto step = [&](const T* value, const double* shadow, const double* alone, float* into) __attribute__((always_inline)) {
            const Doubles wide = widened(value), high = load<Doubles>(shadow);
            const Longs counts = counting(wide, high);
            const Doubles size = kept_lanes<MASKED>(high, counts);
            squares += size * size;
            Doubles error = kept_lanes<MASKED>(wide - high, counts);
            all_row.add(error);
            if (OWN) {
                const Doubles middle = load<Doubles>(alone);
                const Longs own_counts = counting(wide, middle);
                const Doubles own_size = kept_lanes<MASKED>(middle, own_counts);
                own_squares += own_size * own_size;
                inherited_row.add(kept_lanes<MASKED>(middle - high, counting(middle, high)));
                own_row.add(error = kept_lanes<MASKED>(wide - middle, own_counts));
            }
            if (into)
                for (int lane = 0; lane < LANES; lane++) into[lane] = (float)error[lane];
        };
        int64_t place = 0;
        if (kept)
            for (; place + LANES <= columns; place += LANES) step(low + place, exact + place, OWN ? beside + place : nullptr, kept + place);
        else
            for (; place + LANES <= columns; place += LANES) step(low + place, exact + place, OWN ? beside + place : nullptr, nullptr);
        if (place < columns) { // zeros fill the lanes
            const size_t left = (size_t)(columns - place);
            T value[LANES] = {};
            double shadow[LANES] = {}, alone[LANES] = {};
            float into[LANES];
            memcpy(value, low + place, left * sizeof(T));
            memcpy(shadow, exact + place, left * sizeof(double));
            if (OWN) memcpy(alone, beside + place, left * sizeof(double));
            step(value, shadow, alone, into);
            if (kept) memcpy(kept + place, into, left * sizeof(float));
        }
        scale += squares;
        all.add(all_row);
        if (!OWN) return;
        own_scale += own_squares;
        inherited.add(inherited_row), own.add(own_row);
    }
};

template <class T> struct Word;
template <> struct Word<float> {
    typedef uint32_t Bits;
};
template <> struct Word<double> {
    typedef uint64_t Bits;
};

// The range of values by their bits, which are in the order of their sizes.
template <class T> struct Sizes {
    typedef typename Word<T>::Bits Bits;
    Bits least = ~(Bits)0, greatest = 0; // of all values less one step: a zero wraps around, and is never the least
    int64_t zeros = 0;

    INLINE void add(const T* from, int64_t n) {
        constexpr Bits NO_SIGN = ~(Bits)0 >> 1;
        Bits low = least, high = greatest, none = 0;
        for (int64_t i = 0; i < n; i++) {
            Bits size;
            memcpy(&size, from + i, sizeof size);
            size &= NO_SIGN;
            const Bits before = size - 1;
            low = before < low ? before : low;
            high = size > high ? size : high;
            none += (Bits)(size == 0);
        }
        least = low, greatest = high, zeros += (int64_t)none;
    }
    static double number(Bits bits) {
        T value;
        memcpy(&value, &bits, sizeof value);
        return (double)value;
    }
    void report(double* to) const { to[0] = number(least + 1), to[1] = number(greatest), to[2] = (double)zeros; }
};

template <bool OWN, bool MASKED, class T> void pass(const ErrorJob<T>& job) {
    Pass<OWN, MASKED> errors;
    Sizes<T> sizes;
    const int64_t some = job.columns < BLOCK ? BLOCK / job.columns : 1;
    for (int64_t first = 0; first < job.rows; first += some) {
        const int64_t rows = first + some < job.rows ? some : job.rows - first;
        for (int64_t row = first; row < first + rows; row++) {
            const int64_t at = row * job.columns;
            errors.add_row(job.low + at, job.exact + at, OWN ? job.own + at : nullptr, job.kept ? job.kept + at : nullptr, job.columns);
        }
        sizes.add(job.low + first * job.columns, rows * job.columns);
    }
    errors.all.report(job.found), errors.inherited.report(job.found + 3), errors.own.report(job.found + 6);
    job.found[9] = total(errors.scale), job.found[10] = total(errors.own_scale);
    sizes.report(job.found + 11);
}

template <class T> void measured(const ErrorJob<T>& job) {
    job.own ? pass<true, false>(job) : pass<false, false>(job);
    const double most = MASK_LIMIT * MASK_LIMIT, *const found = job.found;
    const bool ordinary = found[0] < most && found[9] < most && (!job.own || (found[3] < most && found[6] < most && found[10] < most));
    if (!ordinary) job.own ? pass<true, true>(job) : pass<false, true>(job);
}

} // namespace

namespace PRECREG_SET {

void measure(const ErrorJob<float>& job) { measured(job); }
void measure(const ErrorJob<double>& job) { measured(job); }

} // namespace PRECREG_SET
} // namespace precreg
