"""Which rewrites can alter an input, a param or an output?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from precreg.arithmetic import Format, format_of, numpy_dtype
from precreg.arithmetic.devices import is_floating
from precreg.arithmetic.faults import truncate_bits
from precreg.diagnose.rewrites.alterations import (
    alter_arrays,
    flush_below,
    tail_altered,
    tail_of,
    through_format,
)
from precreg.diagnose.rewrites.constants import other_numbers
from precreg.diagnose.rewrites.hypothesis import Hypothesis, Params
from precreg.diagnose.rewrites.operations import BLOCKS, HOP_FORMATS, TAIL_WAYS
from precreg.run import Arrays
from precreg.storage import Array


def input_hypotheses(inputs: Arrays) -> Iterator[Hypothesis]:
    """Yield the rewrites of each input, and of all inputs at once."""
    for name, array in inputs.items():
        for rewrite, rank, options, alter in _array_rewrites(array):
            yield Hypothesis(rewrite, options, "input", rank, name=name, inputs=partial(alter_arrays, (name,), alter))
    floating = tuple(name for name, array in inputs.items() if is_floating(array.dtype))
    if len(floating) > 1:
        for rewrite, rank, options, alter in _array_rewrites(inputs[floating[0]]):
            if rewrite in ("hop", "tail"):
                name = ", ".join(floating)
                yield Hypothesis(
                    rewrite, options, "input", rank + 1, name=name, inputs=partial(alter_arrays, floating, alter)
                )


def output_hypotheses(outputs: Arrays) -> Iterator[Hypothesis]:
    """Yield the rewrites of each output."""
    for name, array in outputs.items():
        for rewrite, rank, options, alter in _array_rewrites(array):
            yield Hypothesis(rewrite, options, "output", rank, name=name, outputs=partial(alter_arrays, (name,), alter))


def param_hypotheses(params: Params) -> Iterator[Hypothesis]:
    """Yield the rewrites of each param that is a number or a truth value."""
    for name, value in params.items():
        if isinstance(value, bool):
            yield _param(name, 1, not value)
        elif isinstance(value, int | float):
            others = other_numbers(float(value))
            yield from (_param(name, 1, _like(value, each)) for each in others if _fits(value, each))
            if isinstance(value, float):
                for format in ("float16", "bfloat16"):
                    yield _param(name, 1, float(np.asarray(value).astype(numpy_dtype(format))))
                same = _param(name, 2, value)
                yield same._replace(number=value, refit=partial(_param, name, 2))


def _fits(value: float, other: float) -> bool:
    return isinstance(value, float) or other == int(other)


def _like(value: float, other: float) -> float:
    return int(other) if isinstance(value, int) else other


def _param(name: str, rank: int, value: Any) -> Hypothesis:
    options: dict[str, float | str] = {"value": value}
    return Hypothesis("other_param", options, "param", rank, name=name, params=lambda params: {**params, name: value})


_Rewrites = Iterator[tuple[str, int, dict[str, float | str], Callable[[Array], Array]]]


def _array_rewrites(array: Array) -> _Rewrites:
    """Yield rewrites of one array: name, rank, options and function."""
    own = format_of(array.dtype.name) if is_floating(array.dtype) else None
    if own is not None:
        yield from _of_numbers(array, own)
    elif array.dtype.kind in "iu":
        for step in (1, -1):
            yield "moved_by_one", 2, {"value": step}, partial(_moved, step=step)
    yield from _tails(array)
    if array.ndim > 1 and array.shape[-1] == array.shape[-2]:
        yield "transposed", 1, {}, lambda values: np.swapaxes(values, -1, -2)
    for axis in range(-min(array.ndim, 2), 0):
        for by in (1, -1):
            yield "shifted", 2, {"axis": axis, "by": by}, partial(np.roll, shift=by, axis=axis)
    if array.ndim:
        yield "reversed", 3, {}, lambda values: values[..., ::-1]


def _of_numbers(array: Array, own: Format) -> _Rewrites:
    """Yield rewrites that round floating-point numbers in another way."""
    for format in HOP_FORMATS:
        narrow = format_of(format)
        if narrow is not None and narrow.precision < own.precision:
            yield "hop", 0, {"format": format}, partial(through_format, format=format)
            options: dict[str, float | str] = {"format": format, "rounding": "toward_zero"}
            yield "hop", 2, options, partial(through_format, format=format, rounding="toward_zero")
    if array.dtype.itemsize <= 8:
        for bits in (3, 1, 2, 13):
            yield "truncated", 2, {"bits": bits}, partial(truncate_bits, bits=bits)
    for least in (own.smallest_normal, 2.0**-14):
        yield "flushed", 2, {"least": least}, partial(flush_below, least=least)


def _tails(array: Array) -> _Rewrites:
    for axis in range(-min(array.ndim, 2), 0):
        for block in BLOCKS:
            if tail_of(array.shape[axis], block)[1]:
                for way in TAIL_WAYS:
                    options: dict[str, float | str] = {"block": block, "way": way, "axis": axis}
                    yield "tail", 1, options, partial(tail_altered, block=block, way=way, axis=axis)


def _moved(values: Array, step: int) -> Array:
    """Move integers, such as labels, by one within their range."""
    if not values.size:
        return values
    return np.clip(values.astype(np.int64) + step, values.min(), values.max()).astype(values.dtype)
