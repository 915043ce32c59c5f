"""Which table and pictures show the fake quantizers of a training by step?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from precreg.report.charts import NameMap, draw_name_map
from precreg.report.describe import strip_controls
from precreg.report.layout import format_columns
from precreg.report.quantization.words import NONE
from precreg.report.template import page_style, render_template
from precreg.types import FakeQuantizerEvent, FakeQuantizerStep, QuantizationStepsRecord, format_number

_STYLES = ("report.css", "trace.css", "quantization.css")
_MAX_ROWS = 40
# More columns than that would be thinner than a pixel of a telephone.
_MAX_COLUMNS = 60
_NAMES = ["fake quantizer", "step", "error", "error / scale", "clipped", "scale", "moved", "turned back"]


def render_quantization_steps_terminal(record: QuantizationStepsRecord, width: int | None = None) -> str:
    """Return the text of a record: the last figures of each fake quantizer, the largest error first."""
    lines = [f"{record.model}  {answer_quantization_steps(record)}", ""]
    lines += format_columns(_NAMES, _cells(record), _MAX_ROWS, width)
    notes = describe_fake_quantizer_events(record)
    return strip_controls("\n".join([*lines, "", *notes] if notes else lines)) + "\n"


def render_quantization_steps_html(record: QuantizationStepsRecord) -> str:
    """Lay out a record as one HTML document with heat maps by fake quantizer and step."""
    from markupsafe import Markup

    page: dict[str, Any] = {
        "record": record,
        "answer": answer_quantization_steps(record),
        "settings": f"{len(record.quantizers):,} fake quantizers, every {record.every:,} steps",
        "data": "",
        "executed": None,
        "metric": None,
        "events": describe_fake_quantizer_events(record),
        "names": _NAMES,
        "cells": _cells(record),
        "tables": [],
        # The pictures' own functions escape every name.
        "sections": [
            {"name": name, "pictures": [Markup(drawn)], "caption": caption} for name, drawn, caption in _maps(record)
        ],
        "style": page_style(*_STYLES),
    }
    return render_template("quantization.html.j2", page)


def answer_quantization_steps(record: QuantizationStepsRecord) -> str:
    """Write one sentence: the fake quantizer with the largest error at the last sampled step, and its change."""
    last = _last_figures(record)
    known = [each for each in last if each.relative_error is not None]
    if not known:
        return f"no fake quantizer has an error at {record.steps:,} steps"
    worst = known[0]
    first = next(each for each in record.figures if each.name == worst.name)
    before = "not defined" if first.relative_error is None else format_number(first.relative_error, 3)
    return (
        f"the largest error at step {worst.step:,} has {worst.name}: {format_number(worst.relative_error or 0.0, 3)}"
        f" relative ({before} at step {first.step:,})"
    )


def _last_figures(record: QuantizationStepsRecord) -> list[FakeQuantizerStep]:
    last = {each.name: each for each in record.figures}
    return sorted(last.values(), key=lambda each: -(each.relative_error or 0.0))


def _cells(record: QuantizationStepsRecord) -> list[list[str]]:
    return [
        [
            each.name,
            f"{each.step:,}",
            NONE if each.relative_error is None else format_number(each.relative_error, 3),
            format_number(each.error_steps, 3),
            _share(each.clipped, each.elements),
            _scales(each),
            _share(each.moved, each.followed),
            _share(each.turned, each.followed),
        ]
        for each in _last_figures(record)
    ]


def _share(part: int, whole: int) -> str:
    if not whole:
        return NONE
    return f"{format_number(100 * part / whole, 2)} %" if part else "0"


def _scales(each: FakeQuantizerStep) -> str:
    least, largest = format_number(each.least_scale, 3), format_number(each.largest_scale, 3)
    return least if each.least_scale == each.largest_scale else f"{least} to {largest}"


_FIGURES: tuple[tuple[str, Callable[[FakeQuantizerStep], float | None], str], ...] = (
    ("Relative error by step", lambda each: each.relative_error, "root mean square, over the norm of the values"),
    ("Clipped by step", lambda each: each.clipping_share, "share of the elements; their gradient is zero"),
    ("Turned back by step", lambda each: each.turning_share, "share of followed weights whose code moved back"),
)


def _maps(record: QuantizationStepsRecord) -> Iterator[tuple[str, str, str]]:
    steps = sorted({each.step for each in record.figures})
    stride = -(-len(steps) // _MAX_COLUMNS)
    shown = steps[::stride] if stride else []
    if not shown:
        return
    more = f"; {len(shown):,} of {len(steps):,} sampled steps" if stride > 1 else ""
    for title, figure, caption in _FIGURES:
        found = {(each.name, each.step): figure(each) for each in record.figures}
        rows = [name for name in record.quantizers if any(found.get((name, step)) is not None for step in shown)]
        values = [[found.get((name, step)) for step in shown] for name in rows]
        if rows:
            drawn = draw_name_map(NameMap(rows, [f"{step:,}" for step in shown], values, caption))
            yield title, drawn, caption + more


def describe_fake_quantizer_events(record: QuantizationStepsRecord) -> list[str]:
    """Return one line for each event, and one for figures that had to make room."""
    lines = [_event(each) for each in record.events]
    if record.dropped:
        lines.append(f"{record.dropped:,} older figures made room for later ones (keep)")
    return lines


def _event(event: FakeQuantizerEvent) -> str:
    when = f"step {event.step:,}" + (f" and {event.times - 1:,} more" if event.times > 1 else "")
    return {
        "disabled": f"{event.name} was switched off at {when}",
        "non_finite": f"{event.name} got NaN or infinities at {when}: {event.detail}, and has no figures there",
        "sampled_codes": f"{event.name}: the codes of {event.detail} weights are not followed",
        "never_ran": f"{event.name} has not run in training mode",
    }[event.kind]
