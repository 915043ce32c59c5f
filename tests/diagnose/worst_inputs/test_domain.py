"""The numbers of a domain: their ordinals, draws, and the ranges that suites and users give."""

from math import inf, isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.arithmetic.formats import FORMATS, numpy_dtype
from precreg.diagnose.worst_inputs.domain import DeclaredRange, _declared_domain, find_domains, parse_ranges
from precreg.errors import UserError
from tests.diagnose.worst_inputs.made import case_of, drawn

SMALL = [name for name in FORMATS if numpy_dtype(name).itemsize <= 2]
WIDE = ["float32", "float64"]
KERNEL = "def subject(**inputs):\n    return sum(inputs.values())\n\n\nexact = subject\n"


def whole(dtype):
    largest = FORMATS[dtype].largest
    return _declared_domain("x", dtype, DeclaredRange(-largest, largest, has_nan=False))


@pytest.mark.parametrize("dtype", SMALL)
def test_ordinals_count_all_finite_numbers_of_a_format_in_order(dtype):
    domain = whole(dtype)
    values = domain.values(np.arange(domain.low, domain.high + 1)).astype(np.float64)
    assert np.all(np.diff(values) > 0)
    # ml_dtypes decodes every pattern: an independent list of the finite numbers.
    with np.errstate(invalid="ignore"):
        patterns = np.arange(2**domain.bits).astype(f"u{domain.dtype.itemsize}").view(domain.dtype).astype(np.float64)
    assert set(values) == set(patterns[np.isfinite(patterns)])
    assert domain.size == np.isfinite(patterns).sum()


@given(st.sampled_from(WIDE), st.data())
def test_a_neighbour_in_ordinals_is_the_next_number(dtype, data):
    domain = whole(dtype)
    number = data.draw(st.floats(width=32, allow_nan=False, allow_infinity=False))
    value = np.array([number], dtype)
    with np.errstate(over="ignore"):
        upper = np.nextafter(value, np.array([inf], dtype))
    if np.isfinite(upper[0]):
        assert domain.ordinals(upper)[0] == domain.ordinals(value)[0] + 1
    assert domain.values(domain.ordinals(value))[0] == value[0]


@given(st.sampled_from([*SMALL, *WIDE]), st.data())
def test_draws_and_admitted_values_lie_in_the_range(dtype, data):
    every = whole(dtype)
    ends = np.array(sorted(data.draw(st.tuples(*[st.integers(every.low, every.high)] * 2))))
    low, high = map(float, every.values(ends).astype(np.float64))
    # Ends that are no numbers of the dtype lie a little outside.
    outside = DeclaredRange(low - abs(low) * 1e-9, high + abs(high) * 1e-9, has_nan=False)
    domain = _declared_domain("x", dtype, outside if dtype != "float64" else DeclaredRange(low, high, has_nan=False))
    assert (domain.low, domain.high) == (ends[0], ends[1])
    generator = np.random.Generator(np.random.Philox(key=data.draw(st.integers(0, 2**32))))
    values = domain.draw(generator, (50,)).astype(np.float64)
    anything = generator.integers(0, 2**domain.bits, 50, np.uint64)
    admitted = domain.admit(domain.patterns(anything)).astype(np.float64)
    for each in (values, admitted):
        assert np.all((low <= each) & (each <= high))


def test_values_inside_stay_as_they_are():
    domain = _declared_domain("x", "float16", DeclaredRange(-2.0, 2.0, has_nan=False))
    values = np.array([-0.0, 0.0, 6e-8, 1.5, -2.0], np.float16)
    assert domain.admit(values).tobytes() == values.tobytes()
    outside = np.array([2.5, -inf, inf, -3.0], np.float16)
    assert domain.admit(outside).tolist() == [2.0, -2.0, 2.0, -2.0]
    assert -2.0 <= domain.admit(np.array([nan], np.float16))[0] <= 2.0


def test_infinities_and_nan_are_admitted_only_if_declared():
    domain = _declared_domain("x", "float16", DeclaredRange(0.0, inf, has_nan=True))
    admitted = domain.admit(np.array([inf, -inf, nan, -1.0], np.float16))
    assert admitted[0] == inf
    assert admitted[1] == 0.0
    assert isnan(admitted[2])
    assert admitted[3] == 0.0
    assert domain.range().special == ("infinity", "nan")


