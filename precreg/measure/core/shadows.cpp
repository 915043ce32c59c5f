// One pass over values and their shadows. This file is compiled once for each instruction set, into the namespace PRECREG_SET.
#include "lanes.hpp"
#include "shadows.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#ifndef PRECREG_SET
#define PRECREG_SET generic
#endif

namespace precreg {
namespace {

static_assert(SUM_LANES == LANES, "the state has as many lanes as the kernel");

// Values of a strip, or of a block, stay in the first cache from one loop to the next: a strip has operands beside results.
constexpr int64_t STRIP = 256, BLOCK = 1024;

template <class T> struct Pattern;
template <> struct Pattern<float> {
    typedef uint32_t Bits;
};
template <> struct Pattern<double> {
    typedef uint64_t Bits;
};

template <class T> typename Pattern<T>::Bits bits_of(T value) {
    typename Pattern<T>::Bits bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

// The range of the magnitudes, as bits: they are ordered as the magnitudes are.
template <class T> class Range {
    typedef typename Pattern<T>::Bits Bits;
    // Comparisons of signed numbers are single instructions on every processor; no magnitude has the sign's bit.
    typedef typename std::make_signed<Bits>::type Ordered;
    static constexpr Ordered MAGNITUDE = std::numeric_limits<Ordered>::max();

  public:
    Range(const ShadowRows& rows, ShadowTotals& totals)
        : totals(totals), normal((Ordered)bits_of((T)rows.smallest_normal)), infinity((Ordered)bits_of(std::numeric_limits<T>::infinity())) {
        least = totals.smallest > 0 ? (Ordered)bits_of((T)totals.smallest) : MAGNITUDE;
        most = (Ordered)bits_of((T)totals.most);
    }
    INLINE void add(const T* values, int64_t n) {
        Ordered below = MAGNITUDE, high = 0, zeros = 0; // `below` is the least magnitude less one step: a zero wraps around
        for (int64_t i = 0; i < n; i++) {
            const Ordered magnitude = (Ordered)load<Bits>(values + i) & MAGNITUDE, step = (magnitude - 1) & MAGNITUDE;
            below = step < below ? step : below;
            high = magnitude > high ? magnitude : high;
            zeros += magnitude == 0;
        }
        if (below < normal - 1 || high >= infinity) return count(values, n);
        if (below < MAGNITUDE) least = std::min(least, below + 1);
        most = std::max(most, high);
        totals.zeros += zeros;
    }
    void finish() {
        totals.smallest = least == MAGNITUDE ? 0.0 : number(least);
        totals.most = number(most);
    }

  private:
    ShadowTotals& totals;
    const Ordered normal, infinity;
    Ordered least, most;

    static double number(Ordered bits) {
        T value;
        memcpy(&value, &bits, sizeof value);
        return (double)value;
    }
    void count(const T* values, int64_t n) {
        Ordered nan = 0, inf = 0, subnormal = 0, zeros = 0, low = least, high = most;
        for (int64_t i = 0; i < n; i++) {
            const Ordered magnitude = (Ordered)load<Bits>(values + i) & MAGNITUDE;
            nan += magnitude > infinity, inf += magnitude == infinity;
            zeros += magnitude == 0, subnormal += (magnitude > 0) & (magnitude < normal);
            const Ordered from = (magnitude == 0) | (magnitude >= infinity) ? MAGNITUDE : magnitude;
            const Ordered to = magnitude >= infinity ? 0 : magnitude;
            low = from < low ? from : low, high = to > high ? to : high;
        }
        totals.nan += nan, totals.inf += inf, totals.subnormal += subnormal, totals.zeros += zeros;
        least = low, most = high;
    }
};

// Return all bits for the lanes that count, and none for those of masks.
INLINE Longs counting(Doubles a, Doubles b) {
    const Doubles limit = all(MASK_LIMIT);
    return ~((Longs)(size_of(a) > limit) & (Longs)(size_of(b) > limit) & (Longs)(((Longs)a ^ (Longs)b) >= 0));
}
INLINE Doubles kept(Doubles values, Longs lanes) { return (Doubles)((Longs)values & lanes); }

// A sum of squares over lanes, with the largest of the absolute values.
struct Squares {
    Lanes<Doubles> sums = {};
    Doubles largest = {};

    INLINE void add(int part, Doubles differences) {
        sums.part[part] += differences * differences;
        largest = larger(size_of(differences), largest);
    }
    INLINE void end_row(Differences& to) {
        const double squares = sum_of(sums);
        to.squares += squares, to.worst_row = std::max(to.worst_row, squares);
        sums = {};
    }
    void report_largest(Differences& to) const {
        for (int lane = 0; lane < WIDTH; lane++) to.largest = std::max(to.largest, largest[lane]);
    }
};

// The sums of one row: the squares of total, own and inherited differences, and the scales of exact and own values. Compilers
// keep them in registers if there is none that nobody uses.
template <bool HAS_OWN> struct RowSums {
    static constexpr int KINDS = HAS_OWN ? 3 : 1, SCALES = HAS_OWN ? 2 : 1;
    Squares squares[KINDS];
    Lanes<Doubles> scales[SCALES] = {};

    // Return whether a value may be a mask: then its square is as large.
    INLINE bool may_have_masks() const {
        Longs ordinary = ~(Longs){};
        for (const Lanes<Doubles>& scale : scales)
            for (int part = 0; part < PARTS; part++) ordinary &= (Longs)(scale.part[part] < all(MASK_LIMIT * MASK_LIMIT));
        return any(~ordinary);
    }
    // Add values of one part of the lanes; return the differences that are stored.
    template <bool MASKED> INLINE Doubles add(int part, Doubles a, Doubles e, Doubles o) {
        const Doubles missing = add_side<MASKED>(0, part, a, e);
        if constexpr (!HAS_OWN) return missing;
        else {
            squares[2].add(part, MASKED ? kept(o - e, counting(o, e)) : o - e);
            return add_side<MASKED>(1, part, a, o);
        }
    }

  private:
    template <bool MASKED> INLINE Doubles add_side(int which, int part, Doubles actual, Doubles exact) {
        const Longs counts = MASKED ? counting(actual, exact) : Longs{};
        const Doubles differences = MASKED ? kept(actual - exact, counts) : actual - exact, sizes = MASKED ? kept(exact, counts) : exact;
        squares[which].add(part, differences);
        scales[which].part[part] += sizes * sizes;
        return differences;
    }
};

INLINE void store_errors(float* to, Doubles errors) { store(to, __builtin_convertvector(errors, Floats)); }

template <class T, bool HAS_OWN, bool STORES> class Kernel {
    typedef RowSums<HAS_OWN> Sums;

  public:
    Kernel(const ShadowRows& rows, ShadowState& state) : range(rows, state.totals), state(state) {
        for (int i = 0; i < Sums::KINDS; i++) memcpy(&row.squares[i].sums, state.row[i], sizeof state.row[i]);
        for (int i = 0; i < Sums::SCALES; i++) memcpy(&row.scales[i], state.row_scales[i], sizeof state.row_scales[i]);
        memcpy(scales, state.scales, sizeof scales);
    }
    Range<T> range;

    // Add `n` values of a row, from a multiple of LANES in it. Places are `readable` from their beginning.
    INLINE void add(const ShadowPlaces<T>& places, int64_t at, int64_t n, int64_t readable) { row = added(row, places, at, n, readable); }
    INLINE void end_row() { row = ended(row); }

    // Add a row that begins and ends here; no other one is open.
    INLINE void add_row(const ShadowPlaces<T>& places, int64_t at, int64_t n, int64_t readable) {
        Sums sums;
        for (int i = 0; i < Sums::KINDS; i++) sums.squares[i].largest = row.squares[i].largest;
        sums = ended(added(sums, places, at, n, readable));
        for (int i = 0; i < Sums::KINDS; i++) row.squares[i].largest = sums.squares[i].largest;
    }
    void finish() {
        for (int i = 0; i < Sums::KINDS; i++) {
            row.squares[i].report_largest(differences(i));
            memcpy(state.row[i], &row.squares[i].sums, sizeof state.row[i]);
        }
        for (int i = 0; i < Sums::SCALES; i++) memcpy(state.row_scales[i], &row.scales[i], sizeof state.row_scales[i]);
        memcpy(state.scales, scales, sizeof scales);
        state.totals.scale = sum_of(scales[0]), state.totals.own_scale = sum_of(scales[1]);
        range.finish();
    }

  private:
    ShadowState& state;
    Sums row;
    Lanes<Doubles> scales[2];

    INLINE Differences& differences(int i) const {
        ShadowTotals& to = state.totals;
        return i == 0 ? to.total : i == 1 ? to.own : to.inherited;
    }
    static INLINE Sums added(const Sums& begun, const ShadowPlaces<T>& places, int64_t at, int64_t n, int64_t readable) {
        Sums sums = begun;
        add_all<false>(sums, places, at, n, readable);
        return sums.may_have_masks() ? added_carefully(begun, places, at, n, readable) : sums;
    }
    static __attribute__((noinline)) Sums added_carefully(Sums sums, ShadowPlaces<T> places, int64_t at, int64_t n, int64_t readable) {
        add_all<true>(sums, places, at, n, readable);
        return sums;
    }
    INLINE Sums ended(Sums sums) {
        for (int i = 0; i < Sums::KINDS; i++) sums.squares[i].end_row(differences(i));
        for (int i = 0; i < Sums::SCALES; i++) {
            for (int part = 0; part < PARTS; part++) scales[i].part[part] += sums.scales[i].part[part];
            sums.scales[i] = {};
        }
        return sums;
    }
    template <bool MASKED> static INLINE void add_all(Sums& to, const ShadowPlaces<T>& from, int64_t at, int64_t n, int64_t readable) {
        const int64_t whole = n / LANES * LANES;
        for (int64_t i = at; i < at + whole; i += LANES)
            for (int part = 0; part < PARTS; part++) step<MASKED>(to, from, i + part * WIDTH, part, ~(Longs){});
        if (whole < n) rest<MASKED>(to, from, at + whole, n - whole, readable);
    }
    template <bool MASKED> static INLINE void step(Sums& to, const ShadowPlaces<T>& from, int64_t at, int part, Longs inside) {
        const Doubles a = kept(widen(from.actual + at), inside), e = kept(widen(from.exact + at), inside);
        const Doubles o = HAS_OWN ? kept(widen(from.own + at), inside) : Doubles{};
        const Doubles errors = to.template add<MASKED>(part, a, e, o);
        if (STORES) store_errors(from.errors + at, errors);
    }
    // Values are 0 beyond the end of a row, and add nothing. Errors stored beyond it are those of the next row, which follow.
    template <bool MASKED> static INLINE void rest(Sums& to, const ShadowPlaces<T>& from, int64_t at, int64_t n, int64_t readable) {
        if (at + LANES > readable) return last<MASKED>(to, from, at, n);
        for (int part = 0; part < PARTS && part * WIDTH < n; part++) {
            Longs place;
            for (int lane = 0; lane < WIDTH; lane++) place[lane] = part * WIDTH + lane;
            step<MASKED>(to, from, at + part * WIDTH, part, (Longs)(place < (int64_t)n));
        }
    }
    template <bool MASKED> static void last(Sums& to, const ShadowPlaces<T>& from, int64_t at, int64_t n) {
        T values[LANES] = {};
        double exact[LANES] = {}, own[LANES] = {};
        float errors[LANES];
        memcpy(values, from.actual + at, (size_t)n * sizeof(T));
        memcpy(exact, from.exact + at, (size_t)n * sizeof(double));
        if (HAS_OWN) memcpy(own, from.own + at, (size_t)n * sizeof(double));
        for (int part = 0; part < PARTS; part++) step<MASKED>(to, {values, exact, own, errors}, part * WIDTH, part, ~(Longs){});
        if (STORES) memcpy(from.errors + at, errors, (size_t)n * sizeof(float));
    }
};

template <class T, bool HAS_OWN, bool STORES> void measure(const ShadowPlaces<T>& places, const ShadowRows& rows, ShadowState& state) {
    Kernel<T, HAS_OWN, STORES> kernel(rows, state);
    int64_t ranged = 0;
    const auto range = [&](int64_t end) __attribute__((always_inline)) {
        if (end - ranged < BLOCK && end < rows.n) return;
        kernel.range.add(places.actual + ranged, end - ranged);
        ranged = end;
    };
    for (int64_t row = 0; row < rows.n; row += rows.columns) {
        const int64_t end = std::min(row + rows.columns, rows.n);
        // A row before may have gone on into the first one, and the last one may go on.
        if (row > 0 && end < rows.n && rows.columns <= BLOCK) {
            kernel.add_row(places, row, rows.columns, rows.n), range(end);
            continue;
        }
        for (int64_t at = row, next; at < end; at = next) {
            next = std::min(at + BLOCK, end);
            kernel.add(places, at, next - at, rows.n), range(next);
        }
        if (end < rows.n || rows.ends_row) kernel.end_row();
    }
    kernel.finish();
}

template <class T> void chosen(const ShadowPlaces<T>& places, const ShadowRows& rows, ShadowState& state) {
    if (places.own && places.errors) measure<T, true, true>(places, rows, state);
    else if (places.own) measure<T, true, false>(places, rows, state);
    else if (places.errors) measure<T, false, true>(places, rows, state);
    else measure<T, false, false>(places, rows, state);
}

// Fetch a later strip: the processor does not foresee many streams that are read in short runs in time.
template <class V> INLINE void fetch_ahead(const V* values, int64_t at, int64_t n) {
    constexpr int64_t AHEAD = 2 * STRIP, LINE = 64 / sizeof(V);
    if (!values || at + AHEAD + STRIP > n) return;
    for (int64_t i = 0; i < STRIP; i += LINE) __builtin_prefetch(values + at + AHEAD + i);
}

// Fill a strip of operands: `n` results from place `at`, all of one row.
template <class From> INLINE void fill(double* to, const From* from, Repeated repeated, int64_t at, int64_t n, int64_t columns) {
    if (repeated == Repeated::everywhere || repeated == Repeated::in_row) {
        const double value = (double)from[repeated == Repeated::everywhere ? 0 : at / columns];
        for (int64_t i = 0; i < n; i++) to[i] = value;
        return;
    }
    const From* const values = from + (repeated == Repeated::in_column ? at % columns : at);
    for (int64_t i = 0; i < n; i++) to[i] = (double)values[i];
}

// Return the operands of a strip: in place, if they are float64, and there is one for each result.
INLINE const double* operand_of(const ShadowOperand& operand, bool exact, double* to, int64_t at, int64_t n, int64_t columns) {
    const bool wide = operand.exact && (exact || !operand.low);
    if (!wide) fill(to, operand.low, operand.repeated, at, n, columns);
    else if (operand.repeated == Repeated::never) return operand.exact + at;
    else if (operand.repeated == Repeated::in_column) return operand.exact + at % columns;
    else fill(to, operand.exact, operand.repeated, at, n, columns);
    return to;
}

template <class F> INLINE void for_each(double* to, const double* x, const double* y, int64_t n, F operation) {
    for (int64_t i = 0; i < n; i++) to[i] = operation(x[i], y[i]);
}

void compute(ShadowOperation operation, double* to, const double* x, const double* y, int64_t n) {
    switch (operation) {
    case ShadowOperation::add: return for_each(to, x, y, n, [](double a, double b) { return a + b; });
    case ShadowOperation::subtract: return for_each(to, x, y, n, [](double a, double b) { return a - b; });
    case ShadowOperation::multiply: return for_each(to, x, y, n, [](double a, double b) { return a * b; });
    case ShadowOperation::divide: return for_each(to, x, y, n, [](double a, double b) { return a / b; });
    default: return for_each(to, x, y, n, [](double a, double) { return __builtin_sqrt(a); });
    }
}

template <bool HAS_OWN, bool STORES> void compute_and_measure(const ShadowTask& task, const ShadowRows& rows, ShadowState& state) {
    Kernel<float, HAS_OWN, STORES> kernel(rows, state);
    double x[STRIP], y[STRIP], own[STRIP];
    for (int64_t row = 0; row < rows.n; row += rows.columns) {
        for (int64_t at = row; at < row + rows.columns; at += STRIP) {
            const int64_t n = std::min(STRIP, row + rows.columns - at);
            for (const ShadowOperand& operand : task.operands) {
                if (operand.repeated != Repeated::never) continue;
                fetch_ahead(operand.low, at, rows.n), fetch_ahead(operand.exact, at, rows.n);
            }
            fetch_ahead(task.exact, at, rows.n), fetch_ahead(task.actual, at, rows.n);
            const auto computed = [&](double* to, bool exact) {
                const double* const first = operand_of(task.operands[0], exact, x, at, n, rows.columns);
                const bool has_second = task.operation != ShadowOperation::sqrt;
                compute(task.operation, to, first, has_second ? operand_of(task.operands[1], exact, y, at, n, rows.columns) : first, n);
            };
            computed(task.exact + at, true);
            double* const to = task.own ? task.own + at : own;
            if (HAS_OWN) computed(to, false);
            kernel.add({task.actual + at, task.exact + at, to, STORES ? task.errors + at : nullptr}, 0, n, n);
            kernel.range.add(task.actual + at, n);
        }
        kernel.end_row();
    }
    kernel.finish();
}

} // namespace

namespace PRECREG_SET {

void add_shadows(const ShadowPlaces<float>& places, const ShadowRows& rows, ShadowState& state) { chosen(places, rows, state); }
void add_shadows(const ShadowPlaces<double>& places, const ShadowRows& rows, ShadowState& state) { chosen(places, rows, state); }

void compute_shadows(const ShadowTask& task, const ShadowRows& rows, ShadowState& state) {
    if (task.has_own && task.errors) compute_and_measure<true, true>(task, rows, state);
    else if (task.has_own) compute_and_measure<true, false>(task, rows, state);
    else if (task.errors) compute_and_measure<false, true>(task, rows, state);
    else compute_and_measure<false, false>(task, rows, state);
}

} // namespace PRECREG_SET
} // namespace precreg
