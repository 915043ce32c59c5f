// The metrics of a measurement, and the statistics of its sketches. precreg/measure/figures.py and sketch.py have the
// same formulas and are their reference implementation; tests compare all bits.
#pragma once

#include "found.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace precreg {

// The metrics that pairs alone give, in the order of METRICS in precreg/measure/metrics.py, with underscores for - and .
PRECREG_INDEX(Figure, max_abs_error, mean_abs_error, rms_error, mse, bias, outward_bias, p50_abs_error, p90_abs_error, p95_abs_error,
              p99_abs_error, p99_9_abs_error, max_rel_error, mean_rel_error, p50_rel_error, p90_rel_error, p95_rel_error, p99_rel_error,
              p99_9_rel_error, share_rel_above_1e_3, share_rel_above_1e_4, mere, mare, max_ulp, mean_ulp, rms_ulp, mean_log2_ulp, p50_ulp,
              p90_ulp, p95_ulp, p99_ulp, p99_9_ulp, share_above_0_5_ulp, share_above_1_ulp, share_above_2_ulp, share_above_32_ulp,
              ulp_scale, mean_magnitude, max_magnitude, match_ratio, equal_share, differing_bits_share, non_finite_mismatch_share,
              small_value_error_share, cancellation_error_share, relative_violation_share, absolute_violation_share, diff1, diff2, diff3,
              diff4, one_sidedness, error_balance, cosine, cosine_distance, snr, psnr, effective_bits, error_magnitude_correlation)

// The counts of a Comparison, in the order of COUNT_DESCRIPTIONS there.
PRECREG_INDEX(Counted, n, finite, nan_matched, nan_mismatched, inf_matched, plus_inf_matched, minus_inf_matched, inf_mismatched,
              plus_inf_mismatched, minus_inf_mismatched, zero_references, actual_subnormals, reference_subnormals, flushed_subnormals,
              exact_matches, zero_sign_differences, above, below)

// Return the largest value below a bin of a sketch; all values of the bin are larger.
double begin_of(int key);
// Return the largest value of a bin, as upper_end in precreg/measure/sketch.py.
double upper_end(int key);

constexpr int PERCENTILES = 5, COUNTED_ENDS = 4;

// Write the percentiles of sketch.py's PERMILLES: upper ends of bins, at most `largest`.
void percentiles_of(const Sketch& sketch, double largest, double* into);
// Count the values above each of sketch.py's COUNTED_ENDS.
void count_above(const Sketch& sketch, int64_t* into);
// Return the mean of log2(v* + 1/4), with v* the upper end of a value's bin.
double mean_log2_of(const Sketch& sketch);
// Return the bins and counts of the coarser histogram, four bins an octave.
std::pair<std::vector<int32_t>, std::vector<int64_t>> coarse_bins_of(const Sketch& sketch);

// Write the metrics; NaN where one is not defined. Returns false if sums are beyond float64 or cancel, so that the figures
// need exact sums.
bool compute_figures(const Found& found, double* into);
// Write the counts of Counted.
void compute_counts(const Counts& counts, int64_t* into);

} // namespace precreg
