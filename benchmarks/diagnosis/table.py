"""How often was the answer right, in a Markdown table?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from benchmarks.diagnosis.judge import Score, ScoreClass
from benchmarks.diagnosis.kinds import KINDS

COLUMNS: tuple[ScoreClass, ...] = ("first", "first_three", "statement", "wrong", "silent", "error")
TITLES = ("plants", "first", "first three", "statement alone", "wrong", "silent", "no diagnosis")
HALVES = {"develop": "developed on", "held_out": "held out"}
ORDER = (*KINDS, "two causes")


def score_table(scores: Sequence[Score]) -> str:
    """Return the table: by kind, by half, by oracle, by expectation; harmless plants apart."""
    harmful = [score for score in scores if not score.harmless]
    rows = [_row("all", harmful, share=True)]
    rows += _rows(harmful, lambda score: HALVES[score.half], tuple(HALVES.values()), share=True)
    rows += _rows(harmful, lambda score: f"{score.oracle} oracle", ("reference oracle", "golden oracle"), share=True)
    rows += _rows(harmful, _expectation, ("no rewrite expected", "a rewrite expected"), share=True)
    rows += _rows(harmful, lambda score: score.kind.replace("_", " "), [kind.replace("_", " ") for kind in ORDER])
    harmless = [score for score in scores if score.harmless]
    rows += [_row("harmless order of a sum", harmless)] if harmless else []
    head = ["", *TITLES]
    lines = [head, ["---", *["---:"] * len(TITLES)], *rows]
    # Advice names no places and sees no fingerprints, so that the first notes are about diagnoses alone.
    notes = (
        [*_notes(harmful), *_harmless_notes(harmless)]
        if any(s.diagnosis for s in scores)
        else _harmless_notes(harmless)
    )
    return "\n".join([*("| " + " | ".join(line) + " |" for line in lines), "", *notes])


def _rows(
    scores: Sequence[Score], label: Callable[[Score], str], order: Sequence[str], share: bool = False
) -> Iterator[list[str]]:
    for name in order:
        chosen = [score for score in scores if label(score) == name]
        if chosen:
            yield _row(name, chosen, share)


def _row(name: str, scores: Sequence[Score], share: bool = False) -> list[str]:
    counts = [sum(score.outcome == column for score in scores) for column in COLUMNS]
    shares = [f" ({100 * count / len(scores):.0f} %)" if share and scores else "" for count in counts]
    return [name, str(len(scores)), *(f"{count}{part}" for count, part in zip(counts, shares, strict=True))]


def _expectation(score: Score) -> str:
    return "no rewrite expected" if score.beyond else "a rewrite expected"


def _notes(harmful: Sequence[Score]) -> Iterator[str]:
    pairs = [score for score in harmful if score.kind == "two causes"]
    if pairs:
        yield f"Both of two causes were named: {sum(score.named == 2 for score in pairs)} of {len(pairs)}."
    silent = [score for score in harmful if score.outcome == "silent"]
    yield f"A fingerprint hints at the kind in {sum(score.hinted for score in silent)} of {len(silent)} silent answers."
    partial = sum(score.status == "partial" and score.outcome == "first" for score in harmful)
    yield f"{partial} of the causes that are right and first explain a part of the errors only."


def _harmless_notes(harmless: Sequence[Score]) -> Iterator[str]:
    if harmless:
        right = sum(score.outcome in ("first", "silent") for score in harmless)
        yield f"Of the harmless orders of a sum, {right} of {len(harmless)} were named as such, or passed in silence."
