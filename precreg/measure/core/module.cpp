// The measuring core as a Python module. precreg/measure/native.py calls it, and precreg/measure/compiled.py checks its names.
#include "../../arithmetic/core/python.hpp" // Python's header first
#include "../../arithmetic/core/processor.hpp"

#include "figures.hpp"
#include "job.hpp"
#include "shadows.hpp"
#include "sketches.hpp"
#include "worst.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace precreg {
namespace {

const InstructionSet instruction_set = widest();

#if defined(PRECREG_X86)
#define PRECREG_RUN(kernel, ...)                                                                     \
    (instruction_set == InstructionSet::avx512 ? avx512::kernel(__VA_ARGS__)                         \
     : instruction_set == InstructionSet::avx2 ? avx2::kernel(__VA_ARGS__) : generic::kernel(__VA_ARGS__))
#else
#define PRECREG_RUN(kernel, ...) generic::kernel(__VA_ARGS__)
#endif

// Counters of one call. They are all zero between calls, and only touched pages take memory: hence calloc.
class Tables {
  public:
    Tables() {
        for (int i = 0; i < TABLES; i++) {
            counts[i].reset((uint32_t*)std::calloc(size_of(i), sizeof(uint32_t)));
            if (!counts[i]) throw std::bad_alloc();
        }
    }
    Table operator[](int sketch) const { return {{counts[2 * sketch].get(), counts[2 * sketch + 1].get()}}; }
    void clear() {
        for (int i = 0; i < TABLES; i++) memset(counts[i].get(), 0, size_of(i) * sizeof(uint32_t));
    }

  private:
    struct Free {
        void operator()(uint32_t* memory) const { std::free(memory); }
    };
    static constexpr int TABLES = 2 * Sketches::SIZE + 2; // the last two count near pairs
    static size_t size_of(int table) { return table < 2 * Sketches::SIZE ? KEYS : NEAR_KEYS; }
    std::unique_ptr<uint32_t[], Free> counts[TABLES];
};

// Tables for one call. A thread that is started for it takes tables of an earlier call, because the system would have to give
// new ones each of their pages: that took 0.8 ms of processor time, as much as some 300,000 pairs. No lock, because a process
// may fork while another thread measures.
class BorrowedTables {
  public:
    BorrowedTables() {
        for (std::atomic<Tables*>& place : idle)
            if ((tables = place.exchange(nullptr))) return;
        tables = new Tables;
    }
    ~BorrowedTables() {
        for (std::atomic<Tables*>& place : idle) {
            Tables* expected = nullptr;
            if (place.compare_exchange_strong(expected, tables)) return;
        }
        delete tables;
    }
    BorrowedTables(const BorrowedTables&) = delete;
    BorrowedTables& operator=(const BorrowedTables&) = delete;
    Tables& operator*() const { return *tables; }

