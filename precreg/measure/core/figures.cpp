// Compute metrics from sums that are rounded once. Each expression has the operations of its twin in figures.py, in the
// same order, and Python calls the same functions of the C library.
#include "figures.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace precreg {
namespace {

constexpr double NONE = std::numeric_limits<double>::quiet_NaN();
// As in figures.py.
constexpr double EXACT_DB = 9999.0, MAX_BITS = 53.0;
constexpr int64_t MIN_UNEQUAL = 100;
constexpr double LEAST_VARIANCE = 0x1p-40, PLAIN_VARIANCE = 0x1p-20, CANCELLED = 0x1p-10;

double share(int64_t part, int64_t whole) { return (double)part / (double)whole; }

// Return the sum of floats, rounded once, as math.fsum: partial sums that do not overlap (Shewchuk 1997), then half to even.
// Not finite where partial sums overflow.
template <class Parts> double rounded_sum(const Parts& parts) {
    double partial[Exact::CAPACITY];
    int size = 0;
    for (double x : parts) {
        int kept = 0;
        for (int i = 0; i < size; i++) {
            double y = partial[i];
            if (std::fabs(x) < std::fabs(y)) std::swap(x, y);
            const double high = x + y, low = y - (high - x);
            if (low != 0.0) partial[kept++] = low;
            x = high;
        }
        size = kept;
        if (x != 0.0) {
            if (!std::isfinite(x) || size == Exact::CAPACITY) return NONE;
            partial[size++] = x;
        }
    }
    if (size == 0) return 0.0;
    double high = partial[--size], low = 0.0;
    while (size > 0) {
        const double x = high, y = partial[--size];
        high = x + y;
        low = y - (high - x);
        if (low != 0.0) break;
    }
    // The rest below a tie decides in which direction it is rounded.
    if (size > 0 && ((low < 0.0 && partial[size - 1] < 0.0) || (low > 0.0 && partial[size - 1] > 0.0))) {
        const double twice = low * 2.0, x = high + twice;
        if (twice == x - high) high = x;
    }
    return high;
}

struct Measured {
    const Counts& counts;
    const double* maximum;
    double sum[Sums::SIZE]; // rounded
    double finite;          // the number of finite pairs

