"""How does a terminal show the divergence of two trainings: the verdict first, then facts, then distances by step?"""

from __future__ import annotations

from collections.abc import Iterator

from precreg.report.describe import strip_controls
from precreg.report.divergence.sentences import advise_divergence, answer_divergence, divergence_facts
from precreg.report.layout import format_columns, wrap_lines
from precreg.types import DivergenceRecord, ParameterCourse, format_number

# A terminal shows so many steps, spread evenly in their order, and the farthest parameters.
MAX_SHOWN_STEPS = 10
MAX_SHOWN_PARAMETERS = 5
_SPARE = ("loss B", "loss A")


def render_divergence_terminal(record: DivergenceRecord, *, width: int | None = None) -> str:
    """Return the text of a comparison for a terminal; None as the width wraps nothing."""
    lines = [answer_divergence(record)]
    if advice := advise_divergence(record):
        lines.append(f"  what to do: {advice}")
    facts = [*divergence_facts(record)]
    label = max(len(name) for name, _ in facts)
    lines += ["", *(f"{name:{label}}  {words}" for name, words in facts)]
    return strip_controls("\n".join([*wrap_lines(lines, width), *_tables(record, width), ""]))


def _tables(record: DivergenceRecord, width: int | None) -> list[str]:
    return ["", *_steps(record, width), *_parameters(record, width)]


def shown_places(record: DivergenceRecord) -> list[int]:
    """Return the places of the steps to show: the first and last, where the runs part, and others between."""
    last = len(record.steps) - 1
    count = min(MAX_SHOWN_STEPS, len(record.steps))
    spread = {round(at * last / max(count - 1, 1)) for at in range(count)}
    parted = () if record.parted is None else (record.steps.index(record.parted.step),)
    return sorted({*spread, *parted})


def _steps(record: DivergenceRecord, width: int | None) -> Iterator[str]:
    names = ["step", "distance", "twins' limit", "ratio", "loss A", "loss B"]
    rows = []
    for place in shown_places(record):
        distance, limit = record.distances[place], record.noise[place] if record.noise else None
        ratio = distance / limit if distance is not None and limit else None
        losses = (record.losses_a[place], record.losses_b[place])
        rows.append([f"{record.steps[place]:,}", *map(_cell, (distance, limit, ratio, *losses))])
    yield from format_columns(names, rows, len(rows), width, spare=_SPARE)
    if hidden := len(record.steps) - len(rows):
        yield f"and {hidden:,} more step{'' if hidden == 1 else 's'}: --report page.html draws all of them"


def _parameters(record: DivergenceRecord, width: int | None) -> Iterator[str]:
    differing = [each for each in record.courses if any(value is None or value for value in each.distances)]
    if len(differing) < 2:
        return
    ranked = sorted(differing, key=lambda each: -(each.distances[-1] or 0.0))
    rows = [
        [
            each.parameter,
            _first_step(record, each),
            _cell(each.start_ratio),
            *map(_cell, (each.distances[-1], each.ulps[-1])),
        ]
        for each in ranked
    ]
    yield ""
    yield from format_columns(
        ["parameter", "parts at step", "start/limit", "distance", "ULP"], rows, MAX_SHOWN_PARAMETERS, width
    )


def _first_step(record: DivergenceRecord, course: ParameterCourse) -> str:
    pairs = zip(record.steps, course.distances, strict=True)
    return next((f"{step:,}" for step, value in pairs if value is None or value), "never")


def _cell(value: float | None) -> str:
    return "-" if value is None else format_number(value, 3)
