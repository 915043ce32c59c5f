// Sums of products in a stated order. This file is compiled once for each instruction set, into the namespace PRECREG_SET.
//
// Vectors hold neighbouring columns, so that every sum is added in its own order. A few columns go through all terms, a
// panel of terms at a time, which lies packed in the first cache while many rows use it; between panels the partial sums
// of every row rest in a table.
#include "steps.hpp"

#include <algorithm>
#include <vector>

#ifndef PRECREG_SET
#define PRECREG_SET generic
#endif

namespace precreg {
namespace {

constexpr int64_t PANEL = 64, BAND = 256; // terms; rows

// The terms in the order in which they are added, and where partial sums end.
class Walk {
  public:
    Walk(Order order, int64_t width, int64_t terms) : order(order), width(width), terms(terms), place(0), term(0) {}

    // Write up to PANEL terms; return how many there are.
    int64_t next(int64_t* panel) {
        int64_t count = 0;
        for (; count < PANEL && place < terms; count++, place++) {
            panel[count] = term;
            term += order == Order::lanes ? width : 1;
            if (term >= terms) term = term % width + 1; // of the next lane
        }
        return count;
    }
    // How many terms from a place on belong to the same partial sum.
    int64_t left(int64_t at) const {
        if (order == Order::blocks) return std::min(width - at % width, terms - at);
        if (order != Order::lanes) return terms - at;
        const int64_t more = terms % width, longer = terms / width + 1; // the first lanes may have one term more
        const int64_t shorter = at - more * longer;
        return shorter < 0 ? longer - at % longer : (longer - 1) - shorter % (longer - 1);
    }

  private:
    const Order order;
    const int64_t width, terms;
    int64_t place, term;
};

// Where merges on a level of pairs begin among all merges.
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
    std::vector<T> table;  // of partial sums: rows of a band, depth, columns
    std::vector<T> packed; // a panel of terms
    int64_t panel[PANEL];

    T* sums_of(int64_t row) { return table.data() + row % band * depth * COLUMNS; }

    void few_columns(int64_t b, int64_t above, int64_t column) {
        const int64_t below = std::min(above + band, job.rows);
        const int64_t columns = std::min<int64_t>(COLUMNS, job.columns - column);
        std::fill(table.begin(), table.end(), (T)0);
        Walk walk(job.order, std::max<int64_t>(job.width, 1), job.terms);
        for (int64_t place = 0; place < job.terms; place += PANEL) {
            const int64_t count = walk.next(panel);
            pack(job.t + b * job.step_t + column, columns, count);
            int64_t row = above;
            if (job.order != Order::pairwise)
                for (; row + ROWS <= below; row += ROWS) through_panel<ROWS>(walk, b, row, column, place, count);
            for (; row < below; row++)
                if (job.order == Order::pairwise) in_pairs(b, row, column, place, count);
                else through_panel<1>(walk, b, row, column, place, count);
        }
        for (int64_t row = above; row < below; row++) {
            if (job.order == Order::pairwise && job.terms) merge_rest(b, row, column);
            const T* result = sums_of(row) + (job.order == Order::sequential ? 0 : (depth - 1) * COLUMNS);
            memcpy(job.c + (b * job.rows + row) * job.columns + column, result, (size_t)columns * sizeof(T));
        }
    }

    void pack(const T* from, int64_t columns, int64_t count) {
        for (int64_t p = 0; p < count; p++) {
            T* to = packed.data() + p * COLUMNS;
            memcpy(to, from + panel[p] * job.columns, (size_t)columns * sizeof(T));
            if (columns < COLUMNS) memset(to + columns, 0, (size_t)(COLUMNS - columns) * sizeof(T));
        }
    }

    // The indices of the random bits of each column's first term, in vectors.
    struct Firsts {
        Bits<T> of[VECTORS];
    };
    INLINE Firsts firsts(int64_t b, int64_t row, int64_t column) const {
        Firsts first = {};
        for (int v = 0; v < VECTORS && sizeof(T) == 8; v++) // sums of float32 do without
            for (int i = 0; i < LANES; i++)
                first.of[v][i] = (Bit<T>)(uint64_t(b * job.rows + row) * uint64_t(job.columns) + uint64_t(column + v * LANES + i)) * (Bit<T>)job.terms;
        return first;
    }