    double mean(int which) const { return sum[which] / finite; }
};

void put_shares(const Found& found, double* into) {
    const Counts& of = found.counts;
    into[Figure::match_ratio] = share(of.matching, of.n);
    into[Figure::equal_share] = share(of.equal, of.n);
    into[Figure::differing_bits_share] = share(of.n - of.equal, of.n);
    into[Figure::non_finite_mismatch_share] = share(of.nan_mismatched + of.plus_inf_mismatched + of.minus_inf_mismatched, of.n);
    if (found.has_small_values) {
        into[Figure::small_value_error_share] = share(of.small_value_errors, of.n);
        into[Figure::cancellation_error_share] = share(of.cancellation_errors, of.n);
    }
    if (found.has_threshold) {
        into[Figure::relative_violation_share] = share(of.relative_violations, of.n);
        into[Figure::absolute_violation_share] = share(of.absolute_violations, of.n);
    }
}

void put_absolute(const Found& found, const Measured& of, double* into) {
    into[Figure::max_abs_error] = of.maximum[Maxima::absolute];
    into[Figure::mean_abs_error] = of.mean(Sums::absolute);
    into[Figure::bias] = of.mean(Sums::signed_);
    into[Figure::outward_bias] = of.mean(Sums::outward);
    into[Figure::mean_magnitude] = of.mean(Sums::magnitude);
    into[Figure::max_magnitude] = of.maximum[Maxima::magnitude];
    percentiles_of(found.sketches[Sketches::absolute], of.maximum[Maxima::absolute], into + Figure::p50_abs_error);
}

void put_relative(const Found& found, const Measured& of, double* into) {
    into[Figure::mere] = of.mean(Sums::floored);
    into[Figure::mare] = of.maximum[Maxima::floored];
    into[Figure::diff3] = of.maximum[Maxima::diff3];
    const int64_t n = of.counts.finite - of.counts.zero_references;
    if (n) { // references of zero have no relative error
        into[Figure::max_rel_error] = of.maximum[Maxima::relative];
        into[Figure::mean_rel_error] = of.sum[Sums::relative] / (double)n;
        into[Figure::share_rel_above_1e_3] = share(of.counts.thousandths, n);
        into[Figure::share_rel_above_1e_4] = share(of.counts.ten_thousandths, n);
    }
    const Sketch& sketch = found.sketches[Sketches::relative];
    if (!sketch.keys.empty()) percentiles_of(sketch, of.maximum[Maxima::relative], into + Figure::p50_rel_error);
}

void put_in_ulps(const Found& found, const Measured& of, double* into) {
    const Sketch& sketch = found.sketches[Sketches::ulps];
    const double square = of.mean(Sums::squared_ulps);
    into[Figure::max_ulp] = of.maximum[Maxima::ulps];
    into[Figure::mean_ulp] = of.mean(Sums::ulps);
    into[Figure::rms_ulp] = square >= 0 ? std::sqrt(square) : NONE;
    into[Figure::mean_log2_ulp] = mean_log2_of(sketch);
    into[Figure::ulp_scale] = of.mean(Sums::spacing);
    percentiles_of(sketch, of.maximum[Maxima::ulps], into + Figure::p50_ulp);
    int64_t above[COUNTED_ENDS];
    count_above(sketch, above);
    for (int i = 0; i < COUNTED_ENDS; i++) into[Figure::share_above_0_5_ulp + i] = share(above[i], of.counts.finite);
}

void put_signs(const Measured& of, double* into) {
    const int64_t above = of.counts.above, below = of.counts.below, unequal = above + below;
    const int64_t apart = above > below ? above - below : below - above;
    into[Figure::error_balance] = share(apart, of.counts.n);
    into[Figure::one_sidedness] = unequal >= MIN_UNEQUAL ? share(apart, unequal) : 0.0;
    if (unequal) into[Figure::diff4] = share(below, unequal);
}

void put_second_degree(const Measured& of, double* into) {
    const double errors = of.sum[Sums::squared_error], references = of.sum[Sums::squared_reference];
    const double rms = std::sqrt(errors / of.finite);
    into[Figure::rms_error] = rms;
    into[Figure::mse] = errors / of.finite;
    into[Figure::diff1] = of.mean(Sums::absolute) / (of.mean(Sums::magnitude) + 1e-9 / of.finite);
    into[Figure::diff2] = std::sqrt(errors / (references + 1e-9));
    if (errors == 0.0) {
        into[Figure::snr] = into[Figure::psnr] = EXACT_DB;
        into[Figure::effective_bits] = MAX_BITS;
    } else if (references != 0.0) {
        const double ratio = references / errors;
        const double bits = ratio != 0.0 ? std::log2(ratio) / 2 : (std::log2(references) - std::log2(errors)) / 2;
        into[Figure::snr] = 10 * (ratio != 0.0 ? std::log10(ratio) : std::log10(references) - std::log10(errors));
        into[Figure::effective_bits] = std::min(bits, MAX_BITS);
        if (rms != 0.0) into[Figure::psnr] = 20 * (std::log10(of.maximum[Maxima::magnitude]) - std::log10(rms));
    }
}

// Returns false if sums cancel.
bool put_cosine(const Measured& of, double* into) {
    const double errors = of.sum[Sums::squared_error], references = of.sum[Sums::squared_reference], product = of.sum[Sums::product];
    const double terms[] = {references, product, product, errors};
    const double actuals = rounded_sum(terms);
    if (!(references > 0) || !(actuals > LEAST_VARIANCE * references)) return std::isfinite(actuals);
    const double along = references + product, across = errors - product / references * product;
    if (across < CANCELLED * errors || actuals < CANCELLED * references) return false;
    const double cosine = std::min(std::max(along / std::sqrt(actuals) / std::sqrt(references), -1.0), 1.0);
    const double sine2 = std::min(std::max(across / actuals, 0.0), 1.0);
    into[Figure::cosine] = cosine;
    into[Figure::cosine_distance] = cosine >= 0 ? sine2 / (1 + cosine) : 1 - cosine;
    return true;
}

// Returns false if sums cancel.
bool put_correlation(const Measured& of, double* into) {
    const double errors = of.sum[Sums::absolute], magnitudes = of.sum[Sums::magnitude];
    const double total[] = {of.finite * of.sum[Sums::squared_error], of.finite * of.sum[Sums::squared_reference]};
    if (total[0] == 0.0 || total[1] == 0.0) return true; // no variance
    const double variance[] = {total[0] - errors * errors, total[1] - magnitudes * magnitudes};
    const double covariance = of.finite * of.sum[Sums::weighted_error] - errors * magnitudes;
    for (int i = 0; i < 2; i++)
        if (!(variance[i] > PLAIN_VARIANCE * total[i])) return false;
    const double correlation = covariance / std::sqrt(variance[0]) / std::sqrt(variance[1]);
    // A NaN stays one, as in Python's min and max with the constant last.
    into[Figure::error_magnitude_correlation] = correlation != correlation ? NONE : std::min(std::max(correlation, -1.0), 1.0);
    return true;
}

int64_t count_of(const Sketch& sketch) {
    int64_t total = 0;
    for (int64_t count : sketch.counts) total += count;
    return total;
}

} // namespace

