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

// Values of a strip stay in the first cache from one loop to the next.
constexpr int64_t STRIP = 256;

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
        Ordered low = MAGNITUDE, high = 0;
        for (int64_t i = 0; i < n; i++) {
            const Ordered magnitude = (Ordered)load<Bits>(values + i) & MAGNITUDE;
            low = magnitude < low ? magnitude : low;
            high = magnitude > high ? magnitude : high;
        }
        if (low >= normal && high < infinity) {
            least = std::min(least, low), most = std::max(most, high);
            return;
        }
        count(values, n);
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

// A sum of squares over lanes, with the largest of the absolute values.
struct Squares {
    Lanes<Doubles> sums, largest = {};

    explicit Squares(const double* lanes) { memcpy(&sums, lanes, sizeof sums); }
    INLINE void add(int part, Doubles differences) {
        sums.part[part] += differences * differences;
        largest.part[part] = larger(size_of(differences), largest.part[part]);
    }
    void keep(double* lanes) const { memcpy(lanes, &sums, sizeof sums); }
};

INLINE void scale_up(Lanes<Doubles>& sums, int part, Doubles values) { sums.part[part] += values * values; }

INLINE void store_errors(float* to, Doubles errors) { store(to, __builtin_convertvector(errors, Floats)); }

template <class T, bool HAS_OWN, bool STORES> class Kernel {
  public:
    Kernel(const ShadowRows& rows, ShadowState& state) : state(state), range(rows, state.totals) {}

    // Add a part of a row, which begins at a multiple of LANES.
    void part(const ShadowPlaces<T>& places, int64_t first, int64_t size) {
        for (int64_t done = 0; done < size; done += STRIP) {
            const int64_t n = std::min(STRIP, size - done), whole = n / LANES * LANES, at = first + done;
            if (whole)
                add(places.actual + at, places.exact + at, HAS_OWN ? places.own + at : nullptr, STORES ? places.errors + at : nullptr, whole);
            if (whole < n) rest(places, at + whole, n - whole);
            range.add(places.actual + at, n);
        }
    }
    void end_row() {
        double sums[5];
        for (int i = 0; i < 5; i++) {
            Lanes<Doubles> lanes;
            memcpy(&lanes, state.lanes[i], sizeof lanes);
            sums[i] = sum_of(lanes);
        }
        memset(state.lanes, 0, sizeof state.lanes);
        Differences* const found[] = {&state.totals.total, &state.totals.own, &state.totals.inherited};
        for (int i = 0; i < 3; i++) {
            found[i]->squares += sums[i];
            found[i]->worst_row = std::max(found[i]->worst_row, sums[i]);
        }
        state.totals.scale += sums[3], state.totals.own_scale += sums[4];
    }
    void finish() { range.finish(); }

  private:
    ShadowState& state;
    Range<T> range;

    // Values are 0 beyond the end of a row, and add nothing.
    void rest(const ShadowPlaces<T>& places, int64_t at, int64_t n) {
        T values[LANES] = {};
        double exact[LANES] = {}, own[LANES] = {};
        float errors[LANES] = {};
        memcpy(values, places.actual + at, (size_t)n * sizeof(T));
        memcpy(exact, places.exact + at, (size_t)n * sizeof(double));
        if (HAS_OWN) memcpy(own, places.own + at, (size_t)n * sizeof(double));
        add(values, exact, own, errors, LANES);
        if (STORES) memcpy(places.errors + at, errors, (size_t)n * sizeof(float));
    }
    INLINE void add(const T* actual, const double* exact, const double* own, float* errors, int64_t n) {
        ShadowTotals& to = state.totals;
        Squares total(state.lanes[0]), from_own(state.lanes[1]), inherited(state.lanes[2]);
        Lanes<Doubles> scale, own_scale;
        memcpy(&scale, state.lanes[3], sizeof scale), memcpy(&own_scale, state.lanes[4], sizeof own_scale);
        for (int64_t i = 0; i < n; i += LANES)
            for (int part = 0; part < PARTS; part++) {
                const int64_t place = i + part * WIDTH;
                const Doubles a = widen(actual + place), e = widen(exact + place);
                const Doubles difference = a - e;
                total.add(part, difference);
                scale_up(scale, part, e);
                if (HAS_OWN) {
                    const Doubles o = widen(own + place), missing = a - o;
                    from_own.add(part, missing);
                    inherited.add(part, o - e);
                    scale_up(own_scale, part, o);
                    if (STORES) store_errors(errors + place, missing);
                } else if (STORES) {
                    store_errors(errors + place, difference);
                }
            }
        total.keep(state.lanes[0]), memcpy(state.lanes[3], &scale, sizeof scale);
        to.total.largest = std::max(to.total.largest, highest(total.largest));
        if (!HAS_OWN) return;
        from_own.keep(state.lanes[1]), inherited.keep(state.lanes[2]), memcpy(state.lanes[4], &own_scale, sizeof own_scale);
        to.own.largest = std::max(to.own.largest, highest(from_own.largest));
        to.inherited.largest = std::max(to.inherited.largest, highest(inherited.largest));
    }
};

template <class T, bool HAS_OWN, bool STORES> void measure(const ShadowPlaces<T>& places, const ShadowRows& rows, ShadowState& state) {
    Kernel<T, HAS_OWN, STORES> kernel(rows, state);
    for (int64_t at = 0; at < rows.n; at += rows.columns) {
        const int64_t size = std::min(rows.columns, rows.n - at);
        kernel.part(places, at, size);
        if (at + size < rows.n || rows.ends_row) kernel.end_row();
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
            kernel.part({task.actual + at, task.exact + at, to, STORES ? task.errors + at : nullptr}, 0, n);
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
