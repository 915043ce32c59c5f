// Sums in the groups of each axis; see Groups in precreg/measure/tally.py, and precreg/measure/groups.py for the same in numpy.
//
// Trailing axes of few elements together are one tile that comes again and again: runs are added to it place by place.
// Along the axes before them a group is a stretch of at least some hundred elements, and stretches are summed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace precreg {

constexpr int KEY_SHIFT = 45; // sizes are counted, and bins end, at numbers of 8 significant bits

enum GroupSum { GROUP_ABSOLUTE, GROUP_SIGNED, GROUP_SQUARED, GROUP_ULPS, ADDED, GROUP_LOGS = ADDED, GROUP_SUMS };

constexpr int64_t ONE = (int64_t)1023 << 52, MANTISSA = ((int64_t)1 << 52) - 1; // of the bits of a double

// A sum of logarithms, kept as the product of what they are taken of: mantissa * 2**exponent, the mantissa in [1, 2).
struct Product {
    double mantissa = 1.0;
    int64_t exponent = 0;

    // Multiply by by * 2**power; `by` is at least 1, and below 2**1000.
    void times(double by, int64_t power) {
        int64_t bits;
        mantissa *= by;
        memcpy(&bits, &mantissa, sizeof bits);
        exponent += power + ((bits - ONE) >> 52);
        bits = (bits & MANTISSA) | ONE;
        memcpy(&mantissa, &bits, sizeof bits);
    }
};

struct Axis {
    int64_t length, stride, groups;
    std::vector<double> sum[GROUP_SUMS];
    std::vector<Product> product; // of 4 U* + 1
    std::vector<int64_t> n;

    Axis(int64_t length, int64_t stride);
    int64_t group_of(int64_t position) const;
    int64_t begin_of(int64_t group) const;
    int64_t end_of_stretch(int64_t position) const;             // where the group of a position ends
    int64_t positions_in(int64_t group, int64_t end) const;     // how many positions below `end` it has
};

constexpr int MOST_ROOM = 990; // bits that mantissas may grow by

// What a kernel adds to: a tile of `width` places, if there is one, and the stretch that is open.
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
    // Let every mantissa have room for a factor of at most 2**bits. No run has two pairs for one place.
    void make_room(int bits) {
        if (room < bits) split();
        room -= bits;
    }
    void leave_out(int64_t position); // a pair that is not finite is in no group
    void overflow(int64_t position);  // its U* is infinite
    std::vector<Axis>& finish();

  private:
    std::vector<Axis> axes;
    std::vector<double> places;
    std::vector<int64_t> exponents;
    size_t leading;
    int room = MOST_ROOM;

    void split(); // take the powers of two out of mantissas

    void close_stretch();
};

} // namespace precreg
