"""How large is the error of an array, and which range do its values have?"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

# The engine of numpy replaces numpy.asarray while it watches a computation.
from numpy import asarray
from numpy.typing import NDArray

from precreg.arithmetic import COMPLEX_PARTS, FORMATS, dtype_name, ulp
from precreg.types import ErrorSize, ValueRange

# Masks of attention hold the smallest finite number, or a large constant: beyond it errors say nothing, and their
# squares would leave float64.
MASK_LIMIT = 1e30

# Sums of squares between these bounds have neither overflowed nor lost terms to underflow, and no term is a mask.
_SQUARES = (1e-250, MASK_LIMIT**2)


@np.errstate(all="ignore")
def error_size(actual: NDArray[Any], exact: NDArray[Any], *, elements: bool = False) -> ErrorSize:
    """Return the size of the errors of an array against exact values of the same shape, in float64 or wider.

    Equal infinities, two NaN, and elements whose values lie beyond MASK_LIMIT on the same side have no error. A NaN or
    an infinity on one side alone makes the error infinite; but exact values beyond the dtype round to infinity.
    `elements` measures ULP, too.
    """
    return size_of_errors(asarray(actual), asarray(exact), elements)


def size_of_errors(actual: NDArray[Any], exact: NDArray[Any], elements: bool = False) -> ErrorSize:
    """Return `error_size` of arrays, for callers that have turned numpy's warnings off."""
    found = _ordinary_size(actual, exact)
    if found is None:
        return _careful_size(actual, exact, elements)
    return replace(found, **_ulps(actual, exact, np.abs(actual - exact))) if elements else found


# numpy 1 has no vecdot.
_squares_by_row = getattr(np, "vecdot", None) or partial(np.einsum, "ij,ij->i")

# Errors of a block of this many elements stay in a core's cache, where four passes cost as much as one through memory.
_BLOCK = 2**14


