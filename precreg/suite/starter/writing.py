"""How does a guess become a suite file: which lines does it have, and which bounds fit the first figures?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from precreg.arithmetic import numpy_dtype
from precreg.suite.starter.guesses import Guess
from precreg.types import Comparison

# A bound leaves this factor above the largest error of the first measurement. Other machines sum in other orders, which
# moves a maximum by less than 2; a lost conversion moves it by 10 and more (docs/calibrate.md measures both).
MARGIN = 4
# A relative error beyond so many rounding units comes from a result near zero, and an absolute bound describes it.
_MAX_UNITS = 64
# 64 units of bfloat16 are 0.5. A bound of so much allows any result.
_MAX_RELATIVE = 0.05
OracleChoice = Literal["same", "sibling", "own", "golden"]


class StarterSuite(Struct, frozen=True):
    """The contents of a first suite: `bounds` has (rtol, atol) by dtype of the output, None before a measurement."""

    name: str
    about: str
    subject: str | dict[str, Any]
    guess: Guess
    dtypes: tuple[str, ...]
    oracle: OracleChoice = "same"
    reference: str = ""
    bounds: Mapping[str, tuple[float, float]] | None = None
    seeds: int | None = None
    repeats: int | None = None
    deterministic: bool = True
    timeout: int | None = None
    # False keeps every dimension at its first size.
    varies: bool = True
    # Every error was 0: the operations are exact, or the function converts its inputs to a fixed dtype.
    no_error: bool = False
    # Optional arguments with their defaults, which a comment names.
    defaults: tuple[str, ...] = ()


def render_suite(suite: StarterSuite) -> str:
    """Return the text of a suite file, with comments that say what to improve."""
    return "".join(f"{line}\n" for line in _lines(suite))


def _lines(suite: StarterSuite) -> Iterator[str]:
    yield "# precreg init wrote this suite from a first measurement. docs/suites.md explains the keys."
    yield f"suite: {suite.name}"
    if suite.about:
        yield f"about: {json.dumps(suite.about)}"
    yield f"subject: {_flow(_subject(suite))}"
    yield from _oracle_lines(suite)
    if matrix := _matrix(suite):
        yield "matrix:"
        yield from (f"  {name}: {_flow(values)}" for name, values in matrix.items())
    if suite.guess.inputs:
        yield "inputs:"
    for name, each in suite.guess.inputs.items():
        shape = [_dimension(suite, size) for size in each.shape]
        yield f"  {_flow(name)}: {_flow({'shape': shape, 'dtype': each.dtype, **each.values})}"
    if suite.defaults:
        yield f"# These keep their defaults: {', '.join(suite.defaults)}. Give others in params:"
    if suite.guess.params:
        yield f"params: {_flow(suite.guess.params)}"
    for key in ("seeds", "repeats", "timeout"):
        if getattr(suite, key) is not None:
            yield f"{key}: {getattr(suite, key)}"
    if not suite.deterministic:
        yield "deterministic: false  # two runs on the same inputs gave different bits"
    yield from _tolerance_lines(suite)


def _subject(suite: StarterSuite) -> str | dict[str, Any]:
    """Return the subject, without the dtype of its weights if no input follows the dtype of the matrix."""
    if isinstance(suite.subject, str) or suite.guess.has_dtype:
        return suite.subject
    return {key: value for key, value in suite.subject.items() if value != "$dtype"}


def _oracle_lines(suite: StarterSuite) -> Iterator[str]:
    if suite.oracle == "own":  # torch and ONNX compute their own reference in float64
        return
    if suite.oracle == "sibling":
        yield f"reference: {_flow(suite.reference)}  # called on the same inputs in a wider dtype"
        return
    yield "# The reference is the same function on wider inputs (float64), so it repeats an error of the formula."
    yield "# A better one computes the same in another way. Write it beside the function, and name it here:"
    yield f"#   reference: {suite.reference}_exact"
    if suite.no_error:
        yield "# All errors are 0 here: the operations are exact, or the function converts its inputs to one dtype."
        yield "# In the second case this reference shows nothing, and you need the better one."
    yield f"reference: {_flow(suite.reference)}"


def _tolerance_lines(suite: StarterSuite) -> Iterator[str]:
    if suite.bounds is None:
        yield "tolerance: none"
        return
    if suite.bounds:
        yield f"# About {MARGIN} times the largest errors of the first measurement. The baseline judges more sharply."
        yield "tolerance:"
    for dtype, (rtol, atol) in suite.bounds.items():
        yield f"  {dtype}: {{rtol: {rtol:.0e}, atol: {atol:.0e}}}"


def _matrix(suite: StarterSuite) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {"dtype": [*suite.dtypes]} if suite.guess.has_dtype else {}
    if suite.varies and (name := suite.guess.varied) is not None:
        found[_parameter(suite, name)] = [*suite.guess.sizes[name]]
    return found


def _dimension(suite: StarterSuite, size: str | int) -> str | int:
    if isinstance(size, int):
        return size
    return f"${_parameter(suite, size)}" if suite.varies and size == suite.guess.varied else suite.guess.sizes[size][0]


def _parameter(suite: StarterSuite, dimension: str) -> str:
    """Return the name of a dimension in the matrix, where an argument or the key `dtype` may have the name already."""
    taken = {*suite.guess.inputs, *suite.guess.params, "dtype", "shape"}
    return f"{dimension}_size" if dimension in taken else dimension


def _flow(value: Any) -> str:
    """Write a value as YAML on one line."""
    import yaml

    text = yaml.safe_dump(value, default_flow_style=True, width=10**6, sort_keys=False)
    return text.removesuffix("...\n").strip()


def first_bounds(comparisons: Iterable[Comparison], *, deterministic: bool = True) -> dict[str, tuple[float, float]]:
    """Return (rtol, atol) by dtype of the outputs, for floating dtypes alone: other outputs have to be equal.

    A function whose bits differ from run to run gets absolute bounds: its next run may meet a result near 0.
    """
    by_dtype: dict[str, list[Comparison]] = {}
    for each in comparisons:
        by_dtype.setdefault(each.dtype, []).append(each)
    bounds = _bounds if deterministic else _absolute_bounds
    return {dtype: bounds(dtype, found) for dtype, found in by_dtype.items() if rounding_unit(dtype)}


def rounding_unit(dtype: str) -> float:
    """Return the distance from 1 to the next number of a floating dtype; 0 for another dtype."""
    from ml_dtypes import finfo

    try:
        found: Any = numpy_dtype(dtype)
        return 0.0 if found.kind in "iub" else float(finfo(found).eps)  # type: ignore[no-untyped-call]
    except (TypeError, ValueError):  # complex and structured dtypes
        return 0.0


def _bounds(dtype: str, comparisons: Sequence[Comparison]) -> tuple[float, float]:
    relative, unit = _largest(comparisons, "max_rel_error"), rounding_unit(dtype)
    if relative > min(_MAX_UNITS * unit, _MAX_RELATIVE):
        return round_up(MARGIN * unit), round_up(MARGIN * _largest(comparisons, "max_abs_error"))
    # The absolute bound is for results whose reference is 0.
    absolute = max(_largest(comparisons, "max_abs_error"), unit * _largest(comparisons, "max_magnitude"), 1e-30)
    return round_up(MARGIN * max(relative, unit)), round_up(unit * absolute)


def _absolute_bounds(dtype: str, comparisons: Sequence[Comparison]) -> tuple[float, float]:
    unit = rounding_unit(dtype)
    absolute = max(_largest(comparisons, "max_abs_error"), unit * _largest(comparisons, "max_magnitude"), 1e-30)
    return round_up(MARGIN * unit), round_up(MARGIN * absolute)


def _largest(comparisons: Sequence[Comparison], metric: str) -> float:
    return max((each.metrics.get(metric, 0.0) for each in comparisons), default=0.0)


def round_up(value: float) -> float:
    """Return the smallest number of one significant digit that is not below a positive value."""
    from decimal import ROUND_CEILING, Decimal

    exact = Decimal(value)
    return float(exact.quantize(Decimal(1).scaleb(exact.adjusted()), rounding=ROUND_CEILING))
