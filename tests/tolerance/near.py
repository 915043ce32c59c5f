"""Data just inside and just outside a limit: how far a result may drift, by a formula of plain Python numbers.

A path leads from a perfect result, step 0, to ever worse ones. `last_good` finds the last step that a formula admits,
so that a standard can be asked for the same answer there and one step on.
"""

from collections.abc import Callable
from itertools import count
from random import Random
from typing import NamedTuple

import numpy as np

from precreg.arithmetic.formats import numpy_dtype
from precreg.measure.comparison import add_benchmark, compare_arrays
from precreg.tolerance.pyramid import SHIPPED_LAYERS, resolve_tolerance
from precreg.types.case import Layer, Location
from precreg.verdict.limits import broken_bounds


class Step(NamedTuple):
    """A result, its reference in double, and another implementation's result where one is asked for."""

    actual: np.ndarray
    reference: np.ndarray
    benchmark: np.ndarray | None = None

    def numbers(self):
        """Return the three as lists of Python numbers."""
        return [None if array is None else wide(array).tolist() for array in self]


Path = Callable[[int], Step]


def wide(array):
    """Return numbers as Python has them: ints, bools, floats, complex numbers."""
    if array.dtype.kind in "biuc":
        return array.ravel()
    return array.astype(np.float64).ravel()


def values(dtype, n, low=1.0, span=1.0):
    """Return n numbers of the dtype in [low, low + span)."""
    if numpy_dtype(dtype).kind in "biu":
        return np.ones(n, numpy_dtype(dtype))
    random = Random(n)
    return np.array([low + span * random.random() for _ in range(n)]).astype(numpy_dtype(dtype))


def up(array, steps):
    """Move each number away from zero by so many numbers of its dtype; of a complex one the real part."""
    if array.dtype.kind == "c":
        return (up(array.real.copy(), steps) + 1j * array.imag).astype(array.dtype)
    if array.dtype.kind == "b":
        return array ^ (np.asarray(steps) > 0)
    bits = array.view(f"uint{8 * array.dtype.itemsize}").astype(np.int64) + steps
    return bits.astype(f"uint{8 * array.dtype.itemsize}").view(array.dtype)


def exact(array):
    """Return the same numbers as a reference."""
    return (
        array.astype(np.complex128 if array.dtype.kind == "c" else np.float64) if array.dtype.kind in "fcV" else array
    )


def every(dtype, n=40, low=1.0, signs=(1,), benchmark=None):
    """Step k: all elements are off by k numbers, in turn in the directions of `signs`. The benchmark by `benchmark`."""
    start = values(dtype, n, low)
    turns = np.resize(signs, n)
    other = None if benchmark is None else up(start, benchmark * turns)
    return lambda k: Step(up(start, k * turns), exact(start), other)


def one(dtype, n=40, low=1.0, benchmark=None):
    """Step k: the first element is off by k numbers."""
    start = values(dtype, n, low)
    first = np.arange(n) == 0
    other = None if benchmark is None else up(start, benchmark * first)
    return lambda k: Step(up(start, k * first), exact(start), other)


def some(dtype, by, n=40, low=1.0, span=1.0, benchmark=None):
    """Step k: the first k elements are off by `by` numbers. Of the benchmark `benchmark` elements are."""
    start = values(dtype, n, low, span)
    other = None if benchmark is None else up(start, by * (np.arange(n) < benchmark))
    return lambda k: Step(up(start, by * (np.arange(n) < k)), exact(start), other)


def last_good(path: Path, formula) -> int:
    """Return the last step that the formula admits, where all before are admitted and none after."""
    admits = lambda k: bool(formula(*path(k).numbers()))  # noqa: E731
    assert admits(0), "the formula admits a perfect result"
    high = next(2**i for i in count() if not admits(2**i))
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if admits(middle) else (low, middle)
    return low


def findings(standard, step: Step):
    """Judge as precreg does: a layer with the standard upon the shipped ones, resolved, measured, held."""
    layers = (*SHIPPED_LAYERS, Layer("suite", Location("s.yaml", 1), {"standard": standard}))
    tolerance = resolve_tolerance(layers, "out", step.actual.dtype.name, ())
    terms = {"rtol": tolerance.rtol.limit, "atol": tolerance.atol.limit, "regions": tolerance.regions}
    comparison = compare_arrays(step.actual, step.reference, **terms)
    if step.benchmark is not None:
        comparison = add_benchmark(comparison, compare_arrays(step.benchmark, step.reference, **terms))
    return [*broken_bounds(comparison, tolerance)]
