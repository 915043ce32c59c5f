import struct
from math import inf, isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.arithmetic.bits import BitFields, bit_fields, decode_fields, field_widths, split_pattern
from precreg.arithmetic.formats import FORMATS, format_named, numpy_dtype, parse_format
from precreg.errors import UserError
from tests.arithmetic.patterns import SMALL_FORMATS


@pytest.mark.parametrize("name", SMALL_FORMATS)
def test_patterns_mean_what_numpy_and_ml_dtypes_say(name):
    format, dtype = FORMATS[name], numpy_dtype(name)
    bits = 1 + sum(field_widths(format))
    patterns = np.arange(0, 2**bits, 5 if bits == 16 else 1)
    with np.errstate(invalid="ignore"):
        values = patterns.astype(f"uint{8 * dtype.itemsize}").view(dtype).astype(np.float64).tolist()
    for pattern, value in zip(patterns.tolist(), values, strict=True):
        bits = split_pattern(pattern, format)
        assert int("".join(bits), 2) == pattern
        if isnan(value):
            assert isnan(decode_fields(bits, format))
        else:
            assert struct.pack("d", decode_fields(bits, format)) == struct.pack("d", value)
            assert bit_fields(value, format) == bits


@given(st.floats(width=32, allow_nan=False))
def test_float32_has_the_bits_of_the_machine(value):
    (pattern,) = struct.unpack(">I", struct.pack(">f", value))
    assert bit_fields(value, FORMATS["float32"]).pattern == f"0x{pattern:08x}"


@given(st.floats(allow_nan=False))
def test_float64_has_the_bits_of_the_machine(value):
    (pattern,) = struct.unpack(">Q", struct.pack(">d", value))
    bits = bit_fields(value, FORMATS["float64"])
    assert bits.pattern == f"0x{pattern:016x}"
    assert decode_fields(bits, FORMATS["float64"]) == value


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
    assert bit_fields(nan, format).pattern == pattern
    assert isnan(decode_fields(split_pattern(int(pattern, 0), format), format))


@pytest.mark.parametrize("name", ["float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"])
def test_formats_without_nan_have_no_pattern_of_it(name):
    assert bit_fields(nan, FORMATS[name]) is None


def test_formats_that_no_array_is_stored_in_keep_their_own_widths():
    assert field_widths(format_named("tf32")) == (8, 10)
    assert field_widths(format_named("float32_m20")) == (8, 20)
    assert bit_fields(1.5, format_named("float32_m20")) == BitFields("0", "01111111", "1" + 19 * "0")
    assert bit_fields(-inf, format_named("tf32")) == BitFields("1", "11111111", 10 * "0")


def test_infinities_take_a_pattern_of_the_exponent():
    """Three binades, one pattern for zero, and one for infinities make five: three bits."""
    definition = {"precision": 3, "min_exponent": -1, "max_exponent": 1}
    format, without = (
        parse_format("small", definition),
        parse_format("small", {**definition, "overflow": "saturate"}),
    )
    assert (field_widths(format), field_widths(without)) == ((3, 2), (2, 2))
    assert bit_fields(inf, format) == BitFields("0", "111", "00")
    assert bit_fields(3.5, format) == BitFields("0", "011", "11")
    assert bit_fields(3.5, without) == BitFields("0", "11", "11")


def test_a_pattern_with_too_many_bits_is_refused():
    with pytest.raises(UserError, match="expected a pattern of 16 bits for float16 but got bits:0x10000") as caught:
        split_pattern(0x10000, FORMATS["float16"])
    assert caught.value.slug == "bad-value"
