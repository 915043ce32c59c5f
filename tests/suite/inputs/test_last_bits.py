"""Moves of inputs by their last bits, held against neighbours that numpy knows and against counting."""

import ml_dtypes
import numpy as np
import pytest

from precreg.arithmetic.formats import FORMATS, numpy_dtype
from precreg.storage.array_file import array_digest
from precreg.suite.inputs.draw import has_last_bits, move_last_bits


@pytest.mark.parametrize("dtype", [*FORMATS, "longdouble"])
def test_an_element_moves_to_a_neighbour_or_stays_by_equal_chance(dtype):
    number = np.asarray(1.5).astype(numpy_dtype(dtype))
    found = move_last_bits(np.full(3000, number), "x", 0, 1)
    assert found.dtype == number.dtype
    two = number.dtype.type(2)
    expected = [np.nextafter(number, -two), number, np.nextafter(number, two)]
    values, counts = np.unique(found.astype(np.longdouble), return_counts=True)
    assert values.tolist() == [np.longdouble(each) for each in expected]
    assert all(abs(count - 1000) < 5 * (3000 * 2 / 9) ** 0.5 for count in counts)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float8_e4m3fn"])
def test_what_has_no_neighbours_of_its_kind_stays(dtype):
    number_format = FORMATS[dtype]
    largest, smallest = number_format.largest, number_format.smallest_subnormal
    kinds = np.array([0.0, -0.0, np.nan, largest, -largest, smallest, -smallest]).astype(numpy_dtype(dtype))
    found = move_last_bits(np.tile(kinds, (500, 1)), "x", 0, 1).astype(np.float64)
    assert not found[:, :2].any()
    assert (np.signbit(found[:, :2]) == [False, True]).all()
    assert np.isnan(found[:, 2]).all()
    assert np.isfinite(found[:, 3:]).all()
    assert found[:, 5:].all()
    assert len(np.unique(found[:, 3])) == len(np.unique(found[:, 5])) == 2


def test_infinities_stay():
    kinds = np.tile(np.array([np.inf, -np.inf], np.float32), 50)
    assert np.array_equal(move_last_bits(kinds, "x", 0, 1), kinds)


def test_moves_follow_from_name_seed_and_number_and_are_the_same_everywhere():
    ones = np.ones(1000, np.float32)
    digests = {
        array_digest(move_last_bits(ones, name, seed, number))
        for name, seed, number in [("x", 0, 1), ("y", 0, 1), ("x", 1, 1), ("x", 0, 2)]
    }
    assert len(digests) == 4
    assert array_digest(move_last_bits(ones, "x", 0, 1)) == "3e033cd97acf563f61c3528302b311dc"
    assert (
        array_digest(move_last_bits(ones.reshape(10, 100)[:, ::1], "x", 0, 1).reshape(-1))
        == "3e033cd97acf563f61c3528302b311dc"
    )


def test_an_array_of_another_layout_moves_alike():
    numbers = np.arange(1, 61, dtype=np.float16).reshape(6, 10)
    assert np.array_equal(
        move_last_bits(numbers.T, "x", 0, 1), move_last_bits(np.ascontiguousarray(numbers.T), "x", 0, 1)
    )
    assert move_last_bits(np.float32(1).reshape(()), "x", 0, 1).shape == ()


def test_parts_of_complex_numbers_move_by_themselves_and_integers_do_not():
    found = move_last_bits(np.full(900, 1.5 - 2.5j, np.complex64), "x", 0, 1)
    assert found.dtype == np.complex64
    assert len(np.unique(found)) == 9
    whole = np.arange(5)
    assert move_last_bits(whole, "x", 0, 1) is whole


@pytest.mark.parametrize(
    ("spec", "movable"),
    [
        ({"dtype": "float32", "uniform": {}}, True),
        ({"dtype": "complex64", "normal": {}}, True),
        ({"dtype": "int8", "file": {"path": "x.npy"}}, False),
        ({"dtype": "float32", "integers": {"low": 0, "high": 3}}, False),
        ({"dtype": "float32", "special": {"share": 0.5, "rest": {"normal": {}}}}, False),
    ],
)
def test_bits_that_are_chosen_do_not_move(spec, movable):
    assert has_last_bits(spec) is movable


def test_formats_of_four_bits_move_too():
    found = move_last_bits(np.full(50, 1.5, ml_dtypes.float4_e2m1fn), "x", 0, 1)
    assert set(found.astype(float)) == {1.0, 1.5, 2.0}
