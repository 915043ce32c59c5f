// Sums of products in a stated order. This file is compiled once for each instruction set, into the namespace PRECREG_SET.
//
// Vectors hold neighbouring columns, so that every sum keeps its own order. A few columns go through all terms, a panel of
// terms at a time. A panel lies packed in the first cache while many rows use it. Between panels a table holds the partial
// sums of every row.
#include "steps.hpp"

#include <algorithm>
#include <vector>

#ifndef PRECREG_SET
#define PRECREG_SET generic
#endif

namespace precreg {
namespace {

constexpr int64_t PANEL = 64; // terms of a panel, 16 kB with the columns of four vectors of 64 bytes
constexpr int64_t BAND = 256; // rows that use a panel before the next is packed

// Terms that are added one after another: their numbers, and runs of terms of one partial sum.
struct Panel {
    struct Run {
        int64_t stop, sum; // the end of the run in the panel, and the number of its partial sum
        bool ends;         // the run completes its partial sum
    };
    int64_t count, first, terms[PANEL];
    int runs;
    Run run[PANEL];
};

// Yields the terms in the order of addition, panel after panel.
class Walk {
  public:
    Walk(Order order, int64_t width, int64_t terms)
        : in_lanes(order == Order::lanes), terms(terms), longest(order == Order::blocks || in_lanes ? width : terms) {
        if (in_lanes) left = (terms - 1) / width + 1;
        else left = std::min(longest, terms);
    }

    void next(Panel& panel) {
        panel.count = panel.runs = 0;
        panel.first = place;
        while (panel.count < PANEL && place < terms) {
            const int64_t stop = std::min(PANEL, panel.count + left);
            for (; panel.count < stop; place++, left--, term += in_lanes ? longest : 1) panel.terms[panel.count++] = term;
            panel.run[panel.runs++] = {stop, sum, left == 0};
            if (left == 0) next_sum();
        }
    }

  private:
    const bool in_lanes;
    const int64_t terms, longest;
    int64_t place = 0, term = 0, sum = 0, left; // `left` terms of the partial sum

