// Read the counters of a table. This file is compiled once for each instruction set.
//
// No branch for each key: the processor does not foresee which have counts. Two passes, because arrays that grow cost more.

#include "sketches.hpp"
#include "lanes.hpp"

#ifndef PRECREG_SET
#define PRECREG_SET generic
#endif

namespace precreg {
namespace {

INLINE Words counts_at(const Table& table, int key) { return load<Words>(table.counts[0] + key) + load<Words>(table.counts[1] + key); }

// Append the keys of a register of counts that are not zero, and these counts; return how many there are.
#if defined(__AVX512F__)
INLINE size_t append_counted(Words values, int key, int32_t* keys, int64_t* counts) {
    const __m512i numbers = _mm512_add_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), _mm512_set1_epi32(key));
    const __mmask16 mask = _mm512_test_epi32_mask((__m512i)values, (__m512i)values);
    const __m512i counted = _mm512_maskz_compress_epi32(mask, (__m512i)values);
    _mm512_storeu_si512(keys, _mm512_maskz_compress_epi32(mask, numbers));
    _mm512_storeu_si512(counts, _mm512_cvtepu32_epi64(_mm512_castsi512_si256(counted)));
    _mm512_storeu_si512(counts + 8, _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(counted, 1)));
    return (size_t)__builtin_popcount(mask);
}
#else
INLINE size_t append_counted(Words values, int key, int32_t* keys, int64_t* counts) {
    size_t used = 0;
    for (int i = 0; i < SINGLES; i++) {
        keys[used] = key + i, counts[used] = values[i];
        used += values[i] != 0;
    }
    return used;
}
#endif

} // namespace

namespace PRECREG_SET {

KeyRange find_keys(const Table& table, int highest, int64_t counted) {
    Words used = {};
    int begin = (highest | (STRIDE - 1)) + 1;
    while (counted > 0 && begin > 0) {
        begin -= STRIDE;
        Words total = {};
        for (int i = 0; i < STRIDE; i += SINGLES) {
            const Words values = counts_at(table, begin + i);
            total += values;
            used -= (Words)(values != 0);
        }
        counted -= sum_of(total);
    }
    return {begin, (size_t)sum_of(used)};
}

void move_counts(const Table& table, int begin, int highest, int32_t* keys, int64_t* counts) {
    size_t used = 0;
    for (int key = begin; key <= highest; key += SINGLES) {
        used += append_counted(counts_at(table, key), key, keys + used, counts + used);
        store(table.counts[0] + key, Words{}), store(table.counts[1] + key, Words{});
    }
}

} // namespace PRECREG_SET

} // namespace precreg
