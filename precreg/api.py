"""Measure two arrays, or the layers of a module, from Python: without a project and without a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from precreg.arithmetic import dtype_name
from precreg.errors import UserError
from precreg.measure import compare_arrays as measured
from precreg.subject import is_tensor, tensor_to_array
from precreg.tolerance import SHIPPED_STANDARD, DtypeLimits, find_standard, limit_problem
from precreg.types import Comparison

if TYPE_CHECKING:
    from precreg.shadow.monitor import Monitor


def compare(
    actual: ArrayLike,
    reference: ArrayLike,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    standard: str | None = None,
    analyzers: Sequence[str] = (),
    threads: int | None = None,
    worst: int = 100,
) -> Comparison:
    """Measure how far `actual` is from `reference`, which is the same in the same or in higher precision.

    Args:
        actual: the result under test: an array of any shape, dtype and layout, a tensor, or input of numpy.asarray.
        reference: an array of the same shape; its dtype may be wider. Nothing is broadcast.
        rtol: relative tolerance: an element matches if |a - r| <= atol + rtol * |r|.
        atol: absolute tolerance, in the unit of the values. rtol and atol default to those of `standard` for the
            actual's dtype, or to the shipped standard's if `standard` does not list the dtype.
        standard: the name of a published standard (docs/standards.md). Only its rtol, atol and regions apply, because
            a measurement needs no bounds.
        analyzers: names of installed analyzers (docs/analyzers.md) that also measure the arrays.
        threads: the number of threads for large arrays; it changes no bit. None leaves the number to precreg.
        worst: the number of positions with the largest errors to name.

    Returns:
        Measurements without judgement: `metrics` and `counts` by name (docs/metrics.md has units and formulas), `worst`
        and `non_finite` positions, and a histogram of errors. Arrays of different shapes have no metrics.

    Raises:
        UserError: bad-value or unknown-dtype for arrays of other things than numbers or with masked elements;
            unknown-standard; unknown-analyzer, bad-analyzer, analyzer-failed.
    """
    a, r = _as_array("actual", actual), _as_array("reference", reference)
    of_standard = _measuring_limits(a.dtype, _check_name(standard))
    rtol = of_standard.bounds["rtol"] if rtol is None else _check_limit("rtol", rtol)
    atol = of_standard.bounds["atol"] if atol is None else _check_limit("atol", atol)
    comparison = measured(a, r, rtol=rtol, atol=atol, worst=worst, threads=threads, regions=of_standard.regions)
    if not analyzers:
        return comparison
    if isinstance(analyzers, str):
        raise UserError("bad-value", f"expected a list of names but got analyzers={analyzers!r}")
    from precreg.measure import add_analyzer_metrics  # most callers have no analyzers

    return add_analyzer_metrics(comparison, a, r, analyzers, threads or 1)


def monitor(model: Any, layers: Sequence[str] | None = None, *, every: int = 10, keep: int = 1000) -> Monitor:
    """Return a monitor that measures the layers of a module of torch at every Nth step; docs/monitor.md has examples.

    It starts with a `with` block, or with `start()`, and changes no bit of the module's results.

    Args:
        model: a torch.nn.Module that you train or use. Each call of it is a step.
        layers: patterns of names of layers, such as ["layer4.*"], where * matches dots, too. None takes the layers
            that have no layers inside.
        every: sample the first step, and every Nth after it. Other steps cost next to nothing.
        keep: the number of sampled steps to keep; the oldest make room for later ones.

    Raises:
        UserError: bad-value; unknown-node for a pattern without a layer; unmonitored-module for a compiled or parallel
            module, or one of TorchScript.
    """
    # With torch, and only for those who monitor.
    from precreg.report import render_monitor_html
    from precreg.shadow.monitor import Monitor

    return Monitor(model, layers, every, keep, render_monitor_html)


def _as_array(name: str, given: ArrayLike) -> np.ndarray[Any, np.dtype[Any]]:
    if type(given) is np.ndarray:  # most calls: no subclass, whose mask or unit would need a look
        return given
    if is_tensor(given):
        return tensor_to_array(given, name, "bad-value")
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        raise UserError("bad-value", f"expected no masked elements but got a mask: {name}.filled() has none")
    try:
        return np.asarray(given)
    except ValueError as problem:
        raise UserError("bad-value", f"expected what numpy makes an array of but got {name}: {problem}") from problem


def _check_name(standard: str | None) -> str | None:
    if standard is not None and not isinstance(standard, str):
        raise UserError("bad-value", f"expected a name such as 'flaggems-1:reduced=768' but got standard={standard!r}")
    return standard


def _check_limit(key: str, given: float) -> float:
    if expected := limit_problem(key, float(given)):
        raise UserError("bad-value", f"expected {expected} but got {key}={given}")
    return float(given)


@lru_cache(maxsize=256)
def _measuring_limits(dtype: np.dtype[Any], standard: str | None) -> DtypeLimits:
    """Return rtol, atol and regions of a standard for a dtype; the shipped standard fills the gaps."""
    shipped, asked = (_standard_limits(name or SHIPPED_STANDARD, dtype) for name in (SHIPPED_STANDARD, standard))
    return DtypeLimits({**shipped.bounds, **asked.bounds}, regions=asked.regions)


def _standard_limits(standard: str, dtype: np.dtype[Any]) -> DtypeLimits:
    return find_standard(standard).limits(dtype_name(dtype)) or DtypeLimits()