@pytest.mark.parametrize(
    ("distribution", "low", "high", "least"),
    [
        ("normal: {mean: 10, std: 0.5}", 7, 13, 0),
        ("uniform: {low: -1, high: 3}", -1, 3, 0),
        ("log_uniform: {low: 0.25, high: 8}", 0.25, 8, 0.25),
        ("log_uniform: {low: 0.25, high: 8, sign: both}", -8, 8, 0.25),
        ("special: {values: [zero]}", -65504, 65504, 0),
    ],
)
def test_the_range_of_an_input_comes_from_its_distribution(tmp_path, distribution, low, high, least):
    case = case_of(tmp_path, KERNEL, x=drawn([4], "float16", distribution))
    (domain,) = find_domains(case, {}, tmp_path / case.directory, tmp_path)
    found = domain.range()
    assert (found.low, found.high, found.least) == (low, high, least)
    generator = np.random.Generator(np.random.Philox(key=1))
    drawn_values = np.abs(domain.draw(generator, (500,)).astype(np.float64))
    assert drawn_values.min() >= least


def test_a_declared_range_replaces_the_distributions_own(tmp_path):
    case = case_of(tmp_path, KERNEL, x=drawn([4]), y=drawn([4], distribution="constant: {value: 2}"))
    domains = find_domains(case, {"y": DeclaredRange(-1.0, 0.1, has_nan=False)}, tmp_path / case.directory, tmp_path)
    assert [domain.name for domain in domains] == ["x", "y"]
    # 0.1 is no number of float32, so the range ends at the one below.
    assert domains[1].range().high < 0.1
    assert domains[1].range().high == pytest.approx(0.1)
    assert [domain.name for domain in find_domains(case, {}, tmp_path / case.directory, tmp_path)] == ["x"]


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["x"], "expected NAME=[LOW,HIGH] but got ranges=x"),
        (["x=[1]"], "expected NAME=[LOW,HIGH]"),
        (["x=[1,2,3]"], "expected NAME=[LOW,HIGH]"),
        (["x=[a,2]"], "expected numbers"),
        (["x=[nan,2]"], "expected numbers"),
        (["x=[2,1]"], "expected LOW <= HIGH"),
        (["x=[1,2]", "x=[1,3]"], "expected one range of x"),
    ],
)
def test_a_range_that_cannot_be_read(texts, words):
    with pytest.raises(UserError) as caught:
        parse_ranges(texts)
    assert caught.value.slug == "bad-range"
    assert words in caught.value.message


def test_ranges_are_read_as_they_are_written():
    found = parse_ranges(["x=[-1e4,1e4]", " scale =[0, inf, nan] "])
    assert found == {"x": DeclaredRange(-1e4, 1e4, has_nan=False), "scale": DeclaredRange(0, inf, has_nan=True)}


@pytest.mark.parametrize(
    ("ranges", "slug", "words"),
    [
        ({"z": (0, 1)}, "bad-range", "expected an input of unit/s/default with a real floating dtype (x)"),
        ({"n": (0, 1)}, "bad-range", "but got ranges=n"),
        ({"x": (1.00001, 1.00002)}, "bad-range", "expected a range with numbers of float16"),
        ({"x": (1e6, 1e7)}, "bad-range", "expected a range with numbers of float16"),
    ],
)
def test_a_range_that_the_case_cannot_have(tmp_path, ranges, slug, words):
    case = case_of(tmp_path, KERNEL, x=drawn([4], "float16"), n=drawn([4], "int32", "integers: {low: 0, high: 5}"))
    declared = {name: DeclaredRange(*ends, has_nan=False) for name, ends in ranges.items()}
    with pytest.raises(UserError) as caught:
        find_domains(case, declared, tmp_path / case.directory, tmp_path)
    assert caught.value.slug == slug
    assert words in caught.value.message


def test_a_format_without_infinity_or_nan_refuses_them():
    for dtype, declared in (("float8_e4m3fn", (0, inf, False)), ("float4_e2m1fn", (0, 1, True))):
        with pytest.raises(UserError) as caught:
            _declared_domain("x", dtype, DeclaredRange(*declared))
        assert caught.value.slug == "bad-range"


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"n": drawn([4], "int32", "integers: {low: 0, high: 5}")}, "no input with a real floating dtype"),
        ({"x": drawn([4], "float32", "constant: {value: 1}")}, "no range for x; declare one: --ranges 'x=[-10,10]'"),
        ({"x": drawn([2, 2], "float32", "spd: {}")}, "no range for x"),
    ],
)
def test_a_case_without_a_range_is_unsearchable(tmp_path, inputs, words):
    case = case_of(tmp_path, KERNEL, **inputs)
    with pytest.raises(UserError) as caught:
        find_domains(case, {}, tmp_path / case.directory, tmp_path)
    assert caught.value.slug == "unsearchable"
    assert words in caught.value.message
