// Sums in the groups of each axis; see Groups in precreg/measure/tally.py, and precreg/measure/groups.py for the same in numpy.
//
// Trailing axes of few elements together are one tile that comes again and again: runs are added to it place by place.
// Along the axes before them a group is a stretch of at least some hundred elements, and stretches are summed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace precreg {

struct Axis {
    static constexpr int64_t MOST = 16;
    int64_t length, stride, groups;
    std::vector<double> sum[4]; // of |d|, d, d * d and U
    std::vector<int64_t> n;

    Axis(int64_t length, int64_t stride)
        : length(length), stride(stride), groups(std::min(length, MOST)), n((size_t)groups) {
        for (auto& of : sum) of.assign((size_t)groups, 0.0);
    }
    int64_t group_of(int64_t position) const { return ((position / stride % length + 1) * groups - 1) / length; }
    int64_t begin_of(int64_t group) const { return group * length / groups * stride; }

    // The end of the stretch that a position lies in.
    int64_t end_of_stretch(int64_t position) const {
        const int64_t cycle = length * stride, group = group_of(position);
        return position / cycle * cycle + (group + 1 < groups ? begin_of(group + 1) : cycle);
    }
    // How many of the positions below `end` lie in a group.
    int64_t positions_in(int64_t group, int64_t end) const {
        const int64_t cycle = length * stride, begin = begin_of(group);
        const int64_t size = (group + 1 < groups ? begin_of(group + 1) : cycle) - begin;
        return end / cycle * size + std::clamp<int64_t>(end % cycle - begin, 0, size);
    }
};

class GroupSums {
  public:
    GroupSums(const int64_t* shape, int dimensions, int64_t start, int64_t stop) {
        int64_t stride = 1;
        for (int i = dimensions - 1; i >= 0; i--) {
            axes.insert(axes.begin(), Axis(shape[i], stride));
            stride *= shape[i];
            if (stride <= MOST_IN_TILE) tile = stride, in_tile++;
        }
        leading = axes.size() - in_tile;
        width = in_tile ? std::min(tile * std::max<int64_t>(LEAST_IN_TILE / tile, 1), (stop - start + tile - 1) / tile * tile) : 0;
        for (auto& of : place) of.assign((size_t)width, 0.0);
        for (Axis& axis : axes)
            for (int64_t g = 0; g < axis.groups; g++) axis.n[g] = axis.positions_in(g, stop) - axis.positions_in(g, start);
    }

    // Add the differences and ULPs of pairs that stand side by side.
    void add(const double* d, const double* ulps, int64_t n, int64_t position) {
        if (width) add_to_tile(d, ulps, n, position);
        if (!leading) return;
        while (n > 0) {
            if (position >= stretch_end || position < stretch_begin) open(position);
            const int64_t here = std::min(n, stretch_end - position);
            add_to_stretch(d, ulps, here);
            d += here, ulps += here, n -= here, position += here;
        }
    }

    // A pair that is not finite is in no group.
    void leave_out(int64_t position) {
        for (Axis& axis : axes) axis.n[axis.group_of(position)]--;
    }

    std::vector<Axis>& finish() {
        close();
        for (size_t a = leading; a < axes.size(); a++)
            for (int64_t at = 0; at < width; at++) {
                const int64_t group = axes[a].group_of(at);
                for (int s = 0; s < 4; s++) axes[a].sum[s][group] += place[s][at];
            }
        leading = axes.size(), width = 0;
        return axes;
    }

  private:
    static constexpr int64_t MOST_IN_TILE = 4096, LEAST_IN_TILE = 2048;
    std::vector<Axis> axes;
    std::vector<double> place[4];
    size_t leading = 0, in_tile = 0;
    int64_t tile = 1, width = 0, stretch_begin = 0, stretch_end = 0;
    double stretch[4] = {};

    void add_to_tile(const double* d, const double* ulps, int64_t n, int64_t position) {
        for (int64_t offset = position % width; n > 0; offset = 0) {
            const int64_t here = std::min(n, width - offset);
            double *absolute = &place[0][offset], *bias = &place[1][offset], *squared = &place[2][offset], *u = &place[3][offset];
            for (int64_t i = 0; i < here; i++) {
                absolute[i] += std::fabs(d[i]);
                bias[i] += d[i];
                squared[i] += d[i] * d[i];
                u[i] += ulps[i];
            }
            d += here, ulps += here, n -= here;
        }
    }

    void add_to_stretch(const double* d, const double* ulps, int64_t n) {
        double lane[4][8] = {};
        for (int64_t i = 0; i + 8 <= n; i += 8)
            for (int j = 0; j < 8; j++) {
                lane[0][j] += std::fabs(d[i + j]);
                lane[1][j] += d[i + j];
                lane[2][j] += d[i + j] * d[i + j];
                lane[3][j] += ulps[i + j];
            }
        for (int64_t i = n / 8 * 8; i < n; i++) {
            lane[0][i % 8] += std::fabs(d[i]);
            lane[1][i % 8] += d[i];
            lane[2][i % 8] += d[i] * d[i];
            lane[3][i % 8] += ulps[i];
        }
        for (int s = 0; s < 4; s++)
            for (double part : lane[s]) stretch[s] += part;
    }

    void open(int64_t position) {
        close();
        stretch_begin = position;
        stretch_end = INT64_MAX;
        for (size_t a = 0; a < leading; a++) stretch_end = std::min(stretch_end, axes[a].end_of_stretch(position));
    }

    void close() {
        for (size_t a = 0; a < leading && stretch_end > 0; a++) {
            const int64_t group = axes[a].group_of(stretch_begin);
            for (int s = 0; s < 4; s++) axes[a].sum[s][group] += stretch[s];
        }
        for (double& of : stretch) of = 0.0;
    }
};

} // namespace precreg
