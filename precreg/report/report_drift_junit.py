"""JUnit XML of a drift monitor: one test a case, whose name never changes, so that a page shows what is new.

Suites are called precreg.drift.TIER, apart from those of `precreg run`: GitLab would take one for the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from precreg.history.drift.record import DriftRecord, OutputDrift, State
from precreg.report import report_drift_describe as describe
from precreg.report.report_describe import plain
from precreg.report.report_junit import document, suite_element
from precreg.types.types import TIERS

if TYPE_CHECKING:
    from junit_xml import TestCase


def render(record: DriftRecord) -> str:
    """Write one test suite per tier, its cases sorted by name. Both dialects are the same: a history knows no files."""
    cases = _without_twins(describe.by_case(record))
    suites = [
        suite_element(
            f"precreg.drift.{tier}", [_test(id, outputs) for id, outputs in cases.items() if _parts(id)[0] == tier]
        )
        for tier in dict.fromkeys([*TIERS, *(_parts(id)[0] for id in cases)])
        if any(_parts(id)[0] == tier for id in cases)
    ]
    return document(suites)


def _without_twins(cases: dict[str, list[OutputDrift]]) -> dict[str, list[OutputDrift]]:
    """Join cases that the XML could not tell apart, worst output first."""
    joined: dict[str, list[OutputDrift]] = {}
    for id, outputs in cases.items():
        joined.setdefault(plain(id), []).extend(outputs)
    order = list(State)
    return {id: sorted(joined[id], key=lambda found: order.index(found.state)) for id in sorted(joined)}


def _parts(id: str) -> tuple[str, str, str]:
    """Split tier/suite/name."""
    tier, _, rest = id.partition("/")
    suite, _, name = rest.partition("/")
    return tier, suite, name


def _test(id: str, outputs: Sequence[OutputDrift]) -> TestCase:
    from junit_xml import TestCase

    tier, suite, name = _parts(id)
    test = TestCase(name, classname=f"{tier}.{suite}")
    worst = outputs[0]
    message = plain(f"{worst.output}: {worst.message}")
    match worst.state:
        case State.DRIFT:
            test.add_failure_info(message, _body(id, outputs), worst.state)
        case State.UNMEASURED:
            test.add_error_info(message, _body(id, outputs), worst.state)
        case State.ABSENT | State.TOO_FEW:
            test.add_skipped_info(message)
    return test


def _body(id: str, outputs: Sequence[OutputDrift]) -> str:
    told = [found for found in outputs if found.state in (State.DRIFT, State.UNMEASURED)]
    parts = [[id], *([f"{found.output}: {found.message}", *describe.table(describe.evidence(found))] for found in told)]
    return plain("\n\n".join("\n".join(lines) for lines in parts))
