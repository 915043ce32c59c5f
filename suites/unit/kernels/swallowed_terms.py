"""One large number and many small ones, added up in the orders of kernels/reductions.py: the same bits on every CPU."""

import numpy as np
import numpy.typing as npt
from kernels import reductions
from kernels.reductions import Method


def total(large: npt.NDArray, small: npt.NDArray, *, method: Method) -> npt.NDArray:
    """Add large (rows, 1) and small (rows, n), in that order, in their own dtype; the result is (rows,)."""
    return reductions.total(np.concatenate([large, small], axis=1), method=method, accumulator="own")


def exact(large: npt.NDArray, small: npt.NDArray, *, method: str) -> npt.NDArray:
    """Add without error; `method` is the subject's and means nothing here."""
    return reductions.exact_sum(np.concatenate([large, small], axis=1))