double begin_of(int key) {
    const int64_t bits = (int64_t)key << KEY_SHIFT;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

double upper_end(int key) { return begin_of(key + 1); }

void percentiles_of(const Sketch& sketch, double largest, double* into) {
    constexpr int PERMILLES[PERCENTILES] = {500, 900, 950, 990, 999}; // as in sketch.py
    const int64_t total = count_of(sketch);
    int64_t seen = 0;
    int next = 0;
    for (size_t i = 0; i < sketch.keys.size() && next < PERCENTILES; i++) {
        seen += sketch.counts[i];
        while (next < PERCENTILES && seen >= std::max<int64_t>((PERMILLES[next] * total + 999) / 1000, 1))
            into[next++] = std::min(upper_end(sketch.keys[i]), largest);
    }
}

void count_above(const Sketch& sketch, int64_t* into) {
    constexpr double ENDS[COUNTED_ENDS] = {0.5, 1.0, 2.0, 32.0}; // as in sketch.py
    std::fill(into, into + COUNTED_ENDS, 0);
    for (size_t i = 0; i < sketch.keys.size(); i++)
        for (int e = 0; e < COUNTED_ENDS; e++) into[e] += upper_end(sketch.keys[i]) > ENDS[e] ? sketch.counts[i] : 0;
}

double mean_log2_of(const Sketch& sketch) {
    double log2s = 0.0, rest = 0.0; // a compensated sum
    for (size_t i = 0; i < sketch.keys.size(); i++) {
        const double term = (double)sketch.counts[i] * std::log2(upper_end(sketch.keys[i]) + 0.25);
        const double sum = log2s + term, rounded = sum - log2s;
        rest += (log2s - (sum - rounded)) + (term - rounded);
        log2s = sum;
    }
    return (log2s + rest) / (double)count_of(sketch);
}

std::pair<std::vector<int32_t>, std::vector<int64_t>> coarse_bins_of(const Sketch& sketch) {
    std::vector<int32_t> bins;
    std::vector<int64_t> counts;
    for (size_t i = 0; i < sketch.keys.size(); i++) {
        const int32_t bin = sketch.keys[i] >> 5; // _COARSER in sketch.py
        if (bins.empty() || bins.back() != bin) bins.push_back(bin), counts.push_back(0);
        counts.back() += sketch.counts[i];
    }
    return {std::move(bins), std::move(counts)};
}

bool compute_figures(const Found& found, double* into) {
    std::fill(into, into + Figure::SIZE, NONE);
    put_shares(found, into);
    if (found.counts.finite == 0) return true;
    if (!found.scaled.empty()) return false;
    Measured of = {found.counts, found.maximum, {}, (double)found.counts.finite};
    for (int s = 0; s < Sums::SIZE; s++) {
        of.sum[s] = rounded_sum(found.sum(s));
        if (!std::isfinite(of.sum[s])) return false;
    }
    put_absolute(found, of, into);
    put_relative(found, of, into);
    put_in_ulps(found, of, into);
    put_signs(of, into);
    put_second_degree(of, into);
    return put_cosine(of, into) && put_correlation(of, into);
}

void compute_counts(const Counts& of, int64_t* into) {
    const int64_t counts[] = {of.n, of.finite, of.nan_matched, of.nan_mismatched, of.plus_inf_matched + of.minus_inf_matched,
                              of.plus_inf_matched, of.minus_inf_matched, of.plus_inf_mismatched + of.minus_inf_mismatched,
                              of.plus_inf_mismatched, of.minus_inf_mismatched, of.zero_references, of.actual_subnormals,
                              of.reference_subnormals, of.flushed_subnormals, of.exact_matches, of.zero_sign_differences, of.above, of.below};
    static_assert(sizeof counts == Counted::SIZE * sizeof(int64_t), "a value for each count");
    memcpy(into, counts, sizeof counts);
}

} // namespace precreg
