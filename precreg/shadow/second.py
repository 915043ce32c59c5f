"""How far can a shadow be trusted? A second shadow of another precision shows it.

The second run measures nothing else, so that it costs a part of the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod, sqrt
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from precreg.shadow.recorder import Detail, Recorder
from precreg.shadow.sizes import error_size
from precreg.shadow.tracer import Tracer
from precreg.types import Operation, TracedOutput

# Beyond these the second run takes many seconds: products of longdouble have no BLAS.
_MAX_OPERATIONS, _MAX_PRODUCTS = 20_000, 2e8
_PRODUCTS = ("matmul", "dot", "einsum", "tensordot", "inner")


def with_shadow_errors(first: Tracer, run: Callable[[Tracer], object]) -> tuple[TracedOutput, ...]:
    """Return the outputs with the error of their shadows. `run` runs the same computation under another tracer.

    The error of a float64 shadow is its difference from a longdouble one. That of a longdouble shadow is estimated from
    the error of a float64 one, by the ratio of their roundoffs. It is unknown on a machine without a wider longdouble,
    and if a function has no longdouble. That of a shadow of torch is estimated from one whose operations round in
    another way, at random.
    """
    if _is_of_torch(first.recorder.operations):
        second = Tracer(Recorder(Detail.OUTPUTS), shares=False, jitter=True)
        run(second)
        return tuple(_with_error(each, first.shadows, second.shadows, 1.0) for each in first.outputs)
    roundoffs = {name: float(np.finfo(name).eps) for name in ("float64", "longdouble")}
    if roundoffs["longdouble"] == roundoffs["float64"] or not _is_cheap(first.recorder.operations):
        return first.outputs
    is_double = first.shadow == "float64"
    second = Tracer(Recorder(Detail.OUTPUTS), shares=False, wide="longdouble" if is_double else "float64")
    run(second)
    unknown = [each for tracer in (first, second) for each in tracer.recorder.events if each.kind == "not_shadowed"]
    if unknown or second.shadow == first.shadow:
        # An operation ran in one dtype in both, and its agreement says nothing.
        return first.outputs
    factor = 1.0 if is_double else roundoffs["longdouble"] / roundoffs["float64"]
    return tuple(
        # Both runs have a longdouble for an output of float64, so that neither checks the other.
        each if _have_one_dtype(each.name, first, second) else _with_error(each, first.shadows, second.shadows, factor)
        for each in first.outputs
    )


def _is_of_torch(operations: Sequence[Operation]) -> bool:
    """Return whether torch alone computed, and not for long."""
    return 0 < len(operations) <= _MAX_OPERATIONS and all(each.engine == "torch" for each in operations)


def _is_cheap(operations: Sequence[Operation]) -> bool:
    """Return whether a second run is worth its time: numpy computed, and not for long."""
    seen = [each for each in operations if each.engine == "numpy"]
    products = sum(_products(each) for each in seen if each.name in _PRODUCTS)
    return 0 < len(seen) == len(operations) <= _MAX_OPERATIONS and products <= _MAX_PRODUCTS


def _products(operation: Operation) -> float:
    """Return the number of products of a matrix product: the root of the product of the sizes of its three matrices."""
    sizes = [prod(each.shape) for each in operation.inputs[:2]] + [prod(operation.shape)]
    return sqrt(float(prod(sizes)))


def _have_one_dtype(name: str, first: Tracer, second: Tracer) -> bool:
    one, other = first.shadows.get(name), second.shadows.get(name)
    return one is not None and other is not None and one.dtype == other.dtype and one.dtype.kind in "fc"


def _with_error(
    output: TracedOutput, first: Mapping[str, NDArray[Any]], second: Mapping[str, NDArray[Any]], factor: float
) -> TracedOutput:
    one, other = first.get(output.name), second.get(output.name)
    if one is None or other is None or one.shape != other.shape:
        return output
    found = error_size(one, other.astype(np.result_type(one, other))).relative
    return replace(output, shadow_error=found * factor)
