"""Digests of arrays, whose formats ml_dtypes names by letters of numpy's own."""

import ml_dtypes
import numpy as np
import pytest

from precreg.arithmetic import DTYPE_NAMES, numpy_dtype
from precreg.storage import array_digest, element_bytes


@pytest.mark.parametrize(
    "name", [name for name in DTYPE_NAMES if name == "longdouble" or hasattr(np, name) or hasattr(ml_dtypes, name)]
)
def test_arrays_of_every_dtype_have_digests(name):
    zeros, ones = (np.full((2, 3), value).astype(numpy_dtype(name)) for value in (0, 1))
    assert array_digest(zeros) == array_digest(zeros.copy())
    assert array_digest(zeros) != array_digest(ones)
    assert (element_bytes(zeros) == 0).all()
