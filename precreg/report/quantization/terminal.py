"""How does a terminal show a quantization: the cost of each layer, or its granularities and calibrations?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from precreg.report.describe import strip_controls
from precreg.report.layout import format_columns
from precreg.report.quantization.sensitivity import extra_tables
from precreg.report.quantization.words import (
    METHOD_WORDS,
    NONE,
    answer_quantization,
    describe_codes,
    describe_data,
    describe_db,
    describe_error,
    describe_outliers,
    describe_quantization_events,
    describe_quantization_settings,
    describe_relative,
    describe_share,
    name_granularity,
    sorted_rows,
)
from precreg.types import ArrayQuantization, LayerQuantization, QuantizationRecord, format_number

QuantizationTable = Literal["cost", "granularity", "calibration"]
_MAX_ROWS = 40


def render_quantization_terminal(
    record: QuantizationRecord, table: QuantizationTable = "cost", *, every: bool = False, width: int | None = None
) -> str:
    """Return the text of a quantization for a terminal, the layers with the largest cost first."""
    rows = sorted_rows(record)
    lines = [f"{record.model}  {describe_quantization_settings(record)}"]
    lines += [each for each in (describe_data(record),) if each]
    lines += ["", answer_quantization(record)]
    if record.executed is not None:
        lines.append(f"the quantized model itself: {describe_error(record.executed)}")
    if record.float_metric is not None:
        lines.append(f"metric of the float model: {format_number(record.float_metric, 4)}")
    names, cells = _table(record, rows, table)
    most = len(cells) if every else _MAX_ROWS
    spare = ("kind", "outliers w a", "codes w", "codes a")
    lines += ["", *format_columns(names, cells, most, width, spare=spare)]
    if len(cells) > most:
        lines.append(f"{len(cells) - most:,} more with --all")
    for extra in extra_tables(record):
        lines += ["", extra.title, *extra.summary, *format_columns(extra.names, extra.cells, most, width)]
    notes = describe_quantization_events(record.events)
    lines += ["", *notes] if notes else []
    return strip_controls("\n".join(lines))


def quantization_json(record: QuantizationRecord) -> bytes:
    """Return a record as one line of JSON with a newline; infinities are the text "inf", because JSON has none."""
    plain = msgspec.to_builtins(record) | {"answer": answer_quantization(record)}
    return msgspec.json.encode(_with_texts(plain)) + b"\n"


def _with_texts(value: Any) -> Any:
    if isinstance(value, float):
        return value if value - value == 0.0 else repr(value)
    if isinstance(value, dict):
        return {name: _with_texts(each) for name, each in value.items()}
    return [_with_texts(each) for each in value] if isinstance(value, list | tuple) else value


def _table(
    record: QuantizationRecord, rows: list[LayerQuantization], table: QuantizationTable
) -> tuple[list[str], list[list[str]]]:
    if table == "granularity":
        return granularity_table(rows)
    if table == "calibration":
        return calibration_table(rows)
    return array_table(rows) if record.source == "arrays" else cost_table(rows)


def array_table(rows: list[LayerQuantization]) -> tuple[list[str], list[list[str]]]:
    """Return names and cells of the table of arrays."""
    names = ["array", "elements", "error", "SQNR dB", "clipped", "codes", "outliers", "kurtosis", "bits"]
    cells = []
    for row in rows:
        found = row.weight
        if found is None:
            continue
        spread = found.spread
        ratio = None if spread is None else spread.ratio
        kurtosis = None if spread is None else spread.kurtosis
        cells.append(
            [
                row.layer,
                f"{found.figures.elements:,}",
                _error(found),
                describe_db(found.figures.sqnr_db, is_exact=found.figures.is_exact),
                describe_share(found.figures),
                describe_codes(found.figures),
                NONE if ratio is None else f"{format_number(ratio, 2)}x",
                NONE if kurtosis is None else format_number(kurtosis, 3),
                format_number(found.quantizer.bits, 3),
            ]
        )
    return names, cells


def _error(found: ArrayQuantization) -> str:
    return NONE if found.figures.relative_error is None else format_number(found.figures.relative_error, 3)


def cost_table(rows: list[LayerQuantization]) -> tuple[list[str], list[list[str]]]:
    """Return names and cells of the table of a model's layers."""
    flips = any(row.both_alone is not None and row.both_alone.flips is not None for row in rows)
    metric = any(row.both_alone is not None and row.both_alone.metric is not None for row in rows)
    names = ["layer", "kind", "weights", "activations", "alone", *["flips"] * flips, *["metric"] * metric]
    names += ["accumulated", "SQNR dB", "clipped", "codes w", "codes a", "outliers w a"]
    return names, [list(_cost_cells(row, flips=flips, metric=metric)) for row in rows]


def _cost_cells(row: LayerQuantization, *, flips: bool, metric: bool) -> Iterator[str]:
    yield from (row.layer, row.kind)
    yield describe_relative(row.weight_alone)
    yield describe_relative(row.activation_alone)
    yield describe_relative(row.both_alone)
    alone = row.both_alone
    if flips:
        yield NONE if alone is None or alone.flips is None else f"{alone.flips:,}"
    if metric:
        yield NONE if alone is None or alone.metric is None else format_number(alone.metric, 4)
    yield describe_relative(row.accumulated)
    yield describe_db(row.sqnr_db)
    yield describe_share(None if row.activation is None else row.activation.figures)
    yield describe_codes(None if row.weight is None else row.weight.figures)
    yield describe_codes(None if row.activation is None else row.activation.figures)
    yield describe_outliers(row)


def granularity_table(rows: list[LayerQuantization]) -> tuple[list[str], list[list[str]]]:
    """Return SQNR of each array by granularity."""
    labels: dict[str, None] = {}
    found = []
    for row, role, array in _arrays(rows):
        by_name = {
            name_granularity(each.granularity, each.group): describe_db(
                each.figures.sqnr_db, is_exact=each.figures.is_exact
            )
            for each in array.granularities
        }
        labels.update(dict.fromkeys(by_name))
        found.append((row.layer, role, by_name))
    return _by_column(labels, found)


def calibration_table(rows: list[LayerQuantization]) -> tuple[list[str], list[list[str]]]:
    """Return SQNR and clipping of each array by calibration method."""
    labels: dict[str, None] = {}
    found = []
    for row, role, array in _arrays(rows):
        by_name = {}
        for each in array.calibrations:
            sqnr = describe_db(each.figures.sqnr_db, is_exact=each.figures.is_exact)
            by_name[METHOD_WORDS[each.method]] = f"{sqnr} ({describe_share(each.figures)})"
        labels.update(dict.fromkeys(by_name))
        found.append((row.layer, role, by_name))
    return _by_column(labels, found)


def _arrays(rows: list[LayerQuantization]) -> Iterator[tuple[LayerQuantization, str, ArrayQuantization]]:
    for row in rows:
        for role, array in (("weights", row.weight), (f"{row.activation_role}s", row.activation)):
            if array is not None:
                yield row, role, array


def _by_column(
    labels: dict[str, None], found: list[tuple[str, str, dict[str, str]]]
) -> tuple[list[str], list[list[str]]]:
    names = ["layer", "array", *labels]
    return names, [[layer, role, *(by_name.get(label, NONE) for label in labels)] for layer, role, by_name in found]
