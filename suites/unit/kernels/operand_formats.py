"""Products of operands in formats of their own, and the same in float64; and what kernels with wrong scales compute."""

import numpy as np
import numpy.typing as npt

from precreg.arithmetic.devices import multiply_as


def product(a: npt.NDArray, b: npt.NDArray, *, format: str, scales: str = "chosen") -> npt.NDArray:
    """Multiply (m, k) by (k, n), with operands in a format that the device of the suite has."""
    if scales == "halved":
        a, b = cut_blocks(a), cut_blocks(b.T).T
    if scales == "tail_dropped":
        whole = a.shape[1] // TILE * TILE
        a, b = a[:, :whole], b[:whole]
    result = multiply_as(a, b, format)
    if scales == "next_row":
        return result * next_row_over_own(a)
    if scales == "zero_points_kept":
        result = result + a @ kept_zero_points(b)
    return result


GROUP, TILE = 128, 96


def next_row_over_own(x: npt.NDArray) -> npt.NDArray:
    """Return the error of each row whose scale is the next row's."""
    largest = np.abs(x).max(axis=1, keepdims=True)
    return np.roll(largest, -1, axis=0) / largest


def kept_zero_points(b: npt.NDArray) -> npt.NDArray:
    """Return scale times zero point of each element: codes stand for this much more if a kernel keeps zero points."""
    groups = b.reshape(-1, GROUP, b.shape[1])
    least = np.minimum(groups.min(axis=1, keepdims=True), 0)
    scale = (np.maximum(groups.max(axis=1, keepdims=True), 0) - least) / 15
    return np.broadcast_to(np.rint(-least / scale) * scale, groups.shape).reshape(b.shape).astype(b.dtype)


def cut_blocks(x: npt.NDArray) -> npt.NDArray:
    """Cut the magnitudes of each block of 32 at half its binade: e4m3 saturates below a scale too small by 2."""
    blocks = x.reshape(x.shape[0], -1, 32)
    largest = np.abs(blocks).max(-1, keepdims=True)
    limits = 448 * np.exp2(np.floor(np.log2(largest)) - 9)
    return np.clip(blocks, -limits, limits).reshape(x.shape).astype(x.dtype)


def exact_product(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64], **_: str) -> npt.NDArray[np.float64]:
    """Add up the products of rows and columns, without any format."""
    return np.einsum("mk,kn->mn", a, b)
