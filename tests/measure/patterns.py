"""Arrays of every dtype, from bit patterns that hypothesis draws anywhere and near interesting places."""

from functools import cache

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

from precreg.arithmetic.formats import FORMATS

ML_DTYPES = {name: np.dtype(getattr(ml_dtypes, name)) for name in FORMATS if hasattr(ml_dtypes, name)}
NUMPY_NAMES = (
    "float16 float32 float64 longdouble int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool complex64 complex128 "
    "clongdouble"
)
DTYPES = {**{name: np.dtype(name) for name in NUMPY_NAMES.split()}, **ML_DTYPES}

_SMALL = {name for name, dtype in ML_DTYPES.items() if ml_dtypes.finfo(dtype).bits < 8}
_ONE = np.float64(1).view(np.uint64).item()
_PLACES = (0, 1, 2**7, 2**15, 2**31, 2**63, 2**64 - 1, _ONE, 0x7FF0 << 48, 0x7F80_0000, 0x7C00, 2**52, 2**23)
_VALUES = (0.0, -0.0, 1.0, -1.0, 1.5, np.inf, -np.inf, np.nan, 65504.0, 65520.0, 448.0, 465.0, 2.0**-149, 1e-8)
_VALUES = (*_VALUES, 5e-324, 1e-310, 2.0**-25, 0.5, 1e155, -1e-155, 1.7e308, -1.7e308, 1e-12, 1e-13)


def from_bits(patterns, name):
    """Numbers that have these bits; of formats whose bytes have spare bits, the numbers nearest to small fractions."""
    dtype = DTYPES[name]
    with np.errstate(all="ignore"):
        if name == "bool":
            return np.array([pattern % 2 for pattern in patterns], np.bool_)
        if name in _SMALL:
            return np.array([pattern % 64 / 8 - 4 for pattern in patterns]).astype(dtype)
        if name in ("longdouble", "clongdouble"):
            # Some are beyond the range of float64, where the system has such long doubles.
            exponents = np.array([3000 if pattern % 8 == 7 else 0 for pattern in patterns])
            scales = np.ldexp(1 + np.finfo(np.longdouble).eps, exponents)
            return from_bits(patterns, "float64").astype(dtype) * scales
        size = dtype.itemsize
        wide = [pattern * (2**64 + 1) for pattern in patterns]
        return np.frombuffer(b"".join((p % 2 ** (8 * size)).to_bytes(size, "little") for p in wide), dtype)


# Anywhere in 64 bits, and a few steps from interesting places. To make a strategy takes longer than to draw from it.
_NEAR_PLACES = tuple((place + step) % 2**64 for place in _PLACES for step in (0, 1, -1, 2, -2, 3, -3))
_PATTERN = st.integers(0, 2**64 - 1) | st.sampled_from(_NEAR_PLACES)
# Numbers at which something happens in some format.
_VALUE = st.sampled_from(_VALUES)
_STEP = st.integers(-4, 4)
_HOW = st.sampled_from(("same", "near", "any"))


@st.composite
def pairs(draw, name, most=12):
    """An actual of the dtype, and a reference: of the same dtype, of a wider one, or of any that goes with it."""
    count = draw(st.integers(1, most))
    actual = draw(_arrays(name, count))
    how = draw(_HOW)
    if how == "same":
        return actual, draw(_arrays(name, count))
    if how == "near" and name not in ("longdouble", "clongdouble", "bool"):
        steps = np.array(draw(_steps(count))) * 2.0**-20
        with np.errstate(all="ignore"):
            return actual, actual.astype(np.complex128 if actual.dtype.kind == "c" else np.float64) * (1 + steps)
    return actual, draw(_arrays(draw(_others(name)), count))


@cache
def _steps(count):
    return st.lists(_STEP, min_size=count, max_size=count)


@cache
def _others(name):
    others = [other for other in DTYPES if "complex" not in other + name or not {other, name} & {"int64", "uint64"}]
    others = [
        other for other in others if "clongdouble" not in (other, name) or not {other, name} & {"int64", "uint64"}
    ]
    return st.sampled_from(others)


@cache
def _arrays(name, count):
    def cast(numbers):
        with np.errstate(all="ignore"):
            return np.array(numbers).astype(DTYPES[name])

    patterns, values = (st.lists(each, min_size=count, max_size=count) for each in (_PATTERN, _VALUE))
    return patterns.map(lambda bits: from_bits(bits, name)) | values.map(cast)