def _ordinary_size(actual: NDArray[Any], exact: NDArray[Any]) -> ErrorSize | None:
    """Return the size of the errors of finite real values of ordinary sizes; None if they need more care."""
    # Four times as fast as the careful way on 64x256 elements of float32, and most arrays are of this kind.
    if exact.dtype.kind != "f" or actual.dtype.kind == "c" or not exact.size:
        return None
    rows = exact.size // exact.shape[-1] if exact.ndim > 1 else 1
    low, high = actual.reshape(rows, -1), exact.reshape(rows, -1)
    step = max(_BLOCK // low.shape[1], 1)
    squares = scale = worst = largest = 0.0
    for start in range(0, rows, step):
        block = high[start : start + step]
        errors = low[start : start + step] - block
        if block.dtype != np.float64:
            # A longdouble has no fast sums, and sizes need none of its precision.
            errors, block = errors.astype(np.float64), block.astype(np.float64)
        by_row = _squares_by_row(errors, errors)
        squares += float(by_row.sum())
        worst = max(worst, float(by_row.max()))
        largest = max(largest, float(errors.max()), -float(errors.min()))
        flat = block.ravel()
        scale += float(np.dot(flat, flat))
    return size_of_sums(squares, worst, largest, scale, rows)


def size_of_sums(squares: float, worst: float, largest: float, scale: float, rows: int) -> ErrorSize | None:
    """Return the size of errors by their squares and the squares of the exact values; None if they need more care.

    `worst` is the largest sum of squares of one of the rows, and `largest` the largest absolute error.
    """
    # max() passes over NaN, and a sum does not.
    if largest == squares == 0.0:
        return ErrorSize(0.0)
    if not _SQUARES[0] < scale < _SQUARES[1]:
        return None
    if not _SQUARES[0] < squares < _SQUARES[1]:
        return None
    return ErrorSize(math.sqrt(squares / scale), math.sqrt(worst / (scale / rows)), largest)


def relative_error(actual: NDArray[Any], exact: NDArray[Any]) -> float:
    """Return the 2-norm of the errors over the exact values' 2-norm, for callers that have turned warnings off."""
    return size_of_errors(actual, exact).relative


def _careful_size(actual: NDArray[Any], exact: NDArray[Any], elements: bool) -> ErrorSize:
    wide = asarray(actual, np.result_type(exact.dtype, np.float64))
    same = _agree(actual, wide, exact)
    errors = np.where(same, 0.0, np.abs(wide - exact))
    scale = np.where(same & ~(np.abs(exact) <= MASK_LIMIT), 0.0, np.abs(exact))
    errors = np.where(np.isnan(errors), np.inf, errors)
    relative = _ratio(_norm(errors), _norm(np.where(np.isfinite(scale), scale, 0.0)))
    ulps = _ulps(actual, exact, errors) if elements else {}
    return ErrorSize(relative, _worst_row(errors, scale), float(np.max(errors, initial=0.0)), **ulps)


def counted_errors(actual: NDArray[Any], exact: NDArray[Any]) -> NDArray[Any]:
    """Return the differences that `error_size` counts: 0 where masks, infinities or NaN agree.

    A value that is finite on one side alone gives an infinity or NaN.
    """
    errors: NDArray[Any] = np.subtract(actual, exact, dtype=exact.dtype)
    if float(np.abs(errors).max(initial=0.0)) < MASK_LIMIT * 1e-20:
        # Far below the roundoff of a mask, and no element is NaN: max() would say so.
        return errors
    return np.where(_agree(actual, asarray(actual, exact.dtype), exact), 0.0, errors)


def _agree(actual: NDArray[Any], wide: NDArray[Any], exact: NDArray[Any]) -> Any:
    masked = (np.abs(wide) > MASK_LIMIT) & (np.abs(exact) > MASK_LIMIT) & (np.sign(wide) == np.sign(exact))
    if asarray(actual).dtype != exact.dtype:
        # A rounded value is infinite if its exact one is beyond the dtype's largest number, and else it is wrong.
        beyond = np.abs(exact) > _largest_number(asarray(actual).dtype)
        masked &= np.where(np.isfinite(wide), np.isfinite(exact), beyond)
    return (wide == exact) | (np.isnan(wide) & np.isnan(exact)) | masked


def _largest_number(dtype: np.dtype[Any]) -> float:
    name = dtype_name(dtype)
    format = FORMATS.get(COMPLEX_PARTS.get(name, name))
    return MASK_LIMIT if format is None else format.largest


def _norm(values: Any) -> float:
    # Scaled, so that squares of tiny and of large values stay in range.
    largest = float(np.max(values, initial=0.0))
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    return largest * float(np.sqrt(np.sum(np.square(values / largest))))


def _ratio(error: float, scale: float) -> float:
    if error == 0.0:
        return 0.0
    return error / scale if scale > 0.0 else math.inf


def _worst_row(errors: Any, scale: Any) -> float:
    """Return the largest error of a row over the typical size of a row: a small row alone makes no large ratio."""
    if errors.ndim < 2:
        return _ratio(_norm(errors), _norm(np.where(np.isfinite(scale), scale, 0.0)))
    rows = np.sqrt(np.sum(np.square(errors), axis=-1))
    sizes = np.sqrt(np.sum(np.square(np.where(np.isfinite(scale), scale, 0.0)), axis=-1))
    typical = float(np.sqrt(np.mean(np.square(sizes)))) if sizes.size else 0.0
    return _ratio(float(np.max(rows, initial=0.0)), typical)


def _ulps(actual: NDArray[Any], exact: NDArray[Any], errors: Any) -> dict[str, float]:
    """Return the largest and the mean error in ULP; nothing for a dtype without ULP."""
    name = dtype_name(actual.dtype)
    if name not in FORMATS or not errors.size:
        return {}
    spacing = ulp(asarray(exact, np.float64), FORMATS[name])
    in_ulp = np.where(errors == 0.0, 0.0, errors / spacing)
    return {"max_ulp": float(np.max(in_ulp)), "mean_ulp": float(np.mean(in_ulp))}


class _Bits(NamedTuple):
    """The bits of a binary format without its sign, as unsigned integers: they are ordered as the magnitudes are."""

    unsigned: np.dtype[Any]
    magnitude: int
    infinity: int
    normal: int


@cache
def _bits_of(name: str) -> _Bits | None:
    """Return the bits of a format with infinities and NaN at the top; None for others."""
    if name not in ("float16", "bfloat16", "float32", "float64"):
        return None
    from precreg.arithmetic import numpy_dtype

    dtype, format = numpy_dtype(name), FORMATS[name]
    unsigned = np.dtype(f"uint{8 * dtype.itemsize}")
    infinity, normal = (int(asarray(each, dtype).view(unsigned)) for each in (np.inf, format.smallest_normal))
    return _Bits(unsigned, 2 ** (8 * dtype.itemsize - 1) - 1, infinity, normal)


def largest_magnitude(values: NDArray[Any]) -> float:
    """Return the largest absolute value; NaN and infinities give inf or NaN."""
    if values.size and values.dtype in (np.float32, np.float64):
        # numpy finds an extreme faster than it makes an array of absolute values.
        return abs(max(float(values.max()), -float(values.min())))
    bits = _bits_of(dtype_name(values.dtype)) if values.size else None
    if bits is None:
        return float(np.max(np.abs(values), initial=0.0)) if values.size else 0.0
    return _number(np.bitwise_and(values.view(bits.unsigned), bits.magnitude).max(), values.dtype)


def largest_of(values: ValueRange) -> float:
    """Return the largest absolute value of a range; inf if one of its values is infinite or NaN."""
    return math.inf if values.nan or values.inf else values.largest


def bits_lost(operand: float, result: ValueRange) -> float | None:
    """Return log2 of the largest operand over the largest result of a sum; None where one is 0 or not finite."""
    largest = largest_of(result)
    return math.log2(operand / largest) if 0.0 < largest < math.inf and 0.0 < operand < math.inf else None


def _number(bits: Any, dtype: np.dtype[Any]) -> float:
    return float(asarray(bits).view(dtype))


def value_range(values: NDArray[Any], exact: NDArray[Any] | None = None) -> ValueRange:
    """Return the range of low-precision values; with exact values, saturated ones are counted."""
    if not values.size:
        return ValueRange()
    bits = _bits_of(dtype_name(values.dtype))
    if bits is None:
        return _range_of_numbers(values, exact)
    magnitudes = np.bitwise_and(values.view(bits.unsigned), bits.magnitude)
    least, most = magnitudes.min(), magnitudes.max()
    saturated = _saturated(values, exact) if most >= bits.infinity - 1 else 0
    if bits.normal <= least and most < bits.infinity:
        return ValueRange(_number(least, values.dtype), _number(most, values.dtype), saturated=saturated)
    finite = magnitudes[(magnitudes < bits.infinity) & (magnitudes > 0)]
    return ValueRange(
        smallest=_number(finite.min(), values.dtype) if finite.size else 0.0,
        largest=_number(finite.max(), values.dtype) if finite.size else 0.0,
        nan=int(np.count_nonzero(magnitudes > bits.infinity)),
        inf=int(np.count_nonzero(magnitudes == bits.infinity)),
        subnormal=int(np.count_nonzero(finite < bits.normal)),
        saturated=saturated,
        zeros=int(magnitudes.size - np.count_nonzero(magnitudes)),
    )


def smallest_normal(dtype: np.dtype[Any]) -> float | None:
    """Return the smallest normal number of a format with infinities; None for others."""
    name = dtype_name(dtype)
    return None if _bits_of(name) is None else FORMATS[name].smallest_normal


def count_saturated(values: NDArray[Any], exact: NDArray[Any], most: float) -> int:
    """Return how many values are the largest of their format while the exact ones lie beyond; `most` is the largest."""
    return _saturated(values, exact) if most >= FORMATS[dtype_name(values.dtype)].largest else 0


def _saturated(values: NDArray[Any], exact: NDArray[Any] | None) -> int:
    largest = FORMATS[dtype_name(values.dtype)].largest
    if exact is None:
        return 0
    return int(np.sum((np.abs(values.astype(np.float64)) == largest) & (np.abs(exact) > largest)))


def _range_of_numbers(values: NDArray[Any], exact: NDArray[Any] | None) -> ValueRange:
    wide = np.abs(values).astype(np.float64)
    finite = wide[np.isfinite(wide) & (wide > 0.0)]
    name = dtype_name(values.dtype)
    format = FORMATS.get(name, FORMATS["float64"])
    saturated = 0 if exact is None else int(np.sum((wide == format.largest) & (np.abs(exact) > format.largest)))
    return ValueRange(
        smallest=float(finite.min(initial=math.inf)) if finite.size else 0.0,
        largest=float(finite.max(initial=0.0)),
        nan=int(np.isnan(wide).sum()),
        inf=int(np.isinf(wide).sum()),
        subnormal=int(np.sum(finite < format.smallest_normal)),
        saturated=saturated,
        zeros=int(np.sum(wide == 0.0)),
    )
