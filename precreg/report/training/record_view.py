"""Which heat maps, histograms and curves show the record of an observed training?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import log2
from typing import NamedTuple

from precreg.arithmetic import format_named
from precreg.report.charts import BinadeCounts, NameMap
from precreg.report.trace import describe_overhead
from precreg.report.training.clip_sentences import describe_clip_order
from precreg.report.training.events import describe_training_event, describe_training_steps
from precreg.report.training.page import FlowMap, SizeHistogram, TrainingView, render_training_view
from precreg.report.training.scale_sentences import count_steps, describe_loss_scale, format_share
from precreg.training import find_clipped_before_unscale, summarize_scaler
from precreg.types import (
    ExponentCounts,
    GradientLosses,
    ParameterFigures,
    TrainingRecord,
    TrainingStep,
    ValueFigures,
)

# No gradient is near the ends of their ranges, which a histogram would not show.
_WIDE = frozenset({"float32", "float64", "bfloat16"})
# Subnormal values have fewer bits, and some become zero. If most are subnormal, the scale is too low; a few always are.
_MIN_SUBNORMAL = 0.5
# More names fill a line.
_MAX_NAMES = 3


class _Heading(NamedTuple):
    """Hold the name of a heat map for its radio button, its unit, and its caption."""

    name: str
    unit: str
    caption: str
    # Others have no map if they are 0 or not known everywhere.
    is_always_shown: bool = False


def render_training_html(
    record: TrainingRecord,
    losses: GradientLosses | None = None,
    advice: Sequence[tuple[str, Sequence[str]]] = (),
) -> str:
    """Lay out an observed training as one HTML document.

    `losses` adds the parts of loss scales and clipping, `advice` sections of a title and its sentences each.
    """
    return render_training_view(view_of_training(record, losses or GradientLosses(), advice))


def view_of_training(
    record: TrainingRecord, losses: GradientLosses, advice: Sequence[tuple[str, Sequence[str]]] = ()
) -> TrainingView:
    """Return everything that the page of a training shows."""
    scales = losses.scales or record.scales
    return TrainingView(
        model=record.model,
        answer=answer_training(record, losses),
        facts=list(_facts(record)),
        limits=[describe_training_event(event) for event in record.events],
        advice=advice,
        maps=list(_maps(record)),
        losses=[(point.step, point.loss) for point in record.losses],
        scales=scales,
        scaler=losses.scaler or summarize_scaler(scales),
        sweep=losses.loss_scale,
        tensor_scales=losses.tensor_scales,
        clipping=losses.clipping,
        clip_order=losses.clip_order or find_clipped_before_unscale(record.clips),
        histograms=list(_histograms(record, None if losses.loss_scale is None else losses.loss_scale.format)),
    )


def answer_training(record: TrainingRecord, losses: GradientLosses) -> str:
    """Write the first thing to know: NaN, clipping before unscaling, or the parameter with the largest loss."""
    if not record.steps:
        return (
            "no step was sampled: observe a step of the optimizer between start() and stop(); with a scaler, a step "
            "ends at scaler.update()"
        )
    nonfinite = [event for event in record.events if event.kind == "nonfinite"]
    if nonfinite:
        return describe_training_event(min(nonfinite, key=lambda event: event.step))
    order = losses.clip_order or find_clipped_before_unscale(record.clips)
    if order is not None:
        return describe_clip_order(order)[0]
    worst = max(_lost_shares(record), default=None, key=lambda each: each[0] / each[1])
    if worst is not None and worst[0]:
        lost, nonzero, name, format = worst
        return f"{format_share(lost, nonzero)} of the gradients of {name} are lost in {format}"
    underflow = _underflow_of_outputs(record)
    if underflow is not None:
        return underflow
    updates = max(_lost_updates(record), default=None, key=lambda each: each[0] / each[1])
    if updates is not None and updates[0]:
        lost, intended, name = updates
        return f"{format_share(lost, intended)} of the updates of {name} leave its bits unchanged"
    if losses.loss_scale is not None:
        return describe_loss_scale(losses.loss_scale)[0]
    return _nothing_lost(record, has_updates=updates is not None)


def _nothing_lost(record: TrainingRecord, *, has_updates: bool) -> str:
    """Write that nothing was lost, and everything that was not measured or is zero."""
    subject = "no gradient and no update" if has_updates else "no gradient"
    words = f"{subject} was lost in {count_steps(len(record.steps))}"
    names = _parameter_names(record)
    zero = [name for name in names if name not in {found for *_, found, _ in _lost_shares(record)}]
    if zero:
        more = f" and {len(zero) - _MAX_NAMES:,} more" if len(zero) > _MAX_NAMES else ""
        shown = ", ".join(zero[:_MAX_NAMES]) + more
        words += f", but every gradient of {len(zero):,} of {len(names):,} parameters is zero: {shown}"
    return words if has_updates or not record.optimizer else f"{words}; no update was measured"


def _underflow_of_outputs(record: TrainingRecord) -> str | None:
    """Write the layer whose output has the largest share of subnormal gradients; None if most are normal."""
    found: dict[str, list[ValueFigures]] = {}
    for step in record.steps:
        for each in step.outputs:
            found.setdefault(each.layer or record.model, []).append(each.gradient)
    shares = [
        (sum(each.subnormal + each.below for each in figures) / nonzero, name, figures)
        for name, figures in found.items()
        if (nonzero := sum(map(_nonzero, figures)))
    ]
    share, name, figures = max(shares, default=(0.0, "", []), key=lambda each: (each[0], _zeros(each[2])))
    if share < _MIN_SUBNORMAL:
        return None
    subnormal = format_share(sum(each.subnormal + each.below for each in figures), sum(map(_nonzero, figures)))
    zeros = format_share(sum(each.zeros for each in figures), sum(each.measured for each in figures))
    return (
        f"gradients of the output of {name} underflow in {figures[-1].format}: {subnormal} of the nonzero ones are "
        f"subnormal or smaller, and {zeros} are zero; use a larger loss scale"
    )


def _zeros(figures: Sequence[ValueFigures]) -> float:
    return sum(each.zeros for each in figures) / max(sum(each.measured for each in figures), 1)


def _facts(record: TrainingRecord) -> Iterator[tuple[str, str]]:
    if record.optimizer:
        yield "optimizer", record.optimizer
    yield "steps", describe_training_steps(record)
    yield "parameters", f"{len(_parameter_names(record)):,}"
    if record.optimizer:
        yield "cost", describe_overhead(record.overhead)


def _parameter_names(record: TrainingRecord) -> list[str]:
    return list(dict.fromkeys(each.parameter for step in record.steps for each in step.parameters))


def _nonzero(figures: ValueFigures) -> int:
    return figures.measured - figures.nan - figures.zeros


def _lost_shares(record: TrainingRecord) -> Iterator[tuple[int, int, str, str]]:
    """Yield lost and nonzero gradients over all steps by parameter, its name and its format."""
    found: dict[str, list[ValueFigures]] = {}
    for step in record.steps:
        for each in step.parameters:
            if each.gradient is not None:
                found.setdefault(each.parameter, []).append(each.gradient)
    for name, figures in found.items():
        if nonzero := sum(map(_nonzero, figures)):
            yield sum(each.below + each.beyond for each in figures), nonzero, name, figures[-1].format


def _lost_updates(record: TrainingRecord) -> Iterator[tuple[int, int, str]]:
    for name in _parameter_names(record):
        updates = [
            each.update
            for step in record.steps
            for each in step.parameters
            if each.parameter == name and each.update is not None
        ]
        if intended := sum(each.intended for each in updates):
            yield sum(each.lost for each in updates), intended, name


def _size(figures: ValueFigures | None) -> float | None:
    """Return 2 to the mean exponent of the nonzero elements: the geometric mean within a factor of 2."""
    if figures is None or not (total := sum(figures.exponents.counts)):
        return None
    least, counts = figures.exponents.least, figures.exponents.counts
    mean = sum(place * count for place, count in enumerate(counts)) / total
    return float(2.0 ** (least + mean))


def _share(figures: ValueFigures | None, count: Callable[[ValueFigures], int]) -> float | None:
    return None if figures is None or not _nonzero(figures) else count(figures) / _nonzero(figures)


def _lost_share(each: ParameterFigures) -> float | None:
    return None if each.update is None or not each.update.intended else each.update.lost / each.update.intended


_FIGURES: tuple[tuple[_Heading, Callable[[ParameterFigures], float | None]], ...] = (
    (
        _Heading(
            "size",
            "size of gradients",
            "2 to the mean exponent of the nonzero gradients: their geometric mean within a factor of 2",
            is_always_shown=True,
        ),
        lambda each: _size(each.gradient),
    ),
    (
        _Heading(
            "become zero",
            "share of gradients that become zero",
            "nonzero gradients, times the loss scale, that their format rounds to zero",
            is_always_shown=True,
        ),
        lambda each: _share(each.gradient, lambda figures: figures.below),
    ),
    (
        _Heading(
            "lost updates", "share of lost updates", "intended updates that left the bits of the weight unchanged"
        ),
        _lost_share,
    ),
    (
        _Heading(
            "subnormal",
            "share of subnormal gradients",
            "gradients, times the loss scale, that their format holds with fewer bits",
        ),
        lambda each: _share(each.gradient, lambda figures: figures.subnormal),
    ),
    (
        _Heading(
            "overflow",
            "share of gradients that overflow",
            "gradients, times the loss scale, beyond the largest number of their format",
        ),
        lambda each: _share(each.gradient, lambda figures: figures.beyond),
    ),
    (
        _Heading("NaN and infinities", "number of NaN and infinities", "gradients that are no finite numbers"),
        lambda each: None if each.gradient is None else float(each.gradient.nan + each.gradient.inf),
    ),
    (
        _Heading(
            "update in ULP",
            "median update in ULP",
            "the median of the intended updates, in units of the last place of the weight; below 0.5 most are lost",
        ),
        lambda each: None if each.update is None else each.update.median_ulp,
    ),
)
_OUTPUT_FIGURES: tuple[tuple[_Heading, Callable[[ValueFigures], float | None]], ...] = (
    (
        _Heading("outputs: size", "size of gradients of outputs", "gradients of the outputs of layers"),
        lambda each: _size(each),
    ),
    (
        _Heading(
            "outputs: become zero",
            "share of gradients of outputs that become zero",
            "gradients of the outputs of layers that their format rounds to zero",
        ),
        lambda each: _share(each, lambda figures: figures.below),
    ),
)


def _maps(record: TrainingRecord) -> Iterator[FlowMap]:
    for heading, value in _FIGURES:
        columns = [{each.parameter: value(each) for each in step.parameters} for step in record.steps]
        yield from _map(heading, columns, record.steps)
    for heading, value_of_output in _OUTPUT_FIGURES:
        columns = [{each.layer: value_of_output(each.gradient) for each in step.outputs} for step in record.steps]
        yield from _map(heading, columns, record.steps)


def _map(
    heading: _Heading, columns: Sequence[dict[str, float | None]], steps: Sequence[TrainingStep]
) -> Iterator[FlowMap]:
    rows = list(dict.fromkeys(name for column in columns for name in column))
    values = [[column.get(row) for column in columns] for row in rows]
    known = [value for row in values for value in row if value is not None]
    if known and (heading.is_always_shown or any(known)):
        cells = NameMap(rows, [str(step.step) for step in steps], values, heading.unit)
        yield FlowMap(heading.name, cells, heading.caption)


def _histograms(record: TrainingRecord, swept: str | None) -> Iterator[SizeHistogram]:
    """Yield the sizes of each parameter's gradients times the loss scale, the largest lost share first.

    `swept` is the format of a sweep of loss scales. Its range is drawn for gradients that a wide format held.
    """
    found: dict[tuple[str, str], list[tuple[ExponentCounts, int]]] = {}
    for step in record.steps:
        shift = round(log2(step.scale)) if step.scale > 0 else 0
        for each in step.parameters:
            if each.gradient is not None:
                found.setdefault((each.parameter, each.gradient.format), []).append((each.gradient.exponents, shift))
    shares = {name: lost / nonzero for lost, nonzero, name, _ in _lost_shares(record)}
    for name, format in sorted(found, key=lambda key: -shares.get(key[0], 0.0)):
        drawn = swept if swept is not None and format in _WIDE else format
        computed_in = "" if drawn == format else format
        yield SizeHistogram(name, _summed(found[name, format]), format_named(drawn), computed_in)


def _summed(found: Iterable[tuple[ExponentCounts, int]]) -> BinadeCounts:
    totals: dict[int, int] = {}
    for counts, shift in found:
        for place, count in enumerate(counts.counts):
            if count:
                exponent = counts.least + place + shift
                totals[exponent] = totals.get(exponent, 0) + count
    if not totals:
        return BinadeCounts(0, [])
    least = min(totals)
    return BinadeCounts(least, [totals.get(exponent, 0) for exponent in range(least, max(totals) + 1)])
