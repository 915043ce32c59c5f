"""Which settings of a pyramid are for whom: metrics of analyzers are measured only where the analyzer is asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from msgspec.structs import replace

from precreg.errors import UserError
from precreg.measure.installed import analyzer_of
from precreg.tolerance.pyramid import GROWTH
from precreg.types.types import Layer


def require_asked(layers: Iterable[Layer], analyzers: Collection[str]) -> None:
    """Require that the metrics that layers name are ours, or of the analyzers that are asked for.

    Raises UserError (unknown-analyzer) with the line.
    """
    for layer in layers:
        for metric, value in (*layer.bounds.items(), *layer.regression.items()):
            if not _is_asked(metric, analyzers):
                key = metric if metric in layer.bounds else GROWTH + metric
                message = f"expected {analyzer_of(metric)} under analyzers but got {metric}={value} without it"
                line = layer.lines.get(key, layer.source.line)
                raise UserError("unknown-analyzer", message, file=layer.source.file, line=line)


def only_asked(layers: Iterable[Layer], analyzers: Collection[str]) -> Iterator[Layer]:
    """Leave out of layers what they say of metrics of analyzers that are not asked for: nobody measures those."""
    for layer in layers:
        if all(_is_asked(metric, analyzers) for metric in (*layer.bounds, *layer.regression)):
            yield layer
        else:
            bounds = {metric: limit for metric, limit in layer.bounds.items() if _is_asked(metric, analyzers)}
            growths = {metric: growth for metric, growth in layer.regression.items() if _is_asked(metric, analyzers)}
            yield replace(layer, bounds=bounds, regression=growths)


def _is_asked(metric: str, analyzers: Collection[str]) -> bool:
    """Tell whether a setting is of ours, or of an analyzer that is asked for."""
    analyzer = analyzer_of(metric)
    return analyzer is None or analyzer in analyzers
