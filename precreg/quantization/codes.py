"""Which codes does a format have, and which values share a scale?

A quantized value is `scale * (code - zero_point)`. Codes are integers, or the numbers of a narrow floating format.
"""

from __future__ import annotations

import re
from math import inf, ldexp, prod
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from precreg.arithmetic import BLOCK_OPERANDS, SHORT, Format, block_factors_of, format_named, round_to
from precreg.errors import UserError, name_hint, nearest
from precreg.quantization.kind import FLOAT_CODES, GRANULARITIES, INTEGER_FORMATS, METHODS
from precreg.types import QuantizationEvent, Quantizer

# Frameworks store a scale as float32.
SCALE_BITS = 32
DEFAULT_GROUP = 128
_WIDE = ("bfloat16", "float32", "float64")

Floats = NDArray[np.float64]


class Codes(NamedTuple):
    """Hold the codes of a format: integers from `lowest` to `highest`, or the numbers of `floating`."""

    name: str
    lowest: float
    highest: float
    floating: Format | None = None

    @property
    def size(self) -> int:
        """Return the number of codes; the two zeros of a floating format are one."""
        if self.floating is None:
            return int(self.highest - self.lowest) + 1
        # Below the binade of the smallest normal numbers are the subnormals, one number less than in that binade.
        format = self.floating
        lowest = format.min_exponent
        subnormals = 2 ** (format.precision_at(lowest) - 1) - 1
        full = sum(2 ** (format.precision_at(each) - 1) for each in range(lowest, format.max_exponent))
        significand = ldexp(format.largest, -format.max_exponent)
        last = int((significand - 1.0) * 2 ** (format.precision_at(format.max_exponent) - 1)) + 1
        number: int = 2 * (subnormals + full + last) + 1
        return number

    @property
    def of_threshold(self) -> float:
        """Return the code of the largest magnitude that a calibration keeps.

        It is the largest code. A tapered format has its most bits in the binades around 1, so it is the largest number
        of these.
        """
        if self.floating is None or not self.floating.taper:
            return self.highest
        exponent, bits = self.floating.taper[0]
        return ldexp(2**bits - 1, exponent - bits + 1)

    @property
    def bits(self) -> int:
        """Return the bits of a code."""
        return (self.size - 1).bit_length()


def codes_named(name: str) -> Codes:
    """Return the codes of a format; those of a block format are its elements. Raises UserError: unknown-format."""
    if name in BLOCK_OPERANDS:
        element = BLOCK_OPERANDS[name].element
        return Codes(name, -element.largest, element.largest, element)
    found = re.fullmatch(r"int(\d{1,2})", name)
    if found and name in INTEGER_FORMATS:
        half = 1 << int(found[1]) - 1
        return Codes(name, -half, half - 1)
    known = (*INTEGER_FORMATS, *FLOAT_CODES, *BLOCK_OPERANDS)
    if SHORT.get(name, name) not in FLOAT_CODES:
        is_wide = SHORT.get(name, name) in _WIDE
        expected = f"expected int2 to int8, int16, {', '.join((*FLOAT_CODES, *BLOCK_OPERANDS))}"
        why = ", which needs no scale" if is_wide else nearest(name, known)
        hint = "write float to leave values as they are, or int8" if is_wide else name_hint(name, known)
        raise UserError(
            "unknown-format", f"{expected} but got {name}{why}", hint=hint or "write --weights int8, or --weights mxfp4"
        )
    format = format_named(name)
    return Codes(format.name, -format.largest, format.largest, format)


def make_quantizer(
    format: str,
    *,
    zero_point: bool = False,
    granularity: str = "tensor",
    group: int | None = None,
    axis: int = 0,
    calibration: str = "max",
    dynamic: bool = False,
) -> Quantizer:
    """Return a quantizer of checked values. Raises UserError: unknown-format, bad-value."""
    codes = codes_named(format)
    if format in BLOCK_OPERANDS:
        return _block_quantizer(format, granularity, group, axis, zero_point=zero_point)
    _require_one_of("granularity", granularity, GRANULARITIES)
    _require_one_of("calibration", calibration, METHODS)
    if group is not None and (granularity != "group" or group < 2):
        message = f"expected a group of 2 or more beside granularity group but got group={group}, {granularity=!s}"
        raise UserError("bad-value", message, hint=f"write --granularity group --group {max(group, 2)}")
    if zero_point and codes.floating is not None:
        message = f"expected integers beside a zero point but got format={codes.name}"
        raise UserError("bad-value", message, hint="remove the zero point, or write an integer format such as int8")
    if calibration == "entropy" and (granularity != "tensor" or codes.floating is not None):
        message = "expected one scale for all elements and integers beside calibration entropy but got"
        raise UserError(
            "bad-value",
            f"{message} granularity={granularity}, format={codes.name}",
            hint="write --granularity tensor with int8, or --calibration mse",
        )
    size = DEFAULT_GROUP if granularity == "group" and group is None else group
    return Quantizer(
        format=codes.name,
        zero_point=zero_point,
        granularity=granularity,  # type: ignore[arg-type]
        group=size,
        axis=axis,
        calibration=calibration,  # type: ignore[arg-type]
        dynamic=dynamic,
    )


