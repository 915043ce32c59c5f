"""How large are the errors of a quantized array, by granularity and by calibration?"""

from __future__ import annotations

from collections.abc import Callable
from math import ldexp, log10, sqrt
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import ArrayLike, NDArray

from precreg.arithmetic import BLOCK_OPERANDS
from precreg.arithmetic.devices import is_floating
from precreg.errors import UserError
from precreg.quantization.calibration import find_thresholds
from precreg.quantization.codes import (
    Codes,
    Floats,
    Rows,
    Scales,
    bits_per_element,
    choose_scales,
    codes_named,
    decode,
    encode,
    make_quantizer,
    rows_of,
)
from precreg.quantization.kind import METHODS
from precreg.types import (
    ArrayQuantization,
    CalibrationFigures,
    CalibrationMethod,
    ChannelSpread,
    CodeHistogram,
    Granularity,
    GranularityFigures,
    OutlierChannel,
    QuantizationFigures,
    Quantizer,
)

GROUPS = (32, 64, 128)
HISTOGRAM_BINS = 64
# A channel counts as an outlier from this multiple of the median channel's maximum on: with one scale for all channels,
# the median channel then loses 2 of its bits.
OUTLIER_RATIO = 4.0
MAX_OUTLIERS = 8
# Codes closer than that would make one grey bar of the picture.
_MAX_DRAWN_CODES = 512


class QuantizedValues(NamedTuple):
    """Hold a quantized array: its values in float64, its shape kept, the scales, thresholds, and figures."""

    values: Floats
    scales: Scales
    thresholds: Floats
    figures: QuantizationFigures
    bits: float


def quantize_values(values: NDArray[Any], quantizer: Quantizer, thresholds: Floats | None = None) -> QuantizedValues:
    """Return an array with the nearest value of a code in place of each element, and the figures of its errors.

    `thresholds` replaces those of the quantizer's method, one for each scale.

    Raises UserError: bad-value for an array without elements, or of other things than finite real numbers.
    """
    require_finite_values(values)
    codes = codes_named(quantizer.format)
    rows = rows_of(values, quantizer)
    if thresholds is None:
        thresholds = find_thresholds(quantizer.calibration, rows, codes, quantizer, values.dtype)
    scales = choose_scales(codes, quantizer, rows, thresholds, values.dtype)
    return _quantized(rows, codes, quantizer, scales, thresholds)


def quantize_with_scales(values: NDArray[Any], quantizer: Quantizer, codes: Codes, scales: Scales) -> QuantizedValues:
    """Return an array quantized with scales that are known. Raises UserError: bad-value, as `quantize_values`."""
    require_finite_values(values)
    ends = np.maximum(codes.highest - scales.zero_point, scales.zero_point - codes.lowest)
    return _quantized(rows_of(values, quantizer), codes, quantizer, scales, ends * scales.scale)


def _quantized(rows: Rows, codes: Codes, quantizer: Quantizer, scales: Scales, thresholds: Floats) -> QuantizedValues:
    coded = encode(codes, rows.values, scales)
    values = decode(coded.codes, scales)
    own = rows.own
    used = coded.codes if own is None else coded.codes[own]
    figures = figures_of(rows.values, values, int(coded.clipped.sum()), count_codes(used, codes), codes.size)
    elements = int(rows.lengths.sum())
    figures = replace(figures, elements=elements)
    return QuantizedValues(
        rows.restore(values),
        scales,
        thresholds,
        figures,
        bits_per_element(codes, quantizer, elements, len(scales.scale)),
    )


