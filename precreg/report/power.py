"""`precreg power`: what would be caught of each case, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, inf
from typing import Any

import msgspec

from precreg.report.describe import format_columns, list_some, strip_controls
from precreg.types import format_distinct, format_number
from precreg.verdict import POWER, CasePower, DetectableLoss

POWER_SCHEMA = "precreg-power/1"

POWER_SHARES = (0.1, 0.5, 0.9)
"""Shares of the cases of which it is said what loss they catch."""


MAX_POWER_ROWS = 100
"""The largest ratio that is written as a figure: beyond it the statistic sees nothing that guards do not see before."""


MAX_POWER_IDS = 5


HEADINGS = ("case", "output", "caught by", "samples", "smallest loss", "and by")

_NOTHING = "-"


def sort_powers(powers: Sequence[CasePower]) -> list[CasePower]:
    """Sort by what is caught least: nothing known, no figure, then by the largest loss; ties by id."""
    return sorted(powers, key=lambda power: (not power.why, -_worst(power), power.case))


def _worst(power: CasePower) -> float:
    return inf if power.worst is None else power.worst


def render_power(powers: Sequence[CasePower], level: float, baselines: int) -> str:
    """Write a line for each output of which something is known, those that catch least first, and a summary."""
    rows = [row for power in sort_powers(powers) for row in _rows(power)]
    table = format_columns(HEADINGS, rows, len(rows)) if rows else []
    paragraphs = [table, [*_summary(powers, level, baselines)]]
    return strip_controls("\n\n".join("\n".join(lines) for lines in paragraphs if lines)) + "\n"


def _rows(power: CasePower) -> Iterator[list[str]]:
    for loss in power.losses:
        samples = str(loss.units) if loss.units else _NOTHING
        yield [power.case, loss.output, _by(loss), samples, _size(loss), "; ".join(_besides(loss))]


def _by(loss: DetectableLoss) -> str:
    return f"{loss.rule} on {loss.metric}" if loss.metric else loss.rule or _NOTHING


def _size(loss: DetectableLoss) -> str:
    if loss.ratio is None:
        return _NOTHING
    return "any" if loss.rule == "hard" else _times(loss.ratio)


def _times(ratio: float) -> str:
    """Write a ratio; one that is larger than 1 never looks like it."""
    return f"over {MAX_POWER_ROWS} times" if ratio > MAX_POWER_ROWS else f"{format_distinct([ratio, 1.0])[0]} times"


def _besides(loss: DetectableLoss) -> Iterator[str]:
    """Say why no figure is told, and what else holds."""
    if loss.why:
        yield loss.why
    if loss.bounds:
        yield f"bounds on {', '.join(loss.bounds)}"
    for metric, ratio in loss.thresholds.items():
        yield f"any lost {metric}" if ratio == 1 else f"{metric} beyond {format_number(ratio)} times"


def _summary(powers: Sequence[CasePower], level: float, baselines: int) -> Iterator[str]:
    ratios = sorted(power.worst for power in powers if power.worst is not None and power.worst > 1)
    if ratios:
        chance = f"{100 * POWER:g} %"
        yield f"{_cases(len(ratios))}: the smallest loss that is caught with a chance of {chance}, at the worst output:"
        told = [(f"{100 * share:g} %", _times(ratios[ceil(share * len(ratios)) - 1])) for share in POWER_SHARES]
        (share, first), *others = told
        parts = [f"{share} of them catch {first}", *map(" ".join, others), f"the worst {_times(ratios[-1])}"]
        yield f"  {', '.join(parts)}"
    if exact := sum(power.worst == 1 for power in powers):
        yield f"{_cases(exact)}: exact, so any error is caught"
    if elsewhere := sum(not power.same_environment for power in powers):
        yield f"{_cases(elsewhere)}: accepted on another fingerprint, so a loss must exceed what that explains"
    yield from _unknown(powers)
    counted = "1 baseline" if baselines == 1 else f"{baselines} baselines"
    yield f"error level of a case: {format_number(level, 3)}, from {counted}"


def _unknown(powers: Sequence[CasePower]) -> Iterator[str]:
    """Count the cases of which no figure is told by what is missing, and name those that have no row."""
    kinds: dict[str, list[CasePower]] = {}
    for power in sorted(powers, key=lambda power: power.case):
        if power.worst is None:
            kinds.setdefault(_kind(power), []).append(power)
    for kind, found in sorted(kinds.items()):
        without_row = [power.case for power in found if power.why]
        named = f": {list_some(without_row, MAX_POWER_IDS)}" if without_row else ""
        yield f"{_cases(len(found))}: no figure: {kind}{named}"


def _kind(power: CasePower) -> str:
    """Say why nothing is known of a case, without what names its file or environment."""
    if power.why:
        return power.why.partition(" in ")[0]
    return next(loss.why for loss in power.losses if loss.ratio is None)


def _cases(number: int) -> str:
    return "1 case" if number == 1 else f"{number} cases"


def power_json(powers: Sequence[CasePower], level: float, baselines: int, environment: str) -> str:
    """Return everything as JSON, cases in the same order; a loss without a figure has ratio null."""
    content: dict[str, Any] = {
        "schema": POWER_SCHEMA,
        "environment": environment,
        "power": POWER,
        "level": level,
        "baselines": baselines,
        "cases": [msgspec.to_builtins(power) | {"worst": power.worst} for power in sort_powers(powers)],
    }
    return msgspec.json.format(msgspec.json.encode(content), indent=2).decode()
