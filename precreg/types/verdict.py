from __future__ import annotations

from enum import StrEnum
from typing import Literal

from msgspec import Struct

from precreg.types.case import Location


class Reason(StrEnum):
    """Why a verdict is what it is; docs/verdicts.md has the table."""

    IDENTICAL = "identical"
    WITHIN_TOLERANCE = "within_tolerance"
    IMPROVED = "improved"
    OUT_OF_TOLERANCE = "out_of_tolerance"
    REGRESSED = "regressed"
    NONDETERMINISTIC = "nondeterministic"
    OVER_BUDGET = "over_budget"
    NEW = "new"
    STALE = "stale"
    INPUTS_CHANGED = "inputs_changed"
    MISSING_OUTPUT = "missing_output"
    SHAPE_MISMATCH = "shape_mismatch"
    DTYPE_MISMATCH = "dtype_mismatch"
    EMPTY = "empty"
    NON_FINITE_MISMATCH = "non_finite_mismatch"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    SUBJECT_ERROR = "subject_error"
    REFERENCE_ERROR = "reference_error"
    ANALYZER_ERROR = "analyzer_error"
    UNAVAILABLE = "unavailable"
    UNEXPECTED_PASS = "unexpected_pass"
    EXPECTED_FAILURE = "expected_failure"


class Status(StrEnum):
    """What becomes of a case. Proposed: it could not be judged for want of a baseline, and a proposal waits."""

    PASSED = "passed"
    FAILED = "failed"
    PROPOSED = "proposed"
    ERROR = "error"
    SKIPPED = "skipped"


Rule = Literal["", "bound", "hard", "statistic", "guard", "budget"]
"""What binds a finding: a bound of the pyramid, a rule without a measure, a statistic with its interval, a threshold on
the growth of a metric, a budget; empty where there is nothing to hold to."""


class Finding(Struct, frozen=True):
    """One reason to fail, or to note: an output's metric with the numbers and the rule that binds.

    `lower` and `upper` are the confidence bounds of `ratio`, current to baseline, at the case's own error level, and
    `floor` the ratio that noise explains; a statistic alone has them.
    """

    reason: Reason
    message: str
    output: str = ""
    metric: str = ""
    seed: int | None = None
    current: float | None = None
    baseline: float | None = None
    ratio: float | None = None
    limit: float | None = None
    source: Location | None = None
    rule: Rule = ""
    lower: float | None = None
    upper: float | None = None
    floor: float | None = None


class Verdict(Struct, frozen=True):
    """The judgement of one case: status, the reason that decides, and every finding with its numbers, worst first."""

    status: Status
    reason: Reason
    message: str
    findings: tuple[Finding, ...] = ()
    underlying: Reason | None = None
    """For expected_failure and unexpected_pass: the reason without the declaration."""
