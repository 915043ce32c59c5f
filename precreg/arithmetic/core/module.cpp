// The core of arithmetic as a Python module. precreg/arithmetic/native.py calls it, and checks its names.
#include "python.hpp" // Python's header first
#include "processor.hpp"

#include "job.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <new>

namespace precreg {
namespace {

constexpr int64_t FEW = 20000; // operations that are done faster than another thread takes over the interpreter

const InstructionSet instruction_set = widest();

template <class Job, class Result = void>
Result with_kernel(Result (*generic)(const Job&), Result (*avx2)(const Job&), Result (*avx512)(const Job&), const Job& job) {
    return (instruction_set == InstructionSet::avx512 ? avx512 : instruction_set == InstructionSet::avx2 ? avx2 : generic)(job);
}
#if defined(PRECREG_X86)
#define PRECREG_RUN(kernel, job) with_kernel(generic::kernel, avx2::kernel, avx512::kernel, job)
#else
#define PRECREG_RUN(kernel, job) with_kernel(generic::kernel, generic::kernel, generic::kernel, job)
#endif

// Return true if the carrier T has every number of a format, and the numbers that rounding to it computes with.
template <class T> bool carries(const Format& format, int digits, int least, int most) {
    const bool sized = format.precision >= 2 && format.precision <= digits && format.min_exponent >= least &&
                       format.min_exponent - format.precision + digits <= most;
    return sized && format.largest > 0 && std::isfinite(format.largest) && (double)(T)format.largest == format.largest;
}

bool carried(const Format& format, Py_ssize_t item) {
    return item == 4 ? carries<float>(format, 24, -126, 127) : carries<double>(format, 53, -1022, 1023);
}

bool is_directed(Rounding rounding) { return rounding >= Rounding::toward_zero && rounding <= Rounding::down; }

// Return the direction of <cfenv> in which the processor rounds.
int direction(bool extended, Rounding rounding) {
    if (extended) return FE_TONEAREST;
    return rounding == Rounding::up ? FE_UPWARD : rounding == Rounding::down ? FE_DOWNWARD
           : rounding == Rounding::toward_zero ? FE_TOWARDZERO : FE_TONEAREST;
}

template <class T> void round_as(const Buffer& from, const Buffer& to, const Format& format, Rounding rounding, uint64_t seed, uint64_t start) {
    const RoundingJob<T> job = {(const T*)from.view.buf, (T*)to.view.buf, (int64_t)(from.view.len / (Py_ssize_t)sizeof(T)), format,
                                rounding, seed, start};
    const Unlocked unlocked(job.n > FEW);
    PRECREG_RUN(round, job);
}

// Round the items of a contiguous buffer into another, which may be the same.
PyObject* round(PyObject*, PyObject* arguments) {
    PyObject *values, *results;
    const char* packed;
    Py_ssize_t item, packed_size;
    int number;
    unsigned long long seed, start;
    if (!PyArg_ParseTuple(arguments, "OOny#iKK", &values, &results, &item, &packed, &packed_size, &number, &seed, &start)) return nullptr;
    Format format;
    if (!unpack(packed, packed_size, format)) return nullptr;
    const Rounding rounding = (Rounding)number;
    if ((item != 4 && item != 8) || !is_known(rounding) || !carried(format, item))
        return PyErr_Format(PyExc_ValueError, "expected a rounding, and float32 or float64 that have the numbers of a format");
    Buffer from, to;
    if (!from.get(values) || !to.get(results, PyBUF_WRITABLE)) return nullptr;
    if (from.view.len != to.view.len || from.view.len % item != 0)
        return PyErr_Format(PyExc_ValueError, "expected as many results as values");
    const OrdinaryArithmetic ordinary;
    if (item == 4) round_as<float>(from, to, format, rounding, seed, start);
    else round_as<double>(from, to, format, rounding, seed, start);
    Py_RETURN_NONE;
}

bool sensible(const BlockPlan& plan) {
    const Format& format = plan.format;
    if (!is_known(plan.rule) || plan.length < 1 || !carried(format, 4) || format.min_exponent > 23 || plan.top_binade < 0 || plan.top_binade > 127)
        return false;
    const bool rounded = plan.rounding == Rounding::nearest_even || plan.rounding == Rounding::nearest_away || plan.rounding == Rounding::toward_zero;
    const bool topped = format.largest >= std::ldexp(1.0, plan.top_binade) && format.largest < std::ldexp(2.0, plan.top_binade);
    // Scaling by 2**-127 and back must be exact down to the smallest number of the format, and round the rest to zero.
    const bool scaled = plan.least_scale >= -127 && plan.least_scale <= plan.most_scale && plan.most_scale <= 127 - plan.top_binade;
    return rounded && topped && scaled && format.min_exponent - format.precision >= -23;
}

// Round rows of blocks into a buffer of their size, which may be the same. Return the number of blocks with NaN or infinities,
// which are left out.
PyObject* round_blocks(PyObject*, PyObject* arguments) {
    PyObject *values, *results;
    const char* packed;
    Py_ssize_t columns, packed_size;
    if (!PyArg_ParseTuple(arguments, "OOny#", &values, &results, &columns, &packed, &packed_size)) return nullptr;
    BlockPlan plan;
    if (!unpack(packed, packed_size, plan)) return nullptr;
    if (!sensible(plan)) return PyErr_Format(PyExc_ValueError, "expected a format of blocks that the core serves");
    Buffer from, to;
    if (!from.get(values) || !to.get(results, PyBUF_WRITABLE)) return nullptr;
    const int64_t n = (int64_t)(from.view.len / (Py_ssize_t)sizeof(float));
    if (from.view.len != to.view.len || from.view.len % (Py_ssize_t)sizeof(float) || columns < 1 || n % columns)
        return PyErr_Format(PyExc_ValueError, "expected as many results as values, in whole rows");
    const BlockJob job = {(const float*)from.view.buf, (float*)to.view.buf, n / columns, columns, plan.format, plan.rounding,
                          plan.rule, plan.top_binade, plan.least_scale, plan.most_scale, std::min<int64_t>(plan.length, columns)};
    const OrdinaryArithmetic ordinary;
    int64_t left;
    {
        const Unlocked unlocked(n > FEW); // until the interpreter is needed again
        left = PRECREG_RUN(round_blocks, job);
    }
    return PyLong_FromLongLong(left);
}

// Return the blocks of `length` in rows of `columns` that hold `bytes` of float32; -1, with an exception set, for parts of rows.
int64_t blocks_in(Py_ssize_t bytes, Py_ssize_t columns, Py_ssize_t length) {
    const Py_ssize_t size = (Py_ssize_t)sizeof(float);
    if (columns < 1 || length < 1 || bytes % size || bytes / size % columns) {
        PyErr_Format(PyExc_ValueError, "expected whole rows of float32, in blocks of at least one");
        return -1;
    }
    return (int64_t)(bytes / size / columns) * ((columns - 1) / length + 1);
}

// Find the largest magnitude of each block of rows.
PyObject* block_maxima(PyObject*, PyObject* arguments) {
    PyObject *values, *results;
    Py_ssize_t columns, length;
    if (!PyArg_ParseTuple(arguments, "OOnn", &values, &results, &columns, &length)) return nullptr;
    Buffer from, to;
    if (!from.get(values) || !to.get(results, PyBUF_WRITABLE)) return nullptr;
    const int64_t blocks = blocks_in(from.view.len, columns, length);
    if (blocks < 0) return nullptr;
    if (to.view.len != blocks * (int64_t)sizeof(float)) return PyErr_Format(PyExc_ValueError, "expected a result for each block");
    const int64_t n = (int64_t)(from.view.len / (Py_ssize_t)sizeof(float));
    const MaximaJob job = {(const float*)from.view.buf, (float*)to.view.buf, n / columns, columns, std::min<int64_t>(length, columns)};
    const Unlocked unlocked(n > FEW);
    PRECREG_RUN(block_maxima, job);
    Py_RETURN_NONE;
}

// Round the quotients of values by the divisor of their block, and multiply them by its factor.
PyObject* round_quotients(PyObject*, PyObject* arguments) {
    PyObject *values, *divisors, *factors, *results;
    const char* packed;
    Py_ssize_t columns, length, packed_size;
    int number;
    if (!PyArg_ParseTuple(arguments, "OOOOnny#i", &values, &divisors, &factors, &results, &columns, &length, &packed, &packed_size, &number))
        return nullptr;
    Format format;
    if (!unpack(packed, packed_size, format)) return nullptr;
    const Rounding rounding = (Rounding)number;
    const bool served = rounding == Rounding::nearest_even || rounding == Rounding::nearest_away || rounding == Rounding::toward_zero;
    // Odd quotients need two bits more than the format has; see Quotients in blocks.cpp.
    if (!served || !carried(format, 4) || format.precision > 20 || format.min_exponent - format.precision < -23 || format.largest > 1e30)
        return PyErr_Format(PyExc_ValueError, "expected a rounding and a format of elements that the core serves");
    Buffer from, by, times, to;
    if (!from.get(values) || !by.get(divisors) || !times.get(factors) || !to.get(results, PyBUF_WRITABLE)) return nullptr;
    const int64_t blocks = blocks_in(from.view.len, columns, length), bytes = blocks * (int64_t)sizeof(float);
    if (blocks < 0) return nullptr;
    if (to.view.len != from.view.len || by.view.len != bytes || times.view.len != bytes)
        return PyErr_Format(PyExc_ValueError, "expected as many results as values, and a divisor and a factor for each block");
    const int64_t n = (int64_t)(from.view.len / (Py_ssize_t)sizeof(float));
    const QuotientJob job = {(const float*)from.view.buf, (const float*)by.view.buf, (const float*)times.view.buf, (float*)to.view.buf,
                             n / columns, columns, std::min<int64_t>(length, columns), format, rounding};
    const OrdinaryArithmetic ordinary;
    const Unlocked unlocked(n > FEW);
    PRECREG_RUN(round_quotients, job);
    Py_RETURN_NONE;
}

bool sensible(const Plan& plan, Py_ssize_t item) {
    const bool known = is_known(plan.product) && is_known(plan.rounding) && is_known(plan.order) && plan.width >= 1;
    if (!known || (item != 4 && item != 8) || !carried(plan.accumulator, item) || !carried(plan.product_format, item)) return false;
    const bool directed = is_directed(plan.rounding);
    if (plan.extended) return item == 8 && !directed && carried(plan.accumulator, 4) && carried(plan.product_format, 4);
    return directed || plan.rounding == Rounding::nearest_even;
}

// A matrix, or a batch of them, as its buffer describes it.
struct Matrices {
    Buffer buffer;
    int64_t batch = 1, rows = 0, columns = 0;
    bool is_batch = false;

