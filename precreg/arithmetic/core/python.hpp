// What both cores need of Python, through the limited API: one binary for every Python from 3.11 on.
#pragma once

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

namespace precreg {
namespace {

// The memory of an object, held as long as this lives.
struct Buffer {
    Py_buffer view{};
    bool held = false;
    bool get(PyObject* object, int flags = PyBUF_SIMPLE) { return held = PyObject_GetBuffer(object, &view, flags) == 0; }
    ~Buffer() {
        if (held) PyBuffer_Release(&view);
    }
};

// Lets other threads run, if there is `much` to do, as long as it lives.
class Unlocked {
  public:
    explicit Unlocked(bool much) : thread(much ? PyEval_SaveThread() : nullptr) {}
    ~Unlocked() {
        if (thread) PyEval_RestoreThread(thread);
    }

  private:
    PyThreadState* const thread;
};

// A module that says which instructions it runs on, and what it expects to be called with.
PyObject* module_of(PyModuleDef& definition, const char* instruction_set, long interface) {
    PyObject* module = PyModule_Create(&definition);
    if (module && (PyModule_AddStringConstant(module, "instruction_set", instruction_set) != 0 ||
                   PyModule_AddIntConstant(module, "interface", interface) != 0))
        Py_CLEAR(module);
    return module;
}

} // namespace
} // namespace precreg