    // Add a panel of terms to the partial sums of some rows, and those that end to totals.
    template <int N> void through_panel(const Walk& walk, int64_t b, int64_t row, int64_t column, int64_t place, int64_t count) {
        Vector sum[N][VECTORS];
        Firsts first[N];
        for (int r = 0; r < N; r++) {
            first[r] = firsts(b, row + r, column);
            for (int v = 0; v < VECTORS; v++) sum[r][v] = load<Vector>(sums_of(row + r) + v * LANES);
        }
        const T* const a = job.a + b * job.step_a + row * job.terms;
        for (int64_t p = 0; p < count;) {
            const int64_t left = walk.left(place + p), stop = std::min(count, p + left);
            for (; p < stop; p++)
                for (int r = 0; r < N; r++) {
                    const Vector factor = all(a[r * job.terms + panel[p]]);
                    for (int v = 0; v < VECTORS; v++)
                        sum[r][v] = step.add_product(factor, load<Vector>(packed.data() + p * COLUMNS + v * LANES), sum[r][v],
                                                     first[r].of[v], (uint64_t)panel[p]);
                }
            if (depth == 1 || walk.left(place + p - 1) > 1) continue;
            for (int r = 0; r < N; r++)
                for (int v = 0; v < VECTORS; v++) {
                    T* total = sums_of(row + r) + COLUMNS + v * LANES;
                    const uint64_t merge = (uint64_t)(job.terms + groups_before(place + p - 1));
                    store(total, step.add(load<Vector>(total), sum[r][v], first[r].of[v], merge));
                    sum[r][v] = Vector{};
                }
        }
        for (int r = 0; r < N; r++)
            for (int v = 0; v < VECTORS; v++) store(sums_of(row + r) + v * LANES, sum[r][v]);
    }

    // How many partial sums end before the one that a place belongs to.
    int64_t groups_before(int64_t place) const {
        if (job.order == Order::blocks) return place / job.width;
        const int64_t more = job.terms % job.width, longer = job.terms / job.width + 1, shorter = place - more * longer;
        return shorter < 0 ? place / longer : more + shorter / (longer - 1);
    }

    // Add terms in pairs: the table holds, on each level, the sum that waits for its neighbour.
    void in_pairs(int64_t b, int64_t row, int64_t column, int64_t place, int64_t count) {
        const Firsts first = firsts(b, row, column);
        const T* const a = job.a + b * job.step_a + row * job.terms;
        for (int64_t p = 0; p < count; p++)
            for (int v = 0; v < VECTORS; v++) {
                const uint64_t term = (uint64_t)(place + p);
                Vector sum = step.add_product(all(a[term]), load<Vector>(packed.data() + p * COLUMNS + v * LANES), Vector{},
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

    // Sums that found no neighbour are carried up as they are, until they meet the one to their left.
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
    sum_with<Step<T, Rest::anything, PRODUCT>>(job);
}

template <class T> void by_processor(const SumJob<T>& job) {
    if (job.product == Product::fused) return by_processor<T, Product::fused>(job);
    if (job.product == Product::multiplied) return by_processor<T, Product::multiplied>(job);
    by_processor<T, Product::rounded>(job);
}

template <Product PRODUCT> void extended(const SumJob<double>& job) {
    switch (job.rounding) {
    case Rounding::nearest_even: return sum_with<ExtendedStep<Rounding::nearest_even, PRODUCT>>(job);
    case Rounding::nearest_away: return sum_with<ExtendedStep<Rounding::nearest_away, PRODUCT>>(job);
    case Rounding::away: return sum_with<ExtendedStep<Rounding::away, PRODUCT>>(job);
    case Rounding::odd: return sum_with<ExtendedStep<Rounding::odd, PRODUCT>>(job);
    default: return sum_with<ExtendedStep<Rounding::stochastic, PRODUCT>>(job);
    }
}

} // namespace

namespace PRECREG_SET {

void add_up(const SumJob<float>& job) { by_processor(job); }
void add_up(const SumJob<double>& job) {
    if (!job.extended) return by_processor(job);
    if (job.product == Product::rounded) extended<Product::rounded>(job);
    else extended<Product::fused>(job);
}

} // namespace PRECREG_SET
} // namespace precreg
