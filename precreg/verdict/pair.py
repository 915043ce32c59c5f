"""The verdict on one stored array held against another: accurate enough or not, without a baseline."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from precreg.types.types import Comparison, Finding, Reason, Role, Tolerance, Verdict
from precreg.verdict.bounds import broken_bounds
from precreg.verdict.judge import Policy, verdict_of
from precreg.verdict.structure import unmeasurable


def judge_pair(comparison: Comparison, tolerance: Tolerance, role: Role) -> Verdict:
    """Judge what was measured of one pair by the questions that are asked of a case, up to its baseline."""
    found = [*unmeasurable(comparison, role)] or [*broken_bounds(comparison, tolerance)] or [*_sound(comparison)]
    return verdict_of([replace(finding, output="", seed=None) for finding in found], Policy())


def unmeasured(reason: Reason, message: str) -> Verdict:
    """Return the verdict on what could not be measured: a side is missing, or cannot be read."""
    return verdict_of([Finding(reason, message, rule="hard" if reason is Reason.MISSING_OUTPUT else "")], Policy())


def _sound(comparison: Comparison) -> Iterator[Finding]:
    if comparison.metrics.get("equal_share") == 1:
        yield Finding(Reason.IDENTICAL, "every element is the reference's, to the bit, in the actual's dtype")
    else:
        yield Finding(Reason.WITHIN_TOLERANCE, "every bound holds")
