"""How large is the error of an array, and which range do its values have?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic import FORMATS, dtype_name, ulp
from precreg.types import ErrorSize, ValueRange

# Masks of attention hold the smallest finite number, or a large constant: beyond it errors say nothing, and their
# squares would leave float64.
MASK_LIMIT = 1e30


@np.errstate(all="ignore")
def error_size(actual: NDArray[Any], exact: NDArray[Any], *, elements: bool = False) -> ErrorSize:
    """Return the size of the errors of an array against exact values of the same shape, in float64 or wider.

    Equal infinities, two NaN, and elements whose values lie beyond MASK_LIMIT on the same side have no error. A NaN or
    an infinity on one side alone makes the error infinite. `elements` measures ULP, too.
    """
    wide = np.asarray(actual, np.result_type(exact.dtype, np.float64))
    exact = np.asarray(exact)
    same = _agree(wide, exact)
    errors = np.where(same, 0.0, np.abs(wide - exact))
    scale = np.where(same & ~(np.abs(exact) <= MASK_LIMIT), 0.0, np.abs(exact))
    errors = np.where(np.isnan(errors), np.inf, errors)
    relative = _ratio(_norm(errors), _norm(np.where(np.isfinite(scale), scale, 0.0)))
    ulps = _ulps(np.asarray(actual), exact, errors) if elements else (None, None)
    return ErrorSize(relative, _worst_row(errors, scale), float(np.max(errors, initial=0.0)), *ulps)


def _agree(actual: NDArray[Any], exact: NDArray[Any]) -> Any:
    masked = (np.abs(actual) > MASK_LIMIT) & (np.abs(exact) > MASK_LIMIT) & (np.sign(actual) == np.sign(exact))
    return (actual == exact) | (np.isnan(actual) & np.isnan(exact)) | masked


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


def _ulps(actual: NDArray[Any], exact: NDArray[Any], errors: Any) -> tuple[float | None, float | None]:
    name = dtype_name(actual.dtype)
    if name not in FORMATS or not errors.size:
        return None, None
    spacing = ulp(np.asarray(exact, np.float64), FORMATS[name])
    in_ulp = np.where(errors == 0.0, 0.0, errors / spacing)
    return float(np.max(in_ulp)), float(np.mean(in_ulp))


@np.errstate(all="ignore")
def value_range(values: NDArray[Any], exact: NDArray[Any] | None = None) -> ValueRange:
    """Return the range of low-precision values; with exact values, saturated ones are counted."""
    wide = np.abs(np.asarray(values, np.float64))
    if not wide.size:
        return ValueRange()
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
