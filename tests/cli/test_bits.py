"""`precreg bits`: what it prints, as JSON too, how values and options are told apart, and every mistake."""

import json
from fractions import Fraction

import pytest

from precreg.arithmetic import BLOCK_OPERANDS
from tests.e2e.command import precreg

CHAIN = """\
1.0004882822
to float32, nearest_even
  value     1.00048828125
  class     normal
  sign      0
  exponent  01111111  2^0
  mantissa  00000000001000000000000
  pattern   0x3f801000
  below     1.00048816204071044921875
  above     1.00048840045928955078125
  error     -9.5e-10, -0.00796918 ULP, -9.49536e-10 relative
then to float16, nearest_even
  value     1
  class     normal
  sign      0
  exponent  01111  2^0
  mantissa  0000000000
  pattern   0x3c00
  below     0.99951171875
  above     1.0009765625
  error     -0.000488281, -0.5 ULP, -0.000488043 relative
directly to float16: 1.0009765625, another number: every conversion rounds
"""
SPECIAL = """\
-0
to float16_flush, up
  value     -0
  class     zero
  sign      1
  exponent  00000
  mantissa  0000000000
  pattern   0x8000
  below     -0.00006103515625
  above     0.00006103515625
  error     0

-inf
to float16_flush, up
  value     -inf
  class     infinity
  sign      1
  exponent  11111
  mantissa  0000000000
  pattern   0xfc00
  below     none
  above     -65504
  error     not defined

-1.5
to float16_flush, up
  value     -1.5
  class     normal
  sign      1
  exponent  01111  2^0
  mantissa  1000000000
  pattern   0xbe00
  below     -1.5009765625
  above     -1.4990234375
  error     0
"""
OPERATIONS = """\
1 / 3
to float4_e2m1fn, nearest_even
  of        1 and 3
  value     0.5
  class     subnormal
  sign      0
  exponent  00  2^0
  mantissa  1
  pattern   0x1
  below     0
  above     1
  error     0.166667, 0.333333 ULP, 0.5 relative

nan
to float4_e2m1fn, nearest_even
  value     nan
  class     nan
  bits      none: float4_e2m1fn has no such pattern
  below     none
  above     none
  error     not defined
"""
FIXED = """\
1.5
to int8, scale 0.10000000000000001, nearest_even
  value     0
  class     integer
  sign      0
  mantissa  0000000
  pattern   0x00
  below     -9.9999999999999994449...
  above     9.9999999999999994449...
  error     -1.5, -0.15 ULP, -1 relative
"""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["1.0004882822", "--format", "fp32", "--format", "fp16"], CHAIN),
        (["--rounding", "up", "-0", "-inf", "--format", "fp16_flush", "-1.5"], SPECIAL),
        (["1 / 3", "nan", "--format", "float4_e2m1fn"], OPERATIONS),
        (["1", "/", "3", "nan", "--format", "float4_e2m1fn"], OPERATIONS),
        (["1.5", "--format", "int8", "--scale", "0.1"], FIXED),
    ],
)
def test_what_is_printed(arguments, expected, tmp_path):
    done = precreg(tmp_path, "bits", *arguments)
    assert (done.stdout, done.stderr, done.returncode) == (expected, "", 0)


def test_json_has_the_same_facts(tmp_path):
    done = precreg(tmp_path, "bits", "1.125 + 0.12457275390625", "1e400", "--format", "fp16", "--json")
    total, beyond = json.loads(done.stdout)
    assert total == {
        "asked": "1.125 + 0.12457275390625",
        "rounding": "nearest_even",
        "operands": ["1.125", "0.12457275390625"],
        "hops": [
            {
                "format": "float16",
                "value": "1.25",
                "kind": "normal",
                "sign": "0",
                "exponent": "01111",
                "power": 0,
                "mantissa": "0100000000",
                "pattern": "0x3d00",
                "below": "1.2490234375",
                "above": "1.2509765625",
                "error": {"absolute": 0.00042724609375, "ulp": 0.4375, "relative": 0.00034191374004786793},
            }
        ],
        "direct": None,
    }
    assert beyond["hops"][0]["value"] == "inf"
    assert beyond["hops"][0]["error"] == {"absolute": None, "ulp": None, "relative": None}


