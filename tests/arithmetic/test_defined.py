import ml_dtypes
import numpy as np
import pytest

from precreg.arithmetic.formats import FORMATS, NAMED_FORMATS, SHORT, format_named, parse_format
from precreg.errors import UserError

HALF = {"precision": 11, "min_exponent": -14, "max_exponent": 15}


def test_the_formats_of_numpy_can_be_defined():
    bounds = {
        "float16": (11, -14, 15),
        "float32": (24, -126, 127),
        "float64": (53, -1022, 1023),
        "bfloat16": (8, -126, 127),
    }
    for name, (precision, low, high) in bounds.items():
        definition = {"precision": precision, "min_exponent": low, "max_exponent": high}
        assert parse_format(name, definition) == FORMATS[name]


def test_what_a_definition_says_is_what_the_format_does():
    format = parse_format("mine", {**HALF, "overflow": "nan", "subnormals": False, "negative_zero": False})
    assert np.isnan(format.overflow)
    assert (format.subnormals, format.negative_zero, format.name) == (False, False, "mine")
    assert parse_format("mine", {**HALF, "overflow": "saturate"}).overflow == 65504.0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"precision": 0}, "expected at least 1 bit of precision but got precision=0"),
        ({"precision": -3}, "expected at least 1 bit of precision but got precision=-3"),
        ({"precision": 11.0}, "expected an integer but got precision=11.0"),
        ({"precision": True}, "expected an integer but got precision=True"),
        ({"precision": "11"}, "expected an integer but got precision=11"),
        ({"precision": 54}, "expected a format within float64 (53, -1022, 1023) but got precision=54"),
        ({"min_exponent": -1023}, "within float64"),
        ({"max_exponent": 1024}, "within float64"),
        ({"max_exponent": -15}, "expected min_exponent <= max_exponent but got min_exponent=-14, max_exponent=-15"),
        ({"max_exponent": -1}, "a format that has the number 1"),
        ({"min_exponent": 1}, "a format that has the number 1"),
        ({"overflow": "saturated"}, 'but got overflow=saturated; did you mean "saturate"?'),
        ({"overflow": []}, "but got overflow=[]"),
        ({"subnormals": 1}, "expected true or false but got subnormals=1"),
        ({"zero": False}, "expected a format with a zero but got zero=false"),
        ({"precison": 11}, 'but got key=precison; did you mean "precision"?'),
        ({3: 4}, "but got key=3"),
    ],
)
def test_a_format_that_cannot_be_is_one_clear_error(change, said):
    with pytest.raises(UserError) as caught:
        parse_format("mine", {**HALF, **change})
    assert caught.value.slug == "bad-format"
    assert caught.value.message.startswith("format mine: expected ")
    assert said in caught.value.message


@pytest.mark.parametrize("missing", HALF)
def test_what_a_definition_must_say(missing):
    with pytest.raises(UserError, match=f"expected an integer {missing} but there is none") as caught:
        parse_format("mine", {key: value for key, value in HALF.items() if key != missing})
    assert caught.value.slug == "bad-format"


@pytest.mark.parametrize("name", [*NAMED_FORMATS, *SHORT])
def test_every_name_has_its_saturating_and_its_flushing_form(name):
    format = format_named(name)
    saturating, flushing, both = (format_named(name + form) for form in ("_sat", "_flush", "_flush_sat"))
    assert saturating.overflow == saturating.largest == format.largest
    assert not flushing.subnormals
    assert (both.overflow, both.subnormals) == (format.largest, False)
    assert (saturating.name, flushing.name) == (f"{format.name}_sat", f"{format.name}_flush")


def test_short_names_are_those_of_formats():
    assert all(name in NAMED_FORMATS for name in SHORT.values())
    assert format_named("fp16") is FORMATS["float16"]


@pytest.mark.parametrize("name", ["float8_e8m0fnu", "float8_e8m0fnu_sat", "e8m0fnu", "fp8_e8m0fnu"])
def test_a_format_without_a_zero_is_refused(name):
    assert float(np.array(0.0).astype(ml_dtypes.float8_e8m0fnu)) != 0.0
    with pytest.raises(UserError, match=r"a format with a zero but got format=.*e8m0fnu") as caught:
        format_named(name)
    assert caught.value.slug == "bad-format"


def test_an_unknown_name_is_refused_with_the_nearest():
    for name in ("flaot16", "flaot16_sat"):
        with pytest.raises(UserError, match='format=flaot16; did you mean "float16"') as caught:
            format_named(name)
        assert caught.value.slug == "unknown-format"
