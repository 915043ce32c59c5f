#include "job.hpp"

#include <algorithm>

namespace precreg {

void Exact::add(double term) {
    if (size == CAPACITY) pack();
    int kept = 0;
    for (int i = 0; i < size; i++) {
        const double sum = term + part[i], rounded = sum - term;
        const double rest = (term - (sum - rounded)) + (part[i] - rounded);
        if (rest != 0.0) part[kept++] = rest;
        term = sum;
    }
    if (term != 0.0) part[kept++] = term;
    size = kept;
}

void Exact::pack() {
    double largest = part[size - 1];
    int bottom = size;
    for (int i = size - 2; i >= 0; i--) { // downward: the larger part takes all bits that fit
        const double sum = largest + part[i], rest = part[i] - (sum - largest);
        if (rest != 0.0) part[--bottom] = sum, largest = rest; else largest = sum;
    }
    part[--bottom] = largest;
    int top = 0;
    for (int i = bottom + 1; i < size; i++) { // upward
        const double sum = part[i] + largest, rest = largest - (sum - part[i]);
        if (rest != 0.0) part[top++] = rest;
        largest = sum;
    }
    part[top] = largest;
    size = top + 1;
}

void State::add(int which, double term) {
    if (term - term != 0.0) infinite[which] += term;
    else if (term > 0x1p960 || term < -0x1p960) scaled[which][1].add(term * 0x1p-600); // their sum might overflow
    else sum[which].add(term);
}

void State::name_worst(Worst next, int64_t most) {
    worst.push_back(next);
    if ((int64_t)worst.size() >= 4 * most + 64) keep_worst(most);
}

void State::keep_worst(int64_t most) {
    if ((int64_t)worst.size() <= most) return;
    std::nth_element(worst.begin(), worst.begin() + std::max<int64_t>(most - 1, 0), worst.end());
    worst.resize((size_t)most);
    least_of_worst = most > 0 ? worst.back().error : __builtin_inf();
}

void State::name_non_finite(int64_t index, int64_t most) {
    if ((int64_t)non_finite.size() < most) non_finite.push_back(index);
}

} // namespace precreg
