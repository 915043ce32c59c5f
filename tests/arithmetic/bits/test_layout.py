import struct
from math import inf, isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.arithmetic.defined import defined_format
from precreg.arithmetic.formats import FORMATS, numpy_dtype
from precreg.arithmetic.layout import Fields, fields, fields_of, value_of, widths
from precreg.arithmetic.named import format_named
from precreg.errors import UserError
from tests.arithmetic.patterns import SMALL_FORMATS


@pytest.mark.parametrize("name", SMALL_FORMATS)
def test_patterns_mean_what_numpy_and_ml_dtypes_say(name):
    format, dtype = FORMATS[name], numpy_dtype(name)
    bits = 1 + sum(widths(format))
    patterns = np.arange(0, 2**bits, 5 if bits == 16 else 1)
    with np.errstate(invalid="ignore"):
        values = patterns.astype(f"uint{8 * dtype.itemsize}").view(dtype).astype(np.float64).tolist()
    for pattern, value in zip(patterns.tolist(), values, strict=True):
        bits = fields_of(pattern, format)
        assert int("".join(bits), 2) == pattern
        if isnan(value):
            assert isnan(value_of(bits, format))
        else:
            assert struct.pack("d", value_of(bits, format)) == struct.pack("d", value)
            assert fields(value, format) == bits


@given(st.floats(width=32, allow_nan=False))
def test_float32_has_the_bits_of_the_machine(value):
    (pattern,) = struct.unpack(">I", struct.pack(">f", value))
    assert fields(value, FORMATS["float32"]).pattern == f"0x{pattern:08x}"


@given(st.floats(allow_nan=False))
def test_float64_has_the_bits_of_the_machine(value):
    (pattern,) = struct.unpack(">Q", struct.pack(">d", value))
    bits = fields(value, FORMATS["float64"])
    assert bits.pattern == f"0x{pattern:016x}"
    assert value_of(bits, FORMATS["float64"]) == value


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("float16", "0x7e00"),
        ("float16_sat", "0x7e00"),
        ("float32", "0x7fc00000"),
        ("bfloat16", "0x7fc0"),
        ("float8_e4m3fn", "0x7f"),
        ("float8_e4m3fn_sat", "0x7f"),
        ("float8_e5m2", "0x7e"),
        ("float8_e4m3fnuz", "0x80"),
        ("float8_e5m2fnuz", "0x80"),
        ("tf32", "0x3fe00"),
    ],
)
def test_nan_has_the_usual_pattern(name, pattern):
    format = format_named(name)
    assert fields(nan, format).pattern == pattern
    assert isnan(value_of(fields_of(int(pattern, 0), format), format))


@pytest.mark.parametrize("name", ["float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"])
def test_formats_without_nan_have_no_pattern_of_it(name):
    assert fields(nan, FORMATS[name]) is None


def test_formats_that_no_array_is_stored_in_keep_their_own_widths():
    assert widths(format_named("tf32")) == (8, 10)
    assert widths(format_named("float32_m20")) == (8, 20)
    assert fields(1.5, format_named("float32_m20")) == Fields("0", "01111111", "1" + 19 * "0")
    assert fields(-inf, format_named("tf32")) == Fields("1", "11111111", 10 * "0")


def test_infinities_take_a_pattern_of_the_exponent():
    """Three binades, one pattern for zero, and one for infinities make five: three bits."""
    definition = {"precision": 3, "min_exponent": -1, "max_exponent": 1}
    format, without = (
        defined_format("small", definition),
        defined_format("small", {**definition, "overflow": "saturate"}),
    )
    assert (widths(format), widths(without)) == ((3, 2), (2, 2))
    assert fields(inf, format) == Fields("0", "111", "00")
    assert fields(3.5, format) == Fields("0", "011", "11")
    assert fields(3.5, without) == Fields("0", "11", "11")


def test_a_pattern_with_too_many_bits_is_refused():
    with pytest.raises(UserError, match="expected a pattern of 16 bits for float16 but got bits:0x10000") as caught:
        fields_of(0x10000, FORMATS["float16"])
    assert caught.value.slug == "bad-value"
