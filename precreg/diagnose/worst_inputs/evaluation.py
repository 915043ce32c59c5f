"""How large is the error of each trial, when the subject and its reference run on many trials at once?

One call computes as many trials as the inputs have independent parts: elements, rows or columns. `find_layout` learns
these parts by experiment: it replaces some trials, and the other results must keep their bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic import COMPLEX_PARTS, FORMATS, dtype_name, round_to, ulp
from precreg.diagnose.worst_inputs.domain import Domain
from precreg.errors import UserError
from precreg.run import (
    Arrays,
    arithmetic_of,
    array_digests,
    draw_inputs,
    missing_requirement,
    run_oracle,
    run_subject_once,
    suite_folder,
)
from precreg.subject import Call, CaseFailed, blame_failures, is_recorded
from precreg.tolerance import resolve_tolerance
from precreg.types import Case, Failure, Reason, case_chain

Errors = NDArray[np.float64]


class Results(NamedTuple):
    """The outputs of the subject and of the reference, and the errors of each real output by element."""

    actual: Arrays
    exact: Arrays
    errors: dict[str, Errors]


class CaseEvaluator:
    """Runs the subject of a case and its reference on given inputs."""

    def __init__(self, case: Case, project: Path, metric: str, chain: tuple[str, ...]) -> None:
        """Take a case, one of SEARCH_METRICS, and the labels of the environment."""
        self.case, self.project, self.metric = case, project, metric
        self.chain, self._tolerances = case_chain(chain, {}), dict[tuple[str, str], tuple[float, float]]()
        self.directory = suite_folder(project, case.directory)
        self.failed_calls, self.failure = 0, ""

    def draw(self, seed: int) -> Arrays:
        """Return the inputs of a seed, which may be changed. Raises UserError for files."""
        drawn = draw_inputs(self.case, seed, self.directory, self.project)
        return {name: np.array(array, order="C") for name, array in drawn.items()}

    def evaluate(self, inputs: Arrays) -> Results:
        """Return the results on inputs, which stay as they are. Raises CaseFailed, as user code fails."""
        call = Call(inputs, self.case.params, self.directory, self.project, arithmetic_of(self.case, self.project))
        with blame_failures(Reason.SUBJECT_ERROR):
            actual = run_subject_once(self.case, call).arrays
        with blame_failures(Reason.REFERENCE_ERROR):
            exact = run_oracle(self.case, [0], [inputs], self.directory, self.project).outputs[0]
        return Results(actual, exact, dict(self._errors(actual, exact)))

    def _errors(self, actual: Arrays, exact: Arrays) -> Iterator[tuple[str, Errors]]:
        for name, array in actual.items():
            judged = exact.get(name)
            if judged is not None and judged.shape == array.shape and _is_floating(array):
                yield name, element_errors(array, judged, self.metric, self._allowance(name, array))

    def _allowance(self, output: str, array: NDArray[Any]) -> tuple[float, float]:
        """Return rtol and atol of an output."""
        dtype = dtype_name(array.dtype)
        if (output, dtype) not in self._tolerances:
            resolved = resolve_tolerance(self.case.layers, output, dtype, self.chain)
            self._tolerances[output, dtype] = (resolved.rtol.limit, resolved.atol.limit)
        return self._tolerances[output, dtype]

    def share_of_tolerance(self, results: Results) -> float:
        """Return the largest |error| / (atol + rtol |exact|) over all outputs."""
        shares = (
            element_errors(
                results.actual[name], results.exact[name], "tolerance", self._allowance(name, results.actual[name])
            )
            for name in results.errors
        )
        return max((float(share.max(initial=0.0)) for share in shares), default=0.0)

    def try_evaluate(self, inputs: Arrays) -> Results | None:
        """Return the results on inputs, or None if the subject or its reference fails on them; failures are counted."""
        try:
            return self.evaluate(inputs)
        except CaseFailed as failed:
            self.failed_calls += 1
            self.failure = self.failure or failed.failure.message
            return None

    def start(self, seed: int, domains: Sequence[Domain] = ()) -> tuple[Arrays, Results]:
        """Return the inputs of a seed, moved into their domains, with their results.

        The results show whether a search can judge the case.
        Raises UserError: search-failed if the subject or its reference fails, unsearchable.
        """
        try:
            with blame_failures(Reason.SUBJECT_ERROR):
                drawn = self.draw(seed)
            # A declared range may be narrower than the distribution.
            inputs = {**drawn, **{domain.name: domain.admit(drawn[domain.name]) for domain in domains}}
            first = self.evaluate(inputs)
            second = self.evaluate(inputs)
        except CaseFailed as failed:
            raise _start_error(self.case, seed, failed.failure) from None
        require_judged(self.case, first)
        if array_digests(first.actual) != array_digests(second.actual):
            message = f"expected a subject that repeats its bits but two runs of {self.case.id} at seed {seed} differ"
            raise UserError("unsearchable", message)
        return inputs, first


def _start_error(case: Case, seed: int, failure: Failure) -> UserError:
    if failure.reason is Reason.UNAVAILABLE:
        return UserError("unsearchable", f"expected a case that can run here but {case.id} {failure.message}")
    lines = failure.detail.splitlines()
    traceback = "".join(f"\n  {line}" for line in lines) if lines and lines[0].startswith("Traceback") else ""
    message = f"expected {case.id} to return arrays at seed {seed} but it failed: {failure.message}{traceback}"
    return UserError("search-failed", message)


def require_searchable(case: Case, chain: tuple[str, ...]) -> None:
    """Refuse a case without a subject to run, or without a reference, or that cannot run. Raises UserError."""
    if is_recorded(case.subject) or case.subject.kind == "table" or not case.inputs:
        raise UserError("unsearchable", f"expected a subject that computes from inputs but {case.id} has none")
    if case.role == "golden":
        expected = "expected a reference in higher precision"
        raise UserError("unsearchable", f"{expected} but {case.id} has a golden, whose rounding is its own")
    absent = [reason for needed in case.requires if (reason := missing_requirement(needed, chain))]
    if absent:
        raise UserError("unsearchable", f"expected a case that can run here but {case.id} {'; '.join(absent)}")


def require_judged(case: Case, results: Results) -> None:
    """Refuse outputs without an error that a wider reference measures. Raises UserError (unsearchable)."""
    if not any(errors.size for errors in results.errors.values()):
        shown = ", ".join(f"{name} of {dtype_name(array.dtype)}" for name, array in results.actual.items())
        expected = "expected a floating output with the shape of the reference's"
        raise UserError("unsearchable", f"{expected} but {case.id} gives {shown or 'none'}")
    for name in results.errors:
        own, judge = (dtype_name(arrays[name].dtype) for arrays in (results.actual, results.exact))
        if _precision(judge) <= _precision(own):
            message = f"expected a reference wider than {own} but that of {case.id} gives {name} in {judge}"
            raise UserError("unsearchable", message, hint="write reference_dtype: longdouble")


def _precision(dtype: str) -> int:
    part = COMPLEX_PARTS.get(dtype, dtype)
    return FORMATS[part].precision if part in FORMATS else int(np.finfo(np.longdouble).nmant) + 1


def _is_floating(array: NDArray[Any]) -> bool:
    name = dtype_name(array.dtype)
    return COMPLEX_PARTS.get(name, name) in FORMATS


@np.errstate(all="ignore")
def element_errors(
    actual: NDArray[Any], exact: NDArray[Any], metric: str, allowance: tuple[float, float] = (0.0, 0.0)
) -> Errors:
    """Return the error of each element in the unit of a metric, as docs/metrics.md defines its maximum.

    `allowance` has rtol and atol, for the metric "tolerance": |error| / (atol + rtol |exact|).
    A value that is finite on one side alone is an infinite error. Exact values beyond the dtype count as the infinity
    to which they round. A zero has no relative error: it counts as 0.
    """
    name = dtype_name(actual.dtype)
    format = FORMATS[COMPLEX_PARTS.get(name, name)]
    wide = np.result_type(exact.dtype, np.complex128 if np.iscomplexobj(actual) else np.float64)
    a, r = actual.astype(wide), exact.astype(wide)
    size = np.abs(r).astype(np.float64)
    rounded = round_to(size, format)
    # In the precision of the reference up to the quotient: float64 has no number for the error of a subnormal.
    errors = np.abs(a - r)
    if metric == "max_ulp":
        errors = np.where(errors == 0.0, 0.0, errors / ulp(size, format))
    elif metric == "max_rel_error":
        errors = np.where((errors == 0.0) | (r == 0.0), 0.0, errors / np.abs(r))
    elif metric == "tolerance":
        errors = np.where(errors == 0.0, 0.0, errors / (allowance[1] + allowance[0] * np.abs(r)))
    both_finite = np.isfinite(np.abs(a)) & np.isfinite(rounded)
    # Formats without infinities may overflow to NaN.
    infinite = np.isinf(np.abs(a)) & np.isinf(rounded) & (np.sign(a) == np.sign(r))
    agree = (a == r) | infinite | (np.isnan(a) & np.isnan(rounded))
    found: Errors = np.where(both_finite, errors, np.where(agree, 0.0, np.inf)).astype(np.float64)
    # An error below the smallest number of float64 is an error, as it is in a run.
    found = np.where((found == 0.0) & both_finite & (errors > 0.0), np.finfo(np.float64).smallest_subnormal, found)
    return np.where(np.isnan(found), np.inf, found)


class Layout(NamedTuple):
    """The independent trials: the first axes of the arrays ("leading") or the last ones, and their shape.

    `searched` are the inputs that have a part for each trial. An empty shape makes one trial of whole arrays.
    """

    side: Literal["leading", "trailing"]
    shape: tuple[int, ...]
    searched: tuple[str, ...]

    @property
    def trials(self) -> int:
        """Return the number of trials of one call."""
        return prod(self.shape)

    def fits(self, shape: Sequence[int]) -> bool:
        """Return whether an array of this shape has a part for each trial."""
        axes = len(self.shape)
        own = tuple(shape[:axes]) if self.side == "leading" else tuple(shape[len(shape) - axes :])
        return len(shape) >= axes and own == self.shape

    def split(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return the parts of an array, as (trials, elements of a part)."""
        if self.side == "leading":
            return array.reshape(self.trials, -1)
        return np.ascontiguousarray(array.reshape(-1, self.trials).T)

    def join(self, parts: NDArray[Any], shape: Sequence[int]) -> NDArray[Any]:
        """Return the array whose parts these are."""
        return np.ascontiguousarray(parts if self.side == "leading" else parts.T).reshape(shape)

    def place(self, trial: int, element: int, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the index of an element of a trial in an array of a shape."""
        size = prod(shape) // self.trials
        flat = trial * size + element if self.side == "leading" else element * self.trials + trial
        return tuple(int(index) for index in np.unravel_index(flat, shape))

    def worst(self, errors: Mapping[str, Errors]) -> Errors:
        """Return the largest error of each trial over all outputs."""
        found: Errors = np.max([self.split(each).max(axis=1) for each in errors.values() if each.size], axis=0)
        return found


def find_layout(
    evaluator: CaseEvaluator, inputs: Arrays, results: Results, domains: Sequence[Domain], seed: int
) -> Layout:
    """Return the layout with the most searched inputs, then trials, that an experiment does not refute.

    All inputs make one trial if the inputs to hold would be larger than those to search.
    """
    names = [domain.name for domain in domains]
    total = sum(inputs[name].size for name in names)
    generator = np.random.Generator(np.random.Philox(key=seed))
    chosen = {domain.name: domain for domain in domains}
    candidates = _candidates(inputs, results, names)
    for layout in sorted(candidates, key=lambda layout: (-len(layout.searched), -layout.trials)):
        is_most = 2 * sum(inputs[name].size for name in layout.searched) >= total
        if is_most and all(
            _is_independent(evaluator, inputs, results, layout, chosen, generator) for _ in range(_EXPERIMENTS)
        ):
            return layout
    return Layout("leading", (), tuple(names))


# Each experiment replaces about half of the trials.
_EXPERIMENTS = 2


def _candidates(inputs: Arrays, results: Results, names: Sequence[str]) -> list[Layout]:
    shapes = [array.shape for array in results.actual.values()]
    found: list[Layout] = []
    for axes in range(1, min(map(len, shapes)) + 1):
        whole = Layout("leading", shapes[0][:axes], ()), Layout("trailing", shapes[0][len(shapes[0]) - axes :], ())
        for layout in whole:
            fitting = tuple(name for name in names if layout.fits(inputs[name].shape))
            if layout.trials >= 2 and fitting and all(map(layout.fits, shapes)):
                found.append(layout._replace(searched=fitting))
    return found


def _is_independent(
    evaluator: CaseEvaluator,
    inputs: Arrays,
    results: Results,
    layout: Layout,
    domains: Mapping[str, Domain],
    generator: np.random.Generator,
) -> bool:
    """Return whether the results of some trials keep their bits while the others get new inputs."""
    replaced = generator.random(layout.trials) < 0.5
    kept = int(generator.integers(layout.trials))
    replaced[kept], replaced[kept - 1] = False, True
    changed = dict(inputs)
    for name in layout.searched:
        parts = np.array(layout.split(inputs[name]))
        parts[replaced] = domains[name].draw(generator, parts.shape)[replaced]
        changed[name] = layout.join(parts, inputs[name].shape)
    other = evaluator.try_evaluate(changed)
    if other is None:
        return False
    pairs = [(results.actual, other.actual), (results.exact, other.exact)]
    return all(
        before[name].shape == after[name].shape
        and _same_bits(layout.split(before[name])[~replaced], layout.split(after[name])[~replaced])
        for before, after in pairs
        for name in results.actual
        if name in before and name in after
    )


def _same_bits(first: NDArray[Any], second: NDArray[Any]) -> bool:
    # The padding of longdouble is not a part of its value, so values are compared where bytes may differ.
    return first.dtype == second.dtype and bool(np.all((first == second) | ((first != first) & (second != second))))
