"""Casts from float64 through float32 to float16, a sum in two precisions, what was published, and integer rounding."""

from typing import Literal

import numpy as np
import numpy.typing as npt


def cast_chain(x: npt.NDArray, a: npt.NDArray, b: npt.NDArray) -> dict[str, npt.NDArray]:
    """Round x from float64 to float32 to float16 and back; add a and b in float16 and in float32."""
    single = x.astype(np.float32)
    half = single.astype(np.float16)
    return {
        "single": single,
        "half": half,
        "widened": half.astype(np.float32),
        "sum_half": a.astype(np.float16) + b.astype(np.float16),
        "sum_single": a.astype(np.float32) + b.astype(np.float32),
    }


def published(x: npt.NDArray, a: npt.NDArray, b: npt.NDArray) -> dict[str, npt.NDArray]:
    """Give what was published for x = 1.12156456132, a = 1.125, b = 0.12457275390625; each is exact in its dtype."""
    return {
        "single": np.full_like(x, 1.12156450748443603515625, dtype=np.float32),
        "half": np.full_like(x, 1.12109375, dtype=np.float16),
        "widened": np.full_like(x, 1.12109375, dtype=np.float32),
        "sum_half": np.full_like(x, 1.25, dtype=np.float16),
        "sum_single": np.full_like(x, 1.24957275390625, dtype=np.float32),
    }


def to_half(x: npt.NDArray) -> npt.NDArray:
    """Round float32 to float16 with the processor's or numpy's own conversion."""
    with np.errstate(over="ignore", under="ignore"):
        return x.astype(np.float16)


def to_half_by_integers(x: npt.NDArray) -> npt.NDArray:
    """Round float32 or float64 to float16, to nearest and ties to even, on the bits alone (IEEE 754-2019, 4.3.1).

    The significand is shifted right by 13 bits (of float64: 42), or by more below the smallest normal float16, 2^-14;
    adding half of the last kept bit less one, plus that bit, rounds to even. A carry out of the significand steps the
    exponent, and from 65520 on into infinity. NaN is not handled.
    """
    word, fraction, bias = (np.uint32, 23, 127) if x.dtype == np.float32 else (np.uint64, 52, 1023)
    bits = x.view(word)
    exponent = ((bits >> word(fraction)) & word(2 * bias + 1)).astype(np.int64)
    significand = (bits & word((1 << fraction) - 1)).astype(np.int64) | np.where(exponent > 0, 1 << fraction, 0)
    smallest_normal = bias - 14
    dropped = np.clip(fraction - 10 + np.maximum(smallest_normal - exponent, 0), fraction - 10, fraction + 3)
    last_kept = (significand >> dropped) & 1
    rounded = (significand + (1 << (dropped - 1)) - 1 + last_kept) >> dropped
    magnitude = np.minimum(rounded + (np.maximum(exponent - smallest_normal, 0) << 10), 0x7C00)
    return (magnitude | np.where(np.signbit(x), 0x8000, 0)).astype(np.uint16).view(np.float16)


def double_to_half(x: npt.NDArray, nudge: npt.NDArray, *, through: Literal["nothing", "float32"]) -> npt.NDArray:
    """Round x + nudge, float64, to float16: once, or to float32 first, which rounds twice."""
    exact = x + nudge
    with np.errstate(over="ignore", under="ignore"):
        return (exact.astype(np.float32) if through == "float32" else exact).astype(np.float16)


def double_to_half_by_integers(x: npt.NDArray, nudge: npt.NDArray, *, through: str) -> npt.NDArray:
    """Round x + nudge once, on the bits alone; `through` is the subject's and means nothing here."""
    return to_half_by_integers(x + nudge)
