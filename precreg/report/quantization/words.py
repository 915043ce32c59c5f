"""Which words describe a quantization: its formats, its data, its cost, and the facts that weaken it?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from precreg.types import (
    CalibrationMethod,
    Granularity,
    LayerQuantization,
    OutputError,
    QuantizationEvent,
    QuantizationFigures,
    QuantizationRecord,
    Quantizer,
    format_number,
)

NONE = "-"
METHOD_WORDS: dict[CalibrationMethod, str] = {
    "max": "max",
    "p99.9": "99.9 %",
    "p99.99": "99.99 %",
    "mse": "least squared error",
    "entropy": "entropy",
    "stored": "of the model",
    "block": "block",
}
_UNUSED: dict[str, str] = {
    "arrays": "arrays have no layers and no activations",
    "own_scales": "the model has scales of its own",
    "own_float_form": "only models that are quantized already need a float form",
    "float_weights": "weights stay float",
    "float_activations": "activations stay float",
    "block_weights": "the block format of the weights has blocks and scales of its own",
    "block_activations": "the block format of the activations has blocks and scales of its own",
}
# Names in one line of an event; the JSON has all.
_SHOWN_NAMES = 4


def name_granularity(granularity: Granularity, group: int | None) -> str:
    """Return the words of a granularity: "group of 32"."""
    return f"group of {group}" if granularity == "group" else {"none": "no scale"}.get(granularity, granularity)


def describe_quantizer(quantizer: Quantizer | None) -> str:
    """Return format, granularity and calibration: "int8, one scale for each channel, max"."""
    if quantizer is None:
        return "float"
    scales = {
        "tensor": "one scale",
        "channel": "a scale for each channel",
        "group": f"a scale for each group of {quantizer.group}",
        "none": "no scale",
    }[quantizer.granularity]
    if quantizer.calibration == "block":
        return f"{quantizer.format}, blocks of {quantizer.group}"
    shift = " with zero points" if quantizer.zero_point else ""
    calls = ", chosen at each call" if quantizer.dynamic else ""
    return f"{quantizer.format}{shift}, {scales}, {METHOD_WORDS[quantizer.calibration]}{calls}"


def describe_quantization_settings(record: QuantizationRecord) -> str:
    """Return one line: the formats, and where the scales come from."""
    if record.source == "arrays":
        return describe_quantizer(record.weights)
    if record.source == "simulated":
        weights, activations = describe_quantizer(record.weights), describe_quantizer(record.activations)
        return f"simulated: weights {weights}; activations {activations}"
    return "quantized: the scales are the model's own"


def describe_data(record: QuantizationRecord) -> str:
    """Return one line: the batches that fixed the scales, and the inputs that measured the errors."""
    data = record.calibration
    if data is None:
        return ""
    more = "; more batches of the data were left out (--batches)" if data.has_more else ""
    batches = f"{data.batches:,} batch{'' if data.batches == 1 else 'es'}"
    is_own = record.source in ("torch", "onnx")
    first = f"clipping and codes from {batches}" if is_own else f"calibrated with {batches}"
    return f"{first} of {data.source} ({data.inputs:,} inputs), measured on {data.measured:,}{more}"


def answer_quantization(record: QuantizationRecord) -> str:
    """Write one sentence: the error of the whole model, and the layer with the largest cost."""
    rows = sorted_rows(record)
    if record.total is None:
        return f"the largest error has {rows[0].layer}: {format_number(rows[0].cost, 3)} relative"
    whole = f"all layers quantized: the model's error is {describe_error(record.total)}"
    worst = next((row for row in rows if row.both_alone is not None), None)
    if worst is None or worst.both_alone is None or worst.both_alone.relative == 0.0:
        return f"{whole}; no layer alone has an error"
    return f"{whole}; the largest cost has {worst.layer}: {describe_error(worst.both_alone)} alone"


def describe_error(error: OutputError) -> str:
    """Return the relative error of a model's results, with dB, class flips and metric."""
    parts = [format_number(error.relative, 3)]
    if error.sqnr_db is not None:
        parts.append(f"{error.sqnr_db:.1f} dB")
    if error.flips is not None:
        parts.append(f"{error.flips:,} class flip{'' if error.flips == 1 else 's'}")
    if error.metric is not None:
        parts.append(f"metric {format_number(error.metric, 4)}")
    return f"{parts[0]} ({', '.join(parts[1:])})" if parts[1:] else parts[0]


