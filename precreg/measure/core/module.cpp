// The measuring core as a Python module, through the limited API: one binary for every Python from 3.11 on.
//
// measure(actual, reference, plan, tables, start, shape, rtol, atol, worst) adds up the pairs of two contiguous buffers.
// precreg/measure/native.py knows what goes in and what comes out.
#include "../../arithmetic/core/python.hpp" // Python's header first
#include "../../arithmetic/core/processor.hpp"

#include "job.hpp"
#include "reader.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace precreg {
namespace {

const InstructionSet instruction_set = widest();

void add_up(const Job& job, State& state) {
#if defined(PRECREG_X86)
    if (instruction_set == InstructionSet::avx512) return avx512::measure(job, state);
    if (instruction_set == InstructionSet::avx2) return avx2::measure(job, state);
#endif
    generic::measure(job, state);
}

// Counters of one thread; they are all zero between calls, and only what was touched takes memory.
class Tables {
  public:
    Tables() {
        for (int i = 0; i < 2 * FIGURES; i++) {
            counts[i].reset((uint32_t*)std::calloc(KEYS, sizeof(uint32_t)));
            if (!counts[i]) throw std::bad_alloc();
        }
    }
    Table operator[](int figure) const { return {{counts[2 * figure].get(), counts[2 * figure + 1].get()}}; }
    void clear() {
        for (auto& each : counts) memset(each.get(), 0, KEYS * sizeof(uint32_t));
    }