def row_rounding(values: NDArray[Any], quantizer: Quantizer) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Return the function that quantizes rows of channels: with the scales of these values, or with those of a call.

    Raises UserError: bad-value, as `quantize_values`.
    """
    if quantizer.dynamic:
        return lambda rows: quantize_values(rows, quantizer).values
    codes, scales = codes_named(quantizer.format), quantize_values(values, quantizer).scales

    def apply(rows: NDArray[Any]) -> NDArray[Any]:
        wide = rows.astype(np.float64)
        # One scale for all, or one for each channel.
        turned = wide.T if len(scales.scale) > 1 else wide.reshape(1, -1)
        changed = decode(encode(codes, turned, scales).codes, scales)
        return changed.T if len(scales.scale) > 1 else changed.reshape(wide.shape)

    return apply


def channel_rows(values: NDArray[Any], axis: int) -> NDArray[Any]:
    """Return an array as rows of channels: (elements / channels, channels). Fewer than 2 axes are one channel."""
    if values.ndim < 2:
        return values.reshape(-1, 1)
    return np.moveaxis(values, axis, -1).reshape(-1, values.shape[axis])


def figures_of(exact: Floats, quantized: Floats, clipped: int, used: int, codes: int) -> QuantizationFigures:
    """Return the figures of quantized values against the exact ones."""
    # Largest first, so that the squares of huge or tiny numbers stay in float64.
    unit = float(np.abs(exact).max(initial=0.0)) or 1.0
    signal = float(np.square(exact / unit).sum())
    noise = float(np.square((exact - quantized) / unit).sum())
    return QuantizationFigures(exact.size, relative_norm(noise, signal), decibels(signal, noise), clipped, used, codes)


def relative_norm(noise: float, signal: float) -> float | None:
    """Return the root of the ratio of two sums of squares; None without a signal."""
    return sqrt(noise / signal) if signal > 0.0 else None


def decibels(signal: float, noise: float) -> float | None:
    """Return the ratio of two sums of squares in dB; None if one of them is 0."""
    return 10.0 * log10(signal / noise) if signal > 0.0 and noise > 0.0 else None


def count_codes(used: Floats, codes: Codes) -> int:
    """Return how many different codes occur."""
    if codes.floating is None:
        return int(np.count_nonzero(np.bincount((used - codes.lowest).astype(np.int64).ravel(), minlength=codes.size)))
    return int(np.unique(used + 0.0).size)


def require_finite_values(values: NDArray[Any], name: str = "array") -> None:
    """Refuse what cannot be quantized.

    Raises UserError: bad-value for no elements, for other things than real numbers, for NaN and infinities.
    """
    array = np.asarray(values)
    if not is_floating(array.dtype):
        message = f"expected floating-point numbers but got {name} of dtype={array.dtype}"
        raise UserError("bad-value", message, hint="convert them first: array.astype('float32')")
    if not array.size:
        message = f"expected at least one element but got {name} of shape={array.shape}"
        raise UserError("bad-value", message, hint="leave the array out")
    is_finite = np.isfinite(array)
    if not is_finite.all():
        place = np.unravel_index(int(np.argmin(is_finite)), array.shape)
        first = f"{name}[{', '.join(map(str, place))}]={float(array[place])}"
        count = int(array.size - is_finite.sum())
        message = f"expected finite numbers but got {count:,} of {array.size:,} that are not, first {first}"
        raise UserError("bad-value", message, hint="find where they come from: precreg trace shows the operation")


def quantize_array(
    values: ArrayLike,
    format: str = "int8",
    *,
    zero_point: bool = False,
    granularity: str | None = None,
    group: int | None = None,
    axis: int = 0,
    calibration: str | None = None,
) -> ArrayQuantization:
    """Measure the errors of an array in a format of few bits, beside other granularities and calibrations.

    Args:
        values: finite floating-point numbers, of any shape.
        format: int2 to int8, int16, a narrow floating format of docs/formats.md such as float8_e4m3fn or hif8, or a
            block format such as mxfp4, which has blocks and scales of its own.
        zero_point: shift integers, so that the smallest and the largest number use all of them.
        granularity: the elements that share a scale: tensor (the default), channel, or group.
        group: the number of elements of a group, by default 128; the groups of a channel run along its other axes.
        axis: the axis of the channels.
        calibration: the choice of the largest magnitude that does not saturate: max (the default), p99.9, p99.99, mse
            or entropy.

    Raises:
        UserError: unknown-format; bad-value for other options, for options beside a block format, which has blocks and
            scales of its own, for no elements, and for NaN and infinities.
    """
    _require_no_choice(format, granularity=granularity, calibration=calibration)
    quantizer = make_quantizer(
        format,
        zero_point=zero_point,
        granularity=granularity or "tensor",
        group=group,
        axis=axis,
        calibration=calibration or "max",
    )
    return measure_array(np.asarray(values), quantizer)


def _require_no_choice(format: str, **options: str | None) -> None:
    """Refuse options that a block format would ignore. Raises UserError: bad-value."""
    given = ", ".join(f"{name}={value}" for name, value in options.items() if value is not None)
    if given and format in BLOCK_OPERANDS:
        size = BLOCK_OPERANDS[format].length
        raise UserError(
            "bad-value",
            f"expected no granularity and no calibration beside {format}, which has blocks of {size}, but got {given}",
            hint=f"write precreg.quantize_array(values, {format!r})",
        )


class StoredScales(NamedTuple):
    """Hold the codes and the scales that a quantized model has for an array."""

    codes: Codes
    scales: Scales


def measure_array(
    values: NDArray[Any],
    quantizer: Quantizer,
    *,
    stored: StoredScales | None = None,
    details: bool = True,
    channel_axis: int | None = None,
) -> ArrayQuantization:
    """Return the figures of a quantized array, beside those of other granularities and calibrations.

    `stored` replaces the scales that the quantizer's calibration would choose. `details` False leaves out the
    granularities, the calibrations, the channels and the histogram. `channel_axis` has the channels to compare, by
    default those of the quantizer.

    Raises UserError: bad-value, as `quantize_values`.
    """
    array = np.asarray(values)
    found = quantize_values(array, quantizer) if stored is None else quantize_with_scales(array, quantizer, *stored)
    measured = ArrayQuantization(replace(quantizer, bits=found.bits), array.shape, array.dtype.name, found.figures)
    if not details:
        return measured
    return replace(
        measured,
        granularities=_by_granularity(array, quantizer, found),
        calibrations=_by_calibration(array, quantizer, found),
        spread=channel_spread(array, quantizer.axis if channel_axis is None else channel_axis),
        histogram=code_histogram(array, quantizer, found),
    )


def _by_granularity(
    array: NDArray[Any], quantizer: Quantizer, known: QuantizedValues
) -> tuple[GranularityFigures, ...]:
    if quantizer.calibration == "block":
        return (GranularityFigures("group", quantizer.group, known.bits, known.figures),)
    choices: list[tuple[Granularity, int | None]] = [("tensor", None)]
    if array.ndim >= 2:
        width = array.size // array.shape[quantizer.axis % array.ndim]
        choices += [("channel", None), *(("group", group) for group in GROUPS if group < width)]
    own = (quantizer.granularity, quantizer.group)
    found = []
    for granularity, group in (*choices, *([] if own in choices else [own])):
        # The method of one scale for all has no meaning for several.
        is_own = (granularity, group) == own
        has_other = quantizer.calibration == "stored" or (
            quantizer.calibration == "entropy" and granularity != "tensor"
        )
        method = "max" if has_other else quantizer.calibration
        other = replace(quantizer, granularity=granularity, group=group, calibration=method)
        each = known if is_own else quantize_values(array, other)
        found.append(GranularityFigures(granularity, group, each.bits, each.figures))
    return tuple(found)


def _by_calibration(
    array: NDArray[Any], quantizer: Quantizer, known: QuantizedValues
) -> tuple[CalibrationFigures, ...]:
    found = []
    if quantizer.calibration not in METHODS:
        threshold = float(np.median(known.thresholds))
        found.append(CalibrationFigures(quantizer.calibration, threshold, known.figures))
    for method in methods_for(quantizer) if quantizer.calibration != "block" else ():
        other = replace(quantizer, calibration=method)
        each = known if other == quantizer else quantize_values(array, other)
        found.append(CalibrationFigures(method, float(np.median(each.thresholds)), each.figures))
    return tuple(found)


def methods_for(quantizer: Quantizer) -> tuple[CalibrationMethod, ...]:
    """Return the calibration methods that a quantizer allows: entropy needs one scale, and integers."""
    is_uniform = quantizer.granularity == "tensor" and codes_named(quantizer.format).floating is None
    return METHODS if is_uniform else tuple(each for each in METHODS if each != "entropy")


def channel_spread(values: NDArray[Any], axis: int) -> ChannelSpread | None:
    """Return how unequal the channels of an array are; None for an array with fewer than 2 axes."""
    wide = np.asarray(values).astype(np.float64)
    if wide.ndim < 2:
        return None
    axis %= wide.ndim
    maxima = np.abs(np.moveaxis(wide, axis, 0).reshape(wide.shape[axis], -1)).max(axis=1)
    median = float(np.median(maxima))
    ratios = maxima / median if median > 0.0 else np.zeros(len(maxima))
    order = np.argsort(-ratios, kind="stable")[:MAX_OUTLIERS]
    outliers = tuple(OutlierChannel(int(at), float(ratios[at])) for at in order if ratios[at] >= OUTLIER_RATIO)
    largest = float(ratios.max()) if median > 0.0 else None
    return ChannelSpread(axis, len(maxima), largest, _kurtosis(wide), outliers)


def _kurtosis(wide: Floats) -> float | None:
    unit = float(np.abs(wide).max())
    if unit == 0.0:
        return None
    centred = wide / unit - (wide / unit).mean()
    variance = float(np.square(centred).mean())
    return float(np.square(np.square(centred)).mean()) / variance**2 if variance > 0.0 else None


def code_histogram(values: NDArray[Any], quantizer: Quantizer, found: QuantizedValues) -> CodeHistogram:
    """Return the counts of an array's values, and the places of its codes if all elements share one scale."""
    wide = np.asarray(values).astype(np.float64)
    low, high = float(wide.min()), float(wide.max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    counts = np.histogram(wide, bins=HISTOGRAM_BINS, range=(low, high))[0]
    codes: tuple[float, ...] = ()
    if quantizer.granularity == "tensor" and quantizer.calibration != "stored":
        codes = tuple(each for each in code_places(quantizer, found.scales) if low <= each <= high)
    return CodeHistogram(
        low, high, tuple(int(each) for each in counts), codes if len(codes) <= _MAX_DRAWN_CODES else ()
    )


def code_places(quantizer: Quantizer, scales: Scales) -> list[float]:
    """Return the values of all codes with one scale, in order; none for more codes than a picture can show."""
    codes = codes_named(quantizer.format)
    if codes.size > _MAX_DRAWN_CODES:
        return []
    is_integer = codes.floating is None
    numbers = np.arange(codes.lowest, codes.highest + 1) if is_integer else np.array(_numbers_of(codes))
    return [float(each) for each in (numbers - scales.zero_point[0]) * scales.scale[0]]


def _numbers_of(codes: Codes) -> list[float]:
    """Return the numbers of a narrow floating format, in order."""
    format = codes.floating
    assert format is not None
    lowest = format.min_exponent
    unit = format.smallest_subnormal
    positive = [unit * each for each in range(1, 2 ** (format.precision_at(lowest) - 1))]
    for exponent in range(lowest, format.max_exponent + 1):
        bits = format.precision_at(exponent)
        positive += [ldexp(each, exponent - bits + 1) for each in range(2 ** (bits - 1), 2**bits)]
    positive = [each for each in positive if each <= format.largest]
    return [*(-each for each in reversed(positive)), 0.0, *positive]
