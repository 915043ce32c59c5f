"""Which call of a function works, and which figures does it give? `precreg init` measures before it writes a suite.

Each guess is a case of a suite in a temporary folder. Workers run it, so that a guess that hangs, crashes or prints
stays harmless.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from precreg.environment import count_processors, detect_environment
from precreg.errors import UserError
from precreg.run.case_run import run_subject_once
from precreg.run.computation import draw_inputs
from precreg.run.pipeline import Plan, run_cases
from precreg.subject import Call, TargetFacts
from precreg.suite import Foundation, expand_suite, read_suite
from precreg.suite.capture import CapturedCall
from precreg.suite.starter import (
    Guess,
    StarterSuite,
    first_bounds,
    guess_calls,
    render_suite,
    rounding_unit,
    unguessable,
)
from precreg.types import Case, Failure, Outcome, Reason

# Seconds of one guess, and of one case of the measurement.
GUESS_SECONDS = 20
CASE_SECONDS = 60
# So many guesses that exceed their time show a slow function, and the others are not tried.
MAX_SLOW = 2
# A call that takes longer gets one seed and one dtype, so that a run stays below a minute.
SLOW_SECONDS = 1.0
# The narrow dtypes come first.
DTYPES = ("float16", "bfloat16", "float32", "float64")
_GUESS_DTYPE = "float32"
# The error of a float32 guess as a part of the largest result. Sums with cancellation stay far below.
MAX_RELATIVE_ERROR = 1e-3
# Runs on the same inputs of a function whose bits differ: statistics need 4 or more (docs/suites.md).
UNSTEADY_REPEATS = 4
_REFERENCES = ("{}_exact", "{}_reference", "{}_ref", "exact_{}", "reference_{}", "ref_{}")


class LeftOut(Struct, frozen=True):
    """A dtype, or a size, that the suite leaves out, and the reason."""

    what: str
    why: str


class FirstMeasurement(Struct, frozen=True):
    """A suite with bounds from its first measurement, and the facts behind its choices.

    `tried` counts the guesses that ran. `seconds` is the time of one call. `slow` says that the suite has one seed.
    """

    suite: StarterSuite
    tried: int
    seconds: float
    left_out: tuple[LeftOut, ...] = ()
    non_finite: bool = False
    slow: bool = False
    # Dtypes, of several, without any error: there the same function as reference is perhaps no wider than the result.
    exact: tuple[str, ...] = ()
    # Inputs and outputs by dtype, for a function whose reference would be no wider: its stored outputs are the golden.
    calls: tuple[CapturedCall, ...] = ()


class _Chosen(Struct, frozen=True):
    subject: str | dict[str, Any]
    guess: Guess
    outcome: Outcome
    tried: int


def measure_first(project: Path, target: str, name: str, facts: TargetFacts) -> FirstMeasurement:
    """Find a call that works, choose an oracle and dtypes, and measure.

    Raises UserError: no-guess, if no call works; the errors of reading a suite.
    """
    chosen = _choose(project, target, name, facts)
    slow = chosen.outcome.execution.duration_s > SLOW_SECONDS
    suite = _draft(chosen, target, name, facts, slow=slow)
    suite, outcomes = _measured(project, suite)
    kept, left_out = _kept_dtypes(suite, outcomes, facts)
    if not kept:
        return _stored_outputs(
            project, target, suite, outcomes, FirstMeasurement(suite, chosen.tried, 0.0, (*left_out,))
        )
    suite = replace(suite, dtypes=kept)
    used = [outcome for outcome, dtype in outcomes if dtype in kept]
    comparisons = [each for outcome in used for each in outcome.comparisons]
    unsteady = any(outcome.execution.unsteady for outcome in used)
    exact = _exact_dtypes(outcomes, kept) if suite.oracle == "same" else ()
    no_error = suite.oracle == "same" and set(exact) == set(kept)
    final = replace(
        suite,
        bounds=first_bounds(comparisons, deterministic=not unsteady),
        seeds=1 if slow else None,
        repeats=UNSTEADY_REPEATS if unsteady else None,
        deterministic=not unsteady,
        no_error=no_error,
        timeout=None,
    )
    seconds = max(outcome.execution.duration_s for outcome in used)
    non_finite = any(not _is_finite(outcome) for outcome in used)
    exact = () if no_error else exact
    return FirstMeasurement(final, chosen.tried, seconds, tuple(left_out), non_finite, slow, exact)


def _choose(project: Path, target: str, name: str, facts: TargetFacts) -> _Chosen:
    """Return the first guess, in the order of preference, that gives finite numbers; otherwise the first that runs.

    A guess counts as worse if its errors are as large as its results, such as a mean with weights whose sum is near 0.
    """
    tried, failures, fallback = 0, list[Failure](), None
    if names := unguessable(facts.arguments):
        raise UserError("no-guess", f"expected arrays and numbers but {target} needs {', '.join(names)}")
    rounds = guess_calls(facts)
    for guesses in rounds:
        for subject in _subjects(target, facts):
            suites = [_probe(f"{name}-{place}", subject, guess, target) for place, guess in enumerate(guesses)]
            outcomes = _run_guesses(project, suites)
            tried += len(outcomes)
            for place, outcome in outcomes.items():
                failure = outcome.execution.failure
                if failure is None or failure.reason is Reason.REFERENCE_ERROR:
                    found = _Chosen(subject, guesses[place], outcome, tried)
                    if failure is not None or (_is_finite(outcome) and _is_conditioned(outcome)):
                        return found
                    fallback = fallback or found
                else:
                    failures.append(failure)
            if fallback is None and sum(each.reason is Reason.TIMED_OUT for each in failures) >= MAX_SLOW:
                raise _no_guess(target, tried, failures)
    if fallback is not None:
        return fallback
    raise _no_guess(target, tried, failures)


def _subjects(target: str, facts: TargetFacts) -> list[str | dict[str, Any]]:
    """Return the ways to call a target: by numpy or by torch, the likely one first."""
    if facts.kind == "onnx":
        return [{"onnx": target}]
    if facts.kind == "module":
        made_with = {"arguments": facts.made_with} if facts.made_with else {}
        return [{"torch": target, **made_with, "dtype": "$dtype"}]
    torch = {"torch": target}
    if any("Tensor" in argument.annotation for argument in facts.arguments):
        return [torch]
    if "torch" not in facts.modules:
        return [target]
    return [target, torch] if "numpy" in facts.modules else [torch]


def _probe(name: str, subject: str | dict[str, Any], guess: Guess, target: str) -> StarterSuite:
    return StarterSuite(
        name=name,
        about="",
        subject=subject,
        guess=guess,
        dtypes=(_GUESS_DTYPE,),
        oracle="same" if isinstance(subject, str) else "own",
        reference=target,
        seeds=1,
        timeout=GUESS_SECONDS,
        varies=False,
    )


def _run_guesses(project: Path, suites: Sequence[StarterSuite]) -> dict[int, Outcome]:
    """Run one case of each suite, and return the outcomes by the place of their suite, in order.

    Stop after the first few that exceed their time.
    """
    cases = [case for suite in suites for case in _cases_of(project, suite)]
    places, found, slow = {case.id: place for place, case in enumerate(cases)}, dict[int, Outcome](), 0
    outcomes = run_cases(cases, _plan(project, len(cases)))
    with closing(outcomes):  # type: ignore[type-var]
        for outcome in outcomes:
            found[places[outcome.case]] = outcome
            failure = outcome.execution.failure
            slow += failure is not None and failure.reason is Reason.TIMED_OUT
            if slow >= MAX_SLOW:
                break
    return dict(sorted(found.items()))


def _plan(project: Path, cases: int) -> Plan:
    return Plan(project, detect_environment(None), min(max(cases, 1), count_processors()))


def _cases_of(project: Path, suite: StarterSuite) -> list[Case]:
    """Return the cases of a suite as if it lay in suites/unit/ of the project."""
    with TemporaryDirectory(prefix="precreg-first-") as folder:
        path = Path(folder) / "suites" / "unit" / f"{suite.name}.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(render_suite(suite), encoding="utf-8")
        return expand_suite(read_suite(path, Path(folder), Foundation()), project)


def _draft(chosen: _Chosen, target: str, name: str, facts: TargetFacts, *, slow: bool) -> StarterSuite:
    """Return the suite that is measured: all dtypes and sizes, two runs on the same inputs, no bounds."""
    sibling = _sibling(target, facts)
    about = next(iter(facts.doc.strip().splitlines()), "") if facts.kind == "function" else ""
    printable = "".join(character for character in about if character.isprintable())[:100]
    defaults = tuple(f"{each.name}={each.default}" for each in facts.arguments if not each.required)
    is_python = isinstance(chosen.subject, str)
    return StarterSuite(
        name=name,
        about=printable,
        subject=chosen.subject,
        guess=chosen.guess,
        dtypes=(_GUESS_DTYPE,) if slow else DTYPES[2:] if chosen.guess.needs_wide else DTYPES,
        oracle="own" if not is_python else "sibling" if sibling else "same",
        reference=sibling or target,
        seeds=1 if slow else None,
        repeats=2,
        timeout=CASE_SECONDS,
        varies=chosen.guess.varied is not None and not slow,
        defaults=defaults if all(each.isprintable() for each in defaults) else (),
    )


def _sibling(target: str, facts: TargetFacts) -> str:
    """Return the function beside the target whose name says that it is the reference; empty without one."""
    module, _, function = target.partition(":")
    names = (pattern.format(function) for pattern in _REFERENCES)
    return next((f"{module}:{name}" for name in names if name in facts.siblings), "")


def _measured(project: Path, suite: StarterSuite) -> tuple[StarterSuite, list[tuple[Outcome, str]]]:
    """Run the suite, and return it with its outcomes and their dtypes; without the second size if only that fails."""
    outcomes = _run_all(project, suite)
    if suite.varies and not any(outcome.execution.failure is None for outcome, _ in outcomes[1::2]):
        suite = replace(suite, varies=False)
        outcomes = _run_all(project, suite)
    return suite, outcomes


def _run_all(project: Path, suite: StarterSuite) -> list[tuple[Outcome, str]]:
    cases = _cases_of(project, suite)
    found = {outcome.case: outcome for outcome in run_cases(cases, _plan(project, len(cases)))}
    return [(found[case.id], str(case.parameters.get("dtype", ""))) for case in cases]


def _kept_dtypes(
    suite: StarterSuite, outcomes: Sequence[tuple[Outcome, str]], facts: TargetFacts
) -> tuple[tuple[str, ...], list[LeftOut]]:
    """Return the dtypes in which every case ran and has a wider reference, and the others with the reasons."""
    kept, left_out = list[str](), list[LeftOut]()
    # A NaN in every dtype belongs to the function; a NaN in one dtype is an overflow.
    may_overflow = all(_is_finite(outcome) for outcome, dtype in outcomes if dtype in ("float32", "float64", ""))
    for dtype in dict.fromkeys(dtype for _, dtype in outcomes):
        of_dtype = [outcome for outcome, each in outcomes if each == dtype]
        why = next(filter(None, (_fault(outcome, dtype) for outcome in of_dtype)), "")
        if not why and may_overflow and not all(map(_is_finite, of_dtype)):
            why = "results overflow"
        if why:
            left_out.append(LeftOut(dtype or "the suite", why))
        else:
            kept.append(dtype)
    return tuple(kept), left_out


def _exact_dtypes(outcomes: Sequence[tuple[Outcome, str]], kept: Sequence[str]) -> tuple[str, ...]:
    """Return the kept dtypes in which every error is 0."""
    errors = [
        (dtype, each.metrics.get("max_abs_error", 0.0)) for outcome, dtype in outcomes for each in outcome.comparisons
    ]
    return tuple(dtype for dtype in kept if not any(error for of_dtype, error in errors if of_dtype == dtype))


def _fault(outcome: Outcome, dtype: str) -> str:
    """Return the reason why an outcome cannot be a case of the first suite; empty without one."""
    failure = outcome.execution.failure
    if failure is not None:
        return f"{failure.reason.replace('_', ' ')}: {failure.message}"
    if outcome.missing:
        return f"no output {outcome.missing[0]}"
    for each in outcome.comparisons:
        if each.shape != each.reference_shape:
            return f"the reference has shape {list(each.reference_shape)}, not {list(each.shape)}"
        unit = rounding_unit(each.dtype)
        if dtype and unit and each.dtype != dtype and rounding_unit(dtype):
            return f"the output is {each.dtype}"
        if unit and rounding_unit(each.reference_dtype) >= unit:
            return f"the reference gives {each.reference_dtype}, no wider than {each.dtype}"
        if not prod(each.shape):
            return "the output is empty"
    return ""


def _is_finite(outcome: Outcome) -> bool:
    """Return whether every element of every output is finite, and so is its reference."""
    return all(
        each.histogram is not None and each.histogram.zeros + sum(each.histogram.counts) == prod(each.shape)
        for each in outcome.comparisons
    )


def _is_conditioned(outcome: Outcome) -> bool:
    """Return whether every output is right in its leading digit, for the largest of its elements at least."""
    pairs = (
        (each.metrics.get("max_abs_error", 0.0), each.metrics.get("max_magnitude", 0.0)) for each in outcome.comparisons
    )
    return all(error <= MAX_RELATIVE_ERROR * magnitude for error, magnitude in pairs)


def _no_guess(target: str, tried: int, failures: Sequence[Failure]) -> UserError:
    """Return the error of a target that no guess fits, with the most frequent failure."""
    if not failures:
        return UserError("no-guess", f"expected arguments that are arrays but {target} needs none")
    slow = sum(failure.reason is Reason.TIMED_OUT for failure in failures)
    if slow >= MAX_SLOW:
        return UserError("no-guess", f"expected a call of {target} within {GUESS_SECONDS} s but {slow} took longer")
    (message, count), *_ = Counter(failure.message for failure in failures).most_common(1)
    return UserError("no-guess", f"{count} of {tried} tried calls of {target} failed with: {message}")


def _stored_outputs(
    project: Path,
    target: str,
    suite: StarterSuite,
    outcomes: Sequence[tuple[Outcome, str]],
    measured: FirstMeasurement,
) -> FirstMeasurement:
    """Return a measurement with the outputs of calls, to be the golden of a function that has no wider reference.

    Raises UserError: no-guess, if repeated calls differ or no call works.
    """
    unsteady = any(outcome.execution.unsteady for outcome, _ in outcomes)
    ran = {dtype for outcome, dtype in outcomes if outcome.execution.outputs or outcome.comparisons}
    if unsteady or not ran:
        why = "two runs gave different bits" if unsteady else "; ".join(each.why for each in measured.left_out)
        raise UserError("no-guess", f"expected a wider reference or repeatable outputs of {target} but {why}")
    folder, calls = project / "suites" / "unit", list[CapturedCall]()
    for case in _cases_of(project, replace(suite, varies=False)):
        if str(case.parameters.get("dtype", "")) in ran:
            inputs = draw_inputs(case, 0, folder, project)
            outputs = run_subject_once(case, Call(inputs, case.params, folder, project))
            calls.append(CapturedCall(inputs, case.params, outputs.arrays))
    seconds = max(outcome.execution.duration_s for outcome, _ in outcomes)
    golden = replace(suite, oracle="golden", dtypes=tuple(dtype for dtype in suite.dtypes if dtype in ran))
    return replace(measured, suite=golden, calls=tuple(calls), seconds=seconds)
