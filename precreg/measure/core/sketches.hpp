// The counts of a table as a sketch: the keys with counts, in order.
#pragma once

#include "job.hpp"

#include <cstddef>

namespace precreg {

constexpr int STRIDE = 16; // keys that are read at once: small arrays leave most of them at zero

// The keys of a table that have counts: all are between `begin` and the highest one.
struct KeyRange {
    int begin;
    size_t keys;
};

// Find the highest keys whose counts add up to `counted`, from `highest` downward.
namespace generic { KeyRange find_keys(const Table&, int highest, int64_t counted); }
namespace avx2 { KeyRange find_keys(const Table&, int highest, int64_t counted); }
namespace avx512 { KeyRange find_keys(const Table&, int highest, int64_t counted); }

// Move their counts to arrays with room for STRIDE more, and leave the table zero there.
namespace generic { void move_counts(const Table&, int begin, int highest, int32_t* keys, int64_t* counts); }
namespace avx2 { void move_counts(const Table&, int begin, int highest, int32_t* keys, int64_t* counts); }
namespace avx512 { void move_counts(const Table&, int begin, int highest, int32_t* keys, int64_t* counts); }

} // namespace precreg
