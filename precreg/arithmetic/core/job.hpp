// What the core of arithmetic is told. precreg/arith says what each of it means.
#pragma once

#include <cstdint>

namespace precreg {

enum class Rounding : int { nearest_even, nearest_away, toward_zero, up, down, away, odd, stochastic };
constexpr int ROUNDINGS = 8;

// A format of at least two digits, all of whose numbers the carrier (float32 or float64) has.
struct Format {
    int32_t precision, min_exponent, negative_zero, subnormals;
    double largest, overflow;
};

// Rounding n values that lie one after another; `start` is the index of the first one's random bits.
template <class T> struct RoundingJob {
    const T* values;
    T* results;
    int64_t n;
    Format format;
    Rounding rounding;
    uint64_t seed, start;
};

// How a product is made: rounded with the addition (fused), by the processor alone, or to a format of its own.
enum class Product : int { fused, multiplied, rounded };
constexpr int PRODUCTS = 3;

enum class Order : int { sequential, blocks, lanes, pairwise };
constexpr int ORDERS = 4;

// Sums of products: c[b, i, j] of a[b, i, k] and t[b, k, j], `batch` times; a step of 0 from one b to the next is the same
// matrix again. By the processor, if `extended` is false: it rounds as `rounding` says (nearest_even where that is what the
// format takes of the carrier, else toward_zero, up or down), and what is left to do goes in the same direction. Extended
// sums are float32 numbers in float64: each is rounded to odd in float64 first, and so exact enough for any other rounding.
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

enum class Operation : int { add, subtract, multiply, divide, sqrt, fma };
constexpr int OPERATIONS = 6;

// An operation on n elements; operands that it does not have are any. By the processor, or extended, as sums are.
template <class T> struct ElementJob {
    const T* operands[3];
    bool single[3]; // one element, which is the same for all results
    T* results;
    int64_t n;
    Operation operation;
    Format format;
    Rounding rounding;
    bool extended;
    uint64_t seed, start;
};

#define PRECREG_KERNELS(set)                                                             \
    namespace set {                                                                      \
    void round(const RoundingJob<float>&);                                               \
    void round(const RoundingJob<double>&);                                              \
    void add_up(const SumJob<float>&);                                                   \
    void add_up(const SumJob<double>&);                                                  \
    void compute(const ElementJob<float>&);                                              \
    void compute(const ElementJob<double>&);                                             \
    }
PRECREG_KERNELS(generic)
PRECREG_KERNELS(avx2)
PRECREG_KERNELS(avx512)
#undef PRECREG_KERNELS

} // namespace precreg
