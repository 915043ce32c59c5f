"""Watches: which texts are refused, which elements a selection takes, and that every value shown is the right one."""

import hashlib
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import precreg
from precreg.errors import UserError
from precreg.shadow.listeners import read_watch_request
from precreg.shadow.watch import MAX_ELEMENTS, WatchedValues, parse_lanes, parse_watch, watched_value


def values_of(trace, watch):
    return [value for value in trace.watched if value.watch == watch]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[0]",
        "x[",
        "x]",
        "x[first]",
        "x[]",
        "x[0.5]",
        "x[::0]",
        "x[..., ...]",
        "x[0:4](1)",
        "x[None]",
        "a+b",
        "x[,]",
    ],
)
def test_a_watch_that_cannot_be_read_is_refused_with_an_example(text):
    with pytest.raises(UserError) as caught:
        parse_watch(text)
    assert caught.value.slug == "bad-watch"
    assert caught.value.hint.startswith("write ")


@pytest.mark.parametrize("text", ["", "a", "0,1", "...", "0:8:0"])
def test_lanes_that_are_no_slice_are_refused(text):
    with pytest.raises(UserError) as caught:
        parse_lanes(text)
    assert caught.value.slug == "bad-watch"
    assert caught.value.hint.startswith("write ")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"detail": 4}, "from 0 to 3"),
        ({"detail": 1, "breaks": ["own > 1e-3"]}, "--detail 2 or more"),
        ({"detail": 0, "breaks": ["nan"]}, "--detail 1 or more"),
        ({"lanes": "0:8"}, "--watch or --detail 3"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(options, expected):
    with pytest.raises(UserError, match=expected) as caught:
        read_watch_request(**options)
    assert caught.value.slug == "bad-watch"


@pytest.mark.parametrize(
    "selection",
    ["0", "-1", "1:3", "::-1", "5:1:-2", "..., 0", "0, ..., 1:2", "-2:, :, ::2", ":0", "7:9", "..., -3:-1", "0, 0, 0"],
)
def test_a_selection_takes_the_elements_that_numpy_takes(selection):
    array = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)
    value = watched_value(facts(), parse_watch(f"x[{selection}]").selection, array, array.astype(float), MAX_ELEMENTS)
    expected = eval(f"array[{selection}]", {"array": array})
    assert list(value.actual) == np.ravel(expected).tolist()
    assert value.selected == np.size(expected)
    assert [array[index] for index in value.indices] == np.ravel(expected).tolist()


@pytest.mark.parametrize("selection", ["2", "-3", "0, 0, 0, 0", "0, 3"])
def test_a_selection_outside_of_an_array_is_a_fact_and_no_error(selection):
    array = np.zeros((2, 3, 4), np.float32)
    value = watched_value(facts(), parse_watch(f"x[{selection}]").selection, array, None, MAX_ELEMENTS)
    assert (value.selected, value.actual) == (None, ())


def facts():
    return {"watch": "x", "number": 1, "name": "add"}


def test_long_selections_are_cut_and_counted():
    array = np.zeros(5000, np.float32)
    value = watched_value(facts(), parse_watch("x[:]").selection, array, None, MAX_ELEMENTS)
    assert (len(value.actual), value.selected) == (MAX_ELEMENTS, 5000)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ml_dtypes.bfloat16])
def test_errors_in_ulp_are_those_of_exact_rationals(dtype):
    exact = np.random.default_rng(0).standard_normal(64)
    actual = (exact * (1 + np.arange(64) * 2.0**-12)).astype(dtype)
    value = watched_value(facts(), (slice(None),), actual, exact, MAX_ELEMENTS)
    bits = ml_dtypes.finfo(dtype).nmant
    for low, high, ulp in zip(actual, exact, value.ulps, strict=True):
        exponent = np.frexp(high)[1] - 1
        expected = abs(Fraction(float(low)) - Fraction(float(high))) / Fraction(2) ** int(exponent - bits)
        assert ulp == pytest.approx(float(expected), rel=1e-9)


def test_errors_of_float64_beside_a_longdouble_are_not_lost():
    # Where a longdouble is a float64, eps is one ULP of it.
    eps = np.finfo(np.longdouble).eps
    value = watched_value(facts(), None, np.ones(1), np.ones(1, np.longdouble) + eps, 8)
    assert value.ulps == (float(eps / np.longdouble(2) ** -52),)