  private:
    struct Free {
        void operator()(uint32_t* memory) const { std::free(memory); }
    };
    std::unique_ptr<uint32_t[], Free> counts[2 * FIGURES];
};

struct Sketch {
    std::vector<int32_t> keys;
    std::vector<int64_t> counts;
};

int key_of(double value) {
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (int)((uint64_t)(bits - 1) >> KEY_SHIFT);
}

// Take out of a table what was counted, and leave it all zero. `counted` values, none above `largest`, are in it.
void take(const Table& table, int64_t counted, double largest, Sketch& sketch) {
    uint32_t *a = table.counts[0], *b = table.counts[1];
    const int64_t zeros = (uint32_t)(a[ZERO_KEY] + b[ZERO_KEY]);
    int64_t left = counted - zeros;
    for (int key = largest > 0 ? key_of(largest) : -1; key >= 0 && left > 0; key--) {
        const int64_t count = (int64_t)a[key] + b[key];
        if (!count) continue;
        sketch.keys.push_back(key);
        sketch.counts.push_back(count);
        left -= count;
        a[key] = b[key] = 0;
    }
    if (zeros) sketch.keys.push_back(-1), sketch.counts.push_back(zeros);
    a[ZERO_KEY] = b[ZERO_KEY] = a[UNUSED_KEY] = b[UNUSED_KEY] = 0;
    std::reverse(sketch.keys.begin(), sketch.keys.end());
    std::reverse(sketch.counts.begin(), sketch.counts.end());
}

void run(const Job& job, State& state, Sketch* sketches) {
    thread_local Tables tables;
    try {
        for (int f = 0; f < FIGURES; f++) state.table[f] = tables[f];
        add_up(job, state);
        const int64_t finite = state.count[FINITE];
        take(tables[ERRORS], finite, state.maximum[MAX_ABSOLUTE], sketches[ERRORS]);
        take(tables[RATIOS], finite - state.without_ratio, state.maximum[MAX_RELATIVE], sketches[RATIOS]);
        take(tables[ULP_ERRORS], finite, state.maximum[MAX_ULPS], sketches[ULP_ERRORS]);
    } catch (...) {
        tables.clear();
        throw;
    }
    state.keep_worst(job.worst);
    std::sort(state.worst.begin(), state.worst.end());
}

// Put a new reference into a tuple. Everything below returns null, with an exception set, where Python has no memory.
bool put(PyObject* tuple, Py_ssize_t at, PyObject* item) { return item && PyTuple_SetItem(tuple, at, item) == 0; }

template <class Item> PyObject* tuple_of(Py_ssize_t size, Item item) {
    PyObject* tuple = PyTuple_New(size);
    for (Py_ssize_t i = 0; tuple && i < size; i++)
        if (!put(tuple, i, item(i))) Py_CLEAR(tuple);
    return tuple;
}

template <class Item> PyObject* list_of(Py_ssize_t size, Item item) {
    PyObject* list = PyList_New(size);
    for (Py_ssize_t i = 0; list && i < size; i++) {
        PyObject* value = item(i);
        if (!value || PyList_SetItem(list, i, value) != 0) Py_CLEAR(list);
    }
    return list;
}

PyObject* expansion(const Exact& sum, double infinite) {
    if (infinite != 0.0) return tuple_of(1, [&](Py_ssize_t) { return PyFloat_FromDouble(infinite); });
    return tuple_of(sum.size, [&](Py_ssize_t i) { return PyFloat_FromDouble(sum.part[sum.size - 1 - i]); }); // largest first
}

template <class T> PyObject* bytes_of(const std::vector<T>& values) {
    return PyBytes_FromStringAndSize((const char*)values.data(), (Py_ssize_t)(values.size() * sizeof(T)));
}

// (index in Sums, binary exponent, expansion) for every scaled sum there is.
PyObject* scaled(const State& state) {
    PyObject* list = PyList_New(0);
    for (int s = 0; list && s < SUMS; s++)
        for (int k = 0; list && k < 5; k++) {
            const Exact& sum = state.scaled[s][k];
            if (sum.size == 0) continue;
            PyObject* entry = Py_BuildValue("(iiN)", s, -600 * (k - 2), expansion(sum, 0.0));
            if (!entry || PyList_Append(list, entry) != 0) Py_CLEAR(list);
            Py_XDECREF(entry);
        }
    return list;
}

// Per axis: n, and the sums of |d|, d, d * d, U and log2(U* + 1/4).
PyObject* groups(std::vector<Axis>& axes) {
    return tuple_of((Py_ssize_t)axes.size(), [&](Py_ssize_t a) {
        const Axis& axis = axes[(size_t)a];
        return tuple_of(1 + GROUP_SUMS, [&](Py_ssize_t s) {
            return list_of((Py_ssize_t)axis.groups, [&](Py_ssize_t g) {
                return s == 0 ? PyLong_FromLongLong(axis.n[g]) : PyFloat_FromDouble(axis.sum[s - 1][g]);
            });
        });
    });
}

// One value of a side as a record has it: an integer, a float, or the text of what JSON has no number for.
PyObject* scalar(const Side& side, int64_t at) {
    if (side.integer) return PyLong_FromDouble(value_at(side, at));
    const double value = value_at(side, at);
    if (value - value == 0.0) return PyFloat_FromDouble(value);
    return PyUnicode_FromString(value != value ? "nan" : value > 0 ? "inf" : "-inf");
}

// (indices, actual values, reference values)
template <class Index> PyObject* named(const Job& job, size_t size, Index index) {
    const auto list = [&](auto item) { return list_of((Py_ssize_t)size, [&](Py_ssize_t i) { return item(index((size_t)i)); }); };
    return Py_BuildValue("(NNN)", list([](int64_t at) { return PyLong_FromLongLong(at); }),
                         list([&](int64_t at) { return scalar(job.actual, at - job.start); }),
                         list([&](int64_t at) { return scalar(job.reference, at - job.start); }));
}

PyObject* result(const Job& job, const State& state, const Sketch* sketches) {
    const auto integer = [](int64_t value) { return PyLong_FromLongLong(value); };
    return Py_BuildValue(
        "(NNNN(NN)(NN)(NN)NNNNN)", tuple_of(COUNTS, [&](Py_ssize_t i) { return integer(state.count[i]); }),
        tuple_of(SUMS, [&](Py_ssize_t i) { return expansion(state.sum[i], state.infinite[i]); }),
        tuple_of(MAXIMA, [&](Py_ssize_t i) { return PyFloat_FromDouble(state.maximum[i]); }),
        tuple_of(PLACES, [&](Py_ssize_t i) { return integer(state.place[i]); }), bytes_of(sketches[ERRORS].keys),
        bytes_of(sketches[ERRORS].counts), bytes_of(sketches[RATIOS].keys), bytes_of(sketches[RATIOS].counts),
        bytes_of(sketches[ULP_ERRORS].keys), bytes_of(sketches[ULP_ERRORS].counts),
        list_of((Py_ssize_t)state.worst.size(), [&](Py_ssize_t i) { return PyFloat_FromDouble(state.worst[i].error); }),
        named(job, state.worst.size(), [&](size_t i) { return state.worst[i].index; }),
        named(job, state.non_finite.size(), [&](size_t i) { return state.non_finite[i]; }), scaled(state),
        groups(state.groups->finish()));
}

constexpr long INTERFACE = 2; // as in precreg/measure/compiled.py; raised whenever what is passed or returned changes
constexpr int64_t ITEM_SIZE[] = {4, 8, 2, 2, 1, 2, 2, 4, 4};

// As packed by native.py: two kinds, precision, flags; then the doubles of Format and of Regions.
struct Plan {
    int32_t actual, reference, actual_is_integer, reference_is_integer, precision, same, negative_zero, overflow_is_nan;
    double smallest_binade, smallest_normal, largest_reference;
    Regions regions;
};

constexpr int64_t MOST_PAIRS = 1 << 28; // counters hold them, and what sums round off stays far below an ULP of them
constexpr int64_t FEW_PAIRS = 20000;    // are measured before another thread would have got going

constexpr int32_t KINDS = sizeof ITEM_SIZE / sizeof *ITEM_SIZE;

bool known(int32_t kind) { return kind >= 0 && kind < KINDS; }

// Whether n elements from `start` on lie within an array of a shape.
bool within(const std::vector<int64_t>& shape, int64_t start, int64_t n) {
    int64_t size = 1;
    for (int64_t length : shape) {
        if (length < 1 || size > INT64_MAX / length) return false;
        size *= length;
    }
    return start >= 0 && start <= size && n <= size - start;
}

PyObject* measured(const Job& job, const std::vector<int64_t>& shape) {
    const OrdinaryArithmetic ordinary;
    State state;
    GroupSums groups(shape.data(), (int)shape.size(), job.start, job.start + job.n);
    state.groups = &groups;
    Sketch sketches[FIGURES];
    {
        const Unlocked unlocked(job.n > FEW_PAIRS);
        run(job, state, sketches);
    }
    return result(job, state, sketches);
}

PyObject* checked(PyObject* arguments) {
    PyObject *actual, *reference, *tables;
    const char* packed;
    Py_ssize_t packed_size;
    long long start, worst;
    double rtol, atol;
    PyObject* shape;
    if (!PyArg_ParseTuple(arguments, "OOy#OLO!ddL", &actual, &reference, &packed, &packed_size, &tables, &start, &PyTuple_Type, &shape,
                          &rtol, &atol, &worst))
        return nullptr;
    std::vector<int64_t> lengths((size_t)PyTuple_Size(shape));
    for (size_t i = 0; i < lengths.size(); i++) lengths[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, (Py_ssize_t)i));
    if (PyErr_Occurred()) return nullptr;
    Plan plan;
    if (packed_size != sizeof plan) return PyErr_Format(PyExc_ValueError, "expected a plan of %zu bytes", sizeof plan);
    memcpy(&plan, packed, sizeof plan);
    if (!known(plan.actual) || !known(plan.reference)) return PyErr_Format(PyExc_ValueError, "expected a plan of known kinds");
    Buffer a, r, table;
    if (!a.get(actual) || !r.get(reference) || !table.get(tables)) return nullptr;
    const int64_t n = a.view.len / ITEM_SIZE[plan.actual];
    if (r.view.len != n * ITEM_SIZE[plan.reference] || table.view.len != 2 * 256 * (Py_ssize_t)sizeof(float))
        return PyErr_Format(PyExc_ValueError, "expected as many references as actual values, and two tables");
    if (!within(lengths, start, n) || worst < 0)
        return PyErr_Format(PyExc_ValueError, "expected pairs within the shape, and no negative number of those to name");
    if (n > MOST_PAIRS) return PyErr_Format(PyExc_ValueError, "expected at most %lld pairs", (long long)MOST_PAIRS);
    const float* patterns = (const float*)table.view.buf;
    const Job job = {{(Kind)plan.actual, a.view.buf, patterns, plan.actual_is_integer != 0},
                     {(Kind)plan.reference, r.view.buf, patterns + 256, plan.reference_is_integer != 0},
                     n, start, rtol, atol, std::min<int64_t>(worst, n),
                     {plan.precision, plan.smallest_binade, plan.smallest_normal, plan.largest_reference,
                      plan.negative_zero != 0, plan.overflow_is_nan != 0, plan.same != 0},
                     plan.regions};
    return measured(job, lengths);
}

