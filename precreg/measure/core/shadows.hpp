// The figures of values that were computed in low precision, beside exact ones in float64. precreg/shadow uses them.
#pragma once

#include "../../arithmetic/core/declarations.hpp"

#include <cstdint>

namespace precreg {

// Sums go over eight lanes, as all sums of this core, and element i of a row belongs to lane i % 8. Each row adds its sum to
// that of the rows before it. So calls may divide the values anywhere between rows, and rows after any eighth element.
constexpr int SUM_LANES = 8;

// Masks hold values beyond it, infinite ones among them (MASK_LIMIT in precreg/shadow/sizes.py). Where two numbers lie there
// on the same side, they have no difference and no size.
constexpr double MASK_LIMIT = 1e30;

// Differences from one side to another: squares, the largest sum of a row, and the largest absolute value. Masks apart, no
// infinity or NaN is left out, so the sums show that there is one.
PRECREG_STRUCT(Differences,
    double squares, worst_row, largest;
)

// The totals of one array. `total` compares actual with exact, `own` actual with the exact result on the same inputs, and
// `inherited` the latter with exact. Scales are the sums of squares of exact and of own values. Counts are of actual values;
// `smallest` and `most` are the extremes of their finite absolute values apart from 0.
PRECREG_STRUCT(ShadowTotals,
    Differences total, own, inherited;
    double scale, own_scale;
    double smallest, most;
    int64_t nan, inf, subnormal, zeros;
)

// The totals so far, the lanes of the row that is not complete (squares of total, own and inherited differences, and the
// scales), and those of the scales of all rows before it.
struct ShadowState {
    ShadowTotals totals;
    double row[3][SUM_LANES], row_scales[2][SUM_LANES], scales[2][SUM_LANES];
};
constexpr const char* ShadowState_TEXT = "totals, row, row_scales, scales";

// Values in rows: the last row may go on in the next call.
struct ShadowRows {
    int64_t n, columns;
    bool ends_row;
    double smallest_normal;
};

// Where the values of an array lie. `own` may be null; `errors` are the differences from own, or from exact without own.
template <class T> struct ShadowPlaces {
    const T* actual;
    const double *exact, *own;
    float* errors;
};

// IEEE 754 rounds these operations correctly, so they have one result on every machine.
PRECREG_ENUM(ShadowOperation, add, subtract, multiply, divide, sqrt)

// An operand repeats one element for all results, for a row, or one row for all rows.
PRECREG_ENUM(Repeated, never, everywhere, in_row, in_column)

// An operand in low precision, and its shadow. Without `exact`, the shadow equals `low`; without `low`, both are `exact`.
struct ShadowOperand {
    const float* low;
    const double* exact;
    Repeated repeated;
};

// An operation on shadows, and on widened low-precision values if `has_own`. `own` may be null: then nobody keeps them.
struct ShadowTask {
    ShadowOperation operation;
    ShadowOperand operands[2];
    const float* actual;
    double *exact, *own;
    float* errors;
    bool has_own;
};

#define PRECREG_KERNELS(set)                                                                        \
    namespace set {                                                                                 \
    void add_shadows(const ShadowPlaces<float>&, const ShadowRows&, ShadowState&);                  \
    void add_shadows(const ShadowPlaces<double>&, const ShadowRows&, ShadowState&);                 \
    void compute_shadows(const ShadowTask&, const ShadowRows&, ShadowState&);                       \
    }
PRECREG_KERNELS(generic)
PRECREG_KERNELS(avx2)
PRECREG_KERNELS(avx512)
#undef PRECREG_KERNELS

} // namespace precreg