def test_numbers_that_json_lacks_are_texts_and_a_digest_is_of_all_bytes():
    array = np.array([[np.nan, np.inf], [-np.inf, 1.5]], np.float32)
    value = watched_value(facts(), None, array.T, None, 8)
    assert value.actual == ("nan", "-inf", "inf", 1.5)
    assert value.digest == hashlib.sha256(np.ascontiguousarray(array.T).tobytes()).hexdigest()[:16]
    assert (value.total, value.exact, value.ulps) == (None, (), ())


def test_watched_values_beyond_the_bound_are_counted():
    kept = WatchedValues(10)
    value = watched_value(facts(), None, np.zeros(8, np.float32), None, 8)
    for _ in range(3):
        kept.add(value)
    assert (len(kept.values), kept.left_out) == (1, 2)


def test_an_operation_is_shown_each_time_it_runs():
    with precreg.trace(watch=["multiply[0]"]) as t:
        x = t.array(np.float32([1.5, 2]))
        for _ in range(3):
            x = x * np.float32(3)
    assert [value.actual for value in values_of(t.trace, "multiply[0]")] == [(4.5,), (13.5,), (40.5,)]


def halved(x):
    y = x * np.float32(0.5)
    return y + np.float32(0)


def test_a_variable_has_the_value_that_its_statement_gave_it():
    with precreg.trace(watch=["s", "r", "v"]) as t:
        x = t.array(np.float32([1, 2, 3, 4]))
        s = x * np.float32(2) + np.float32(1) - x
        r = halved(s * np.float32(2))
        v = (x + np.float32(1))[::-1]
        t.output("out", (s, r, v))
    assert [value.actual for value in values_of(t.trace, "s")] == [(2, 3, 4, 5)]
    assert [value.actual for value in values_of(t.trace, "r")] == [(2, 3, 4, 5)]
    assert [value.actual for value in values_of(t.trace, "v")] == [(5, 4, 3, 2)]
    assert values_of(t.trace, "r")[0].code == "r = halved(s * np.float32(2))"


def test_a_variable_is_shown_once_a_turn_of_its_loop():
    with precreg.trace(watch=["acc", "one"]) as t:
        x = t.array(np.float32([1]))
        acc = x * np.float32(1)
        for _ in range(3):
            acc = acc + x * acc
        for _ in range(2):
            one = acc * np.float32(2)
        t.output("out", one)
    assert [value.actual for value in values_of(t.trace, "acc")] == [(1,), (2,), (4,), (8,)]
    assert [value.actual for value in values_of(t.trace, "one")] == [(16,), (16,)]


def test_an_operation_that_writes_into_a_variable_shows_no_wrong_value_before():
    with precreg.trace(watch=["a"]) as t:
        x = t.array(np.float32([1, 2]))
        a = x * np.float32(2)
        a += np.float32(10)
        b = a * np.float32(3)
        t.output("out", b)
    assert [value.actual for value in values_of(t.trace, "a")] == [(2, 4), (12, 14)]


def test_an_output_and_a_probe_are_watched():
    with precreg.trace(watch=["out", "point"]) as t:
        x = t.array(np.float16([1, 3]))
        y = precreg.probe("point", x / np.float16(3))
        t.output("out", y)
    for watch in ("out", "point"):
        (value,) = values_of(t.trace, watch)
        assert value.actual == tuple((np.float16([1, 3]) / np.float16(3)).astype(float))
        assert value.exact == pytest.approx((1 / 3, 1), rel=1e-15)


def test_a_watch_that_never_matched_names_what_is_there():
    with precreg.trace(watch=["scoers", "multiply"]) as t:
        x = t.array(np.float32([1]))
        scores = x * np.float32(2)
        t.output("out", scores)
    (unmatched,) = t.trace.unmatched
    assert unmatched.text == "scoers"
    assert "scores" in unmatched.nearest


def test_detail_three_shows_every_operation(capsys):
    with precreg.trace(detail=3, lanes="0:2") as t:
        x = t.array(np.float32([[1, 2, 3], [4, 5, 6]]))
        t.output("out", x * np.float32(2) + np.float32(1))
    assert [(value.name, value.actual) for value in t.trace.watched] == [
        ("multiply", (2, 4, 8, 10)),
        ("add", (3, 5, 9, 11)),
        ("out", (3, 5, 9, 11)),
    ]
    assert "#1 multiply" in capsys.readouterr().out
