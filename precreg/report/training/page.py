"""How does a browser show a training: gradient flow, loss scale, clipping, and the sizes of gradients?

The page is one file without script or network. Radio buttons and style select the figure of the heat map.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log2
from typing import Any, NamedTuple

from precreg.arithmetic import Format
from precreg.report.charts import (
    MAX_CURVES,
    BinadeCounts,
    NameMap,
    SeriesBand,
    SeriesLine,
    SeriesMark,
    SeriesPlot,
    SeriesPoint,
    draw_binades,
    draw_name_map,
    draw_series,
    series_legend,
)
from precreg.report.template import page_style, render_template
from precreg.report.training.clip_sentences import CLIP_COLUMNS, clip_rows, describe_clip_order, describe_clipping
from precreg.report.training.scale_sentences import (
    SCALE_COLUMNS,
    TENSOR_COLUMNS,
    count_steps,
    describe_loss_scale,
    describe_scaler,
    describe_tensor_scales,
    scale_rows,
    tensor_rows,
)
from precreg.types import (
    ClippedBeforeUnscale,
    ClippingSweep,
    GradientLosses,
    LossScaleSweep,
    ScaleLosses,
    ScalerHistory,
    ScalerPoint,
    TensorScaleSweep,
)

_STYLES = ("report.css", "trace.css", "training.css")
# The JSON has all rows. A page with more of them is slow to open.
_MAX_ROWS = 200
# Each histogram takes some 6 KB.
_MAX_HISTOGRAMS = 40


class FlowMap(NamedTuple):
    """Hold one figure of the heat map: its name for the radio button, its cells, and its caption."""

    name: str
    cells: NameMap
    caption: str


class SizeHistogram(NamedTuple):
    """Hold the sizes of a parameter's scaled gradients over the sampled steps, and the format drawn with them."""

    name: str
    counts: BinadeCounts
    format: Format
    # The name of the format in which they were computed, if it is another one.
    computed_in: str = ""


class TrainingView(NamedTuple):
    """Hold everything that the page shows. A part that was not measured stays empty, and has no section."""

    model: str
    answer: str
    facts: Sequence[tuple[str, str]] = ()
    limits: Sequence[str] = ()
    # Sections of advice: a title and its sentences.
    advice: Sequence[tuple[str, Sequence[str]]] = ()
    maps: Sequence[FlowMap] = ()
    losses: Sequence[tuple[int, float | None]] = ()
    scales: Sequence[ScalerPoint] = ()
    scaler: ScalerHistory | None = None
    sweep: LossScaleSweep | None = None
    tensor_scales: TensorScaleSweep | None = None
    clipping: ClippingSweep | None = None
    clip_order: ClippedBeforeUnscale | None = None
    histograms: Sequence[SizeHistogram] = ()


class _Picture(NamedTuple):
    name: str
    svg: Any
    caption: str
    legend: Sequence[tuple[str, int]] = ()
    keys: Sequence[tuple[str, str]] = ()
    kind: str = "drawn"


class _Table(NamedTuple):
    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left_out: int = 0


class _Part(NamedTuple):
    name: str
    lines: Sequence[str] = ()
    pictures: Sequence[_Picture] = ()
    tables: Sequence[_Table] = ()


def render_training_view(view: TrainingView) -> str:
    """Lay out a training as one HTML document."""
    from markupsafe import Markup

    shown = view.histograms[:_MAX_HISTOGRAMS]
    left_out = len(view.histograms) - len(shown)
    page: dict[str, Any] = {
        "view": view,
        "maps": [
            _Picture(each.name, Markup(draw_name_map(each.cells)), each.caption, kind="map") for each in view.maps
        ],
        "parts": list(_parts(view)),
        "histograms": [_histogram(each) for each in shown],
        "histograms_left_out": f"and {left_out:,} histograms more; the JSON has all of them" if left_out else "",
        "histogram_keys": [
            ("normal in the format", "bin"),
            ("subnormal", "bin subnormal"),
            ("below the smallest or above the largest number", "bin lost"),
        ],
        "style": page_style(*_STYLES),
    }
    return render_template("training.html.j2", page)


def view_of_losses(name: str, found: GradientLosses) -> TrainingView:
    """Return the view of gradients without a training around them: stored ones, whose updates nobody saw."""
    steps = 0 if found.loss_scale is None else found.loss_scale.steps
    sentences = [] if found.loss_scale is None else describe_loss_scale(found.loss_scale)
    return TrainingView(
        model=name,
        answer=next(iter(sentences), "nothing was measured"),
        facts=[("steps", count_steps(steps))],
        sweep=found.loss_scale,
        scales=found.scales,
        scaler=found.scaler,
        tensor_scales=found.tensor_scales,
        clipping=found.clipping,
        clip_order=found.clip_order,
    )


def render_gradient_losses_html(name: str, found: GradientLosses) -> str:
    """Lay out the losses of gradients as one HTML document."""
    return render_training_view(view_of_losses(name, found))


