"""Precision against speed: each optimisation held against the plain form of the same operator, in one run.

Speed is the subject's own time in that run on that machine; precision is the error against the reference. Nothing but
the notes on use and risk is written by hand.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from precreg.measure.metrics import ratio
from precreg.report.measured import Measured, of_suite, others, outputs, series_name
from precreg.types.records import CaseResult
from precreg.types.study import Note, TradeOff

ERROR = "mean_abs_error"


class Row(NamedTuple):
    """One output of one case beside that of the plain case.

    `time_ratio` and `error_ratio` are multiples of the plain case's; None where that was not measured, or has no error.
    `same_bits` says that the outputs of all seeds are bit-identical to the plain case's. `failure` says why nothing
    was measured.
    """

    case: str
    of: str
    value: str
    plain: bool
    note: Note
    duration_s: float | None = None
    time_ratio: float | None = None
    error: float | None = None
    error_ratio: float | None = None
    mean_ulp: float | None = None
    match_ratio: float | None = None
    rtol: float | None = None
    same_bits: bool = False
    failure: str = ""


def rows(study: TradeOff, suite: str, results: Iterable[CaseResult]) -> list[Row]:
    """Return a row for each case and output: the plain one of each combination first, then the others by name."""
    found = of_suite(suite, results)
    several = len({one.output for result in found for one in outputs(result)}) > 1
    plain = {
        (others(result, study.over), one.output): one
        for result in found
        if result.parameters[study.over] == study.plain
        for one in outputs(result)
    }
    made = [row for result in found for row in _of_case(study, result, plain, several)]
    return sorted(made, key=lambda row: (row.of, not row.plain, row.value))


def _of_case(
    study: TradeOff, result: CaseResult, plain: dict[tuple[str, str], Measured], several: bool
) -> Iterable[Row]:
    value, parameters = result.parameters[study.over], others(result, study.over)
    note = study.notes.get(value, Note())
    empty = Row(result.id, parameters, value, value == study.plain, note, failure=result.verdict.message)
    measured = outputs(result)
    if not measured:
        yield empty
    for one in measured:
        name = series_name(parameters, one.output, of_several=several)
        yield _beside(empty._replace(of=name, failure=""), one, plain.get((parameters, one.output)))


def _beside(row: Row, one: Measured, plain: Measured | None) -> Row:
    execution = one.result.outcome.execution
    error = one.mean(ERROR)
    row = row._replace(
        duration_s=execution.duration_s or None,
        error=error,
        mean_ulp=one.mean("mean_ulp"),
        match_ratio=one.mean("match_ratio"),
        rtol=one.result.tolerances[one.output].rtol.limit if one.output in one.result.tolerances else None,
    )
    if plain is None:
        return row
    other = plain.result.outcome.execution
    return row._replace(
        time_ratio=execution.duration_s / other.duration_s if execution.duration_s and other.duration_s else None,
        error_ratio=ratio(ERROR, error, plain.mean(ERROR)),
        same_bits=execution.outputs.get(one.output) == other.outputs.get(one.output),
    )
