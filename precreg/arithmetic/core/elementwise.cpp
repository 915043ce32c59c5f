// Operations on elements, rounded once. This file is compiled once for each instruction set, into the namespace PRECREG_SET.
#include "steps.hpp"

#ifndef PRECREG_SET
#define PRECREG_SET generic
#endif

namespace precreg {
namespace {

template <Operation O, class T> INLINE Number<T> computed(Number<T> x, Number<T> y, Number<T> z) {
    if (O == Operation::add) return x + y;
    if (O == Operation::subtract) return x - y;
    if (O == Operation::multiply) return x * y;
    if (O == Operation::divide) return x / y;
    if (O == Operation::fma) return fused<T>(x, y, z);
    Number<T> root;
    for (int i = 0; i < Carrier<T>::LANES; i++) root[i] = sizeof(T) == 4 ? (T)__builtin_sqrtf((float)x[i]) : (T)__builtin_sqrt((double)x[i]);
    return root;
}

// The processor rounds as the job says, or in a direction in which the format rounds further.
template <Operation O, class T> struct ByProcessor {
    typedef Number<T> Vector;
    explicit ByProcessor(const ElementJob<T>& job) : rest(job.format, job.rounding) {}

    INLINE Vector operator()(Vector x, Vector y, Vector z, uint64_t) const { return rest(computed<O, T>(x, y, z)); }

    const Directed<T> rest;
};

// Float32 numbers in float64, by any rounding but a direction. float64 holds products exactly, and sums rounded to odd. No
// quotient and no root lies so near a number of 25 digits that rounding to float64 reaches it, so rounding twice is safe.
// Stochastic rounding looks at more digits: for it, quotients and roots are rounded to odd, by the sign of the remainder
// (x - quotient * y, or x - root * root).
template <Operation O, Rounding R> struct Extended {
    static constexpr int LANES = Carrier<double>::LANES;
    typedef float Vector __attribute__((vector_size(BYTES / 2)));
    typedef Number<double> Doubles;
    explicit Extended(const ElementJob<float>& job) : to(job.format), seed(job.seed) {}

    INLINE static Doubles wide(Vector x) { return __builtin_convertvector(x, Doubles); }
    INLINE static Doubles exact(Doubles x, Doubles y, Doubles z) {
        if (O == Operation::add) return sum_to_odd(x, y);
        if (O == Operation::subtract) return sum_to_odd(x, -y);
        if (O == Operation::fma) return sum_to_odd(x * y, z);
        const Doubles nearest = computed<O, double>(x, y, z);
        if (R != Rounding::stochastic || O == Operation::multiply) return nearest;
        if (O == Operation::sqrt) return to_odd(nearest, fused<double>(-nearest, nearest, x));
        const Doubles left = fused<double>(-nearest, y, x);
        return to_odd(nearest, (Doubles)((Bits<double>)left ^ ((Bits<double>)y & Carrier<double>::SIGN)));
    }
    INLINE Vector operator()(Vector x, Vector y, Vector z, uint64_t index) const {
        Bits<double> drawn = {};
        if (R == Rounding::stochastic)
            for (int i = 0; i < LANES; i++) drawn[i] = (int64_t)random_bits(seed, index + (uint64_t)i);
        const Bits<double> result = rounded<R, true, double>((Bits<double>)exact(wide(x), wide(y), wide(z)), drawn, to);
        return __builtin_convertvector((Doubles)result, Vector);
    }

    const Target<double> to;
    const uint64_t seed;
};

// Call `kernel` for vectors of results; an operand of one element serves all of them.
template <class T, class Kernel> void pass(const ElementJob<T>& job, const Kernel& kernel) {
    typedef typename Kernel::Vector Vector;
    constexpr int LANES = (int)(sizeof(Vector) / sizeof(T));
    Vector same[3], some[3];
    for (int operand = 0; operand < 3; operand++) { // as bytes, for they need not be aligned
        T copies[LANES];
        for (int i = 0; i < LANES; i++) memcpy(copies + i, job.operands[operand], sizeof(T));
        same[operand] = load<Vector>(copies); // not element by element: gcc 12 lost some of them
    }
    int64_t place = 0;
    for (; place + LANES <= job.n; place += LANES) {
        for (int operand = 0; operand < 3; operand++)
            some[operand] = job.single[operand] ? same[operand] : load<Vector>(job.operands[operand] + place);
        store(job.results + place, kernel(some[0], some[1], some[2], job.start + (uint64_t)place));
    }
    const size_t left = (size_t)(job.n - place) * sizeof(T);
    if (!left) return;
    for (int operand = 0; operand < 3; operand++) {
        some[operand] = same[operand];
        if (!job.single[operand]) memcpy(&some[operand], job.operands[operand] + place, left);
    }
    const Vector last = kernel(some[0], some[1], some[2], job.start + (uint64_t)place);
    memcpy(job.results + place, &last, left);
}

template <Operation O, class T> void by_processor(const ElementJob<T>& job) { pass(job, ByProcessor<O, T>(job)); }

template <Operation O> void extended(const ElementJob<float>& job) {
    switch (job.rounding) {
    case Rounding::nearest_even: return pass(job, Extended<O, Rounding::nearest_even>(job));
    case Rounding::nearest_away: return pass(job, Extended<O, Rounding::nearest_away>(job));
    case Rounding::away: return pass(job, Extended<O, Rounding::away>(job));
    case Rounding::odd: return pass(job, Extended<O, Rounding::odd>(job));
    default: return pass(job, Extended<O, Rounding::stochastic>(job));
    }
}

template <Operation O> void chosen_way(const ElementJob<float>& job) { job.extended ? extended<O>(job) : by_processor<O>(job); }
template <Operation O> void chosen_way(const ElementJob<double>& job) { by_processor<O>(job); }

template <class T> void chosen_operation(const ElementJob<T>& job) {
    switch (job.operation) {
    case Operation::add: return chosen_way<Operation::add>(job);
    case Operation::subtract: return chosen_way<Operation::subtract>(job);
    case Operation::multiply: return chosen_way<Operation::multiply>(job);
    case Operation::divide: return chosen_way<Operation::divide>(job);
    case Operation::sqrt: return chosen_way<Operation::sqrt>(job);
    default: return chosen_way<Operation::fma>(job);
    }
}

} // namespace

namespace PRECREG_SET {

void compute(const ElementJob<float>& job) { chosen_operation(job); }
void compute(const ElementJob<double>& job) { chosen_operation(job); }

} // namespace PRECREG_SET
} // namespace precreg