def test_float32_is_meant_where_no_format_is_named(tmp_path):
    assert "to float32, nearest_even" in precreg(tmp_path, "bits", "1").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["1.2.3"], "error[bad-value]: expected a number such as 1.12, 1/3, 0x1.8p3, inf or nan but got value=1.2.3"),
        (["0x3c7c"], "error[bad-value]: expected a number such as 1.12, 1/3, 0x1.8p3, inf or nan but got value=0x3c7c"),
        (
            ["bits:3c7c"],
            "error[bad-value]: expected a pattern such as bits:0x3c7c or bits:0b0011 but got value=bits:3c7c",
        ),
        (["bits:0x3c7c", "--format", "e5m2"], "error[bad-value]: expected a pattern of 8 bits for float8_e5m2"),
        (["bits:0x1", "--format", "int8"], "error[bad-value]: expected a number for fixed point"),
        (["1", "+"], "error[bad-value]: expected a number on each side of +"),
        (["+", "1"], "error[bad-value]: expected a number on each side of +"),
        (["1", "+", "*", "2"], "error[bad-value]: expected a number on each side of +"),
        (["1", "+", "2", "+", "3"], "error[bad-value]: expected one operation at a time but got + after it"),
        (
            ["1", "--format", "flaot32"],
            'error[unknown-format]: expected the name of a format but got format=flaot32; did you mean "float32"?',
        ),
        (
            ["1.5", "--format", "mxfp4"],
            "error[unknown-format]: expected a format of single numbers but got format=mxfp4, whose numbers share",
        ),
        (["1", "--format", "float8_e8m0fnu"], "error[bad-format]: expected a format with a zero"),
        (["1", "--rounding", "nearest"], "error[unknown-rounding]: expected one of nearest_even, nearest_away, "),
        (["nan", "--format", "int8"], "error[bad-scale]: expected a number but got x=nan"),
        (
            ["1", "--format", "int8", "--scale", "0"],
            "error[bad-scale]: expected a positive, finite scale but got scale=0",
        ),
        (
            ["1", "--format", "int8", "--scale", "1e400"],
            "error[bad-scale]: expected a positive, finite scale but got scale=inf",
        ),
        (["1", "--format", "int8", "--scale", "one"], "error[bad-value]: expected a number such as"),
        (
            ["1", "--format", "fp16", "--scale", "100"],
            "error[bad-value]: expected a scale beside int8, int16, int32 only but got scale=100 with fp16",
        ),
        (["1", "--foramt", "fp16"], "No such option '--foramt'"),
        ([" "], "error[bad-value]: expected at least one number"),
        (["1", "--seed", "-1"], "-1 is not in the range x>=0"),
        ([], "Missing argument"),
    ],
)
def test_a_mistake_is_one_clear_error(arguments, said, tmp_path):
    done = precreg(tmp_path, "bits", *arguments)
    assert (done.stdout, done.returncode) == ("", 2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["1e-400", "--format", "fp64"], "error     > -5e-324, -2.02402e-77 ULP, -1 relative"),
        (["1e2000", "--format", "fp16_sat"], "error     < -1.8e308, < -1.8e308 ULP, -1 relative"),
    ],
)
def test_an_error_outside_float64_is_not_printed_as_zero(arguments, said, tmp_path):
    assert said in precreg(tmp_path, "bits", *arguments).stdout


@pytest.mark.parametrize("name", BLOCK_OPERANDS)
def test_the_hint_for_a_format_of_blocks_shows_its_elements(name, tmp_path):
    done = precreg(tmp_path, "bits", "1.5", "--format", name)
    assert done.returncode == 2
    command = done.stderr.split("the format of its elements: precreg ")[1].splitlines()[0]
    found = precreg(tmp_path, *command.split(), "--json")
    assert found.returncode == 0, found.stderr
    (chain,) = json.loads(found.stdout)
    # 1.5 is in the binade of 1, whose step shows the precision of the elements.
    step = Fraction(chain["hops"][0]["above"]) - Fraction(3, 2)
    assert step == Fraction(2) ** (1 - BLOCK_OPERANDS[name].element.precision)
