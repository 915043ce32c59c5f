"""What `precreg compare` understands of its arguments, before anything is read."""

from pathlib import Path

import click
import pytest

from precreg.cli.compare import compare_command, parse_shape, parse_sides
from precreg.errors import UserError


def sides(*paths, actual=None, reference=None, golden=None):
    named = (None if path is None else Path(path) for path in (actual, reference, golden))
    found = parse_sides([Path(path) for path in paths], *named)
    return found.actual.name, found.reference.name, found.golden


@pytest.mark.parametrize(
    ("paths", "options", "expected"),
    [
        (["a", "r"], {}, ("a", "r", False)),
        ([], {"actual": "a", "reference": "r"}, ("a", "r", False)),
        ([], {"actual": "a", "golden": "g"}, ("a", "g", True)),
        (["a"], {"golden": "g"}, ("a", "g", True)),
        (["a"], {"reference": "r"}, ("a", "r", False)),
        (["r"], {"actual": "a"}, ("a", "r", False)),
    ],
)
def test_sides_are_arguments_or_options(paths, options, expected):
    assert sides(*paths, **options) == expected


@pytest.mark.parametrize(
    ("paths", "options", "says"),
    [
        ([], {}, "got no ACTUAL"),
        (["a"], {}, "got no REFERENCE"),
        ([], {"golden": "g"}, "got no ACTUAL"),
        ([], {"actual": "a"}, "got no REFERENCE"),
        (["a", "r", "b"], {}, "got b besides"),
        (["a", "r"], {"actual": "b"}, "got r besides"),
        (["a", "r"], {"golden": "g"}, "got r besides"),
        (["a"], {"golden": "g", "reference": "r"}, "--reference or --golden but got both"),
    ],
)
def test_each_side_is_there_once(paths, options, says):
    with pytest.raises(UserError) as caught:
        sides(*paths, **options)
    assert caught.value.slug == "not-comparable"
    assert says in caught.value.message


@pytest.mark.parametrize(
    ("text", "shape"), [("4x64", (4, 64)), ("4,64", (4, 64)), ("7", (7,)), ("0x3", (0, 3)), (None, None)]
)
def test_lengths(text, shape):
    assert parse_shape(None, None, text) == shape


@pytest.mark.parametrize("text", ["", "4x", "x4", "-4", "4 64", "4.0", "(4, 64)", "9" * 19, "٤", "x".join(["1"] * 33)])
def test_what_is_no_shape(text):
    with pytest.raises(UserError) as caught:
        parse_shape(None, None, text)
    assert caught.value.slug == "bad-value"


def bounds(*texts):
    option = next(option for option in compare_command.params if option.name == "bounds")
    return option.callback(click.Context(compare_command), option, texts)


def test_bounds():
    assert bounds() == {}
    assert bounds("max_ulp=4", " bias =1e-3", "max_ulp=2") == {"max_ulp": 2.0, "bias": 1e-3}


@pytest.mark.parametrize("text", ["max_ulp", "max_ulp=", "max_ulp=four", "=", "max_ulp==4"])
def test_what_is_no_bound(text):
    with pytest.raises(UserError) as caught:
        bounds(text)
    assert caught.value.slug == "bad-value"
