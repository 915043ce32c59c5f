#include "groups.hpp"

#include <algorithm>
#include <cmath>

namespace precreg {

constexpr int64_t MOST_IN_TILE = 4096; // as _MAX_TILE in precreg/measure/block.py: which axes form the tile
constexpr int64_t LEAST_IN_TILE = 512; // a narrow tile is repeated up to this width, so that runs seldom wrap around its end

Axis::Axis(int64_t length, int64_t stride) : length(length), stride(stride), groups(std::min(length, MOST_GROUPS)) {}

int64_t Axis::group_of(int64_t position) const { return ((position / stride % length + 1) * groups - 1) / length; }

int64_t Axis::begin_of(int64_t group) const { return group * length / groups * stride; }

int64_t Axis::end_of_stretch(int64_t position) const {
    return position / (length * stride) * (length * stride) + begin_of(group_of(position) + 1);
}

int64_t Axis::positions_in(int64_t group, int64_t end) const {
    const int64_t cycle = length * stride, begin = begin_of(group), size = begin_of(group + 1) - begin;
    return end / cycle * size + std::clamp<int64_t>(end % cycle - begin, 0, size);
}

GroupSums::GroupSums(const int64_t* shape, int dimensions, int64_t start, int64_t stop) {
    int64_t stride = 1, tile = 1;
    axes.reserve((size_t)dimensions);
    for (int i = dimensions - 1; i >= 0; i--) {
        axes.insert(axes.begin(), Axis(shape[i], stride));
        stride *= shape[i];
        if (stride <= MOST_IN_TILE) tile = stride, leading = (size_t)i;
        else if (tile == 1 && i == dimensions - 1) leading = (size_t)dimensions;
    }
    if (dimensions == 0 || axes.back().length > MOST_IN_TILE) leading = axes.size();
    const int64_t wanted = std::min(stop - start, LEAST_IN_TILE); // small arrays need no wide tile
    if (leading < axes.size()) width = tile * std::max<int64_t>((wanted + tile - 1) / tile, 1);
    in_stretches = leading > 0;
    places.assign((size_t)((ADDED + 1) * width), 0.0);
    exponents.assign((size_t)width, 0);
    for (int s = 0; s < ADDED; s++) place[s] = places.data() + s * width;
    mantissa = places.data() + ADDED * width;
    std::fill(mantissa, mantissa + width, 1.0);
    exponent = exponents.data();
    for (Axis& axis : axes)
        for (int64_t g = 0; g < axis.groups; g++) axis.n[(size_t)g] = axis.positions_in(g, stop) - (start ? axis.positions_in(g, start) : 0);
}

void GroupSums::open_stretch(int64_t position) {
    close_stretch();
    stretch_begin = position;
    stretch_end = INT64_MAX;
    for (size_t a = 0; a < leading; a++) stretch_end = std::min(stretch_end, axes[a].end_of_stretch(position));
}

void GroupSums::close_stretch() {
    for (size_t a = 0; a < leading && stretch_end > 0; a++) {
        const size_t group = (size_t)axes[a].group_of(stretch_begin);
        for (int s = 0; s < ADDED; s++) axes[a].sum[s][group] += stretch[s];
        axes[a].product[group].times(of_stretch.mantissa, of_stretch.exponent);
    }
    for (double& of : stretch) of = 0.0;
    of_stretch = {};
}

void GroupSums::split() {
    for (int64_t i = 0; i < width; i++) {
        Product product;
        product.times(mantissa[i], exponent[i]);
        mantissa[i] = product.mantissa, exponent[i] = product.exponent;
    }
    room = MOST_ROOM;
}

void GroupSums::leave_out(int64_t position) {
    for (Axis& axis : axes) axis.n[(size_t)axis.group_of(position)]--;
}

void GroupSums::overflow(int64_t position) {
    for (Axis& axis : axes) axis.sum[GroupSum::logs][(size_t)axis.group_of(position)] = INFINITY;
}

void GroupSums::add_places(Axis& axis, size_t group, int64_t at, int64_t end) const {
    // One loop over seven chains of additions and products: one after the other, each would wait for its own results.
    double sums[ADDED], product = axis.product[group].mantissa;
    for (int s = 0; s < ADDED; s++) sums[s] = axis.sum[s][group];
    int64_t power = 0;
    while (at < end) {
        // Mantissas below 2: their product needs no other exponent before 2**1000, and rounds to the same bits.
        const int64_t stop = std::min(end, at + MOST_ROOM);
        for (; at < stop; at++) {
            for (int s = 0; s < ADDED; s++) sums[s] += place[s][at];
            product *= mantissa[at];
            power += exponent[at];
        }
        axis.product[group] = {1.0, axis.product[group].exponent};
        axis.product[group].times(product, power);
        product = axis.product[group].mantissa, power = 0;
    }
    for (int s = 0; s < ADDED; s++) axis.sum[s][group] = sums[s];
}

std::vector<Axis>& GroupSums::finish() {
    close_stretch();
    split();
    for (size_t a = leading; a < axes.size(); a++) {
        Axis& axis = axes[a];
        // The tile holds whole cycles of each of its axes.
        for (int64_t cycle = 0; cycle < width; cycle += axis.length * axis.stride)
            for (int64_t group = 0; group < axis.groups; group++)
                add_places(axis, (size_t)group, cycle + axis.begin_of(group), cycle + axis.begin_of(group + 1));
    }
    for (Axis& axis : axes)
        for (size_t g = 0; g < (size_t)axis.groups; g++) {
            const Product& of = axis.product[g]; // log2(U* + 1/4) is 2 less than log2(4 U* + 1)
            axis.sum[GroupSum::logs][g] += std::log2(of.mantissa) + (double)(of.exponent - 2 * axis.n[g]);
        }
    return axes;
}

} // namespace precreg
