"""How closely does a rewritten computation give the result to explain?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic import format_of
from precreg.run import Arrays
from precreg.types import Evidence

# Below this rest a rewrite explains nearly all of the errors, although its bits differ: the rest is the rounding of
# another order of operations.
NEARLY_ALL = 0.1
# Up to this rest a rewrite explains most of the errors: it leaves less than a half of their root mean square.
MOST = 0.5


# Two roundings, of the ORDINARY_ROUNDINGS that no rewrite has to explain: less than that has no cause at all.
_CORRECT_PART = 0.25


class ErrorToExplain(NamedTuple):
    """Hold the result to explain and the result of the unaltered base, by output, with equal shapes.

    `ordinary` is the 2-norm of ordinary rounding in an output, which no rewrite has to explain; 0 by default.
    """

    target: Arrays
    base: Arrays
    ordinary: Mapping[str, float] = {}

    @property
    def is_ordinary(self) -> bool:
        """Return whether ordinary rounding is all that there is to explain."""
        if self.differing == 0 or not self.ordinary:
            return False
        errors = {name: _norm(_errors(self.target[name], self.base[name])) for name in self.target}
        return all(error <= _CORRECT_PART * self.ordinary.get(name, 0.0) for name, error in errors.items())

    def size(self, name: str) -> float:
        """Return the 2-norm of an output's error, at least the norm of ordinary rounding."""
        return max(_norm(_errors(self.target[name], self.base[name])), self.ordinary.get(name, 0.0))

    @property
    def differing(self) -> int:
        """Return the number of elements that differ."""
        return sum(int(np.count_nonzero(~same_numbers(self.target[name], self.base[name]))) for name in self.target)


def error_to_explain(target: Arrays, base: Arrays) -> ErrorToExplain:
    """Pair outputs that have one name and shape, and round the base's to the dtype of the result to explain.

    A reference may compute in a wider dtype than the subject. Complex and integer outputs are compared as they are.
    """
    paired = [name for name in target if name in base and target[name].shape == base[name].shape]
    return ErrorToExplain({name: target[name] for name in paired}, rounded_to(base, target, paired))


def rounded_to(arrays: Arrays, like: Arrays, names: list[str]) -> Arrays:
    """Return named arrays in the dtypes of others."""
    with np.errstate(all="ignore"):
        return {name: arrays[name].astype(like[name].dtype, copy=False) for name in names}


def same_numbers(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.bool_]:
    """Return the elements that are equal numbers, or both NaN."""
    same: NDArray[np.bool_] = (first == second) | ((first != first) & (second != second))
    return same


class _OutputRest(NamedTuple):
    """Hold one output's error before and after a rewrite, over the size of errors, and the correlation of both."""

    before: float
    rest: float
    product: float


# Roundings of a computation that no rewrite has to explain, in units of roundoff of the output.
ORDINARY_ROUNDINGS = 8


def with_ordinary_rounding(error: ErrorToExplain) -> ErrorToExplain:
    """Return an error between a subject and an exact result, which ordinary rounding makes in every output."""
    found = {}
    for name, target in error.target.items():
        format = format_of(target.dtype.name)
        if format is not None:
            exact = _errors(error.base[name], np.zeros_like(error.base[name]))
            found[name] = ORDINARY_ROUNDINGS * format.unit_roundoff * _norm(exact)
    return error._replace(ordinary=found)


def measure_evidence(error: ErrorToExplain, rewritten: Arrays) -> Evidence:
    """Compare the result of a rewrite with the result to explain, over all outputs.

    Each output with an error counts the same, whatever its scale. An output that only the rewrite changes counts as
    not explained.
    """
    names = [name for name in error.target if _is_comparable(error.target[name], rewritten.get(name))]
    if len(names) < len(error.target):
        return Evidence(_elements(error.target), 0, error.differing, 0, remaining=float("inf"))
    rounded = rounded_to(rewritten, error.target, names)
    reproduced = explained = differing = nearer = 0
    rests = []
    for name in names:
        target, base, made = error.target[name], error.base[name], rounded[name]
        same, unchanged = same_numbers(target, made), same_numbers(target, base)
        reproduced += int(np.count_nonzero(same))
        differing += int(np.count_nonzero(~unchanged))
        explained += int(np.count_nonzero(same & ~unchanged))
        nearer += int(np.count_nonzero(~unchanged & _is_nearer(target, base, made)))
        if not (same & unchanged).all():
            rests.append(_rest_of(error.ordinary.get(name, 0.0), target, base, made))
    return Evidence(
        elements=_elements(error.target),
        reproduced=reproduced,
        differing=differing,
        explained=explained,
        nearer=nearer,
        correlation=_correlation(rests),
        remaining=_remaining(rests),
    )