def sorted_rows(record: QuantizationRecord) -> list[LayerQuantization]:
    """Return the rows with the largest cost first; equal ones in their order."""
    return sorted(record.rows, key=lambda row: -row.cost)


def describe_relative(error: OutputError | None) -> str:
    """Return a relative error with three digits, or -."""
    return NONE if error is None else format_number(error.relative, 3)


def describe_db(sqnr: float | None, *, is_exact: bool = False) -> str:
    """Return decibels with one decimal, or -; values without an error have no end."""
    return "exact" if is_exact else (NONE if sqnr is None else f"{sqnr:.1f}")


def describe_share(figures: QuantizationFigures | None) -> str:
    """Return the share of elements that saturate in per cent."""
    if figures is None:
        return NONE
    return "0" if not figures.clipped else f"{format_number(100 * figures.clipping_share, 2)} %"


def describe_codes(figures: QuantizationFigures | None) -> str:
    """Return the codes used of those that the format has."""
    return NONE if figures is None or not figures.codes else f"{figures.codes_used:,}/{figures.codes:,}"


def describe_outliers(row: LayerQuantization) -> str:
    """Return the largest ratio of a channel's maximum to the median one, of weights and of activations."""
    spreads = [each.spread for each in (row.weight, row.activation) if each is not None]
    ratios = [NONE if each is None or each.ratio is None else f"{format_number(each.ratio, 2)}x" for each in spreads]
    return " ".join(ratios) if ratios else NONE


def describe_quantization_events(events: Sequence[QuantizationEvent]) -> list[str]:
    """Return one line for the events of a kind with the same detail: the first names and the count."""

    def by_detail(event: QuantizationEvent) -> tuple[str, str]:
        return event.kind, event.detail

    lines = []
    for (kind, detail), group in groupby(sorted(events, key=by_detail), key=by_detail):
        found = list(group)
        # Each option was written on the command line.
        most = len(found) if kind == "unused_option" else _SHOWN_NAMES
        names = ", ".join(event.name for event in found[:most] if event.name)
        more = f" and {len(found) - most:,} more" if len(found) > most else ""
        count = sum(event.count for event in found)
        last, _, size = detail.partition("/")
        lines.append(
            {
                "not_run": f"{names}{more} did not run on its own with this data, and is not quantized",
                "computed_weight": f"{names}{more}: a parametrization computes the weights, which stay float",
                "sampled": f"activations of {names}{more}: {count:,} values are left out of the figures",
                "all_zero": f"{names}{more} has zeros alone: its relative error is not defined",
                "not_floating": f"{names}{more} has integers ({detail}), and is left out",
                "non_finite": f"{names}{more} has {count:,} NaN or infinities, and is left out",
                "empty": f"{names}{more} has no elements",
                "short_group": f"{names}{more}: the last group of each channel has {last} of {size} elements",
                "one_axis": f"{names}{more} has one axis, and so one scale",
                "unused_option": f"{names}{more} {'has' if len(found) == 1 else 'have'} no effect:"
                f" {_UNUSED.get(detail, detail)}",
                "no_float_twin": f"{names}{more}: the errors of weights are not measured without the float model"
                " (--float)",
                "simulation_differs": "the quantized model itself differs from the simulation of its scales by"
                f" {detail or names} relative: it quantizes other operations, too",
                "no_gradient": f"{names}{more}: no gradient of the results: no first-order estimate",
                "no_derivative": f"{names}{more}: results too coarse for differences: no first-order estimate",
                "relu_restored": f"{names}{more}: the codes cut negative values, so the float form has a Relu",
                "float_differs": f"the given float model differs by {detail} relative from the float form",
                "not_covered": f"{names}{more} ({detail}) stays quantized in every measurement",
            }[kind]
        )
    return lines