    // Returns false, with an exception set, for any other buffer.
    bool get(PyObject* object, Py_ssize_t item, int flags = 0) {
        if (!buffer.get(object, PyBUF_ND | flags)) return false;
        const Py_buffer& view = buffer.view;
        if ((view.ndim != 2 && view.ndim != 3) || view.itemsize != item) {
            PyErr_Format(PyExc_ValueError, "expected matrices of items of %zd bytes", item);
            return false;
        }
        is_batch = view.ndim == 3;
        if (is_batch) batch = view.shape[0];
        rows = view.shape[view.ndim - 2], columns = view.shape[view.ndim - 1];
        return true;
    }
    template <class T> T* items() const { return (T*)buffer.view.buf; }
    int64_t step() const { return is_batch ? rows * columns : 0; }
};

template <class T> PyObject* sum_as(const Matrices& a, const Matrices& t, const Matrices& c, const Plan& plan, uint64_t seed) {
    const SumJob<T> job = {a.items<const T>(), t.items<const T>(), c.items<T>(), c.batch, a.rows, a.columns, t.columns, a.step(), t.step(),
                           plan.accumulator, plan.product_format, plan.product, plan.rounding, plan.extended, plan.order, plan.width, seed};
    const OrdinaryArithmetic ordinary(direction(plan.extended, plan.rounding));
    const Unlocked unlocked((double)(job.rows * job.terms) * (double)job.columns * (double)job.batch > FEW);
    PRECREG_RUN(add_up, job);
    Py_RETURN_NONE;
}

// Multiply matrices, or batches of them; a single a or t serves a whole batch.
PyObject* add_up(PyObject*, PyObject* arguments) {
    PyObject *first, *second, *results;
    const char* packed;
    Py_ssize_t item, packed_size;
    unsigned long long seed;
    if (!PyArg_ParseTuple(arguments, "OOOny#K", &first, &second, &results, &item, &packed, &packed_size, &seed)) return nullptr;
    Plan plan;
    if (!unpack(packed, packed_size, plan)) return nullptr;
    if (!sensible(plan, item)) return PyErr_Format(PyExc_ValueError, "expected a plan that the core serves");
    Matrices a, t, c;
    if (!a.get(first, item) || !t.get(second, item) || !c.get(results, item, PyBUF_WRITABLE)) return nullptr;
    const bool agree = a.rows == c.rows && a.columns == t.rows && t.columns == c.columns;
    if (!agree || (a.is_batch && a.batch != c.batch) || (t.is_batch && t.batch != c.batch))
        return PyErr_Format(PyExc_ValueError, "expected matrices whose shapes agree");
    if (c.buffer.view.len == 0) Py_RETURN_NONE; // the kernel would still go through all rows
    try {
        return item == 4 ? sum_as<float>(a, t, c, plan, seed) : sum_as<double>(a, t, c, plan, seed);
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

bool sensible(const Task& task, Py_ssize_t item) {
    const bool known = is_known(task.operation) && is_known(task.rounding);
    if (!known || (item != 4 && item != 8) || !carried(task.format, item)) return false;
    const bool directed = is_directed(task.rounding);
    return task.extended ? item == 4 && !directed && carried(task.format, 8) : directed || task.rounding == Rounding::nearest_even;
}

template <class T> PyObject* compute_as(const Buffer* operands, const Buffer& results, const Task& task, uint64_t seed, uint64_t start) {
    const Py_ssize_t size = (Py_ssize_t)sizeof(T), n = results.view.len / size;
    ElementJob<T> job = {{}, {}, (T*)results.view.buf, n, task.operation, task.format, task.rounding, task.extended, seed, start};
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

// Compute an operation on contiguous buffers. An operation without y or z takes any operand in their place.
PyObject* compute(PyObject*, PyObject* arguments) {
    PyObject *given[3], *results;
    const char* packed;
    Py_ssize_t item, packed_size;
    unsigned long long seed, start;
    if (!PyArg_ParseTuple(arguments, "OOOOny#KK", &given[0], &given[1], &given[2], &results, &item, &packed, &packed_size, &seed, &start))
        return nullptr;
    Task task;
    if (!unpack(packed, packed_size, task)) return nullptr;
    if (!sensible(task, item)) return PyErr_Format(PyExc_ValueError, "expected a task that the core serves");
    Buffer operands[3], to;
    for (int i = 0; i < 3; i++)
        if (!operands[i].get(given[i])) return nullptr;
    if (!to.get(results, PyBUF_WRITABLE)) return nullptr;
    if (to.view.len % item != 0) return PyErr_Format(PyExc_ValueError, "expected results of whole items");
    if (to.view.len == 0) Py_RETURN_NONE;
    return item == 4 ? compute_as<float>(operands, to, task, seed, start) : compute_as<double>(operands, to, task, seed, start);
}

// Return the addresses of the values of a dictionary, in their order. The caller keeps the values alive.
PyObject* identities(PyObject*, PyObject* dictionary) {
    if (!PyDict_Check(dictionary)) return PyErr_Format(PyExc_TypeError, "expected a dictionary");
    PyObject* const found = PyBytes_FromStringAndSize(nullptr, PyDict_Size(dictionary) * (Py_ssize_t)sizeof(PyObject*));
    if (!found) return nullptr;
    PyObject *key, *value;
    char* to = PyBytes_AsString(found);
    for (Py_ssize_t place = 0; PyDict_Next(dictionary, &place, &key, &value); to += sizeof value) memcpy(to, &value, sizeof value);
    return found;
}

// Return True if each (dictionary, identities) of a list still has these values. It reads no object: where a comparison in
// Python touches each object's count of references, most of the time goes to memory.
PyObject* same_values(PyObject*, PyObject* pairs) {
    if (!PyList_Check(pairs)) return PyErr_Format(PyExc_TypeError, "expected a list");
    for (Py_ssize_t i = 0; i < PyList_Size(pairs); i++) {
        PyObject *dictionary, *value, *key;
        const char* before;
        Py_ssize_t bytes, place = 0;
        if (!PyArg_ParseTuple(PyList_GetItem(pairs, i), "O!y#", &PyDict_Type, &dictionary, &before, &bytes)) return nullptr;
        if (PyDict_Size(dictionary) * (Py_ssize_t)sizeof value != bytes) Py_RETURN_FALSE;
        for (; PyDict_Next(dictionary, &place, &key, &value); before += sizeof value)
            if (memcmp(before, &value, sizeof value) != 0) Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
}

PyMethodDef METHODS[] = {{"compute", compute, METH_VARARGS, "Compute an operation on elements."},
                         {"add_up", add_up, METH_VARARGS, "Add up products of matrices in an order."},
                         {"round", round, METH_VARARGS, "Round the values of a buffer to a format."},
                         {"round_blocks", round_blocks, METH_VARARGS, "Round the values of a buffer to a format of blocks."},
                         {"block_maxima", block_maxima, METH_VARARGS, "Find the largest magnitude of each block."},
                         {"round_quotients", round_quotients, METH_VARARGS, "Round quotients by the divisors of blocks."},
                         {"identities", identities, METH_O, "Return the addresses of the values of a dictionary."},
                         {"same_values", same_values, METH_O, "Compare the values of dictionaries by identity."}, {nullptr, nullptr, 0, nullptr}};
PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_core", nullptr, -1, METHODS, nullptr, nullptr, nullptr, nullptr};

} // namespace
} // namespace precreg

PyMODINIT_FUNC PyInit__core(void) {
    using namespace precreg;
    return module_of(MODULE, name_of(instruction_set),
                     {PRECREG_DECLARED(Rounding), PRECREG_DECLARED(Format), PRECREG_DECLARED(Product), PRECREG_DECLARED(Order),
                      PRECREG_DECLARED(Plan), PRECREG_DECLARED(Operation), PRECREG_DECLARED(Task),
                      {"round", "values, results, itemsize, format, rounding, seed, start"},
                      {"add_up", "a, t, c, itemsize, plan, seed"},
                      {"compute", "x, y, z, results, itemsize, task, seed, start"},
                      PRECREG_DECLARED(ScaleRule), PRECREG_DECLARED(BlockPlan),
                      {"round_blocks", "values, results, columns, plan"},
                      {"block_maxima", "values, results, columns, length"},
                      {"round_quotients", "values, divisors, factors, results, columns, length, format, rounding"}});
}
