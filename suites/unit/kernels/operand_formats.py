"""Products of operands in formats of their own, and the same in float64; and a scale that is too small."""

import numpy as np
import numpy.typing as npt

from precreg.arithmetic.devices import multiply_as


def product(a: npt.NDArray, b: npt.NDArray, *, format: str, scales: str = "chosen") -> npt.NDArray:
    """Multiply (m, k) by (k, n), with operands in a format that the device of the suite has."""
    if scales == "halved":
        a, b = cut_blocks(a), cut_blocks(b.T).T
    return multiply_as(a, b, format)


def cut_blocks(x: npt.NDArray) -> npt.NDArray:
    """Cut the magnitudes of each block of 32 at half its binade: e4m3 saturates below a scale too small by 2."""
    blocks = x.reshape(x.shape[0], -1, 32)
    largest = np.abs(blocks).max(-1, keepdims=True)
    limits = 448 * np.exp2(np.floor(np.log2(largest)) - 9)
    return np.clip(blocks, -limits, limits).reshape(x.shape).astype(x.dtype)


def exact_product(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64], **_: str) -> npt.NDArray[np.float64]:
    """Add up the products of rows and columns, without any format."""
    return np.einsum("mk,kn->mn", a, b)