def removed_share(error: ErrorToExplain, made: Arrays) -> float:
    """Return the part of the errors that a computation removes, 0 to 1, as the mean over the outputs.

    The target of `error` is the accepted result, and its base the failing one. The part of an output is 1 minus the
    root mean square of the rest over that of the error.
    """
    shares = []
    for name, target in error.target.items():
        base, found = error.base[name], made.get(name)
        if found is None or found.shape != target.shape:
            shares.append(0.0)
        elif not (same_numbers(target, base) & same_numbers(target, found)).all():
            rounded = rounded_to(made, error.target, [name])[name]
            # In each output by itself: where errors grow without end, the rest says nothing about the outputs before.
            shares.append(min(1.0, max(0.0, 1 - _rest_of(error.ordinary.get(name, 0.0), target, base, rounded).rest)))
    return float(np.mean(shares)) if shares else 0.0


def _is_nearer(target: NDArray[Any], base: NDArray[Any], made: NDArray[Any]) -> NDArray[np.bool_]:
    """Return the elements whose error a rewrite at least halves."""
    kind = np.complex128 if target.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        wanted = np.abs(target.astype(kind) - base.astype(kind))
        left = np.abs(target.astype(kind) - made.astype(kind))
    # A NaN or infinity in the place of a number is nearer only if it is the same.
    found: NDArray[np.bool_] = same_numbers(target, made) | (left <= 0.5 * wanted) & np.isfinite(wanted)
    return found


def _is_comparable(target: NDArray[Any], made: NDArray[Any] | None) -> bool:
    return made is not None and made.shape == target.shape


def _elements(arrays: Arrays) -> int:
    return sum(array.size for array in arrays.values())


def _rest_of(ordinary: float, target: NDArray[Any], base: NDArray[Any], made: NDArray[Any]) -> _OutputRest:
    """Compare two errors against one base, the target's and the rewrite's, over the size of `ErrorToExplain.size`."""
    wanted, found = _errors(target, base), _errors(made, base)
    left, sizes = _norm(_errors(target, made)), (_norm(wanted), _norm(found))
    size = max(sizes[0], ordinary)
    if size == 0:
        # Errors that only the rewrite has: nothing was wrong in this output.
        return _OutputRest(0.0, float(left > 0), 0.0)
    product = float(np.sum((wanted / sizes[0]) * (found / sizes[1]))) if min(sizes) > 0 else 0.0
    return _OutputRest(sizes[0] / size, left / size, product)


def _remaining(rests: list[_OutputRest]) -> float:
    """Return the ratio of the remaining to the original error, by root mean squares over outputs."""
    before = sum(each.before**2 for each in rests)
    left = sum(each.rest**2 for each in rests)
    if before == 0:
        return float("inf") if left else 0.0
    return float((left / before) ** 0.5)


def _errors(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.float64]:
    """Return the differences of two arrays in float64, flat.

    A pair in which one side is not finite has the largest finite difference instead, or 1 without one.
    """
    with np.errstate(all="ignore"):
        kind = np.complex128 if first.dtype.kind == "c" else np.float64
        difference = first.astype(kind) - second.astype(kind)
        flat = np.asarray(difference).reshape(-1)
        parts: NDArray[np.float64] = flat.view(np.float64).copy()
        same = np.repeat(same_numbers(first, second).reshape(-1), 2 if kind is np.complex128 else 1)
        parts[same] = 0.0
        finite = np.isfinite(parts)
        if not finite.all():
            largest = float(np.abs(parts[finite]).max(initial=0.0))
            parts[~finite] = np.where(np.signbit(parts[~finite]), -1.0, 1.0) * (largest or 1.0)
    return parts


def _norm(errors: NDArray[np.float64]) -> float:
    # Scaled, because squares of large numbers overflow and of small ones vanish.
    largest = float(np.abs(errors).max(initial=0.0))
    return 0.0 if largest == 0 else largest * float(np.sqrt(np.sum((errors / largest) ** 2)))


def _correlation(rests: list[_OutputRest]) -> float:
    # Rounding leaves a product of equal vectors an ULP above 1.
    return min(1.0, float(np.mean([each.product for each in rests]))) if rests else 1.0


def changes_something(error: ErrorToExplain, rewritten: Arrays) -> bool:
    """Return whether a rewrite changes an element of an output."""
    return any(not same_numbers(error.base[name], rewritten[name]).all() for name in error.base)


def scaled_errors(error: ErrorToExplain, rewritten: Arrays) -> NDArray[np.float64]:
    """Return the errors of a result against the base over all outputs, each over the size of the error to explain."""
    parts = []
    for name in error.target:
        size = error.size(name)
        if size > 0:
            parts.append(_errors(rewritten[name], error.base[name]) / size)
    return np.concatenate(parts) if parts else np.zeros(0)


def is_exact(evidence: Evidence) -> bool:
    """Return whether a rewrite reproduces every element of the result to explain."""
    return evidence.differing > 0 and evidence.reproduced == evidence.elements


def strength(evidence: Evidence) -> tuple[bool, float]:
    """Return a key that sorts evidence, the strongest first: all bits, then the smallest rest of the errors."""
    return not is_exact(evidence), evidence.remaining
