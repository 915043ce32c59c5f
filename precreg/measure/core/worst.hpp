// The worst errors of a small array, found in a second pass.
#pragma once

#include "job.hpp"

#include <vector>

namespace precreg {

// The arrays are in the second cache: a second pass over larger ones would read the memory again. With the largest error of
// each run, a pass over float32 reads few runs of a large array. 1,000,000 pairs take 0.9 of the time of np.allclose, and took
// 1.3 with a list (Zen 5, processes that took turns, on a machine with other work; other changes are in these figures, too).
constexpr int64_t FEW_FOR_SECOND_PASS = 1 << 15, FEW_FLOAT32_FOR_SECOND_PASS = 1 << 21;

inline bool is_float(Kind kind) { return kind == Kind::float32 || kind == Kind::float64; }

// Other kinds would be converted twice.
inline bool has_second_pass(const Job& job) {
    if (job.actual.kind == Kind::float32 && job.reference.kind == Kind::float32) return job.n <= FEW_FLOAT32_FOR_SECOND_PASS;
    return job.n <= FEW_FOR_SECOND_PASS && is_float(job.actual.kind) && is_float(job.reference.kind);
}

// Append the errors of finite pairs above a bound, by rising index. Runs without such an error are not read.
namespace generic { void find_worst(const Job&, const double* peak_of_run, double bound, std::vector<Worst>&); }
namespace avx2 { void find_worst(const Job&, const double* peak_of_run, double bound, std::vector<Worst>&); }
namespace avx512 { void find_worst(const Job&, const double* peak_of_run, double bound, std::vector<Worst>&); }

} // namespace precreg
