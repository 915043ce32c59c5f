// The core of arithmetic as a Python module. precreg/arith/native.py knows what goes in and what comes out.
#include "../../core/python.hpp" // Python's header first
#include "../../core/processor.hpp"

#include "job.hpp"

#include <cmath>

namespace precreg {
namespace {

constexpr long INTERFACE = 1; // as in precreg/arith/native.py; raised whenever what is passed or returned changes
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

PyMethodDef METHODS[] = {{"round", round, METH_VARARGS, "Round the values of a buffer to a format."}, {nullptr, nullptr, 0, nullptr}};
PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_core", nullptr, -1, METHODS, nullptr, nullptr, nullptr, nullptr};

} // namespace
} // namespace precreg

PyMODINIT_FUNC PyInit__core(void) {
    PyObject* module = PyModule_Create(&precreg::MODULE);
    if (module && (PyModule_AddStringConstant(module, "instruction_set", precreg::name_of(precreg::instruction_set)) != 0 ||
                   PyModule_AddIntConstant(module, "interface", precreg::INTERFACE) != 0))
        Py_CLEAR(module);
    return module;
}
