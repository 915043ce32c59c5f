from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from precreg.errors import UserError
from precreg.subject import kind as kinds
from precreg.subject.call import Outputs, name_outputs


def described(returned):
    return {name: (array.dtype.name, array.shape) for name, array in name_outputs(returned).items()}


def test_one_array_is_out():
    assert described(np.zeros((2, 3), np.float16)) == {"out": ("float16", (2, 3))}


def test_a_dict_keeps_its_names_and_their_order():
    returned = {"w": np.zeros(2, np.float32), "m": np.zeros(3, np.float64)}
    assert list(name_outputs(returned)) == ["w", "m"]


@pytest.mark.parametrize("sequence", [tuple, list])
def test_a_sequence_counts_from_zero(sequence):
    returned = sequence([np.zeros(2, np.int8), np.zeros(1, bool)])
    assert described(returned) == {"0": ("int8", (2,)), "1": ("bool", (1,))}


@pytest.mark.parametrize(
    ("scalar", "dtype"),
    [(1.5, "float64"), (3, "float64"), (True, "float64"), (1j, "complex128"), (np.float32(2), "float32")],
)
def test_a_scalar_is_an_array_without_axes(scalar, dtype):
    assert described(scalar) == {"out": (dtype, ())}
    assert name_outputs(scalar)["out"] == scalar


def test_formats_beyond_numpy_are_numbers():
    assert described(np.zeros(2, ml_dtypes.bfloat16)) == {"out": ("bfloat16", (2,))}


def test_an_array_is_a_copy_in_c_order():
    buffer = np.arange(6.0).reshape(2, 3).T
    array = name_outputs(buffer)["out"]
    buffer[:] = 7
    assert array.flags.c_contiguous
    assert array.tolist() == [[0, 3], [1, 4], [2, 5]]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "None for output out"),
        ({"loss": None}, "None for output loss"),
        ("text", "output out of dtype=<U4"),
        (np.array(["a"]), "output out of dtype=<U1"),
        (np.array([object()]), "output out of dtype=object"),
        (np.zeros(2, "datetime64[s]"), "output out of dtype=datetime64"),
        (np.zeros(2, [("x", "f4")]), "output out of dtype="),
        (([[1, 2], [3]],), "inhomogeneous"),
        ({1: np.zeros(1)}, "name=1"),
        (object(), "output out of dtype=object"),
        ({"y": np.ma.array([1.0, 2.0], mask=[True, False])}, "masked array for output y; fill the mask first"),
        (np.ma.array([1.0, 2.0]), "masked array for output out"),
        (10**400, "int too large to convert to float for output out"),
        ([10**400, 0.5], "too large to convert to float for output 0"),
        ({"\ud800": np.zeros(1)}, r"name='\ud800'"),
        ({"n" * 201: np.zeros(1)}, "at most 200 characters but got 201: 'nnnnnnnnnnnnnnnnnnnn'..."),
    ],
)
def test_nonsense_is_refused(returned, message):
    with pytest.raises(UserError, match="expected") as caught:
        name_outputs(returned)
    assert caught.value.slug == "bad-outputs"
    assert message in caught.value.message


def of_kind(monkeypatch, call, returned):
    """Return the checked outputs of an installed kind of subject that returns these."""
    monkeypatch.setattr(
        kinds, "subject_entry_point", lambda _: SimpleNamespace(load=lambda: lambda spec, call: returned)
    )
    kinds.subject_kind.cache_clear()
    try:
        return kinds.subject_kind("installed")("spec", call())
    finally:
        kinds.subject_kind.cache_clear()


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"out": np.zeros(1)}, "a kind of subject to return Outputs but got dict"),
        (Outputs([np.zeros(1)], 0.0), "a kind of subject to return Outputs but got Outputs"),
        (Outputs({"out": None}, 0.0), "None for output out"),
        (Outputs({"out": np.array([object()])}, 0.0), "output out of dtype=object"),
        (Outputs({"\ud800": np.zeros(1)}, 0.0), r"name='\ud800'"),
        (Outputs({"y": np.ma.array([1.0])}, 0.0), "masked array for output y"),
    ],
)
def test_an_installed_kind_returns_arrays_of_numbers(outputs, message, monkeypatch, call):
    with pytest.raises(UserError, match="expected") as caught:
        of_kind(monkeypatch, call, outputs)
    assert caught.value.slug == "bad-outputs"
    assert message in caught.value.message


class Marked(np.ndarray):
    """An array of a class of its own, whose operators may do anything."""


def test_lists_and_subclasses_of_arrays_of_an_installed_kind_become_arrays(monkeypatch, call):
    found = of_kind(monkeypatch, call, Outputs({"a": [1.0, 2.0], "b": np.ones((1, 1)).view(Marked)}, 1))
    assert {name: (type(array), array.shape) for name, array in found.arrays.items()} == {
        "a": (np.ndarray, (2,)),
        "b": (np.ndarray, (1, 1)),
    }
