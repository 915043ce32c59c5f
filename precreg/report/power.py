"""Write the result of `precreg power`: the smallest loss that each case detects, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, inf
from typing import Any

import msgspec

from precreg.report.describe import count_cases, format_columns, list_some, strip_controls
from precreg.types import format_distinct, format_number
from precreg.verdict import POWER, ROUNDING_FLOOR_ULP, CasePower, DetectableLoss, LossReason, PowerGap
from precreg.verdict.statistics import MIN_SAMPLES

POWER_SCHEMA = "precreg-power/1"
# The summary shows these quantiles of the cases, by the loss that they detect.
POWER_SHARES = (0.1, 0.5, 0.9)
# Beyond this ratio thresholds on maxima detect a loss before the statistic does, so no reader needs the figure.
MAX_POWER_ROWS = 100
MAX_POWER_IDS = 5
HEADINGS = ("case", "output", "caught by", "samples", "smallest loss", "and by")
_NOTHING = "-"


def sort_powers(powers: Sequence[CasePower]) -> list[CasePower]:
    """Sort by detection, weakest first: cases without facts, without a figure, then by the largest loss; ties by id."""
    # Cases without protection first: they are the ones to act on.
    return sorted(powers, key=lambda power: (power.gap is None, -_worst(power), power.case))


def _worst(power: CasePower) -> float:
    return inf if power.worst is None else power.worst


def render_power(powers: Sequence[CasePower], alpha: float, baselines: int) -> str:
    """Write one line per output with known detection, weakest first, and a summary."""
    rows = [row for power in sort_powers(powers) for row in _rows(power)]
    table = format_columns(HEADINGS, rows, len(rows)) if rows else []
    paragraphs = [table, [*_summary(powers, alpha, baselines)]]
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
    """Write a ratio, with digits enough to differ from 1 if it is larger."""
    # Near 1 more digits, because a loss of 1 times would read as if nothing could be missed.
    return f"over {MAX_POWER_ROWS} times" if ratio > MAX_POWER_ROWS else f"{format_distinct([ratio, 1.0])[0]} times"


def _besides(loss: DetectableLoss) -> Iterator[str]:
    """Yield why the loss has no figure, then the other limits that apply."""
    if loss.reason is not None:
        yield describe_loss_reason(loss.reason)
    if loss.bounds:
        yield f"bounds on {', '.join(loss.bounds)}"
    for metric, ratio in loss.thresholds.items():
        yield f"any lost {metric}" if ratio == 1 else f"{metric} beyond {format_number(ratio)} times"


def _summary(powers: Sequence[CasePower], alpha: float, baselines: int) -> Iterator[str]:
    # A ratio of 1 means that any error is caught; these cases are counted apart.
    ratios = sorted(power.worst for power in powers if power.worst is not None and power.worst > 1)
    if ratios:
        power_percent = f"{100 * POWER:g} %"
        caught = f"the smallest loss that is caught with a chance of {power_percent}, at the worst output"
        yield f"{count_cases(len(ratios))}: {caught}:"
        # An order statistic, not an interpolated quantile: each figure is one that a case really has.
        with_figure = [(f"{100 * share:g} %", _times(ratios[ceil(share * len(ratios)) - 1])) for share in POWER_SHARES]
        (share, first), *others = with_figure
        parts = [f"{share} of them catch {first}", *map(" ".join, others), f"the worst {_times(ratios[-1])}"]
        yield f"  {', '.join(parts)}"
    if exact := sum(power.worst == 1 for power in powers):
        yield f"{count_cases(exact)}: exact, so any error is caught"
    if other_environment := sum(not power.same_environment for power in powers):
        cases = count_cases(other_environment)
        yield f"{cases}: accepted on another fingerprint, so a loss must exceed what that explains"
    yield from _unknown(powers)
    counted = "1 baseline" if baselines == 1 else f"{baselines} baselines"
    yield f"error level of a case: {format_number(alpha, 3)}, from {counted}"


def _unknown(powers: Sequence[CasePower]) -> Iterator[str]:
    """Count the cases without a figure by reason, and name those without a row."""
    kinds: dict[str, list[CasePower]] = {}
    for power in sorted(powers, key=lambda power: power.case):
        if power.worst is None:
            # Cases with the same reason share a line. A project without baselines would print one line a case.
            kinds.setdefault(_kind(power), []).append(power)
    for kind, found in sorted(kinds.items()):
        # The table above shows the other cases, so only these need their names.
        without_row = [power.case for power in found if power.gap is not None]
        named = f": {list_some(without_row, MAX_POWER_IDS)}" if without_row else ""
        yield f"{count_cases(len(found))}: no figure: {kind}{named}"


def _kind(power: CasePower) -> str:
    """Write why no figure is known of a case, without the file or the environments, so that cases share a line."""
    if power.gap is not None:
        return _GAPS[power.gap.kind]
    reason = next(loss.reason for loss in power.losses if loss.ratio is None)
    return "" if reason is None else describe_loss_reason(reason)


def describe_loss_reason(reason: LossReason) -> str:
    """Write why a loss has no figure, or why any loss is caught."""
    return _REASONS[reason]


def describe_power_gap(gap: PowerGap) -> str:
    """Write why nothing is known of a case, with the environments that were searched or the file."""
    return f"{_GAPS[gap.kind]} in {gap.place}" if gap.place else _GAPS[gap.kind]


_GAPS = {
    "no_baseline": "no baseline",
    "redefined": "defined otherwise than it was accepted",
    "expected_failure": "expected to fail, which needs no baseline",
}
_REASONS = {
    LossReason.DECLARED_EXACT: "declared exact: any other bit is caught",
    LossReason.EXACT: "exact: any error is caught",
    LossReason.EXACT_BUT_ROUNDING: f"exact: any error above {ROUNDING_FLOOR_ULP:g} ULP is caught",
    LossReason.WITHIN_SPREAD: "the baseline's own spread explains any loss",
    LossReason.FEW_SEEDS: f"runs need not repeat, and of fewer than {MIN_SAMPLES} seeds their spread is not kept",
    LossReason.FEW_SAMPLES: f"fewer than {MIN_SAMPLES} samples",
    LossReason.STATISTIC_OFF: "the statistic is off",
    LossReason.UNKNOWN_SPREAD: "its errors have no spread that is known",
}


def power_json(powers: Sequence[CasePower], alpha: float, baselines: int, environment: str) -> str:
    """Return all facts as JSON, cases in the order of the table; a loss without a figure has ratio null."""
    content: dict[str, Any] = {
        "schema": POWER_SCHEMA,
        "environment": environment,
        "power": POWER,
        # The key is a part of the schema, so it keeps its name.
        "level": alpha,
        "baselines": baselines,
        "cases": [_case_as_json(power) for power in sort_powers(powers)],
    }
    return msgspec.json.format(msgspec.json.encode(content), indent=2).decode()


def _case_as_json(power: CasePower) -> dict[str, Any]:
    """Return a case with its facts, and with their sentences under `why`."""
    plain: dict[str, Any] = msgspec.to_builtins(power) | {"worst": power.worst}
    plain["why"] = "" if power.gap is None else describe_power_gap(power.gap)
    for written, loss in zip(plain["losses"], power.losses, strict=True):
        written["why"] = "" if loss.reason is None else describe_loss_reason(loss.reason)
    return plain