def _block_quantizer(format: str, granularity: str, group: int | None, axis: int, *, zero_point: bool) -> Quantizer:
    """Return the quantizer of a block format, which has its own groups. Raises UserError: bad-value for others."""
    size = BLOCK_OPERANDS[format].length
    if zero_point or group not in (None, size):
        got = "a zero point" if zero_point else f"group={group}"
        message = f"expected blocks of {size} without zero points, as {format} has them, but got {got}"
        raise UserError("bad-value", message, hint="leave out --group and --zero-point")
    # Every granularity is accepted, because the options have defaults.
    return Quantizer(format, granularity="group", group=size, axis=axis, calibration="block", dynamic=True)


def change_format(quantizer: Quantizer, name: str) -> Quantizer:
    """Return a quantizer of another format: block formats have their own blocks, and others the options that apply.

    Raises UserError: unknown-format; bad-value for zero points or entropy beside a floating format.
    """
    if name in BLOCK_OPERANDS:
        return make_quantizer(name, axis=quantizer.axis)
    if quantizer.calibration == "block":
        # A block format keeps no options for others. Weights have a scale for each channel by default.
        return make_quantizer(name, granularity="channel", axis=quantizer.axis)
    return make_quantizer(
        name,
        zero_point=quantizer.zero_point,
        granularity=quantizer.granularity,
        group=quantizer.group,
        axis=quantizer.axis,
        calibration=quantizer.calibration,
        dynamic=quantizer.dynamic,
    )


def _require_one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UserError(
            "bad-value",
            f"expected one of {', '.join(known)} but got {name}={value}{nearest(value, known)}",
            hint=f"write {name} {known[0]}",
        )