    void next_sum() {
        sum++;
        if (in_lanes) term = sum, left = (terms - 1 - sum) / longest + 1;
        else left = std::min(longest, terms - place);
    }
};

// Return the number of the first merge on each level of pairs, among all merges.
std::vector<int64_t> first_merges(int64_t terms) {
    std::vector<int64_t> first{0};
    for (int64_t left = terms; left > 1; left -= left / 2) first.push_back(first.back() + left / 2);
    return first;
}

template <class Step> class Summer {
    typedef typename Step::Value T;
    typedef Number<T> Vector;
    static constexpr int LANES = Carrier<T>::LANES, ROWS = Step::ROWS, VECTORS = Step::VECTORS, COLUMNS = LANES * VECTORS;

  public:
    explicit Summer(const SumJob<T>& job)
        : job(job), step(job), merges(first_merges(job.terms)), band(std::min<int64_t>(BAND, job.rows)),
          depth(job.order == Order::pairwise ? (int)merges.size() + 1 : job.order == Order::sequential ? 1 : 2),
          table((size_t)(band * depth * COLUMNS)), packed((size_t)(PANEL * COLUMNS)) {}

    void run() {
        for (int64_t b = 0; b < job.batch; b++)
            for (int64_t row = 0; row < job.rows; row += band)
                for (int64_t column = 0; column < job.columns; column += COLUMNS) few_columns(b, row, column);
    }

  private:
    const SumJob<T>& job;
    const Step step;
    const std::vector<int64_t> merges;
    const int64_t band;
    const int depth;
    std::vector<T> table;  // partial sums: rows of a band, depth, columns
    std::vector<T> packed; // a panel of terms
    Panel panel;

    T* sums_of(int64_t row) { return table.data() + row % band * depth * COLUMNS; }

    void few_columns(int64_t b, int64_t above, int64_t column) {
        const int64_t below = std::min(above + band, job.rows);
        const int64_t columns = std::min<int64_t>(COLUMNS, job.columns - column);
        std::fill(table.begin(), table.end(), (T)0);
        Walk walk(job.order, std::max<int64_t>(job.width, 1), job.terms);
        for (int64_t place = 0; place < job.terms; place += panel.count) {
            walk.next(panel);
            pack(job.t + b * job.step_t + column, columns);
            int64_t row = above;
            if (job.order != Order::pairwise)
                for (; row + ROWS <= below; row += ROWS) through_panel<ROWS>(b, row, column);
            for (; row < below; row++)
                if (job.order == Order::pairwise) in_pairs(b, row, column);
                else through_panel<1>(b, row, column);
        }
        for (int64_t row = above; row < below; row++) {
            if (job.order == Order::pairwise && job.terms) merge_rest(b, row, column);
            const T* result = sums_of(row) + (job.order == Order::sequential ? 0 : (depth - 1) * COLUMNS);
            memcpy(job.c + (b * job.rows + row) * job.columns + column, result, (size_t)columns * sizeof(T));
        }
    }

    void pack(const T* from, int64_t columns) {
        for (int64_t p = 0; p < panel.count; p++) {
            T* to = packed.data() + p * COLUMNS;
            memcpy(to, from + panel.terms[p] * job.columns, (size_t)columns * sizeof(T));
            if (columns < COLUMNS) memset(to + columns, 0, (size_t)(COLUMNS - columns) * sizeof(T));
        }
    }

    // The index of the random bits of each column's first term, in vectors.
    struct Firsts {
        Bits<T> of[VECTORS];
    };
    INLINE Firsts firsts(int64_t b, int64_t row, int64_t column) const {
        Firsts first = {};
        for (int v = 0; v < VECTORS && sizeof(T) == 8; v++) // sums of float32 draw no random bits
            for (int i = 0; i < LANES; i++)
                first.of[v][i] = (Bit<T>)(uint64_t(b * job.rows + row) * uint64_t(job.columns) + uint64_t(column + v * LANES + i)) * (Bit<T>)job.terms;
        return first;
    }

    // Add a panel of terms to the partial sums of N rows, and complete partial sums to totals.
    template <int N> void through_panel(int64_t b, int64_t row, int64_t column) {
        Vector sum[N][VECTORS];
        Firsts first[N];
        for (int r = 0; r < N; r++) {
            first[r] = firsts(b, row + r, column);
            for (int v = 0; v < VECTORS; v++) sum[r][v] = load<Vector>(sums_of(row + r) + v * LANES);
        }
        const T* const a = job.a + b * job.step_a + row * job.terms;
        int64_t p = 0;
        for (int i = 0; i < panel.runs; i++) {
            const Panel::Run run = panel.run[i];
            for (; p < run.stop; p++) {
                const int64_t term = panel.terms[p];
                Vector terms[VECTORS];
                for (int v = 0; v < VECTORS; v++) terms[v] = load<Vector>(packed.data() + p * COLUMNS + v * LANES);
                for (int r = 0; r < N; r++) {
                    const Vector factor = all(load<T>(a + r * job.terms + term));
                    for (int v = 0; v < VECTORS; v++)
                        sum[r][v] = step.add_product(factor, terms[v], sum[r][v], first[r].of[v], (uint64_t)term);
                }
            }
            if (depth == 1 || !run.ends) continue;
            for (int r = 0; r < N; r++)
                for (int v = 0; v < VECTORS; v++) {
                    T* total = sums_of(row + r) + COLUMNS + v * LANES;
                    store(total, step.add(load<Vector>(total), sum[r][v], first[r].of[v], (uint64_t)(job.terms + run.sum)));
                    sum[r][v] = Vector{};
                }
        }
        for (int r = 0; r < N; r++)
            for (int v = 0; v < VECTORS; v++) store(sums_of(row + r) + v * LANES, sum[r][v]);
    }

    // Add terms in pairs. On each level the table holds the sum that waits for its neighbour.
    void in_pairs(int64_t b, int64_t row, int64_t column) {
        const Firsts first = firsts(b, row, column);
        const T* const a = job.a + b * job.step_a + row * job.terms;
        for (int64_t p = 0; p < panel.count; p++)
            for (int v = 0; v < VECTORS; v++) {
                const uint64_t term = (uint64_t)panel.terms[p];
                Vector sum = step.add_product(all(load<T>(a + term)), load<Vector>(packed.data() + p * COLUMNS + v * LANES), Vector{},
                                              first.of[v], term);
                int level = 0;
                for (; term >> level & 1; level++) sum = merged(row, v, level, sum, first, (int64_t)(term >> (level + 1)));
                store(sums_of(row) + level * COLUMNS + v * LANES, sum);
            }
    }

    INLINE Vector merged(int64_t row, int v, int level, Vector right, const Firsts& first, int64_t pair) {
        const Vector left = load<Vector>(sums_of(row) + level * COLUMNS + v * LANES);
        return step.add(left, right, first.of[v], (uint64_t)(job.terms + merges[(size_t)level] + pair));
    }

    // Carry sums without a right neighbour up unchanged, until they meet their left neighbour.
    void merge_rest(int64_t b, int64_t row, int64_t column) {
        const Firsts first = firsts(b, row, column);
        for (int v = 0; v < VECTORS; v++) {
            int level = __builtin_ctzll((uint64_t)job.terms);
            Vector sum = load<Vector>(sums_of(row) + level * COLUMNS + v * LANES);
            for (level++; job.terms >> level; level++)
                if (job.terms >> level & 1) sum = merged(row, v, level, sum, first, job.terms >> (level + 1));
            store(sums_of(row) + (depth - 1) * COLUMNS + v * LANES, sum);
        }
    }
};

template <class Step, class T> void sum_with(const SumJob<T>& job) { Summer<Step>(job).run(); }

template <class T, Product PRODUCT> void by_processor(const SumJob<T>& job) {
    const Directed<T> rest(job.accumulator, job.rounding);
    const bool nothing = rest.simple && rest.to.rest == 0 && rest.to.flushed == 0;
    if (nothing) return sum_with<Step<T, Rest::nothing, PRODUCT>>(job);
    if (rest.simple) return sum_with<Step<T, Rest::bits, PRODUCT>>(job);
    sum_with<Step<T, Rest::anything, Product::rounded>>(job);
}

template <class T> void by_processor(const SumJob<T>& job) {
    if (job.product == Product::fused) return by_processor<T, Product::fused>(job);
    if (job.product == Product::multiplied) return by_processor<T, Product::multiplied>(job);
    by_processor<T, Product::rounded>(job);
}

void extended(const SumJob<double>& job) {
    switch (job.rounding) {
    case Rounding::nearest_even: return sum_with<ExtendedStep<Rounding::nearest_even>>(job);
    case Rounding::nearest_away: return sum_with<ExtendedStep<Rounding::nearest_away>>(job);
    case Rounding::away: return sum_with<ExtendedStep<Rounding::away>>(job);
    case Rounding::odd: return sum_with<ExtendedStep<Rounding::odd>>(job);
    default: return sum_with<ExtendedStep<Rounding::stochastic>>(job);
    }
}

} // namespace

namespace PRECREG_SET {

void add_up(const SumJob<float>& job) { by_processor(job); }
void add_up(const SumJob<double>& job) {
    if (job.extended) extended(job);
    else by_processor(job);
}

} // namespace PRECREG_SET
} // namespace precreg