PyObject* measure(PyObject*, PyObject* arguments) {
    try {
        return checked(arguments);
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

// sizes(keys, counts, largest): what figures.py wants of a sketch, as sketch.py computes it: percentiles, how many values are
// above 1/2, 1, 2 and 32, the mean of log2(v* + 1/4), and the bins and counts of the coarser histogram.
double upper_end(int key) {
    const int64_t bits = (int64_t)(key + 1) << KEY_SHIFT;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

PyObject* sizes(PyObject*, PyObject* arguments) {
    constexpr int PERMILLES[] = {500, 900, 950, 990, 999};
    constexpr double ENDS[] = {0.5, 1.0, 2.0, 32.0};
    const char *packed_keys, *packed_counts;
    Py_ssize_t keys_size, counts_size;
    double largest;
    if (!PyArg_ParseTuple(arguments, "y#y#d", &packed_keys, &keys_size, &packed_counts, &counts_size, &largest)) return nullptr;
    const Py_ssize_t n = keys_size / (Py_ssize_t)sizeof(int32_t);
    if (n == 0 || counts_size != n * (Py_ssize_t)sizeof(int64_t))
        return PyErr_Format(PyExc_ValueError, "expected as many counts as keys, and at least one");
    try {
        std::vector<int32_t> keys((size_t)n), bins;
        std::vector<int64_t> counts((size_t)n), filled;
        memcpy(keys.data(), packed_keys, (size_t)keys_size);
        memcpy(counts.data(), packed_counts, (size_t)counts_size);
        int64_t total = 0, seen = 0, above[4] = {};
        for (int64_t count : counts) total += count;
        double percentiles[5], log2s = 0.0, rest = 0.0;
        int found = 0;
        for (size_t i = 0; i < keys.size(); i++) {
            const double end = upper_end(keys[i]);
            seen += counts[i];
            while (found < 5 && seen >= std::max<int64_t>((PERMILLES[found] * total + 999) / 1000, 1))
                percentiles[found++] = std::min(end, largest);
            for (int e = 0; e < 4; e++) above[e] += end > ENDS[e] ? counts[i] : 0;
            const double term = (double)counts[i] * std::log2(end + 0.25), sum = log2s + term, rounded = sum - log2s;
            rest += (log2s - (sum - rounded)) + (term - rounded);
            log2s = sum;
            const int32_t bin = keys[i] >> 5;
            if (bins.empty() || bins.back() != bin) bins.push_back(bin), filled.push_back(0);
            filled.back() += counts[i];
        }
        return Py_BuildValue(
            "(NNdNN)", tuple_of(5, [&](Py_ssize_t i) { return PyFloat_FromDouble(percentiles[i]); }),
            tuple_of(4, [&](Py_ssize_t i) { return PyLong_FromLongLong(above[i]); }), (log2s + rest) / (double)total,
            list_of((Py_ssize_t)bins.size(), [&](Py_ssize_t i) { return PyLong_FromLong(bins[(size_t)i]); }),
            list_of((Py_ssize_t)filled.size(), [&](Py_ssize_t i) { return PyLong_FromLongLong(filled[(size_t)i]); }));
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

PyMethodDef METHODS[] = {{"sizes", sizes, METH_VARARGS, "Figures of a sketch."},
                         {"measure", measure, METH_VARARGS, "Add up the pairs of two buffers."}, {nullptr, nullptr, 0, nullptr}};
PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_core", nullptr, -1, METHODS, nullptr, nullptr, nullptr, nullptr};

} // namespace
} // namespace precreg

PyMODINIT_FUNC PyInit__core(void) {
    return precreg::module_of(precreg::MODULE, precreg::name_of(precreg::instruction_set), precreg::INTERFACE);
}
