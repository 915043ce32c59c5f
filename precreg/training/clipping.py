"""What does clipping do to the gradients: how many steps, in which direction, before or after unscaling?

A limit on the global norm only shortens a step's gradient. Over several steps it changes the direction of their sum,
because it shortens some steps more than others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import isfinite, sqrt
from typing import Any, NamedTuple

import numpy as np

from precreg.arithmetic import FORMATS
from precreg.storage import Array
from precreg.training.gradients import StepGradients
from precreg.training.magnitudes import CHUNK_ELEMENTS, Floats
from precreg.types import CLIP_KINDS, ClipEffect, ClipKind, ClippedBeforeUnscale, ClippedStep, ClippingSweep

# Limits that clip 9 of 10 steps, half of them, 1 of 4, and 1 of 10.
_QUANTILES = (0.1, 0.5, 0.75, 0.9)
# 2**16 elements of 1,000 steps take 256 MiB as float32.
KEPT_ELEMENTS = 2**16


class _Step(NamedTuple):
    """Hold the norms of a step by parameter, its largest element, and its kept elements by parameter."""

    norms: dict[str, float]
    largest: float
    kept: dict[str, Array]


class ClippingGauge:
    """Keep the norms of each step, and some of its elements, and find the effects of limits in the end.

    Norms are of all elements. The direction of a sum needs elements of all steps. Of each parameter the same share is
    kept, at most `kept` elements of a step in all, at the same pseudo-random places in every step.
    """

    def __init__(self, norms: Iterable[float] = (), values: Iterable[float] = (), *, kept: int = KEPT_ELEMENTS) -> None:
        """Prepare for limits of the user on norms and values. Quantiles of the observed sizes are added."""
        self._limits: dict[ClipKind, tuple[float, ...]] = {
            "global_norm": tuple(norms := tuple(norms)),
            "parameter_norm": norms,
            "value": tuple(values),
        }
        self._kept = kept
        self._share: float | None = None
        self._sizes: dict[str, int] = {}
        self._places: dict[str, Any] = {}
        self._steps: list[_Step] = []
        self._not_measured: dict[str, None] = {}
        self._nonfinite_steps = 0

    def add(self, gradients: StepGradients) -> None:
        """Measure the gradients of one step."""
        arrays = {name: np.asarray(each).reshape(-1) for name, each in gradients.arrays.items()}
        measured = {name: each for name, each in arrays.items() if each.dtype.name in FORMATS}
        self._not_measured |= dict.fromkeys(name for name in arrays if name not in measured)
        if self._share is None and measured:
            self._share = min(1.0, self._kept / max(1, sum(each.size for each in measured.values())))
        sizes = {name: _sizes(values) for name, values in measured.items()}
        if not all(isfinite(norm) for norm, _ in sizes.values()):
            self._nonfinite_steps += 1
            return
        kept = {name: self._keep(name, values) for name, values in measured.items()}
        largest = max((size for _, size in sizes.values()), default=0.0)
        self._steps.append(_Step({name: norm for name, (norm, _) in sizes.items()}, largest, kept))

    def _keep(self, name: str, values: Array) -> Array:
        if name not in self._places:
            self._sizes[name] = values.size
            count = max(1, int(values.size * (self._share or 1.0)))
            # Every n-th element could follow the rows of a matrix.
            drawn = np.random.default_rng(values.size).integers(0, max(values.size, 1), count)
            self._places[name] = slice(None) if count >= values.size else drawn
        kept: Array = values[self._places[name]].astype(np.float64 if values.dtype == np.float64 else np.float32)
        return kept

    def result(self) -> ClippingSweep:
        """Return the effects of each limit on the steps so far."""
        rows = [[step.norms.get(name, 0.0) for name in self._sizes] for step in self._steps]
        norms = np.array(rows).reshape(len(rows), len(self._sizes))
        matrices = [self._matrix(name) for name in self._sizes]
        sizes: dict[ClipKind, Sequence[float]] = {
            "global_norm": np.sqrt(np.square(norms).sum(axis=-1)).tolist(),
            # Norms of parameters differ by orders of magnitude, so that their quantiles fit none of them.
            "parameter_norm": [],
            "value": [step.largest for step in self._steps],
        }
        effects = [
            self._effect(kind, limit, quantile, norms, matrices)
            for kind in CLIP_KINDS
            for limit, quantile in _limits(sizes[kind], self._limits[kind])
        ]
        return ClippingSweep(
            steps=len(self._steps) + self._nonfinite_steps,
            nonfinite_steps=self._nonfinite_steps,
            elements=sum(self._sizes.values()),
            measured=sum(matrix.shape[1] for matrix in matrices),
            norms=tuple(sizes["global_norm"]),
            effects=tuple(effects) if self._steps else (),
            not_measured=tuple(self._not_measured),
        )

    def _matrix(self, name: str) -> Floats:
        """Return the kept elements of a parameter, one row for each step; zeros in a step without a gradient."""
        width = next(step.kept[name].size for step in self._steps if name in step.kept)
        empty = np.zeros(width)
        return np.array([step.kept.get(name, empty) for step in self._steps], dtype=np.float64)

    def _effect(
        self, kind: ClipKind, limit: float, quantile: float | None, norms: Floats, matrices: Sequence[Floats]
    ) -> ClipEffect:
        if kind == "value":
            clipped = [np.clip(matrix, -limit, limit) for matrix in matrices]
            changed = [step.largest > limit for step in self._steps]
            cosines = _row_cosines(clipped, matrices)
        else:
            factors = _factors(kind, limit, norms)
            clipped = [factors[:, [place]] * matrix for place, matrix in enumerate(matrices)]
            changed = [bool((row < 1).any()) for row in factors]
            # Exact from the norms alone, since each parameter keeps its direction.
            cosines = _cosines((factors * norms**2).sum(1), ((factors * norms) ** 2).sum(1), (norms**2).sum(1))
        cosine, length = _compare_sums(clipped, matrices)
        known = cosines[np.isfinite(cosines)]
        return ClipEffect(
            kind=kind,
            limit=limit,
            quantile=quantile,
            clipped_steps=sum(changed),
            step_cosine=float(known.mean()) if known.size else None,
            least_cosine=float(known.min()) if known.size else None,
            sum_cosine=cosine,
            sum_length=length,
        )


def sweep_clipping(
    steps: Iterable[StepGradients],
    norms: Iterable[float] = (),
    values: Iterable[float] = (),
    *,
    kept: int = KEPT_ELEMENTS,
) -> ClippingSweep:
    """Find the effects of limits on norms and values, over steps that are read one at a time."""
    gauge = ClippingGauge(norms, values, kept=kept)
    for gradients in steps:
        gauge.add(gradients)
    return gauge.result()


def find_clipped_before_unscale(steps: Iterable[ClippedStep]) -> ClippedBeforeUnscale | None:
    """Return the fact that gradients were clipped while they still had the loss scale; None if none were.

    A scale of 1 changes nothing, so it is no such fact.
    """
    found = list(steps)
    scaled = [step for step in found if step.is_scaled and step.scale != 1]
    if not scaled:
        return None
    effective = [step.limit / step.scale for step in scaled]
    return ClippedBeforeUnscale(
        clippings=len(found),
        scaled=len(scaled),
        first_step=min(step.step for step in scaled),
        limit=max(step.limit for step in scaled),
        effective_least=min(effective),
        effective_greatest=max(effective),
        clipped=sum(step.norm > step.limit for step in scaled),
        clipped_after=sum(step.norm / step.scale > step.limit for step in scaled),
    )


def _sizes(values: Array) -> tuple[float, float]:
    """Return the norm and the largest magnitude; an infinite norm if a square overflows float64."""
    squares, largest = 0.0, 0.0
    for begin in range(0, values.size, CHUNK_ELEMENTS):
        wide = values[begin : begin + CHUNK_ELEMENTS].astype(np.float64)
        with np.errstate(over="ignore"):
            # A product by BLAS would start threads for each chunk.
            squares += float(np.square(wide).sum())
        largest = max(largest, float(np.abs(wide).max()))
    return sqrt(squares), largest


def _limits(sizes: Sequence[float], given: Sequence[float]) -> Iterator[tuple[float, float | None]]:
    """Yield the limits and their quantiles; None for a limit of the user."""
    yield from ((limit, None) for limit in dict.fromkeys(given))
    if sizes:
        quantiles = zip(np.quantile(sizes, _QUANTILES).tolist(), _QUANTILES, strict=True)
        yield from ((limit, quantile) for limit, quantile in quantiles if limit > 0)


def _factors(kind: ClipKind, limit: float, norms: Floats) -> Floats:
    """Return by step and parameter the factor, at most 1, that shortens the gradient to the limit."""
    lengths = norms if kind == "parameter_norm" else np.sqrt(np.square(norms).sum(axis=1, keepdims=True))
    with np.errstate(divide="ignore"):
        factors: Floats = np.minimum(1.0, limit / lengths) * np.ones_like(norms)
    return factors


def _cosines(products: Floats, first: Floats, second: Floats) -> Floats:
    """Return cosines from inner products and squares of lengths; NaN where a length is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines: Floats = _snapped(products / np.sqrt(first) / np.sqrt(second))
    return cosines


def _snapped(cosines: Any) -> Any:
    # Sums in float64 leave some 1e-15, which would show a limit on a global norm as if it turned the gradient.
    return np.where(cosines > 1 - 1e-12, 1.0, cosines)


def _row_cosines(clipped: Sequence[Floats], unclipped: Sequence[Floats]) -> Floats:
    pairs = ((clipped, unclipped), (clipped, clipped), (unclipped, unclipped))
    inner = [
        np.sum([np.einsum("ij,ij->i", one, other) for one, other in zip(ones, others, strict=True)], axis=0)
        for ones, others in pairs
    ]
    return _cosines(*inner)


def _compare_sums(clipped: Sequence[Floats], unclipped: Sequence[Floats]) -> tuple[float | None, float | None]:
    """Return the cosine between the sums over all steps, and the ratio of their lengths; None where a sum is 0."""
    ours = np.concatenate([each.sum(axis=0) for each in clipped])
    theirs = np.concatenate([each.sum(axis=0) for each in unclipped])
    lengths = float(np.linalg.norm(ours)), float(np.linalg.norm(theirs))
    if not all(lengths):
        return None, None
    return float(_snapped(ours @ theirs / lengths[0] / lengths[1])), lengths[0] / lengths[1]