  private:
    static constexpr int MOST_IDLE = 8; // a process of more threads frees those of the others
    static std::atomic<Tables*> idle[MOST_IDLE];
    Tables* tables;
};
std::atomic<Tables*> BorrowedTables::idle[MOST_IDLE];

int key_of(double value) {
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (int)((uint64_t)(bits - 1) >> KEY_SHIFT);
}

// Move the counts of a table to a sketch, and leave the table all zero. It holds `counted` values, none above `largest`.
void take(const Table& table, int64_t counted, double largest, Sketch& sketch) {
    uint32_t *const a = table.counts[0], *const b = table.counts[1];
    const int64_t zeros = (uint32_t)(a[ZERO_KEY] + b[ZERO_KEY]);
    const int highest = largest > 0 ? key_of(largest) : -1;
    const KeyRange range = PRECREG_RUN(find_keys, table, highest, counted - zeros);
    const size_t first = zeros ? 1 : 0, used = first + range.keys;
    sketch.keys.resize(used + STRIDE), sketch.counts.resize(used + STRIDE);
    if (zeros) sketch.keys[0] = -1, sketch.counts[0] = zeros;
    PRECREG_RUN(move_counts, table, range.begin, highest, sketch.keys.data() + first, sketch.counts.data() + first);
    sketch.keys.resize(used), sketch.counts.resize(used);
    a[ZERO_KEY] = b[ZERO_KEY] = a[UNUSED_KEY] = b[UNUSED_KEY] = 0;
}

// Return a bound that at least `most` errors are above, if so many are above 0: the begin of the bin of the last of them.
double bound_of_worst(const Sketch& errors, int64_t most) {
    int32_t key = -1;
    int64_t counted = 0;
    for (size_t i = errors.keys.size(); i-- > 0 && errors.keys[i] >= 0 && counted < most;) key = errors.keys[i], counted += errors.counts[i];
    return counted < most ? 0.0 : begin_of(key);
}

void run(const Job& job, State& state, Sketch* sketches) {
    const BorrowedTables borrowed;
    Tables& tables = *borrowed;
    try {
        for (int s = 0; s < Sketches::SIZE; s++) state.table[s] = tables[s];
        state.near = tables[Sketches::SIZE];
        const bool later = has_second_pass(job);
        if (later || job.worst == 0) state.least_of_worst = INFINITY; // the kernel names none
        std::vector<double> peaks(later && job.worst > 0 ? (size_t)((job.n + RUN - 1) / RUN) : 0); // zero for identical runs
        state.peak_of_run = peaks.empty() ? nullptr : peaks.data();
        PRECREG_RUN(measure, job, state);
        const int64_t finite = state.counts.finite, with_ratio = finite - state.without_ratio;
        take(tables[Sketches::absolute], finite, state.maximum[Maxima::absolute], sketches[Sketches::absolute]);
        take(tables[Sketches::relative], with_ratio, state.maximum[Maxima::relative], sketches[Sketches::relative]);
        take(tables[Sketches::ulps], finite, state.maximum[Maxima::ulps], sketches[Sketches::ulps]);
        if (later && job.worst > 0) {
            const double bound = bound_of_worst(sketches[Sketches::absolute], job.worst);
            state.worst.reserve((size_t)std::min<int64_t>(2 * job.worst, 1024));
            PRECREG_RUN(find_worst, job, state.peak_of_run, bound, state.worst);
        }
    } catch (...) {
        tables.clear();
        throw;
    }
    state.keep_worst(job.worst);
}

// All functions below return null, with an exception set, where Python has no memory.

template <class Item> PyObject* tuple_of(Py_ssize_t size, Item item) {
    PyObject* tuple = PyTuple_New(size);
    for (Py_ssize_t i = 0; tuple && i < size; i++) {
        PyObject* value = item(i);
        if (!value || PyTuple_SetItem(tuple, i, value) != 0) Py_CLEAR(tuple);
    }
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

template <class T> PyObject* integers(const std::vector<T>& numbers) {
    return list_of((Py_ssize_t)numbers.size(), [&](Py_ssize_t i) { return PyLong_FromLongLong(numbers[(size_t)i]); });
}

PyObject* none() {
    Py_INCREF(Py_None);
    return Py_None;
}

// Return a dict of the items that are not null, under the names of a tuple.
template <class Item> PyObject* dict_of(PyObject* names, Item item) {
    PyObject* dict = PyDict_New();
    const Py_ssize_t size = PyTuple_Size(names);
    for (Py_ssize_t i = 0; dict && i < size; i++) {
        PyObject* const value = item(i);
        if (value ? PyDict_SetItem(dict, PyTuple_GetItem(names, i), value) != 0 : PyErr_Occurred() != nullptr) Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

PyObject* expansion(const Expansion& parts) {
    return tuple_of(parts.last - parts.first, [&](Py_ssize_t i) { return PyFloat_FromDouble(parts.first[i]); });
}

template <class T> PyObject* bytes_of(const std::vector<T>& values) {
    return PyBytes_FromStringAndSize((const char*)values.data(), (Py_ssize_t)(values.size() * sizeof(T)));
}

// Return (index in Sums, binary exponent, expansion) for each scaled sum.
PyObject* scaled(const std::vector<ScaledSum>& sums) {
    return list_of((Py_ssize_t)sums.size(), [&](Py_ssize_t i) {
        const ScaledSum& of = sums[(size_t)i];
        return Py_BuildValue("(iiN)", of.sum, of.exponent, expansion({of.parts.data(), of.parts.data() + of.parts.size()}));
    });
}

// Return for each axis the number of pairs in each group, then the sums in the order of GroupSum.
PyObject* groups(const std::vector<Axis>& axes) {
    return tuple_of((Py_ssize_t)axes.size(), [&](Py_ssize_t a) {
        const Axis& axis = axes[(size_t)a];
        return tuple_of(1 + GroupSum::SIZE, [&](Py_ssize_t s) {
            return list_of((Py_ssize_t)axis.groups, [&](Py_ssize_t g) {
                return s == 0 ? PyLong_FromLongLong(axis.n[(size_t)g]) : PyFloat_FromDouble(axis.sum[s - 1][(size_t)g]);
            });
        });
    });
}

// Return one value as run records store it: an integer, a float, or text for NaN and infinities, which JSON lacks.
PyObject* scalar(double value, bool is_integer) {
    if (is_integer) return PyLong_FromDouble(value);
    if (value - value == 0.0) return PyFloat_FromDouble(value);
    return PyUnicode_FromString(value != value ? "nan" : value > 0 ? "inf" : "-inf");
}

// Return (indices, actual values, reference values), as NamedPairs in precreg/measure/tally.py.
PyObject* named(const Found& found, const std::vector<NamedPair>& pairs) {
    const auto list = [&](auto item) { return list_of((Py_ssize_t)pairs.size(), [&](Py_ssize_t i) { return item(pairs[(size_t)i]); }); };
    return Py_BuildValue("(NNN)", list([](const NamedPair& of) { return PyLong_FromLongLong(of.place.index); }),
                         list([&](const NamedPair& of) { return scalar(of.actual, found.actual_is_integer); }),
                         list([&](const NamedPair& of) { return scalar(of.reference, found.reference_is_integer); }));
}

PyObject* counts_of(const Found& found) {
    int64_t counts[sizeof(Counts) / sizeof(int64_t)];
    memcpy(counts, &found.counts, sizeof counts);
    return tuple_of(sizeof counts / sizeof *counts, [&](Py_ssize_t i) { return PyLong_FromLongLong(counts[i]); });
}

// Return a field of Result; nested tuples are in the order of the declarations in job.hpp.
PyObject* field_of(int field, const Found& found, const std::vector<NamedPair>& worst) {
    switch (field) {
    case Result::counts: return counts_of(found);
    case Result::sums: return tuple_of(Sums::SIZE, [&](Py_ssize_t i) { return expansion(found.sum((int)i)); });
    case Result::maxima: return tuple_of(Maxima::SIZE, [&](Py_ssize_t i) { return PyFloat_FromDouble(found.maximum[i]); });
    case Result::places: return tuple_of(Places::SIZE, [&](Py_ssize_t i) { return PyLong_FromLongLong(found.place[i]); });
    case Result::sketches: return tuple_of(Sketches::SIZE, [&](Py_ssize_t i) {
        return Py_BuildValue("(NN)", bytes_of(found.sketches[i].keys), bytes_of(found.sketches[i].counts));
    });
    case Result::errors: return list_of((Py_ssize_t)worst.size(), [&](Py_ssize_t i) { return PyFloat_FromDouble(worst[(size_t)i].place.error); });
    case Result::worst: return named(found, worst);
    case Result::non_finite: return named(found, found.non_finite);
    case Result::groups: return groups(found.axes);
    default: return scaled(found.scaled);
    }
}

constexpr const char* FOUND = "precreg.measure.found";

void release(PyObject* capsule) { delete (Found*)PyCapsule_GetPointer(capsule, FOUND); }

// Return the fields of Result of an earlier `measure`.
PyObject* read_found(PyObject*, PyObject* capsule) {
    const Found* const found = (const Found*)PyCapsule_GetPointer(capsule, FOUND);
    if (!found) return nullptr;
    try {
        std::vector<NamedPair> worst = found->worst; // two threads may read
        std::sort(worst.begin(), worst.end());
        return tuple_of(Result::SIZE, [&](Py_ssize_t field) { return field_of((int)field, *found, worst); });
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

// Return the arguments of AxisGroups: counts, then sums in its order, with None for sums beyond float64.
PyObject* axis_groups(const Axis& axis) {
    constexpr int ORDER[] = {GroupSum::absolute, GroupSum::signed_, GroupSum::squared, GroupSum::ulps,
                             GroupSum::logs, GroupSum::outward, GroupSum::squared_ulps};
    return tuple_of(1 + GroupSum::SIZE, [&](Py_ssize_t s) {
        return list_of((Py_ssize_t)axis.groups, [&](Py_ssize_t g) {
            if (s == 0) return PyLong_FromLongLong(axis.n[(size_t)g]);
            const double sum = axis.sum[ORDER[s - 1]][(size_t)g];
            return std::isfinite(sum) ? PyFloat_FromDouble(sum) : none();
        });
    });
}

// Return the mean errors in the groups of the last of two or more axes; None if one of them is beyond float64.
PyObject* heat(const std::vector<Axis>& axes) {
    if (axes.size() < 2) return none();
    const Axis& last = axes.back();
    const auto mean = [&](Py_ssize_t g) { return last.sum[GroupSum::absolute][(size_t)g] / (double)std::max<int64_t>(last.n[(size_t)g], 1); };
    for (Py_ssize_t g = 0; g < (Py_ssize_t)last.groups; g++)
        if (!std::isfinite(mean(g))) return none();
    return list_of((Py_ssize_t)last.groups, [&](Py_ssize_t g) { return PyFloat_FromDouble(mean(g)); });
}

// Return the arguments of Histogram; None without a finite pair.
PyObject* histogram(const Sketch& errors) {
    if (errors.keys.empty()) return none();
    auto [bins, counts] = coarse_bins_of(errors);
    int64_t zeros = 0;
    if (bins[0] == -1) zeros = counts[0], bins.erase(bins.begin()), counts.erase(counts.begin());
    return Py_BuildValue("(LNN)", (long long)zeros, integers(bins), integers(counts));
}

// Return the fields of Described for an earlier `measure`, under the names of Figure, Counted and Places that Python gives;
// None if its figures need exact sums.
PyObject* describe(PyObject*, PyObject* arguments) {
    PyObject *capsule, *figure_names, *count_names, *place_names;
    if (!PyArg_ParseTuple(arguments, "OO!O!O!", &capsule, &PyTuple_Type, &figure_names, &PyTuple_Type, &count_names, &PyTuple_Type, &place_names))
        return nullptr;
    const Found* const found = (const Found*)PyCapsule_GetPointer(capsule, FOUND);
    if (!found) return nullptr;
    if (PyTuple_Size(figure_names) != Figure::SIZE || PyTuple_Size(count_names) != Counted::SIZE || PyTuple_Size(place_names) != Places::SIZE)
        return PyErr_Format(PyExc_ValueError, "expected a name for each figure, count and place");
    try {
        const OrdinaryArithmetic ordinary;
        double figures[Figure::SIZE];
        int64_t counts[Counted::SIZE];
        if (!compute_figures(*found, figures)) return none();
        compute_counts(found->counts, counts);
        std::vector<NamedPair> worst = found->worst; // two threads may read
        std::sort(worst.begin(), worst.end());
        const auto positions = [&](const std::vector<NamedPair>& pairs) { return pairs.empty() ? none() : named(*found, pairs); };
        return Py_BuildValue(
            "(NNNNNNNN)",
            dict_of(figure_names, [&](Py_ssize_t i) { return std::isfinite(figures[i]) ? PyFloat_FromDouble(figures[i]) : nullptr; }),
            dict_of(count_names, [&](Py_ssize_t i) { return PyLong_FromLongLong(counts[i]); }), positions(worst), positions(found->non_finite),
            histogram(found->sketches[Sketches::absolute]), heat(found->axes),
            dict_of(place_names, [&](Py_ssize_t i) { return found->place[i] >= 0 ? PyLong_FromLongLong(found->place[i]) : nullptr; }),
            tuple_of((Py_ssize_t)found->axes.size(), [&](Py_ssize_t a) { return axis_groups(found->axes[(size_t)a]); }));
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

constexpr int64_t ITEM_SIZE[] = {4, 8, 2, 2, 1, 2, 2, 4, 4}; // bytes, in the order of Kind

constexpr int64_t MOST_PAIRS = 1 << 28; // 32-bit counters hold as many, and the error of a sum stays far below its ULP
constexpr int64_t FEW_PAIRS = 20000;    // these are measured faster than another thread takes over the interpreter

// Return true if n elements from `start` on lie within an array of a shape.
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
    Sketch sketches[Sketches::SIZE];
    {
        const Unlocked unlocked(job.n > FEW_PAIRS);
        run(job, state, sketches);
    }
    std::unique_ptr<Found> found(new Found(job, state));
    for (int s = 0; s < Sketches::SIZE; s++) found->sketches[s] = std::move(sketches[s]);
    PyObject* const capsule = PyCapsule_New(found.get(), FOUND, release);
    if (capsule) (void)found.release();
    return capsule;
}

bool read(PyObject* shape, std::vector<int64_t>& lengths) {
    lengths.resize((size_t)PyTuple_Size(shape));
    for (size_t i = 0; i < lengths.size(); i++) lengths[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, (Py_ssize_t)i));
    return !PyErr_Occurred();
}

PyObject* checked(PyObject* arguments) {
    PyObject *actual, *reference, *shape;
    const char *packed, *tables;
    Py_ssize_t packed_size, tables_size;
    long long start, worst;
    Job job;
    Plan plan;
    std::vector<int64_t> lengths;
    if (!PyArg_ParseTuple(arguments, "OOLO!ddLy#y#", &actual, &reference, &start, &PyTuple_Type, &shape, &job.rtol, &job.atol, &worst,
                          &packed, &packed_size, &tables, &tables_size))
        return nullptr;
    if (!read(shape, lengths) || !unpack(packed, packed_size, plan)) return nullptr;
    if (!is_known(plan.actual) || !is_known(plan.reference))
        return PyErr_Format(PyExc_ValueError, "expected a plan of known kinds");
    Buffer a, r;
    if (!a.get(actual) || !r.get(reference)) return nullptr;
    const int64_t n = a.view.len / ITEM_SIZE[(int)plan.actual];
    if (r.view.len != n * ITEM_SIZE[(int)plan.reference] || tables_size != 2 * 256 * (Py_ssize_t)sizeof(float))
        return PyErr_Format(PyExc_ValueError, "expected as many references as actual values, and two tables of 256 float32");
    if (!within(lengths, start, n) || worst < 0)
        return PyErr_Format(PyExc_ValueError, "expected pairs within the shape, and `worst` of at least 0");
    if (n > MOST_PAIRS) return PyErr_Format(PyExc_ValueError, "expected at most %lld pairs", (long long)MOST_PAIRS);
    const float* const patterns = (const float*)tables;
    job.actual = {plan.actual, a.view.buf, patterns, plan.actual_is_integer};
    job.reference = {plan.reference, r.view.buf, patterns + 256, plan.reference_is_integer};
    job.n = n, job.start = start, job.worst = std::min<int64_t>(worst, n);
    job.format = plan.format, job.regions = plan.regions;
    return measured(job, lengths);
}

// Add up the pairs of two contiguous buffers. Returns a capsule for `read`, which does not refer to the buffers.
PyObject* measure(PyObject*, PyObject* arguments) {
    try {
        return checked(arguments);
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

// Return the fields of Sizes for a sketch, as read_sketch in precreg/measure/sketch.py does.
PyObject* sizes(PyObject*, PyObject* arguments) {
    const char *packed_keys, *packed_counts;
    Py_ssize_t keys_size, counts_size;
    double largest;
    if (!PyArg_ParseTuple(arguments, "y#y#d", &packed_keys, &keys_size, &packed_counts, &counts_size, &largest)) return nullptr;
    const Py_ssize_t n = keys_size / (Py_ssize_t)sizeof(int32_t);
    if (n == 0 || counts_size != n * (Py_ssize_t)sizeof(int64_t))
        return PyErr_Format(PyExc_ValueError, "expected as many counts as keys, and at least one");
    try {
        Sketch sketch = {std::vector<int32_t>((size_t)n), std::vector<int64_t>((size_t)n)};
        memcpy(sketch.keys.data(), packed_keys, (size_t)n * sizeof(int32_t));
        memcpy(sketch.counts.data(), packed_counts, (size_t)counts_size);
        double percentiles[PERCENTILES] = {};
        int64_t above[COUNTED_ENDS];
        percentiles_of(sketch, largest, percentiles);
        count_above(sketch, above);
        const auto coarse = coarse_bins_of(sketch);
        return Py_BuildValue(
            "(NNdNN)", tuple_of(PERCENTILES, [&](Py_ssize_t i) { return PyFloat_FromDouble(percentiles[i]); }),
            tuple_of(COUNTED_ENDS, [&](Py_ssize_t i) { return PyLong_FromLongLong(above[i]); }), mean_log2_of(sketch), integers(coarse.first),
            integers(coarse.second));
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

// The memory of an array, or of None, which has none.
struct Optional {
    Buffer buffer;
    // Returns false, with an exception set, if the object is neither None nor `items` items of a size.
    bool get(PyObject* object, int64_t items, size_t size, int flags = PyBUF_SIMPLE) {
        if (object == Py_None) return true;
        if (!buffer.get(object, flags)) return false;
        if (buffer.view.len == items * (int64_t)size) return true;
        PyErr_SetString(PyExc_ValueError, "expected as many values as shadows");
        return false;
    }
    template <class T> T* items() const { return (T*)buffer.view.buf; }
};

bool is_whole(const Buffer& state, int64_t n, int64_t columns) {
    if (columns >= 1 && n >= 0 && state.view.len == (Py_ssize_t)sizeof(ShadowState)) return true;
    PyErr_SetString(PyExc_ValueError, "expected rows, and the bytes of a state");
    return false;
}

// Add values and their shadows to a state, which begins with the bytes of ShadowTotals. The first state is 0 everywhere.
PyObject* add_shadows(PyObject*, PyObject* arguments) {
    PyObject *actual, *exact, *own, *errors, *state;
    Py_ssize_t columns;
    int ends_row;
    double smallest_normal;
    if (!PyArg_ParseTuple(arguments, "OOOOOndp", &actual, &exact, &own, &errors, &state, &columns, &smallest_normal, &ends_row)) return nullptr;
    Buffer e, kept;
    Optional a, o, to;
    if (!e.get(exact) || !kept.get(state, PyBUF_WRITABLE)) return nullptr;
    const int64_t n = e.view.len / (Py_ssize_t)sizeof(double);
    if (!is_whole(kept, n, columns) || !o.get(own, n, sizeof(double)) || !to.get(errors, n, sizeof(float), PyBUF_WRITABLE)) return nullptr;
    Buffer values;
    if (!values.get(actual)) return nullptr;
    const bool is_wide = values.view.len == n * (Py_ssize_t)sizeof(double);
    if (!is_wide && values.view.len != n * (Py_ssize_t)sizeof(float))
        return PyErr_Format(PyExc_ValueError, "expected float32 or float64, as many values as shadows");
    const OrdinaryArithmetic ordinary;
    const Unlocked unlocked(n > FEW_PAIRS);
    const ShadowRows rows = {n, columns, ends_row != 0, smallest_normal};
    ShadowState& into = *(ShadowState*)kept.view.buf;
    const double *shadows = (const double*)e.view.buf, *own_values = o.items<const double>();
    if (is_wide) {
        const ShadowPlaces<double> places = {(const double*)values.view.buf, shadows, own_values, to.items<float>()};
        PRECREG_RUN(add_shadows, places, rows, into);
    } else {
        const ShadowPlaces<float> places = {(const float*)values.view.buf, shadows, own_values, to.items<float>()};
        PRECREG_RUN(add_shadows, places, rows, into);
    }
    Py_RETURN_NONE;
}

// The two forms of an operand, in low precision and exact.
struct Operand {
    Optional low, exact;
    // Returns false, with an exception set, unless the operand has as many elements as it says.
    bool get(PyObject* first, PyObject* second, int repeated, int64_t n, int64_t columns, ShadowOperand& into) {
        if (!is_known((Repeated)repeated) || (first == Py_None && second == Py_None)) {
            PyErr_SetString(PyExc_ValueError, "expected an operand with values");
            return false;
        }
        const int64_t sizes[] = {n, 1, n / columns, columns};
        if (!low.get(first, sizes[repeated], sizeof(float)) || !exact.get(second, sizes[repeated], sizeof(double))) return false;
        into = {low.items<const float>(), exact.items<const double>(), (Repeated)repeated};
        return true;
    }
};

// Compute an operation on shadows, and add its results to a new state. An operation of one operand takes it twice.
PyObject* compute_shadows(PyObject*, PyObject* arguments) {
    PyObject *low[2], *exact[2], *actual, *to, *own, *errors, *state;
    int operation, repeated[2], has_own;
    Py_ssize_t columns;
    double smallest_normal;
    if (!PyArg_ParseTuple(arguments, "iOOiOOiOOOOOndp", &operation, &low[0], &exact[0], &repeated[0], &low[1], &exact[1], &repeated[1],
                          &actual, &to, &own, &errors, &state, &columns, &smallest_normal, &has_own))
        return nullptr;
    Buffer result, kept;
    if (!result.get(to, PyBUF_WRITABLE) || !kept.get(state, PyBUF_WRITABLE)) return nullptr;
    const int64_t n = result.view.len / (Py_ssize_t)sizeof(double);
    if (!is_whole(kept, n, columns)) return nullptr;
    if (!is_known((ShadowOperation)operation) || n % columns != 0 || actual == Py_None)
        return PyErr_Format(PyExc_ValueError, "expected an operation on whole rows");
    Optional values, kept_own, missing;
    Operand operands[2];
    ShadowTask task = {};
    for (int i = 0; i < 2; i++)
        if (!operands[i].get(low[i], exact[i], repeated[i], n, columns, task.operands[i])) return nullptr;
    if (!values.get(actual, n, sizeof(float)) || !kept_own.get(own, n, sizeof(double), PyBUF_WRITABLE) ||
        !missing.get(errors, n, sizeof(float), PyBUF_WRITABLE))
        return nullptr;
    task.operation = (ShadowOperation)operation, task.has_own = has_own != 0, task.actual = values.items<const float>();
    task.exact = (double*)result.view.buf, task.own = kept_own.items<double>(), task.errors = missing.items<float>();
    const OrdinaryArithmetic ordinary;
    const ShadowRows rows = {n, columns, true, smallest_normal};
    PRECREG_RUN(compute_shadows, task, rows, *(ShadowState*)kept.view.buf);
    Py_RETURN_NONE;
}

PyMethodDef METHODS[] = {{"add_shadows", add_shadows, METH_VARARGS, "Add values and their shadows."},
                         {"compute_shadows", compute_shadows, METH_VARARGS, "Compute an operation on shadows."},
                         {"sizes", sizes, METH_VARARGS, "Return the figures of a sketch."},
                         {"describe", describe, METH_VARARGS, "Return the fields of a comparison."},
                         {"measure", measure, METH_VARARGS, "Add up the pairs of two buffers."},
                         {"read", read_found, METH_O, "Return the figures of pairs."}, {nullptr, nullptr, 0, nullptr}};
PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_core", nullptr, -1, METHODS, nullptr, nullptr, nullptr, nullptr};

} // namespace
} // namespace precreg

PyMODINIT_FUNC PyInit__core(void) {
    using namespace precreg;
    return module_of(MODULE, name_of(instruction_set),
                     {PRECREG_DECLARED(Kind), PRECREG_DECLARED(Format), PRECREG_DECLARED(Regions), PRECREG_DECLARED(Plan),
                      PRECREG_DECLARED(Counts), PRECREG_DECLARED(Sums), PRECREG_DECLARED(Maxima), PRECREG_DECLARED(Places),
                      PRECREG_DECLARED(Sketches), PRECREG_DECLARED(GroupSum), PRECREG_DECLARED(Result), PRECREG_DECLARED(Sizes),
                      {"measure", "actual, reference, start, shape, rtol, atol, worst, plan, tables"}, {"read", "found"},
                      PRECREG_DECLARED(Figure), PRECREG_DECLARED(Counted), PRECREG_DECLARED(Described),
                      {"describe", "found, figures, counts, places"}, {"sizes", "keys, counts, largest"},
                      PRECREG_DECLARED(Differences), PRECREG_DECLARED(ShadowTotals), PRECREG_DECLARED(ShadowState),
                      PRECREG_DECLARED(ShadowOperation), PRECREG_DECLARED(Repeated),
                      {"add_shadows", "actual, exact, own, errors, state, columns, smallest_normal, ends_row"},
                      {"compute_shadows", "operation, low_x, exact_x, repeated_x, low_y, exact_y, repeated_y, actual, exact, own, errors, "
                                          "state, columns, smallest_normal, has_own"}});
}
