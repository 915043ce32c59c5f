"""How does a terminal show an observed training: its gradients, its lost updates and its events?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

from precreg.report.describe import strip_controls
from precreg.report.layout import format_columns
from precreg.report.trace import describe_overhead
from precreg.report.training.clip_sentences import describe_clip_order
from precreg.report.training.events import describe_training_event, describe_training_steps
from precreg.report.training.losses import gradient_loss_lines
from precreg.report.training.record_view import answer_training
from precreg.report.training.scale_sentences import describe_scaler, format_share
from precreg.training import find_clipped_before_unscale, summarize_scaler
from precreg.types import (
    GradientLosses,
    GradientNoise,
    TrainingRecord,
    TrainingReport,
    UpdateFigures,
    ValueFigures,
    format_number,
)

# A terminal shows the worst rows, and the JSON all.
_MAX_ROWS = 20
_MAX_EVENTS = 10
_VALUE_COLUMNS = ("format", "largest", "NaN, Inf", "zeros", "subnormal", "become zero", "overflow")
_UPDATE_COLUMNS = ("lost updates", "update in ULP")
_SPARE = ("NaN, Inf", "update in ULP", "overflow", "format", "zeros", "largest")


class _Row(NamedTuple):
    """Hold the figures of a parameter or a layer over the sampled steps."""

    name: str
    gradients: Sequence[ValueFigures]
    updates: Sequence[UpdateFigures]

    def count(self, field: str) -> int:
        return sum(getattr(each, field) for each in self.gradients)

    @property
    def nonzero(self) -> int:
        return self.count("measured") - self.count("nan") - self.count("zeros")

    @property
    def has_finite(self) -> bool:
        return self.count("measured") > self.count("nan") + self.count("inf")

    @property
    def badness(self) -> tuple[float, ...]:
        """The order of the rows: NaN first, then lost updates, then lost and subnormal gradients."""
        intended = sum(each.intended for each in self.updates)
        lost = sum(each.lost for each in self.updates)
        nonzero, measured = max(self.nonzero, 1), max(self.count("measured"), 1)
        return (
            -float(self.count("nan") + self.count("inf") > 0),
            -(lost / intended if intended else 0.0),
            -(self.count("below") + self.count("beyond")) / nonzero,
            -self.count("subnormal") / nonzero,
            -self.count("zeros") / measured,
        )


def training_report_json(report: TrainingReport) -> bytes:
    """Return the report as one line of JSON. NaN and infinities are null."""
    from msgspec import json

    return json.encode(report) + b"\n"


def training_report_lines(report: TrainingReport, width: int | None = None) -> list[str]:
    """Return the lines of a training: the answer, the steps, the worst parameters, the noise, events and losses."""
    losses = report.losses or GradientLosses()
    lines = _record_lines(report.record, losses, width)
    found = gradient_loss_lines(losses, width)
    lines += ["", *found] if found else []
    # Stored gradients cannot run again.
    return [*lines, "faults and remedies were not measured; add --advise"] if report.record.optimizer else lines


def render_training_terminal(record: TrainingRecord) -> str:
    """Return the text of an observed training: the answer, the worst parameters, events and the scaler."""
    lines = _record_lines(record, GradientLosses(), None)
    scaler = summarize_scaler(record.scales)
    if scaler is not None:
        lines += ["", "scaler", *(f"  {sentence}" for sentence in describe_scaler(scaler))]
    order = find_clipped_before_unscale(record.clips)
    if order is not None:
        lines += ["", "clipping", *(f"  {sentence}" for sentence in describe_clip_order(order))]
    return strip_controls("\n".join(lines))


def _record_lines(record: TrainingRecord, losses: GradientLosses, width: int | None) -> list[str]:
    lines = [f"training {record.model}{f' with {record.optimizer}' if record.optimizer else ''}"]
    lines += [f"  {answer_training(record, losses)}", f"  {describe_training_steps(record)}"]
    if record.overhead.share is not None:
        lines.append(f"  {describe_overhead(record.overhead)}")
    lines += [f"  {sentence}" for sentence in [*_loss_sentences(record), *_noise_sentences(record.noise)]]
    for title, rows in (
        ("gradients by parameter", _parameters(record)),
        ("gradients of layers' outputs", _outputs(record)),
    ):
        if rows:
            lines += ["", title, *(f"  {line}" for line in _table(rows, width))]
    if record.events:
        lines += ["", "events, and what was left out"]
        lines += [f"  {describe_training_event(event)}" for event in record.events[:_MAX_EVENTS]]
        if len(record.events) > _MAX_EVENTS:
            lines.append(f"  and {len(record.events) - _MAX_EVENTS:,} more; the JSON has all of them")
    return lines


def _loss_sentences(record: TrainingRecord) -> list[str]:
    known = [point for point in record.losses if point.loss is not None]
    if not known:
        return [f"loss: 0 of {len(record.losses):,} are finite"] if record.losses else []
    first, last = known[0], known[-1]
    missing = len(record.losses) - len(known)
    note = f"; {missing:,} loss{' was' if missing == 1 else 'es were'} not finite" if missing else ""
    sizes = f"{format_number(first.loss or 0.0, 4)} at step {first.step}, {format_number(last.loss or 0.0, 4)}"
    return [f"loss: {sizes} at step {last.step}{note}"]


def _noise_sentences(noise: Sequence[GradientNoise]) -> list[str]:
    whole = next((each for each in noise if not each.parameter), None)
    if whole is None:
        return []
    source = {
        "micro_batches": f"micro-batches, from {whole.samples:,} of them",
        "steps": f"batches, from {whole.samples:,} sampled steps, so it includes the gradient's drift",
    }[whole.source]
    if whole.scale is None:
        return [f"noise scale of the gradients: not known, the noise hides the mean gradient ({source})"]
    return [f"noise scale of the gradients: {format_number(whole.scale, 3)} {source}"]


def _parameters(record: TrainingRecord) -> list[_Row]:
    found: dict[str, tuple[list[ValueFigures], list[UpdateFigures]]] = {}
    for step in record.steps:
        for each in step.parameters:
            gradients, updates = found.setdefault(each.parameter, ([], []))
            gradients += [each.gradient] if each.gradient is not None else []
            updates += [each.update] if each.update is not None else []
    return [_Row(name, gradients, updates) for name, (gradients, updates) in found.items()]


def _outputs(record: TrainingRecord) -> list[_Row]:
    found: dict[str, list[ValueFigures]] = {}
    for step in record.steps:
        for each in step.outputs:
            found.setdefault(each.layer or record.model, []).append(each.gradient)
    return [_Row(name, gradients, []) for name, gradients in found.items()]


def _table(rows: Iterable[_Row], width: int | None) -> list[str]:
    ordered = sorted(rows, key=lambda row: row.badness)
    has_updates = any(row.updates for row in ordered)
    columns = ("name", *_VALUE_COLUMNS, *(_UPDATE_COLUMNS if has_updates else ()))
    cells = [[row.name, *_values(row), *(_updates(row) if has_updates else ())] for row in ordered]
    # Two columns of indentation.
    return format_columns(columns, cells, _MAX_ROWS, None if width is None else width - 2, spare=_SPARE)


def _values(row: _Row) -> tuple[str, ...]:
    sizes = [max(abs(each.least), abs(each.greatest)) for each in row.gradients]
    nonzero = row.nonzero
    return (
        row.gradients[-1].format if row.gradients else "",
        format_number(max(sizes, default=0.0), 3) if row.has_finite else "no value",
        f"{row.count('nan') + row.count('inf'):,}",
        format_share(row.count("zeros"), row.count("measured")),
        *(format_share(row.count(field), nonzero) for field in ("subnormal", "below", "beyond")),
    )


def _updates(row: _Row) -> tuple[str, str]:
    intended, lost = (sum(getattr(each, field) for each in row.updates) for field in ("intended", "lost"))
    ulps = [each.median_ulp for each in row.updates if each.median_ulp is not None]
    size = format_number(median(ulps), 3) if ulps else "not known"
    return format_share(lost, intended), size
