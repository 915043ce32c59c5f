// The input of the core of arithmetic. precreg/arith defines roundings, formats, orders and operations.
#pragma once

#include "declarations.hpp"

namespace precreg {

PRECREG_ENUM(Rounding, nearest_even, nearest_away, toward_zero, up, down, away, odd, stochastic)

// A format of at least two digits. The carrier, float32 or float64, has all its numbers.
PRECREG_STRUCT(Format,
    int32_t precision, min_exponent;
    bool negative_zero, subnormals;
    double largest, overflow;
)

// Rounds n contiguous values; `start` is the index of the first one's random bits.
template <class T> struct RoundingJob {
    const T* values;
    T* results;
    int64_t n;
    Format format;
    Rounding rounding;
    uint64_t seed, start;
};

// The rounding of a product: together with the addition (fused), by the processor alone, or to a format of its own.
PRECREG_ENUM(Product, fused, multiplied, rounded)

PRECREG_ENUM(Order, sequential, blocks, lanes, pairwise)

// The arithmetic of a sum. If not `extended`, the processor rounds by `rounding`: nearest_even, where the format is as fine
// as the carrier, else toward_zero, up or down, after which the format rounds further in the same direction. Extended sums
// are float32 numbers in float64: each is rounded to odd in float64 first, and so is exact enough for any other rounding.
PRECREG_STRUCT(Plan,
    Format accumulator, product_format;
    Product product;
    Rounding rounding;
    bool extended;
    Order order;
    int64_t width;
)

// Sums of products: c[b, i, j] of a[b, i, k] and t[b, k, j], `batch` times. A step of 0 repeats one matrix for every b.
template <class T> struct SumJob {
    const T *a, *t;
    T* c;
    int64_t batch, rows, terms, columns, step_a, step_t;
    Format accumulator, product_format;
    Product product;
    Rounding rounding;
    bool extended;
    Order order;
    int64_t width;
    uint64_t seed;
};

PRECREG_ENUM(Operation, add, subtract, multiply, divide, sqrt, fma)

// The arithmetic of an operation on elements: by the processor, or extended, as sums are.
PRECREG_STRUCT(Task,
    Format format;
    Operation operation;
    Rounding rounding;
    bool extended;
)

// An operation on n elements. Operands that the operation lacks may point to any element.
template <class T> struct ElementJob {
    const T* operands[3];
    bool single[3]; // one element, for all results
    T* results;
    int64_t n;
    Operation operation;
    Format format;
    Rounding rounding;
    bool extended;
    uint64_t seed, start;
};

// The scale of a block: the binade of its largest magnitude over that of the format, or the least power of two by which no
// magnitude passes the format's largest number.
PRECREG_ENUM(ScaleRule, floor, covering)

// A format of blocks along rows, whose scales are powers of two from 2**least_scale to 2**most_scale. The largest number of
// `format` is in the binade of 2**top_binade.
PRECREG_STRUCT(BlockPlan,
    Format format;
    Rounding rounding;
    ScaleRule rule;
    int32_t top_binade, least_scale, most_scale;
    int64_t length;
)

// Rounds rows of float32 values in blocks of `length`; the last block of a row may be shorter.
struct BlockJob {
    const float* values;
    float* results;
    int64_t rows, columns;
    Format format;
    Rounding rounding;
    ScaleRule rule;
    int32_t top_binade, least_scale, most_scale;
    int64_t length;
};

// The largest magnitude of each block of rows: NaN or an infinity, if the block has one.
struct MaximaJob {
    const float* values;
    float* results;
    int64_t rows, columns, length;
};

// Rounds values / divisor to a format, and multiplies by a factor: one of each for every block of rows.
struct QuotientJob {
    const float *values, *divisors, *factors;
    float* results;
    int64_t rows, columns, length;
    Format format;
    Rounding rounding;
};

#define PRECREG_KERNELS(set)                                                             \
    namespace set {                                                                      \
    void round(const RoundingJob<float>&);                                               \
    void round(const RoundingJob<double>&);                                              \
    void add_up(const SumJob<float>&);                                                   \
    void add_up(const SumJob<double>&);                                                  \
    void compute(const ElementJob<float>&);                                              \
    void compute(const ElementJob<double>&);                                             \
    int64_t round_blocks(const BlockJob&);                                               \
    void block_maxima(const MaximaJob&);                                                 \
    void round_quotients(const QuotientJob&);                                            \
    }
PRECREG_KERNELS(generic)
PRECREG_KERNELS(avx2)
PRECREG_KERNELS(avx512)
#undef PRECREG_KERNELS

} // namespace precreg
