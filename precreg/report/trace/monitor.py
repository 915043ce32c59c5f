"""How does a browser show the layers of a monitored module: heat maps of layers by step, and of layers by metric?

The page is one file without script or network.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan
from typing import Any, NamedTuple

from precreg.report.charts import NameMap, draw_name_map
from precreg.report.template import page_style, render_template
from precreg.shadow.monitor import MonitorMetric, map_errors
from precreg.types import MonitorEvent, MonitorOverhead, MonitorRecord, TensorRole, format_number

_STYLES = ("report.css", "trace.css")


class _Picture(NamedTuple):
    name: str
    map: NameMap
    caption: str


# Each role with its errors over the steps, and the words of a heading.
_OVER_STEPS: tuple[tuple[TensorRole, MonitorMetric, str], ...] = (
    ("activation", "own", "own error of the layer"),
    ("activation", "total", "total error of activations"),
    ("gradient", "total", "total error of gradients"),
    ("weight", "total", "total error of updated weights"),
)
_ERRORS = "relative errors, colours on a log scale"
_BY_METRIC: tuple[MonitorMetric, ...] = ("own", "total", "std", "least", "greatest", "subnormal", "zeros")
_COUNTS: tuple[MonitorMetric, ...] = ("nan", "inf")


def render_monitor_html(record: MonitorRecord) -> str:
    """Lay out a monitor's record as one HTML document."""
    from markupsafe import Markup

    pictures = [
        {"name": each.name, "svg": Markup(draw_name_map(each.map)), "caption": each.caption}
        for each in _pictures(record)
    ]
    page: dict[str, Any] = {
        "record": record,
        "answer": answer_monitor(record),
        "steps": describe_steps(record),
        "overhead": describe_overhead(record.overhead),
        "events": [describe_monitor_event(event) for event in record.events],
        "pictures": pictures,
        "style": page_style(*_STYLES),
    }
    return render_template("monitor.html.j2", page)


def answer_monitor(record: MonitorRecord) -> str:
    """Write one sentence: the layer with the largest own error, and where."""
    found = map_errors(record, "own", "activation")
    known = [
        (float(value), -row, -column)
        for row, values in enumerate(found.values)
        for column, value in enumerate(values)
        if not isnan(value)
    ]
    if not known:
        has_run = any(step.layers for step in record.steps)
        return "no own error is known" if has_run else "no layer ran in a sampled step"
    largest, row, column = max(known)
    place = found.layers[-row] or record.model
    return f"the largest own error of a layer is {format_number(largest, 3)}: {place} at step {found.steps[-column]}"


def describe_steps(record: MonitorRecord) -> str:
    """Write how many steps the page shows, and how many it does not."""
    begun = f"{record.begun:,} step{'' if record.begun == 1 else 's'} began"
    dropped = f"; the oldest {record.dropped:,} of the sampled ones are left out" if record.dropped else ""
    return f"{begun}, {len(record.steps):,} sampled (every {record.every:,}) are shown{dropped}"


def describe_overhead(overhead: MonitorOverhead) -> str:
    """Write the measured cost of a monitor or an observer."""
    if overhead.sampled_s is None or overhead.others_s is None or overhead.share is None:
        return "the cost is not known before a sampled and another step have ended"
    ratio = format_number(overhead.sampled_s / overhead.others_s, 3)
    # A negative share is the noise of the two medians.
    longer = f"{format_number(100 * overhead.share, 3)} % longer" if overhead.share > 0 else "no longer, within noise"
    return f"a sampled step takes {ratio} times the time of another; all steps together take {longer}"


def describe_monitor_event(event: MonitorEvent) -> str:
    """Write one event with its first step and its number of times."""
    what = {
        "not_shadowed": "has no float64 form and ran as it is on the rounded shadows",
        "cut": "took a value out of the shadow, which came back as exact",
        "forward_only": "ran inside another dispatch mode, so its backward pass has no shadow",
        "flip": "would have chosen other indices or truth values in float64; the shadow follows the run",
        "eager": "ran operation by operation in place of its compiled code, whose kernels are not measured",
        "transformed": "ran inside a transform of torch.func, and has no figures",
        "same_precision": "is as precise as its shadow, so its errors are not known",
        "other_thread": "ran or ended in another thread than its step began, and has no shadow there",
        "interrupted": "raised an exception in its forward pass",
        "calls_left_out": "ran more often in one step than the monitor keeps",
    }[event.kind]
    detail = f": {event.detail}" if event.detail else ""
    times = f", {event.times:,} times" if event.times > 1 else ""
    return f"{event.name} {what} (first at step {event.step}{times}){detail}"


def _pictures(record: MonitorRecord) -> Iterator[_Picture]:
    for role, metric, words in _OVER_STEPS:
        found = map_errors(record, metric, role)
        if found.layers:
            columns = [str(step) for step in found.steps]
            rows = [name or record.model for name in found.layers]
            caption = f"{words[0].upper()}{words[1:]}, layers by step"
            yield _Picture(caption, NameMap(rows, columns, _cells(found.values), words), _ERRORS)
    yield from _by_metric(record)


def _by_metric(record: MonitorRecord) -> Iterator[_Picture]:
    """Yield a map of layers by metric for each role, with the largest size over the sampled steps."""
    for role in ("activation", "gradient", "weight"):
        maps = {metric: map_errors(record, metric, role) for metric in (*_BY_METRIC, *_COUNTS)}
        layers = maps["std"].layers
        # Most modules have neither NaN nor infinities, and weights have no own error.
        shown = [name for name in _BY_METRIC if maps[name].layers]
        shown += [name for name in _COUNTS if maps[name].values.any()]
        if not layers:
            continue
        largest = {
            name: {layer: max(known, key=abs, default=None) for layer, known in _known(maps[name])} for name in shown
        }
        values = [[largest[name].get(layer) for name in shown] for layer in layers]
        rows = [name or record.model for name in layers]
        words = f"{role}s: layers by metric"
        caption = "the largest size over the sampled steps; each column has a colour scale of its own, logarithmic"
        yield _Picture(f"{words[0].upper()}{words[1:]}", NameMap(rows, shown, values, words, own_scales=True), caption)


def _known(found: Any) -> Iterator[tuple[str, list[float]]]:
    for layer, values in zip(found.layers, found.values, strict=True):
        yield layer, [float(value) for value in values if not isnan(value)]


def _cells(values: Any) -> list[list[float | None]]:
    return [[None if isnan(value) else float(value) for value in row] for row in values]
