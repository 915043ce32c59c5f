// Sums in the groups of each axis. Groups in precreg/measure/tally.py defines them; precreg/measure/block.py has them in numpy.
//
// The trailing axes of few elements form one tile that repeats: runs are added to it place by place. Along the axes before
// them a group is a stretch of some hundred elements or more, and stretches are summed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "../../arithmetic/core/declarations.hpp"

namespace precreg {

constexpr int KEY_SHIFT = 45; // bins end at numbers of 8 significant bits; as _SHIFT in precreg/measure/sketch.py

// The sums of a group, after its number of pairs. Logarithms come last: they are kept as a product, all others are added.
PRECREG_INDEX(GroupSum, absolute, signed_, outward, squared, ulps, squared_ulps, logs)
constexpr int ADDED = GroupSum::logs;

constexpr int64_t ONE = (int64_t)1023 << 52, MANTISSA = ((int64_t)1 << 52) - 1; // bits of a double: 1.0, and its mantissa

// A sum of logarithms, as the product of their arguments: mantissa * 2**exponent, the mantissa in [1, 2).
struct Product {
    double mantissa = 1.0;
    int64_t exponent = 0;

    // Multiply with factor * 2**power; the factor is at least 1, and below 2**1000.
    void times(double factor, int64_t power) {
        int64_t bits;
        mantissa *= factor;
        memcpy(&bits, &mantissa, sizeof bits);
        exponent += power + ((bits - ONE) >> 52);
        bits = (bits & MANTISSA) | ONE;
        memcpy(&mantissa, &bits, sizeof bits);
    }
};

constexpr int64_t MOST_GROUPS = 16; // as MAX_GROUPS_PER_AXIS in precreg/measure/groups.py

struct Axis {
    int64_t length, stride, groups;
    double sum[GroupSum::SIZE][MOST_GROUPS] = {};
    Product product[MOST_GROUPS]; // of 4 U* + 1
    int64_t n[MOST_GROUPS] = {};

    Axis(int64_t length, int64_t stride);
    int64_t group_of(int64_t position) const;
    int64_t begin_of(int64_t group) const;
    int64_t end_of_stretch(int64_t position) const;         // the end of the stretch that holds a position
    int64_t positions_in(int64_t group, int64_t end) const; // the number of a group's positions below `end`
};

constexpr int MOST_ROOM = 990; // bits by which mantissas may grow; a double has 1023

// The sums that a kernel adds to: a tile of `width` places (0: no tile), and the open stretch.
struct GroupSums {
    GroupSums(const int64_t* shape, int dimensions, int64_t start, int64_t stop);

    double* place[ADDED];
    double* mantissa; // the product at each place is mantissa * 2**exponent, the mantissa at least 1
    int64_t* exponent;
    int64_t width = 0;
    bool in_stretches;
    double stretch[ADDED] = {};
    Product of_stretch;
    int64_t stretch_begin = 0, stretch_end = 0;

    void open_stretch(int64_t position);
    // Leave room in every mantissa for a factor of at most 2**bits: no run has two pairs for one place.
    void make_room(int bits) {
        if (room < bits) split();
        room -= bits;
    }
    // Return true if no stretch ends among n pairs from a position on. Opens theirs.
    bool in_one_stretch(int64_t position, int64_t n) {
        if (!in_stretches) return true;
        if (position >= stretch_end) open_stretch(position);
        return position + n <= stretch_end;
    }
    // The same if all groups are stretches.
    bool in_stretch(int64_t position, int64_t n) { return !width && in_stretches && in_one_stretch(position, n); }
    void leave_out(int64_t position); // a non-finite pair belongs to no group
    void overflow(int64_t position);  // the U* of this pair is infinite
    std::vector<Axis>& finish();

  private:
    std::vector<Axis> axes;
    std::vector<double> places;
    std::vector<int64_t> exponents;
    size_t leading;
    int room = MOST_ROOM;

    void split(); // move the powers of two from mantissas to exponents
    void close_stretch();
    void add_places(Axis& axis, size_t group, int64_t at, int64_t end) const; // to one group, in order
};

} // namespace precreg
