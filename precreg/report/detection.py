"""What does the gate detect: losses by its power, and planted faults by its self-test?

Here are the results of `precreg power`, `precreg faults` and `precreg selftest`, as tables and as JSON. JSON has "inf"
for a growth from no error at all, because it has no such number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import ceil, inf, isinf
from shlex import quote
from typing import Any

import msgspec
from msgspec import json, to_builtins
from msgspec.structs import replace

from precreg.arithmetic.faults import Fault
from precreg.quality import (
    BrokenRate,
    Effect,
    Score,
    ScoreTally,
    Share,
    Unplanted,
    missed_faults,
    tally_scores,
    tally_scores_by,
)
from precreg.report.describe import count_cases, list_some, strip_controls
from precreg.report.findings import add_verdict_messages
from precreg.report.layout import format_columns
from precreg.types import TIERS, format_distinct, format_number
from precreg.verdict import POWER, ROUNDING_FLOOR_ULP, CasePower, DetectableLoss, LossReason, PowerGap
from precreg.verdict.statistics import MIN_SAMPLES

SCORES_SCHEMA = "precreg-scores/1"


def scores_json(scores: Sequence[Score], unplanted: Sequence[Unplanted]) -> str:
    """Return all facts as JSON: tallies per tier, over all and per fault, every score, and the cases left out."""
    tiers = tally_scores_by(scores, lambda score: score.tier, TIERS)
    faults = tally_scores_by(scores, lambda score: score.fault, dict.fromkeys(score.fault for score in scores))
    content = {
        "schema": SCORES_SCHEMA,
        "tiers": list(map(_tally, tiers)),
        "all": _tally(tally_scores("all", scores)),
        "faults": list(map(_tally, faults)),
        "scores": list(map(_score, scores)),
        "unplanted": [{"case": each.case, "tier": each.tier, "why": _why(each)} for each in unplanted],
    }
    return json.format(json.encode(content), indent=2).decode()


def _message(score: Score) -> str:
    return "" if score.verdict is None else add_verdict_messages(score.verdict).message


def _tally(row: ScoreTally) -> dict[str, Any]:
    plain: dict[str, Any] = to_builtins(row)
    return {
        # A property is not a field, so msgspec leaves the ratio out.
        key: {**value, "ratio": getattr(row, key).ratio} if isinstance(value, dict) else value
        for key, value in plain.items()
    }


def _score(score: Score) -> dict[str, Any]:
    plain: dict[str, Any] = to_builtins(replace(score, verdict=None))
    del plain["verdict"]
    plain["message"] = _message(score)
    # msgspec writes infinity as null, which already means that no factor is known.
    return {**plain, "factor": "inf"} if score.factor is not None and isinf(score.factor) else plain


# The worst misses are worth a look each; the JSON has all of them.
MAX_MISSES_SHOWN = 12
TALLY_COLUMNS = (
    "cases",
    "faults",
    "caught",
    "of worse",
    "of slightly worse",
    "harmless",
    "false alarms",
    "of bits",
    "errors",
)


def render_faults(faults: Iterable[Fault], width: int | None = None) -> str:
    """List the known faults, one a line. Tables fit `width`; None means that they have no limit."""
    rows = [(fault.name, "" if fault.harmful else "harmless", fault.source, fault.about) for fault in faults]
    return _text(_table(("fault", "", "source", "what it does"), rows, width))


def render_scores(
    scores: Sequence[Score], unplanted: Sequence[Unplanted], *, all_shown: bool, width: int | None = None
) -> str:
    """Write the result of each fault in each case; faults without effect are counted, unless all are shown.

    Tables fit `width`; None means that they have no limit.
    """
    inner = None if width is None else width - 2
    lines: list[str] = []
    for case in dict.fromkeys(score.case for score in scores):
        of_case = [score for score in scores if score.case == case]
        # Most faults have no effect in most cases, because a case uses few of the operations.
        shown = [score for score in of_case if all_shown or score.effect is not Effect.NO_EFFECT]
        header = ("fault", "effect", "factor", "reason", "output and metric")
        lines += [case, *(f"  {line}" for line in _table(header, map(_row, shown), inner))]
        if len(shown) < len(of_case):
            lines.append(f"  {len(of_case) - len(shown)} without effect")
        lines.append("")
    lines += [*_unjudged(scores), *_unplanted(unplanted)]
    # For a single case the table above already has every number.
    if len({score.case for score in scores}) > 1:
        lines += _per_tier(scores, width)
    return _text(lines).rstrip("\n") + "\n"


def render_tallies(scores: Sequence[Score], unplanted: Sequence[Unplanted], width: int | None = None) -> str:
    """Write detection per tier and per fault, and the worst misses.

    Tables fit `width`; None means that they have no limit.
    """
    lines = [*_per_tier(scores, width), "", *_per_fault(scores, width), "", *_per_change(scores, width)]
    lines = lines if scores else []
    worst = missed_faults(scores)
    if worst:
        shown = [(score.case, score.fault, format_factor(score), score.reason) for score in worst[:MAX_MISSES_SHOWN]]
        title = f"the worst of {len(worst)} that made a result worse and were missed"
        lines += ["", title, *_table(("case", "fault", "factor", "verdict"), shown, width)]
    left_out = [*_unjudged(scores), *_unplanted(unplanted)]
    lines += ["", *left_out] if lines and left_out else left_out
    return _text(lines)


def format_factor(score: Score) -> str:
    """Write the growth of the mean error."""
    return "-" if score.factor is None else f"{score.factor:.4g}"


def _row(score: Score) -> tuple[str, ...]:
    if score.effect is Effect.NO_EFFECT:
        return score.fault, score.effect, "-", "", ""
    effect = f"{score.effect}, not worse" if score.effect is Effect.MISSED and not score.worse else str(score.effect)
    return score.fault, effect, format_factor(score), score.reason, f"{score.output} {score.metric}".strip()


def _per_tier(scores: Sequence[Score], width: int | None) -> Iterator[str]:
    tiers = tally_scores_by(scores, lambda score: score.tier, TIERS)
    # With a single tier the row of all would repeat it.
    every = [*tiers, tally_scores("all", scores)] if len(tiers) > 1 else tiers
    yield from _table(("tier", *TALLY_COLUMNS), map(_tally_row, every), width)


def _tally_row(row: ScoreTally) -> tuple[str, ...]:
    return (
        row.name,
        str(row.cases),
        str(row.planted),
        *_caught(row),
        str(row.harmless),
        *_alarms(row),
        str(row.errors),
    )


def _per_fault(scores: Sequence[Score], width: int | None) -> Iterator[str]:
    rows = [(row.name, *_caught(row), str(row.errors)) for row in _by_name(scores, harmful=True)]
    yield from _table(("fault", "caught", "of worse", "of slightly worse", "errors"), rows, width)


def _per_change(scores: Sequence[Score], width: int | None) -> Iterator[str]:
    rows = [(row.name, *_alarms(row), str(row.errors)) for row in _by_name(scores, harmful=False)]
    yield from _table(("harmless change", "false alarms", "of bits", "errors"), rows, width)


def _by_name(scores: Sequence[Score], *, harmful: bool) -> list[ScoreTally]:
    names = dict.fromkeys(score.fault for score in scores if score.harmful is harmful)
    return tally_scores_by(scores, lambda score: score.fault, names)


def _caught(row: ScoreTally) -> Iterator[str]:
    return map(_share, (row.caught, row.caught_worse, row.caught_slight))


def _alarms(row: ScoreTally) -> Iterator[str]:
    return map(_share, (row.flagged, row.flagged_bits))


def _share(share: Share) -> str:
    return "-" if share.ratio is None else f"{share.part}/{share.whole} {share.ratio:.1%}"


def _unjudged(scores: Sequence[Score]) -> Iterator[str]:
    """Yield each reason why planted faults could not be judged, once."""
    by_reason: dict[tuple[str, str], list[Score]] = {}
    for score in scores:
        if score.effect is Effect.ERROR:
            # A subject that cannot run fails with every fault, so its message appears once.
            by_reason.setdefault((score.reason, _message(score)), []).append(score)
    for (reason, message), same in by_reason.items():
        others = f" and {len(same) - 1} more" if same[1:] else ""
        yield f"not judged: {same[0].fault} in {same[0].case}{others}: {reason}{f', {message}' if message else ''}"


def describe_broken_rate(broken: BrokenRate) -> str:
    """Write a rate beyond its limit."""
    if broken.rate == "detection":
        return f"detection {broken.share:.4f} is below {broken.limit:g}"
    return f"false alarms {broken.share:.4f} are above {broken.limit:g}"


def _why(unplanted: Unplanted) -> str:
    causes = {
        "known_bad": "it is known to be bad",
        "own_arithmetic": f"a subject of kind {unplanted.detail} computes by itself",
        "failed": f"without a fault it is {unplanted.detail}",
    }
    return causes[unplanted.cause]


def _unplanted(unplanted: Sequence[Unplanted]) -> Iterator[str]:
    for why, count in Counter(map(_why, unplanted)).most_common():
        first = next(each.case for each in unplanted if _why(each) == why)
        others = f" and {count - 1} more" if count > 1 else ""
        yield f"not planted in {first}{others}: {why}"


def _table(names: Sequence[str], rows: Iterable[Sequence[str]], width: int | None) -> list[str]:
    every = list(rows)
    return format_columns(names, every, len(every), width)


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


POWER_SCHEMA = "precreg-power/1"
# The summary shows these quantiles of the cases, by the loss that they detect.
POWER_SHARES = (0.1, 0.5, 0.9)
# Beyond this ratio thresholds on maxima detect a loss before the statistic does, so no reader needs the figure.
MAX_POWER_ROWS = 100
MAX_POWER_IDS = 5
HEADINGS = ("case", "output", "detected by", "samples", "smallest loss", "and by")
_NOTHING = "-"


# The kinds of loss that the figures do not cover, which assume that every error grows by one ratio.
NOT_COVERED = {
    "few_elements": "losses in few elements, which averages hardly show: thresholds on maxima judge them",
    "bias": "a bias: errors of one sign that grow no larger, judged without a figure",
    "correct_rounding": "fewer correctly rounded elements, which are reported and fail no case",
    "rare_inputs": "losses on inputs that no seed of the suite draws",
    "non_finite": "NaN, infinities, and runs that differ: hard rules judge them",
    "other_environment": "runs in another environment than this one: limits are wider where it is not known",
    "reference": "errors that the reference shares with the subject",
}


def sort_powers(powers: Sequence[CasePower]) -> list[CasePower]:
    """Sort by detection, weakest first: cases without facts, without a figure, then by the largest loss; ties by id."""
    # Cases without protection first: they are the ones to act on.
    return sorted(powers, key=lambda power: (power.gap is None, -_worst(power), power.case))


def _worst(power: CasePower) -> float:
    return inf if power.worst is None else power.worst


def render_power(powers: Sequence[CasePower], alpha: float, baselines: int, width: int | None = None) -> str:
    """Write one line per output with known detection, weakest first, and a summary. Tables fit `width`."""
    rows = [row for power in sort_powers(powers) for row in _rows(power)]
    table = format_columns(HEADINGS, rows, len(rows), width, spare=("samples", "and by")) if rows else []
    not_covered = ["not covered by the figures, which assume that every error grows by one ratio:"]
    not_covered += [f"  {text}" for text in NOT_COVERED.values()]
    # Without a figure there is nothing that it could leave out.
    has_figure = any(loss.ratio is not None for power in powers for loss in power.losses)
    paragraphs = [table, [*_summary(powers, alpha, baselines)], not_covered if has_figure else []]
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
    # A ratio of 1 means that any error is detected; these cases are counted apart.
    ratios = sorted(power.worst for power in powers if power.worst is not None and power.worst > 1)
    if ratios:
        power_percent = f"{100 * POWER:g} %"
        detected = f"the smallest loss that is detected with a power of {power_percent}, at the worst output"
        yield f"{count_cases(len(ratios))}: {detected}:"
        # An order statistic, not an interpolated quantile: each figure is one that a case really has.
        with_figure = [(f"{100 * share:g} %", _times(ratios[ceil(share * len(ratios)) - 1])) for share in POWER_SHARES]
        (share, first), *others = with_figure
        parts = [f"{share} of them detect {first}", *map(" ".join, others), f"the worst {_times(ratios[-1])}"]
        yield f"  {', '.join(parts)}"
    if exact := sum(power.worst == 1 for power in powers):
        yield f"{count_cases(exact)}: exact, so any error is detected"
    if other_environment := sum(not power.same_environment for power in powers):
        cases = count_cases(other_environment)
        yield f"{cases}: accepted in another environment, so a loss must exceed the effect of the environment"
    yield from _unknown(powers)
    counted = "1 baseline" if baselines == 1 else f"{baselines} baselines"
    yield f"significance level of a case: {format_number(alpha, 3)}, from {counted}"


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


def describe_powerless(ids: Sequence[str], number: int, *, figures_alone: bool = False) -> str:
    """Write which cases of so many accepted ones have an output without power, and what helps.

    With `figures_alone` they are rows of a table, which has no arrays: neither seeds nor pairs help.
    """
    first = f"warning: {len(ids)} of {count_cases(number)} without power: no statistic sees a loss in an output"
    seeds = f"set more seeds ({MIN_SAMPLES} or more) and accept again, or let runs pair (--pair auto)"
    if figures_alone:
        first = f"warning: {len(ids)} of {count_cases(number)} judged by figures alone: no statistic knows their noise"
        seeds = "a ratio judges; to see small losses, keep the arrays, or watch the history: precreg drift"
    return f"{first}\n  {list_some(ids, MAX_POWER_IDS)}\n  {seeds}; limits: precreg power {quote(ids[0])}"


def _kind(power: CasePower) -> str:
    """Write why no figure is known of a case, without the file or the environments, so that cases share a line."""
    if power.gap is not None:
        return _GAPS[power.gap.kind]
    reason = next(loss.reason for loss in power.losses if loss.ratio is None)
    return "" if reason is None else describe_loss_reason(reason)


def describe_loss_reason(reason: LossReason) -> str:
    """Write why a loss has no figure, or why any loss is detected."""
    return _REASONS[reason]


def describe_power_gap(gap: PowerGap) -> str:
    """Write why nothing is known of a case, with the environments that were searched or the file."""
    return f"{_GAPS[gap.kind]} in {gap.place}" if gap.place else _GAPS[gap.kind]


_GAPS = {
    "no_baseline": "no baseline",
    "redefined": "its definition changed since it was accepted",
    "expected_failure": "expected to fail, which needs no baseline",
}
_REASONS = {
    LossReason.DECLARED_EXACT: "declared exact: any other bit is detected",
    LossReason.EXACT: "exact: any error is detected",
    LossReason.EXACT_BUT_ROUNDING: f"exact: any error above {ROUNDING_FLOOR_ULP:g} ULP is detected",
    LossReason.WITHIN_SPREAD: "any loss is within the baseline's own spread",
    LossReason.FEW_SEEDS: f"runs may differ, and a baseline of fewer than {MIN_SAMPLES} seeds has no spread",
    LossReason.FEW_SAMPLES: f"fewer than {MIN_SAMPLES} samples",
    LossReason.STATISTIC_OFF: "the statistic is off",
    LossReason.FIGURES_ALONE: "figures alone, whose noise is unknown",
    LossReason.UNKNOWN_SPREAD: "the spread of its errors is unknown",
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
        "not_covered": NOT_COVERED,
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
