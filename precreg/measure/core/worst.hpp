// The worst errors of a small array, found in a second pass.
#pragma once

#include "job.hpp"

#include <vector>

namespace precreg {

// The arrays are in the second cache: a second pass over larger ones would read the memory again.
constexpr int64_t FEW_FOR_SECOND_PASS = 1 << 15;

inline bool is_float(Kind kind) { return kind == Kind::float32 || kind == Kind::float64; }

// Other kinds would be converted twice.
inline bool has_second_pass(const Job& job) {
    return job.n <= FEW_FOR_SECOND_PASS && is_float(job.actual.kind) && is_float(job.reference.kind);
}

// Append the errors of finite pairs above a bound, by rising index.
namespace generic { void find_worst(const Job&, double bound, std::vector<Worst>&); }
namespace avx2 { void find_worst(const Job&, double bound, std::vector<Worst>&); }
namespace avx512 { void find_worst(const Job&, double bound, std::vector<Worst>&); }

} // namespace precreg
