"""Which tolerances apply to the recorded figures of a table?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from precreg.errors import UserError, nearest
from precreg.measure import baseline_metrics
from precreg.storage import Source
from precreg.suite.files import SuiteFile, TableEntry
from precreg.tolerance import NO_BOUNDS
from precreg.types import PAIRED_LOSS, RULES, STATISTIC, Layer, Location, split_growth_key

# Growth of a recorded figure that is allowed against the baseline. A sweep draws the same inputs in each run, so that
# figures repeat on the same code and device; without arrays no statistic knows the noise of another compiler.
FIGURE_GROWTH = 0.1


def recorded_metrics(table: TableEntry) -> dict[str, str]:
    """Return the keys of `metrics:` by the name of the metric: precreg's own, or DIRECTION.KEY for the table's."""
    given, kept = table.metrics if isinstance(table.metrics, dict) else {}, baseline_metrics()
    better = {key: value.get("better") for key, value in given.items() if isinstance(value, dict)}
    return {key if key in kept else f"{better.get(key)}.{key}": key for key in given}


def require_recorded(source: Source, table: TableEntry, own: Sequence[Layer]) -> None:
    """Refuse settings of the suite for metrics that its table lacks. Shared layers are for other suites, too."""
    known = recorded_metrics(table)
    for layer in own:
        growths = [split_growth_key(key)[0] for key, growth in layer.regression.items() if growth is not None]
        for metric in (*layer.bounds, *growths):
            if metric not in known and metric not in ("standard", *RULES):
                listed = ", ".join(known)
                message = f"expected a metric of the table ({listed}) but got {metric}{nearest(metric, known)}"
                line = layer.lines.get(metric, layer.source.line)
                raise UserError("unknown-metric", message, file=layer.source.file, line=line)


def with_own_figures_off(table: TableEntry, layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """Return layers in which `regression: off` covers the figures that a table records under names of its own."""
    every = {*RULES, *baseline_metrics()}
    off: dict[str, float | None] = dict.fromkeys(recorded_metrics(table))
    return tuple(
        replace(layer, regression={**off, **layer.regression})
        if every <= layer.regression.keys() and not any(growth is not None for growth in layer.regression.values())
        else layer
        for layer in layers
    )


def figures_layer(file: SuiteFile) -> Layer:
    """Return the shipped settings for recorded figures: no bound on elements, and one growth for every figure.

    The statistic and pairs of versions need arrays.
    """
    assert file.table is not None
    growths = dict.fromkeys(recorded_metrics(file.table), FIGURE_GROWTH)
    off: dict[str, float | None] = {STATISTIC: None, PAIRED_LOSS: None}
    place = Location("precreg's defaults for recorded figures")
    return Layer("shipped", place, {"standard": NO_BOUNDS.name}, regression={**off, **growths})
