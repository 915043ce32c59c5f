"""Write the results of `precreg faults` and `precreg selftest`: the planted faults, and those detected.

JSON has "inf" for a growth from no error at all, because it has no such number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import isinf
from typing import Any

from msgspec import json, to_builtins

from precreg.arithmetic.faults import Fault
from precreg.quality import Effect, Score, ScoreTally, Share, Unplanted, missed_faults, tally_scores, tally_scores_by
from precreg.report.describe import format_columns
from precreg.types import TIERS

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
        "unplanted": to_builtins(unplanted),
    }
    return json.format(json.encode(content), indent=2).decode()


def _tally(row: ScoreTally) -> dict[str, Any]:
    plain: dict[str, Any] = to_builtins(row)
    return {
        # A property is no field, so msgspec leaves the ratio out.
        key: {**value, "ratio": getattr(row, key).ratio} if isinstance(value, dict) else value
        for key, value in plain.items()
    }


def _score(score: Score) -> dict[str, Any]:
    plain: dict[str, Any] = to_builtins(score)
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


def render_faults(faults: Iterable[Fault]) -> str:
    """List the known faults, one a line."""
    rows = [(fault.name, "" if fault.harmful else "harmless", fault.source, fault.about) for fault in faults]
    return _text(_table(("fault", "", "source", "what it does"), rows))


def render_scores(scores: Sequence[Score], unplanted: Sequence[Unplanted], *, all_shown: bool) -> str:
    """Write the result of each fault in each case; faults without effect are counted, unless all are shown."""
    lines: list[str] = []
    for case in dict.fromkeys(score.case for score in scores):
        of_case = [score for score in scores if score.case == case]
        # Most faults have no effect in most cases, because a case uses few of the operations.
        shown = [score for score in of_case if all_shown or score.effect is not Effect.NO_EFFECT]
        header = ("fault", "effect", "factor", "reason", "output and metric")
        lines += [case, *(f"  {line}" for line in _table(header, map(_row, shown)))]
        if len(shown) < len(of_case):
            lines.append(f"  {len(of_case) - len(shown)} without effect")
        lines.append("")
    lines += [*_unjudged(scores), *_unplanted(unplanted)]
    # For a single case the table above already has every number.
    if len({score.case for score in scores}) > 1:
        lines += _per_tier(scores)
    return _text(lines).rstrip("\n") + "\n"


def render_tallies(scores: Sequence[Score], unplanted: Sequence[Unplanted]) -> str:
    """Write detection per tier and per fault, and the worst misses."""
    lines = [*_per_tier(scores), "", *_per_fault(scores), "", *_per_change(scores)] if scores else []
    worst = missed_faults(scores)
    if worst:
        shown = [(score.case, score.fault, format_factor(score), score.reason) for score in worst[:MAX_MISSES_SHOWN]]
        title = f"the worst of {len(worst)} that made a result worse and were missed"
        lines += ["", title, *_table(("case", "fault", "factor", "verdict"), shown)]
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


def _per_tier(scores: Sequence[Score]) -> Iterator[str]:
    tiers = tally_scores_by(scores, lambda score: score.tier, TIERS)
    # With a single tier the row of all would repeat it.
    yield from _tallied("tier", [*tiers, tally_scores("all", scores)] if len(tiers) > 1 else tiers)


def _tallied(title: str, rows: Iterable[ScoreTally]) -> Iterator[str]:
    yield from _table((title, *TALLY_COLUMNS), map(_tally_row, rows))


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


def _per_fault(scores: Sequence[Score]) -> Iterator[str]:
    rows = [(row.name, *_caught(row), str(row.errors)) for row in _by_name(scores, harmful=True)]
    yield from _table(("fault", "caught", "of worse", "of slightly worse", "errors"), rows)


def _per_change(scores: Sequence[Score]) -> Iterator[str]:
    rows = [(row.name, *_alarms(row), str(row.errors)) for row in _by_name(scores, harmful=False)]
    yield from _table(("harmless change", "false alarms", "of bits", "errors"), rows)


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
            by_reason.setdefault((score.reason, score.message), []).append(score)
    for (reason, message), same in by_reason.items():
        others = f" and {len(same) - 1} more" if same[1:] else ""
        yield f"not judged: {same[0].fault} in {same[0].case}{others}: {reason}{f', {message}' if message else ''}"


def _unplanted(unplanted: Sequence[Unplanted]) -> Iterator[str]:
    for why, count in Counter(each.why for each in unplanted).most_common():
        first = next(each.case for each in unplanted if each.why == why)
        others = f" and {count - 1} more" if count > 1 else ""
        yield f"not planted in {first}{others}: {why}"


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    every = list(rows)
    return format_columns(names, every, len(every))


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
