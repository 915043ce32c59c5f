// The core of arithmetic as a Python module. precreg/arithmetic/native.py knows what goes in and what comes out.
#include "python.hpp" // Python's header first
#include "processor.hpp"

#include "job.hpp"

#include <cmath>
#include <initializer_list>
#include <new>

namespace precreg {
namespace {

constexpr long INTERFACE = 2; // as in precreg/arithmetic/native.py; raised whenever what is passed or returned changes
constexpr int64_t FEW = 20000; // values are rounded before another thread would have got going

const InstructionSet instruction_set = widest();

template <class Job> void with_kernel(void (*generic)(const Job&), void (*avx2)(const Job&), void (*avx512)(const Job&), const Job& job) {
    (instruction_set == InstructionSet::avx512 ? avx512 : instruction_set == InstructionSet::avx2 ? avx2 : generic)(job);
}
#if defined(PRECREG_X86)
#define PRECREG_RUN(kernel, job) with_kernel(generic::kernel, avx2::kernel, avx512::kernel, job)
#else
#define PRECREG_RUN(kernel, job) with_kernel(generic::kernel, generic::kernel, generic::kernel, job)
#endif

// Whether every number of a format is one of the carrier T, and what rounding computes with, too.
template <class T> bool carries(const Format& format, int digits, int least, int most) {
    const bool sized = format.precision >= 2 && format.precision <= digits && format.min_exponent >= least &&
                       format.min_exponent - format.precision + digits <= most;
    return sized && format.largest > 0 && std::isfinite(format.largest) && (double)(T)format.largest == format.largest;
}

bool carried(const Format& format, Py_ssize_t size) {
    return size == 4 ? carries<float>(format, 24, -126, 127) : carries<double>(format, 53, -1022, 1023);
}

bool read_format(const char* packed, Py_ssize_t size, Format& format) {
    if (size != (Py_ssize_t)sizeof format) {
        PyErr_Format(PyExc_ValueError, "expected a format of %zu bytes", sizeof format);
        return false;
    }
    memcpy(&format, packed, sizeof format);
    return true;
}

template <class T> bool fits(const Buffer& buffer, int64_t matrices, int64_t rows, int64_t columns) {
    const double items = (double)matrices * (double)rows * (double)columns;
    return (double)buffer.view.len == items * sizeof(T); // exact for what fits into memory
}

template <class T> void round_as(const Buffer& from, const Buffer& to, const Format& format, int rounding, uint64_t seed, uint64_t start) {
    const RoundingJob<T> job = {(const T*)from.view.buf, (T*)to.view.buf, (int64_t)(from.view.len / (Py_ssize_t)sizeof(T)), format,
                                (Rounding)rounding, seed, start};
    const Unlocked unlocked(job.n > FEW);
    PRECREG_RUN(round, job);
}

// round(values, results, size of an item, format, rounding, seed, start): two contiguous buffers, which may be the same.
PyObject* round(PyObject*, PyObject* arguments) {
    PyObject *values, *results;
    const char* packed;
    Py_ssize_t item, packed_size;
    int rounding;
    unsigned long long seed, start;
    if (!PyArg_ParseTuple(arguments, "OOny#iKK", &values, &results, &item, &packed, &packed_size, &rounding, &seed, &start)) return nullptr;
    Format format;
    if (!read_format(packed, packed_size, format)) return nullptr;
    if ((item != 4 && item != 8) || rounding < 0 || rounding >= ROUNDINGS || !carried(format, item))
        return PyErr_Format(PyExc_ValueError, "expected float32 or float64 that have the numbers of a format, and a rounding");
    Buffer from, to;
    if (!from.get(values) || !to.get(results, PyBUF_WRITABLE)) return nullptr;
    if (from.view.len != to.view.len || from.view.len % item != 0)
        return PyErr_Format(PyExc_ValueError, "expected as many results as values");
    const OrdinaryArithmetic ordinary;
    if (item == 4) round_as<float>(from, to, format, rounding, seed, start);
    else round_as<double>(from, to, format, rounding, seed, start);
    Py_RETURN_NONE;
}

// As packed by native.py: how sums are made.
struct Plan {
    Format accumulator, product_format;
    int32_t product, rounding, extended, order;
    int64_t width;
};

bool sensible(const Plan& plan, Py_ssize_t item) {
    const bool directed = plan.rounding >= (int)Rounding::toward_zero && plan.rounding <= (int)Rounding::down;
    const bool known = plan.product >= 0 && plan.product < PRODUCTS && plan.rounding >= 0 && plan.rounding < ROUNDINGS &&
                       plan.order >= 0 && plan.order < ORDERS && plan.width >= 1;
    if (!known || (item != 4 && item != 8) || !carried(plan.accumulator, item) || !carried(plan.product_format, item)) return false;
    if (plan.extended) return item == 8 && !directed && carried(plan.accumulator, 4) && carried(plan.product_format, 4);
    return directed || plan.rounding == (int)Rounding::nearest_even;
}

int direction(int32_t extended, int32_t chosen) {
    if (extended) return FE_TONEAREST;
    const Rounding rounding = (Rounding)chosen;
    return rounding == Rounding::up ? FE_UPWARD : rounding == Rounding::down ? FE_DOWNWARD
           : rounding == Rounding::toward_zero ? FE_TOWARDZERO : FE_TONEAREST;
}

struct Shape {
    long long batch, rows, terms, columns, steps_a, steps_t;
};

template <class T> PyObject* sum_as(const Buffer& a, const Buffer& t, const Buffer& c, const Shape& shape, const Plan& plan, uint64_t seed) {
    const int64_t of_a = shape.rows * shape.terms, of_t = shape.terms * shape.columns;
    if (!fits<T>(a, shape.steps_a ? shape.batch : 1, shape.rows, shape.terms) ||
        !fits<T>(t, shape.steps_t ? shape.batch : 1, shape.terms, shape.columns) || !fits<T>(c, shape.batch, shape.rows, shape.columns))
        return PyErr_Format(PyExc_ValueError, "expected matrices of the shape that is told");
    const SumJob<T> job = {(const T*)a.view.buf, (const T*)t.view.buf, (T*)c.view.buf, shape.batch, shape.rows, shape.terms,
                           shape.columns, shape.steps_a ? of_a : 0, shape.steps_t ? of_t : 0, plan.accumulator,
                           plan.product_format, (Product)plan.product, (Rounding)plan.rounding, plan.extended != 0,
                           (Order)plan.order, plan.width, seed};
    const OrdinaryArithmetic ordinary(direction(plan.extended, plan.rounding));
    const Unlocked unlocked((double)of_a * (double)shape.columns * (double)shape.batch > FEW);
    PRECREG_RUN(add_up, job);
    Py_RETURN_NONE;
}

// add_up(a, t, c, size of an item, (batch, rows, terms, columns, whether a and t have one matrix for each), plan, seed)
PyObject* add_up(PyObject*, PyObject* arguments) {
    PyObject *first, *second, *results;
    const char* packed;
    Py_ssize_t item, packed_size;
    Shape shape;
    unsigned long long seed;
    if (!PyArg_ParseTuple(arguments, "OOOn(LLLLLL)y#K", &first, &second, &results, &item, &shape.batch, &shape.rows, &shape.terms,
                          &shape.columns, &shape.steps_a, &shape.steps_t, &packed, &packed_size, &seed))
        return nullptr;
    Plan plan;
    if (packed_size != sizeof plan) return PyErr_Format(PyExc_ValueError, "expected a plan of %zu bytes", sizeof plan);
    memcpy(&plan, packed, sizeof plan);
    if (!sensible(plan, item)) return PyErr_Format(PyExc_ValueError, "expected a plan that the core serves");
    Buffer a, t, c;
    if (!a.get(first) || !t.get(second) || !c.get(results, PyBUF_WRITABLE)) return nullptr;
    for (long long length : {shape.batch, shape.rows, shape.terms, shape.columns})
        if (length < 0 || length > INT64_MAX >> 32) return PyErr_Format(PyExc_ValueError, "expected a shape that memory holds");
    try {
        return item == 4 ? sum_as<float>(a, t, c, shape, plan, seed) : sum_as<double>(a, t, c, shape, plan, seed);
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

// As packed by native.py: which operation, and how it is rounded.
struct Task {
    Format format;
    int32_t operation, rounding, extended, unused;
};

bool sensible(const Task& task, Py_ssize_t item) {
    const bool directed = task.rounding >= (int)Rounding::toward_zero && task.rounding <= (int)Rounding::down;
    const bool known = task.operation >= 0 && task.operation < OPERATIONS && task.rounding >= 0 && task.rounding < ROUNDINGS;
    if (!known || (item != 4 && item != 8) || !carried(task.format, item)) return false;
    return task.extended ? item == 4 && !directed && carried(task.format, 8) : directed || task.rounding == (int)Rounding::nearest_even;
}

template <class T> PyObject* compute_as(const Buffer* operands, const Buffer& results, const Task& task, uint64_t seed, uint64_t start) {
    const Py_ssize_t size = (Py_ssize_t)sizeof(T), n = results.view.len / size;
    ElementJob<T> job = {{}, {}, (T*)results.view.buf, n, (Operation)task.operation, task.format, (Rounding)task.rounding,
                         task.extended != 0, seed, start};
    for (int i = 0; i < 3; i++) {
        if (operands[i].view.len != size && operands[i].view.len != results.view.len)
            return PyErr_Format(PyExc_ValueError, "expected operands of one element, or as many as results");
        job.operands[i] = (const T*)operands[i].view.buf;
        job.single[i] = operands[i].view.len == size;
    }
    const OrdinaryArithmetic ordinary(direction(task.extended, task.rounding));
    const Unlocked unlocked(n > FEW);
    PRECREG_RUN(compute, job);
    Py_RETURN_NONE;
}

// compute(x, y, z, results, size of an item, task, seed, start): contiguous buffers; what is not needed may be any operand.
PyObject* compute(PyObject*, PyObject* arguments) {
    PyObject *given[3], *results;
    const char* packed;
    Py_ssize_t item, packed_size;
    unsigned long long seed, start;
    if (!PyArg_ParseTuple(arguments, "OOOOny#KK", &given[0], &given[1], &given[2], &results, &item, &packed, &packed_size, &seed, &start))
        return nullptr;
    Task task;
    if (packed_size != sizeof task) return PyErr_Format(PyExc_ValueError, "expected a task of %zu bytes", sizeof task);
    memcpy(&task, packed, sizeof task);
    if (!sensible(task, item)) return PyErr_Format(PyExc_ValueError, "expected a task that the core serves");
    Buffer operands[3], to;
    for (int i = 0; i < 3; i++)
        if (!operands[i].get(given[i])) return nullptr;
    if (!to.get(results, PyBUF_WRITABLE)) return nullptr;
    if (to.view.len % item != 0) return PyErr_Format(PyExc_ValueError, "expected results of that size");
    if (to.view.len == 0) Py_RETURN_NONE;
    return item == 4 ? compute_as<float>(operands, to, task, seed, start) : compute_as<double>(operands, to, task, seed, start);
}

PyMethodDef METHODS[] = {{"compute", compute, METH_VARARGS, "Compute an operation on elements."},
                         {"add_up", add_up, METH_VARARGS, "Add up products of matrices in an order."},
                         {"round", round, METH_VARARGS, "Round the values of a buffer to a format."}, {nullptr, nullptr, 0, nullptr}};
PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_core", nullptr, -1, METHODS, nullptr, nullptr, nullptr, nullptr};

} // namespace
} // namespace precreg

PyMODINIT_FUNC PyInit__core(void) {
    return precreg::module_of(precreg::MODULE, precreg::name_of(precreg::instruction_set), precreg::INTERFACE);
}
