import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from precreg.arithmetic.formats import DTYPE_NAMES, FORMATS, Format, dtype_name, format_of, numpy_dtype
from precreg.errors import UserError

INSTALLED = [format for format in FORMATS.values() if hasattr(ml_dtypes, format.name) or hasattr(np, format.name)]
BY_NAME = pytest.mark.parametrize("format", INSTALLED, ids=lambda format: format.name)


@BY_NAME
def test_table_agrees_with_finfo(format):
    limits = ml_dtypes.finfo(numpy_dtype(format.name))
    assert format.precision == limits.nmant + 1
    assert format.largest == float(limits.max)
    assert format.smallest_normal == float(limits.smallest_normal)
    assert format.smallest_subnormal == float(limits.smallest_subnormal)
    assert 1.0 <= format.largest / 2.0**format.max_exponent < 2.0


@BY_NAME
def test_overflow_and_negative_zero_agree_with_casts(format):
    infinity, zero = np.array([np.inf, -0.0]).astype(numpy_dtype(format.name)).astype(np.float64)
    np.testing.assert_equal(infinity, format.overflow)
    assert bool(np.signbit(zero)) is format.negative_zero


@BY_NAME
def test_unit_roundoff_is_the_error_of_the_midpoint_above_one(format):
    one = np.ones((), numpy_dtype(format.name))
    next_up = float(np.nextafter(one, np.array(2, one.dtype)))
    assert (next_up - 1.0) / 2 == format.unit_roundoff


def test_longdouble_is_what_the_machine_has():
    format = format_of("longdouble")
    assert format.precision == np.finfo(np.longdouble).nmant + 1
    assert np.ldexp(np.longdouble(1), format.max_exponent) < np.inf
    assert format_of(np.dtype(np.longdouble).name).precision == format.precision


@pytest.mark.parametrize("name", ["int8", "uint64", "bool", "no such dtype"])
def test_dtypes_without_a_floating_format_have_none(name):
    assert format_of(name) is None


def test_complex_dtypes_have_the_format_of_their_parts():
    assert format_of("complex64") is FORMATS["float32"]
    assert format_of("complex128") is FORMATS["float64"]


@pytest.mark.parametrize("name", [name for name in DTYPE_NAMES if name not in FORMATS or FORMATS[name] in INSTALLED])
def test_every_name_has_a_dtype_of_that_name(name):
    wider = np.finfo(np.longdouble).nmant > np.finfo(np.float64).nmant
    assert dtype_name(numpy_dtype(name)) == ("float64" if name == "longdouble" and not wider else name)


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(UserError, match='dtype=bfloat61; did you mean "bfloat16"') as caught:
        numpy_dtype("bfloat61")
    assert caught.value.slug == "unknown-dtype"
    with pytest.raises(UserError, match='dtype=Float16; did you mean "float16"'):
        numpy_dtype("Float16")
    with pytest.raises(UserError, match='dtype=FLOAT16; did you mean "float16"'):
        numpy_dtype("FLOAT16")


def test_a_format_is_a_value():
    assert Format("float16", 11, -14, 65504.0) == FORMATS["float16"]


def test_names_are_known_without_numpy():
    code = "import sys, precreg.arithmetic.formats; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
