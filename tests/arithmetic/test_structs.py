"""Structs of a compiled core: the layout that the C++ compiler gives them, and a core of other names is refused."""

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

from precreg.arithmetic.structs import structs_of

DECLARATIONS = {
    "Colour": "red, green",
    "Inner": "bool flag; double size;",
    "Outer": "Colour first, second; bool one; Inner inner; int64_t count;",
    "Sums": "absolute, signed_",
    "call": "x, y",
}
NAMES = {
    "Colour": ("red", "green"),
    "Inner": ("flag", "size"),
    "Outer": ("first", "second", "one", "inner", "count"),
    "Sums": ("absolute", "signed"),
    "call": ("x", "y"),
}


class Inner(ctypes.Structure):
    _fields_ = (("flag", ctypes.c_bool), ("size", ctypes.c_double))


class Outer(ctypes.Structure):
    _fields_ = (
        ("first", ctypes.c_int32),
        ("second", ctypes.c_int32),
        ("one", ctypes.c_bool),
        ("inner", Inner),
        ("count", ctypes.c_int64),
    )


def test_structs_lie_in_memory_as_c_has_them():
    structs = structs_of(SimpleNamespace(declarations=DECLARATIONS), NAMES)
    assert [*structs] == ["Inner", "Outer"]
    assert structs["Outer"].itemsize == ctypes.sizeof(Outer)
    packed = np.array((1, 2, True, (False, 0.5), 2**40), structs["Outer"]).tobytes()
    read = Outer.from_buffer_copy(packed)
    assert (read.first, read.second, read.one, read.count) == (1, 2, True, 2**40)
    assert (read.inner.flag, read.inner.size) == (False, 0.5)


@pytest.mark.parametrize(
    "declared",
    [
        {**DECLARATIONS, "Colour": "green, red"},
        {**DECLARATIONS, "Inner": "bool flag; double width;"},
        {**DECLARATIONS, "call": "x"},
        {**DECLARATIONS, "Later": "x"},
        {name: text for name, text in DECLARATIONS.items() if name != "Sums"},
        {},
    ],
)
def test_a_core_of_other_names_is_refused(declared):
    with pytest.raises(ImportError, match="the core was built from other sources: install precreg anew"):
        structs_of(SimpleNamespace(declarations=declared), NAMES)


def test_a_core_without_declarations_is_refused():
    with pytest.raises(ImportError, match="other sources"):
        structs_of(SimpleNamespace(interface=2), NAMES)
