// Round arrays. This file is compiled once for each instruction set, into the namespace PRECREG_SET.
#include "rounding.hpp"

#ifndef PRECREG_SET
#define PRECREG_SET generic
#endif

namespace precreg {
namespace {

constexpr int64_t LARGE = 1 << 22; // bytes: larger results are stored past the caches

template <class T> using Pass = void (*)(const RoundingJob<T>&);

template <Rounding R, bool NARROW, class T> struct Rounder {
    static constexpr int LANES = Carrier<T>::LANES;
    const RoundingJob<T>& job;
    const Target<T> target;

    INLINE Bits<T> draws(int64_t at) const {
        Bits<T> drawn = {};
        if (R == Rounding::stochastic)
            for (int i = 0; i < LANES; i++) drawn[i] = (Bit<T>)random_bits(job.seed, job.start + (uint64_t)(at + i));
        return drawn;
    }
    INLINE Bits<T> at(const void* from, int64_t place) const { return rounded<R, NARROW, T>(load<Bits<T>>(from), draws(place), target); }

    // Round fewer values than a vector has.
    void few(int64_t place, int64_t count) const {
        T some[LANES] = {};
        memcpy(some, job.values + place, (size_t)count * sizeof(T));
        store(some, at(some, place));
        memcpy(job.results + place, some, (size_t)count * sizeof(T));
    }

    void pass() const {
        int64_t place = 0;
        const int64_t unaligned = (int64_t)((uintptr_t)job.results % BYTES / sizeof(T));
        if (job.n * (int64_t)sizeof(T) >= LARGE && (uintptr_t)job.results % sizeof(T) == 0 && job.results != job.values) {
            if (unaligned) few(0, place = LANES - unaligned);
            for (; place + LANES <= job.n; place += LANES) stream(job.results + place, at(job.values + place, place));
            finish_streaming();
        }
        for (; place + LANES <= job.n; place += LANES) store(job.results + place, at(job.values + place, place));
        if (place < job.n) few(place, job.n - place);
    }
};

template <Rounding R, class T> void pass(const RoundingJob<T>& job) {
    const Target<T> target(job.format);
    if (target.narrow) Rounder<R, true, T>{job, target}.pass();
    else Rounder<R, false, T>{job, target}.pass();
}

template <class T> void chosen_pass(const RoundingJob<T>& job) {
    constexpr Pass<T> PASSES[] = { // in the order of Rounding
        pass<Rounding::nearest_even, T>, pass<Rounding::nearest_away, T>, pass<Rounding::toward_zero, T>, pass<Rounding::up, T>,
        pass<Rounding::down, T>, pass<Rounding::away, T>, pass<Rounding::odd, T>, pass<Rounding::stochastic, T>};
    PASSES[(int)job.rounding](job);
}

} // namespace

namespace PRECREG_SET {

void round(const RoundingJob<float>& job) { chosen_pass(job); }
void round(const RoundingJob<double>& job) { chosen_pass(job); }

} // namespace PRECREG_SET
} // namespace precreg
