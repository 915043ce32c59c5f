"""Which judgements can a case get, and which findings support them?"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from msgspec import Struct

from precreg.types.case import Location


class Reason(StrEnum):
    """The reason of a verdict; docs/verdicts.md has the table."""

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
    """The status of a case. A proposed case has no baseline to judge it, and its proposal waits for a decision."""

    PASSED = "passed"
    FAILED = "failed"
    PROPOSED = "proposed"
    ERROR = "error"
    SKIPPED = "skipped"


# The rule behind a finding: a bound of the pyramid, a rule without a measure ("hard"), a statistic with its interval, a
# threshold on the growth of a metric ("guard"), or a budget. It is empty if no rule applies.
Rule = Literal["", "bound", "hard", "statistic", "guard", "budget"]


class Finding(Struct, frozen=True):
    """One reason of a verdict: an output's metric with its numbers and the rule that applies.

    A statistic has the confidence bounds `lower` and `upper` of `ratio`, current over baseline, at the case's alpha.
    Its `floor` is the largest ratio within noise.
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
    """The judgement of one case: status, the worst reason, and every finding with its numbers, worst first."""

    status: Status
    reason: Reason
    message: str
    findings: tuple[Finding, ...] = ()
    # The reason without the declaration, for expected_failure and unexpected_pass.
    underlying: Reason | None = None
