// Python's side of both cores, through the limited API: one binary serves every Python from 3.11 on.
#pragma once

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "declarations.hpp"

#include <cstring>
#include <initializer_list>

namespace precreg {
namespace {

// The memory of an object, for the life of this buffer.
struct Buffer {
    Py_buffer view{};
    bool is_held = false;
    bool get(PyObject* object, int flags = PyBUF_SIMPLE) { return is_held = PyObject_GetBuffer(object, &view, flags) == 0; }
    ~Buffer() {
        if (is_held) PyBuffer_Release(&view);
    }
};

// Lets other threads run during its life, if `much` work is ahead.
class Unlocked {
  public:
    explicit Unlocked(bool much) : thread(much ? PyEval_SaveThread() : nullptr) {}
    ~Unlocked() {
        if (thread) PyEval_RestoreThread(thread);
    }

  private:
    PyThreadState* const thread;
};

// Copy the bytes of a struct that Python packed. Returns false, with ValueError set, for any other number of bytes.
template <class Struct> bool unpack(const char* packed, Py_ssize_t size, Struct& into) {
    if (size != (Py_ssize_t)sizeof into) {
        PyErr_Format(PyExc_ValueError, "expected a packed struct of %zu bytes but got %zd", sizeof into, size);
        return false;
    }
    memcpy((void*)&into, packed, sizeof into);
    return true;
}

// Create a module that names its instruction set, and the declarations that Python checks.
PyObject* module_of(PyModuleDef& definition, const char* instruction_set, std::initializer_list<Declaration> declared) {
    PyObject* const module = PyModule_Create(&definition);
    PyObject* const texts = PyDict_New();
    bool is_complete = module && texts && PyModule_AddStringConstant(module, "instruction_set", instruction_set) == 0;
    for (const Declaration& each : declared) {
        PyObject* const text = is_complete ? PyUnicode_FromString(each.text) : nullptr;
        is_complete = text && PyDict_SetItemString(texts, each.name, text) == 0;
        Py_XDECREF(text);
    }
    is_complete = is_complete && PyModule_AddObjectRef(module, "declarations", texts) == 0;
    Py_XDECREF(texts);
    if (is_complete) return module;
    Py_XDECREF(module);
    return nullptr;
}

} // namespace
} // namespace precreg
