"""What a device in the manner of an MLU370 does to single operations: 20 bits of mantissa, the rest cut off, no fusing.

The oracles compute with whole numbers: rational ones, or the bits.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt
from rationals import each, rounded

SMALLEST_NORMAL = Fraction(1, 2**126)


def multiply_add(x: npt.NDArray, y: npt.NDArray, z: npt.NDArray) -> dict[str, npt.NDArray]:
    """Give x y + z, and the product by itself; the device it runs on rounds both."""
    product = x * y
    return {"product": product, "sum": product + z}


def multiply_add_by_fractions(
    x: npt.NDArray[np.float32], y: npt.NDArray[np.float32], z: npt.NDArray[np.float32]
) -> dict[str, npt.NDArray[np.float32]]:
    """Cut operands, products and sums to 21 bits, the implicit one included; what is subnormal is 0."""
    product = each(lambda x, y: cut(cut(x) * cut(y)), x, y)
    total = each(lambda product, z: cut(product + cut(z)), product, z)
    return {"product": product.astype(np.float32), "sum": total.astype(np.float32)}


def cut(number: Fraction) -> Fraction:
    """Truncate toward zero to the device's format."""
    shorter = rounded(number, 21, -146, truncated=True)
    return shorter if abs(shorter) >= SMALLEST_NORMAL else Fraction(0)


def times_one(x: npt.NDArray, one: npt.NDArray) -> dict[str, npt.NDArray]:
    """Multiply by 1. Gives the products and by how much their magnitudes are off in the mean, in their last places.

    x are whole numbers of [2^23, 2^24) of either sign, whose last place has 8 on the device.
    """
    products = x * one
    before, after = (np.abs(np.asarray(array).astype(np.int64)) for array in (x, products))
    return {"products": products, "mean_error": np.float64((after - before).sum()) / (8 * x.size)}


def times_one_by_bits(x: npt.NDArray[np.float32], one: npt.NDArray[np.float32]) -> dict[str, npt.NDArray]:
    """Clear the last three bits, and count what they were."""
    bits = x.view(np.uint32)
    lost = int((bits & np.uint32(7)).sum(dtype=np.int64))
    return {"products": (bits & np.uint32(0xFFFFFFF8)).view(np.float32), "mean_error": np.float64(-lost / (8 * x.size))}


def align(
    small: npt.NDArray[np.float64], large: npt.NDArray[np.float64], *, form: Literal["binary", "published"]
) -> dict[str, npt.NDArray]:
    """Shift the significand of a power of two to the exponent of a larger one, and add there; gives both results.

    A shift by k places divides by 2^k. As published, 2^0 aligned to 2^3 is 0.000125: three decimal places too many.
    """
    places = np.frexp(large)[1] - np.frexp(small)[1]
    aligned = np.ldexp(1.0, -places)
    if form == "published":
        aligned = aligned / 10.0**places
    return {"aligned": aligned, "sum": (aligned + 1.0) * large}


def align_by_fractions(
    small: npt.NDArray[np.float64], large: npt.NDArray[np.float64], *, form: str
) -> dict[str, npt.NDArray]:
    """Divide and add rational numbers, of which both results are float64; `form` is the subject's."""
    return {
        "aligned": each(lambda small, large: small / large, small, large),
        "sum": each(lambda small, large: small + large, small, large),
    }