class Rows(NamedTuple):
    """Hold an array as rows whose elements share a scale. Zeros fill the last group of a channel.

    `lengths` counts the elements of each row that are the array's own. `shape` and `axis` are those of the array.
    """

    values: Floats
    lengths: NDArray[np.int64]
    shape: tuple[int, ...]
    axis: int
    padded: int

    def restore(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return values in the form of rows in the array's own shape."""
        if len(rows) == 1 and not self.padded:
            return rows.reshape(self.shape)
        if len(self.shape) < 2:
            return rows.reshape(-1)[: rows.size - self.padded].reshape(self.shape)
        moved = _channels_first_shape(self.shape, self.axis)
        channels = moved[0]
        flat = rows.reshape(channels, -1)
        flat = flat[:, : flat.shape[1] - self.padded] if self.padded else flat
        return np.moveaxis(flat.reshape(moved), 0, self.axis)

    @property
    def own(self) -> NDArray[np.bool_] | None:
        """Return which elements are the array's own; None if all are."""
        if not self.padded:
            return None
        return np.arange(self.values.shape[1])[None, :] < self.lengths[:, None]


def _channels_first_shape(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (shape[axis], *shape[:axis], *shape[axis + 1 :])


def rows_of(values: NDArray[Any], quantizer: Quantizer) -> Rows:
    """Return an array as rows, one for each scale, in float64.

    Raises UserError: bad-value for channels or groups of an array with fewer than 2 axes.
    """
    wide = np.asarray(values).astype(np.float64)
    if quantizer.granularity == "tensor":
        return Rows(wide.reshape(1, -1), np.array([wide.size]), wide.shape, 0, 0)
    if wide.ndim < 2 and quantizer.calibration != "block":
        message = f"expected an array of 2 or more axes beside granularity={quantizer.granularity}"
        raise UserError("bad-value", f"{message} but got shape={wide.shape}", hint="write --granularity tensor")
    # The blocks of an array of one axis run along it.
    axis = quantizer.axis % wide.ndim if wide.ndim >= 2 else -1
    channels = np.moveaxis(wide, axis, 0).reshape(wide.shape[axis], -1) if wide.ndim >= 2 else wide.reshape(1, -1)
    if quantizer.granularity == "channel":
        return Rows(channels, np.full(len(channels), channels.shape[1]), wide.shape, axis, 0)
    size = quantizer.group or DEFAULT_GROUP
    padded = -channels.shape[1] % size
    filled = np.pad(channels, ((0, 0), (0, padded)))
    groups = filled.shape[1] // size
    lengths = np.tile(np.array([size] * (groups - 1) + [size - padded]), len(channels))
    return Rows(filled.reshape(-1, size), lengths, wide.shape, axis, padded)


def short_group_events(name: str, shape: tuple[int, ...], quantizer: Quantizer) -> list[QuantizationEvent]:
    """Return an event if the last group of each channel has fewer elements than the others."""
    if quantizer.granularity != "group" or len(shape) < 2:
        return []
    size = quantizer.group or DEFAULT_GROUP
    last = prod(shape) // shape[quantizer.axis % len(shape)] % size
    return [QuantizationEvent("short_group", name, detail=f"{last}/{size}")] if last else []


class Scales(NamedTuple):
    """Hold a scale and a zero point for each row."""

    scale: Floats
    zero_point: Floats


def choose_scales(codes: Codes, quantizer: Quantizer, rows: Rows, thresholds: Floats, dtype: np.dtype[Any]) -> Scales:
    """Return the scales with which magnitudes up to the thresholds do not saturate, and keep the most bits.

    A scale is a float32, or a float64 for an array of float64. A row of zeros has scale 1. Block formats have their
    own rule, by which the largest elements of a block may saturate.
    """
    if quantizer.calibration == "block":
        factors = block_factors_of(thresholds, BLOCK_OPERANDS[quantizer.format])
        return Scales(factors.astype(np.float64), np.zeros(len(thresholds)))
    if quantizer.zero_point:
        low = np.maximum(np.minimum(rows.values.min(axis=1), 0.0), -thresholds)
        high = np.minimum(np.maximum(rows.values.max(axis=1), 0.0), thresholds)
        scale = _stored_scale((high - low) / (codes.highest - codes.lowest), dtype)
        zero = np.clip(np.rint(codes.lowest - low / scale), codes.lowest, codes.highest)
        return Scales(scale, zero)
    return Scales(_stored_scale(thresholds / codes.of_threshold, dtype), np.zeros(len(thresholds)))


def _stored_scale(scale: Floats, dtype: np.dtype[Any]) -> Floats:
    stored = np.dtype(np.float64) if dtype.itemsize > 4 else np.dtype(np.float32)
    # A subnormal scale would have too few bits, and its inverse would overflow float32.
    smallest = float(np.finfo(stored).tiny)
    rounded = np.maximum(scale, smallest).astype(stored).astype(np.float64)
    return np.where(scale > 0.0, rounded, 1.0)


class Coded(NamedTuple):
    """Hold codes of rows as floats, and which elements saturated."""

    codes: Floats
    clipped: NDArray[np.bool_]


def encode(codes: Codes, rows: Floats, scales: Scales) -> Coded:
    """Return the code nearest to each value over its scale; ties go to the even code."""
    divisors = np.broadcast_to(scales.scale[:, None], rows.shape)
    # The scale of a block may underflow; then its codes are zeros.
    quotients = np.divide(rows, divisors, out=np.zeros_like(rows), where=divisors > 0.0)
    if codes.floating is not None:
        # A number beyond the largest becomes an infinity here, so that it counts, and saturates below.
        unbounded = replace(codes.floating, overflow=inf)
        nearest_codes = np.asarray(round_to(quotients, unbounded), np.float64)
    else:
        nearest_codes = np.rint(quotients) + scales.zero_point[:, None]
    clipped = (nearest_codes > codes.highest) | (nearest_codes < codes.lowest)
    return Coded(np.clip(nearest_codes, codes.lowest, codes.highest), clipped)


def decode(codes: Floats, scales: Scales) -> Floats:
    """Return the values of codes. The products are exact in float64 for codes of 16 bits and scales in float32."""
    return (codes - scales.zero_point[:, None]) * scales.scale[:, None]


def bits_per_element(codes: Codes, quantizer: Quantizer, elements: int, scales: int) -> float:
    """Return the bits of an element, with its part of the scales and of the zero points."""
    of_scale = BLOCK_OPERANDS[quantizer.format].scale_bits if quantizer.calibration == "block" else SCALE_BITS
    extra = of_scale + (codes.bits if quantizer.zero_point else 0)
    return codes.bits + extra * scales / elements if elements else float(codes.bits)
