"""Operations on elements by the core: the bits of numpy's form, whatever the layout; wrong arguments never crash it."""

import numpy as np
import pytest

from precreg.arithmetic import _core, operations
from precreg.arithmetic import rounding as forms
from precreg.arithmetic.formats import Rounding, format_named
from precreg.arithmetic.operations_numpy import RoundedOperation
from tests.arithmetic.computed import ALL
from tests.arithmetic.hard_operands import assert_same, hard
from tests.arithmetic.test_native import with_fields

native = pytest.importorskip("precreg.arithmetic.native", reason="no C++ compiler was there to build the core")

OPERANDS = {"add": 2, "subtract": 2, "multiply": 2, "divide": 2, "sqrt": 1, "fma": 3}
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
M20, FP16, FP32 = map(format_named, ("float32_m20", "fp16", "fp32"))


def by_numpy(name, operands, format, rounding, seed=0, start=0):
    return operations.compute_numpy(RoundedOperation(name, format, rounding, seed), operands, start)


@pytest.mark.parametrize("name", OPERANDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_operations_have_the_bits_of_numpys_form(dtype, name):
    generator, served = np.random.default_rng(OPERANDS[name]), 0
    for format in ALL:
        for rounding in Rounding:
            given = [hard(dtype, 203, generator) for _ in range(OPERANDS[name])]
            found = native.compute_native(name, given, format, rounding, 2**64 + 5, 2**40)
            if found is not None:
                served += 1
                assert found.dtype == dtype
                assert_same(found, by_numpy(name, given, format, rounding, 5, 2**40))
    assert served > (100 if dtype is np.float32 else 50)


def test_what_the_core_computes():
    def serves(name, dtype, format, rounding):
        return native.compute_native(name, [np.ones(3, dtype)] * OPERANDS[name], format, rounding, 0, 0) is not None

    assert all(serves(name, np.float32, M20, Rounding.TOWARD_ZERO) for name in OPERANDS)
    assert all(serves(name, np.float32, FP16, Rounding.NEAREST_EVEN) for name in OPERANDS)
    assert all(serves(name, np.float32, FP16, Rounding.STOCHASTIC) for name in OPERANDS)
    assert serves("add", np.float64, FP16, Rounding.TOWARD_ZERO)
    assert not serves("add", np.float64, FP16, Rounding.NEAREST_EVEN)
    assert not serves("add", np.float32, format_named("fp64"), Rounding.UP)


def test_the_core_is_asked_where_it_serves(monkeypatch):
    if forms.native_backend() is None:
        pytest.skip("PRECREG_FORM names another form")
    monkeypatch.setattr(operations, "compute_numpy", None)
    x = np.full(3, 1 / 3, np.float32)
    assert_same(operations.add(x, x, M20, Rounding.TOWARD_ZERO), np.full(3, 2796202 * 2.0**-22, np.float32))


@pytest.mark.parametrize(
    "shapes", [((), ()), ((0,), (0,)), ((0,), (1,)), ((5,), ()), ((1,), (5, 1)), ((3, 1, 7), (4, 1)), ((70, 3), (3,))]
)
def test_operands_broadcast(shapes):
    generator = np.random.default_rng(1)
    x, y = (generator.standard_normal(shape).astype(np.float32) for shape in shapes)
    for rounding in (Rounding.UP, Rounding.STOCHASTIC, Rounding.NEAREST_EVEN):
        found = native.compute_native("multiply", [x, y], M20, rounding, 3, 9)
        assert_same(found, by_numpy("multiply", [x, y], M20, rounding, 3, 9))


def test_operands_that_do_not_lie_in_order():
    given = np.random.default_rng(2).standard_normal((6, 10, 14)).astype(np.float32)
    given.flags.writeable = False
    for x, y in (
        (given[::2, ::-1, 1::3], given[::2, :, ::3]),
        (given.T, given.T[::-1]),
        (given[:, :, 0], given[0, :, 1]),
    ):
        found = native.compute_native("add", [x, y], FP16, Rounding.AWAY, 0, 0)
        assert_same(found, by_numpy("add", [x, y], FP16, Rounding.AWAY))


def test_nothing_is_written_beyond_the_results():
    x = np.random.default_rng(3).standard_normal(200).astype(np.float32)
    task = native._task("add", FLOAT32, M20, Rounding.UP)
    for size in (1, 2, 7, 8, 15, 16, 17, 100):
        results = np.full(216, np.float32(7))
        _core.compute(x[:size], x[:size], x[:size], results[3 : 3 + size], 4, task, 0, 0)
        assert_same(results[3 : 3 + size], by_numpy("add", [x[:size]] * 2, M20, Rounding.UP))
        assert np.all(np.delete(results, np.s_[3 : 3 + size]) == 7)


def task_with(**changed):
    """Return the task of an addition that is rounded to the nearest fp16, with other values in some fields."""
    return with_fields(native._task("add", FLOAT32, FP16, Rounding.NEAREST_EVEN), "Task", **changed)


ONES = np.ones(40, np.float32)
WRONG = {
    "fewer operands": {"x": ONES[:39]},
    "no operand": {"y": ONES[:0]},
    "an operand of others": {"z": None},
    "a gap between items": {"y": np.ones(80, np.float32)[::2]},
    "results that cannot be written": {"results": bytes(160)},
    "parts of items": {"results": bytearray(163)},
    "an item size that is none": {"itemsize": 2},
    "an item size of others": {"itemsize": 8},
    "no task": {"task": b""},
    "a task of nothing": {"task": bytes(native._STRUCTS["Task"].itemsize)},
    "an operation that is none": {"task": task_with(operation=6)},
    "a negative operation": {"task": task_with(operation=-1)},
    "a rounding that is none": {"task": task_with(rounding=8)},
    "a direction that is extended": {"task": task_with(rounding=native._NUMBERS[Rounding.UP])},
    "a rounding that the processor has not": {
        "task": task_with(extended=False, rounding=native._NUMBERS[Rounding.ODD])
    },
    "a format that float32 lacks": {"task": native._task("add", FLOAT64, format_named("fp64"), Rounding.UP)},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_arguments_raise(wrong):
    task = native._task("add", FLOAT32, FP16, Rounding.NEAREST_EVEN)
    right = {
        "x": ONES,
        "y": ONES,
        "z": ONES,
        "results": ONES.copy(),
        "itemsize": 4,
        "task": task,
        "seed": 0,
        "start": 0,
    }
    _core.compute(*right.values())
    with pytest.raises((ValueError, TypeError, BufferError)):
        _core.compute(*(right | WRONG[wrong]).values())
