"""Casts from float64 through float32 to float16, a sum in two precisions, what was published, and integer rounding."""

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
    """Round float32 to float16, to nearest and ties to even, on the bits alone (IEEE 754-2019, 4.3.1).

    The significand is shifted right by 13 bits, or by more below the smallest normal float16, 2^-14; adding half of
    the last kept bit less one, plus that bit, rounds to even. A carry out of the significand steps the exponent, and
    from 65520 on into infinity. NaN is not handled.
    """
    bits = x.view(np.uint32).astype(np.int64)
    exponent = (bits >> 23) & 0xFF
    significand = (bits & 0x7FFFFF) | np.where(exponent > 0, 0x800000, 0)
    dropped = np.clip(13 + np.maximum(113 - exponent, 0), 13, 26)
    last_kept = (significand >> dropped) & 1
    rounded = (significand + (1 << (dropped - 1)) - 1 + last_kept) >> dropped
    magnitude = np.minimum(rounded + (np.maximum(exponent - 113, 0) << 10), 0x7C00)
    return (magnitude | ((bits >> 16) & 0x8000)).astype(np.uint16).view(np.float16)
