"""How does a browser show a quantization: the table of layers, and pictures of their errors?

The page is one file without script or network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from precreg.report.charts import NameMap, draw_name_map
from precreg.report.quantization.pictures import draw_codes, draw_depth, draw_sqnr_bars
from precreg.report.quantization.sensitivity import extra_tables
from precreg.report.quantization.terminal import array_table, cost_table
from precreg.report.quantization.words import (
    METHOD_WORDS,
    answer_quantization,
    describe_data,
    describe_error,
    describe_quantization_events,
    describe_quantization_settings,
    name_granularity,
    sorted_rows,
)
from precreg.report.template import page_style, render_template
from precreg.types import ArrayQuantization, LayerQuantization, QuantizationRecord, format_number

_STYLES = ("report.css", "trace.css", "quantization.css")
# Histograms of the layers with the largest cost; more of them would make the page long and hide these.
_HISTOGRAMS = 6


class _Section(NamedTuple):
    name: str
    pictures: list[Any]
    caption: str


def render_quantization_html(record: QuantizationRecord) -> str:
    """Lay out a record of a quantization as one HTML document."""
    from markupsafe import Markup

    rows = sorted_rows(record)
    names, cells = array_table(rows) if record.source == "arrays" else cost_table(rows)
    # The pictures' own functions escape every name.
    sections = [
        {"name": each.name, "pictures": [Markup(svg) for svg in each.pictures], "caption": each.caption}
        for each in _sections(record, rows)
    ]
    page: dict[str, Any] = {
        "record": record,
        "answer": answer_quantization(record),
        "settings": describe_quantization_settings(record),
        "data": describe_data(record),
        "executed": None if record.executed is None else describe_error(record.executed),
        "metric": None if record.float_metric is None else format_number(record.float_metric, 4),
        "events": describe_quantization_events(record.events),
        "names": names,
        "cells": cells,
        "tables": extra_tables(record),
        "sections": sections,
        "style": page_style(*_STYLES),
    }
    return render_template("quantization.html.j2", page)


def _sections(record: QuantizationRecord, rows: list[LayerQuantization]) -> Iterator[_Section]:
    if record.total is None:
        yield _Section("SQNR by array", [draw_sqnr_bars(rows, "SQNR in dB")], "the smallest first, at most 40")
    else:
        caption = "results of each layer, quantized alone, against the float layer; the smallest first, at most 40"
        yield _Section("SQNR by layer", [draw_sqnr_bars(rows, "SQNR in dB")], caption)
        caption = "line: all layers up to here quantized; dots: this layer alone"
        yield _Section("Error of the model by depth", [draw_depth(record.rows)], caption)
    for role, array_of in _ROLES:
        yield from _maps(role, [(row.layer, array) for row in rows if (array := array_of(row)) is not None])
    for role, array_of in _ROLES:
        shown = [
            draw_codes(array.histogram, row.layer)
            for row in rows[:_HISTOGRAMS]
            if (array := array_of(row)) is not None and array.histogram is not None
        ]
        if shown:
            caption = "layers with the largest cost; counts on a log scale, and a tick for each code of a single scale"
            yield _Section(f"Histograms of {role}", shown, caption)


_ROLES: tuple[tuple[str, Callable[[LayerQuantization], ArrayQuantization | None]], ...] = (
    ("weights", lambda row: row.weight),
    ("activations", lambda row: row.activation),
)


def _maps(role: str, arrays: list[tuple[str, ArrayQuantization]]) -> Iterator[_Section]:
    """Yield the maps of relative errors: arrays by granularity, and arrays by calibration."""
    granularities = [(name, dict(_by_granularity(array))) for name, array in arrays]
    calibrations = [(name, dict(_by_calibration(array))) for name, array in arrays]
    for words, found in (("granularity", granularities), ("calibration", calibrations)):
        columns = list(dict.fromkeys(column for _, by_name in found for column in by_name))
        if not columns:
            continue
        values = [[by_name.get(column) for column in columns] for _, by_name in found]
        unit = f"relative errors of {role} by {words}"
        drawn = draw_name_map(NameMap([name for name, _ in found], columns, values, unit))
        yield _Section(f"{role.capitalize()} by {words}", [drawn], "relative errors, colours on a log scale")


def _by_granularity(array: ArrayQuantization) -> Iterator[tuple[str, float | None]]:
    for each in array.granularities:
        yield name_granularity(each.granularity, each.group), each.figures.relative_error


def _by_calibration(array: ArrayQuantization) -> Iterator[tuple[str, float | None]]:
    for each in array.calibrations:
        yield METHOD_WORDS[each.method], each.figures.relative_error