def _parts(view: TrainingView) -> Iterator[_Part]:
    if any(loss is not None for _, loss in view.losses):
        points = [SeriesPoint(step, loss) for step, loss in view.losses]
        yield _Part("Loss", pictures=[_series("Loss", SeriesPlot([SeriesLine("loss", points)], "step", "loss"))])
    if view.sweep is not None:
        yield _scale_part(view.sweep)
    if view.scales or view.sweep is not None:
        yield _Part("Scaler", describe_scaler(view.scaler, view.sweep), _scaler_pictures(view.scales))
    if view.tensor_scales is not None:
        lines, rows = describe_tensor_scales(view.tensor_scales), tensor_rows(view.tensor_scales)
        yield _Part("Per-tensor scales", lines, tables=[_table("Per-tensor scales", TENSOR_COLUMNS, rows)])
    if view.clipping is not None or view.clip_order is not None:
        lines = [
            *describe_clip_order(view.clip_order),
            *([] if view.clipping is None else describe_clipping(view.clipping)),
        ]
        rows = [] if view.clipping is None else clip_rows(view.clipping)
        yield _Part("Clipping", lines, tables=[_table("Clipping", CLIP_COLUMNS, rows)])


def _table(name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> _Table:
    return _Table(name, columns, rows[:_MAX_ROWS], max(0, len(rows) - _MAX_ROWS))


def _series(name: str, plot: SeriesPlot, caption: str = "", keys: Sequence[tuple[str, str]] = ()) -> _Picture:
    from markupsafe import Markup

    legend = series_legend(plot) if len(plot.lines) > 1 or keys else []
    return _Picture(name, Markup(draw_series(plot)), caption, legend, keys)


def _scale_part(sweep: LossScaleSweep) -> _Part:
    name = f"Loss scale of {sweep.format}"
    pictures = [_share_picture(sweep), *_layer_pictures(sweep)] if sweep.total.nonzero else []
    return _Part(name, describe_loss_scale(sweep), pictures, [_table(name, SCALE_COLUMNS, scale_rows(sweep))])


def _share_picture(sweep: LossScaleSweep) -> _Picture:
    total = sweep.total
    counts = {"become zero": total.zero, "subnormal": total.subnormal, "overflow": total.beyond}
    lines = [_shares(name, each, total.nonzero, sweep.exponents) for name, each in counts.items()]
    energy = zip(sweep.exponents, total.zero_energy, strict=True)
    lines.append(SeriesLine("squared norm lost", [SeriesPoint(exponent, share) for exponent, share in energy]))
    plot = SeriesPlot(lines, "loss scale", "share of nonzero gradients", True, bands=_window(sweep), prefix="2^")
    return _series("Gradients lost by loss scale", plot, "0 is on the lowest line", _window_key(sweep))


def _layer_pictures(sweep: LossScaleSweep) -> list[_Picture]:
    known = [layer for layer in sweep.layers if layer.nonzero]
    if len(known) < 2:
        return []
    # The area under a curve: the layers that lose most over all scales.
    worst = sorted(known, key=lambda layer: -sum(_lost(layer)) / layer.nonzero)[:MAX_CURVES]
    lines = [_shares(layer.parameter, _lost(layer), layer.nonzero, sweep.exponents) for layer in worst]
    left_out = len(known) - len(worst)
    caption = "gradients that become zero or overflow" + (f"; {left_out:,} parameters are left out" if left_out else "")
    plot = SeriesPlot(lines, "loss scale", "share of nonzero gradients", True, bands=_window(sweep), prefix="2^")
    return [_series("Gradients lost by parameter", plot, caption, _window_key(sweep))]


def _lost(layer: ScaleLosses) -> list[int]:
    return [zero + beyond for zero, beyond in zip(layer.zero, layer.beyond, strict=True)]


def _shares(name: str, counts: Sequence[int], nonzero: int, exponents: Sequence[int]) -> SeriesLine:
    return SeriesLine(
        name, [SeriesPoint(exponent, count / nonzero) for exponent, count in zip(exponents, counts, strict=True)]
    )


def _window(sweep: LossScaleSweep) -> list[SeriesBand]:
    window = sweep.window
    return [] if window is None else [SeriesBand(window.low, window.high, "scales that lose least without overflow")]


def _window_key(sweep: LossScaleSweep) -> list[tuple[str, str]]:
    return [(band.label, "band") for band in _window(sweep)]


def _scaler_pictures(scales: Sequence[ScalerPoint]) -> list[_Picture]:
    if not scales:
        return []
    points = [SeriesPoint(point.step, log2(point.scale) if point.scale > 0 else None) for point in scales]
    skipped = [SeriesMark(point.step, f"step {point.step} was skipped") for point in scales if point.is_skipped]
    plot = SeriesPlot([SeriesLine("loss scale", points)], "step", "loss scale", marks=skipped, upward_prefix="2^")
    return [_series("Loss scale over steps", plot, keys=[("skipped steps", "skip")] if skipped else [])]


def _histogram(found: SizeHistogram) -> _Picture:
    from markupsafe import Markup

    drawn = Markup(draw_binades(found.counts, found.format, found.name))
    computed = f", computed in {found.computed_in}" if found.computed_in else ""
    caption = f"nonzero gradients times the loss scale, by size{computed}; the range of {found.format.name} is drawn"
    return _Picture(found.name, drawn, caption)
