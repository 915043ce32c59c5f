"""One suite for every form of measuring: the readable one, numpy's, and the compiled core where it was built."""

import itertools
import math
from fractions import Fraction
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precreg.measure import plain
from precreg.measure.accumulation import merge_tallies
from precreg.measure.comparison import BACKENDS
from precreg.measure.tally import MeasureRules, Sums, Tally, round_expansion
from tests.measure.patterns import DTYPES, pairs

FAST = [name for name in BACKENDS if name != "plain"]
RULES = (MeasureRules(0.0, 0.0, 3), MeasureRules(1e-3, 1e-5, 100), MeasureRules(0.5, 0.25, 0))


def shape_of(size):
    """Two axes where that divides."""
    return next(((rows, size // rows) for rows in (3, 2) if size % rows == 0), (size,))


def exactly(tally, name):
    """A sum as a rational number; infinite and NaN ones as they are, as text."""
    parts = {0: getattr(tally.sums, name)} | {k: part for (of, k), part in tally.scaled.items() if of == name}
    if not all(math.isfinite(part) for sums in parts.values() for part in sums):
        return repr(round_expansion(part for sums in parts.values() for part in sums))
    return sum((Fraction(2) ** k * sum(map(Fraction, sums)) for k, sums in parts.items()), Fraction(0))


def check_same(found, expected):
    """Everything to the bit, but for sums: to an ULP of the exact one, and those of groups to rounding."""
    for name in ("counts", "maxima", "places", "sketches", "errors", "worst", "non_finite"):
        assert repr(getattr(found, name)) == repr(getattr(expected, name)), name
    if (found.sums, found.scaled) != (expected.sums, expected.scaled):
        for name in Sums._fields:
            check_sum(exactly(found, name), exactly(expected, name), name)
    check_groups(found.groups, expected.groups)


def check_sum(found, expected, name):
    if isinstance(found, str) or isinstance(expected, str):
        assert found == expected, name
    else:
        assert abs(found - expected) <= abs(expected) * Fraction(1, 2**52), name


def check_groups(found, expected):
    assert [groups.n for groups in found] == [groups.n for groups in expected]
    for one, other in zip(found, expected, strict=True):
        for sums, exact in zip(one[1:], other[1:], strict=True):
            if all(map(math.isfinite, (*sums, *exact))):
                slack = max(1e-12 * max(map(abs, exact), default=0.0), 1e-300)
                # approx took a tenth of the time, so it only writes the message.
                if not all(abs(a - b) <= max(1e-9 * abs(b), slack) for a, b in zip(sums, exact, strict=True)):
                    assert sums == pytest.approx(exact, rel=1e-9, abs=slack)


@pytest.mark.parametrize("name", DTYPES)
def test_each_fast_form_gives_what_the_readable_one_gives(name):
    @settings(max_examples=100, deadline=None)
    @given(pairs(name), st.sampled_from(RULES))
    def check(pair, rules):
        shape = shape_of(pair[0].size)
        expected = plain.tally_reference(*pair, 0, shape, rules)
        for form in FAST:  # all on the same pairs, because hypothesis takes longer to draw them than precreg to measure
            check_same(BACKENDS[form](*pair, 0, shape, rules), expected)

    check()


@pytest.mark.skipif(np.finfo(np.longdouble).maxexp <= 1024, reason="long doubles of this system are float64")
@pytest.mark.parametrize("name", ["longdouble", "clongdouble"])
@pytest.mark.parametrize(
    "pair",
    [
        ([-1.7e308], [9.769313486231587e306 * (1 + 1j)]),  # their difference is beyond float64
        (["1e4000", "1e4000", "1", "1e4000"], ["1e4000", "1", "1e4000", "2e4000"]),
    ],
    ids=["difference", "values"],
)
def test_long_doubles_beyond_float64(name, pair):
    parts = [np.array([np.longdouble(each) if isinstance(each, str) else each for each in side]) for side in pair]
    actual, reference = (side if name == "clongdouble" else side.real for side in parts)
    actual = actual.astype(name)
    expected = plain.tally_reference(actual, reference, 0, actual.shape, RULES[0])
    assert expected.counts.finite == actual.size
    assert expected.maxima.absolute == math.inf
    for form in FAST:
        check_same(BACKENDS[form](actual, reference, 0, actual.shape, RULES[0]), expected)


@pytest.mark.skipif(np.finfo(np.longdouble).maxexp <= 1024, reason="long doubles of this system are float64")
@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_references_beyond_float64_round_to_infinity(name):
    actual = np.array([0.0, 1.0], name)
    reference = np.array([np.ldexp(np.longdouble(1), 1929), np.ldexp(np.longdouble(-1), 1024)])
    expected = plain.tally_reference(actual, reference, 0, actual.shape, RULES[0])
    assert (expected.counts.plus_inf_mismatched, expected.counts.minus_inf_mismatched) == (1, 1)
    for form in FAST:
        check_same(BACKENDS[form](actual, reference, 0, actual.shape, RULES[0]), expected)


LONG = 40_000


def long_pair(kind):
    """Arrays of some blocks, in which rare things come, are absent, or are everywhere."""
    generator = np.random.default_rng(5)
    reference = generator.normal(size=LONG).astype(np.float32)
    actual = (reference * (1 + generator.normal(size=LONG) * 1e-6)).astype(np.float32)
    if kind == "rare":
        actual[20_000:20_010] = np.nan
        reference[100:103], reference[39_999] = (np.inf, 0.0, -0.0), 1e-45
    elif kind == "subnormal":
        actual, reference = (generator.integers(0, 2**23, LONG, np.uint32).view(np.float32) for _ in "ar")
    elif kind == "zeros":
        actual, reference = np.maximum(actual, 0), np.maximum(reference, 0)
    elif kind == "wide":
        actual, reference = (generator.integers(0, 2**64, LONG, np.uint64).view(np.float64) for _ in "ar")
    elif kind == "same":
        actual = reference
    elif kind == "nan":
        actual = np.full_like(actual, np.nan)
    return actual, reference


LONG_KINDS = ("ordinary", "rare", "subnormal", "zeros", "wide", "same", "nan")


def cut(form, pair, cuts, shape, rules):
    places = sorted({0, *cuts, pair[0].size})
    return [
        BACKENDS[form](pair[0][low:high], pair[1][low:high], low, shape, rules)
        for low, high in itertools.pairwise(places)
    ]


@pytest.mark.parametrize("kind", LONG_KINDS)
@pytest.mark.parametrize("form", FAST)
def test_parts_merge_to_the_whole_wherever_they_are_cut_and_in_any_order(form, kind):
    pair, shape, rules = long_pair(kind), (5, 80, 100), MeasureRules(1e-6, 0.0, 40)
    whole = BACKENDS[form](*pair, 0, shape, rules)

    @settings(max_examples=12, deadline=None)
    @given(st.lists(st.integers(1, LONG - 1), max_size=6), st.randoms(use_true_random=False))
    def check(cuts, random):
        parts = cut(form, pair, cuts, shape, rules)
        random.shuffle(parts)
        merged = reduce(lambda first, second: merge_tallies(first, second, rules), parts)
        check_same(merged, whole)
        if form == "numpy":
            assert repr((merged.sums, merged.scaled)) == repr((whole.sums, whole.scaled))

    check()


@pytest.mark.parametrize("kind", LONG_KINDS)
def test_forms_agree_over_blocks(kind):
    pair, rules = long_pair(kind), MeasureRules(1e-6, 0.0, 40)
    first, *others = (BACKENDS[form](*pair, 0, (5, 80, 100), rules) for form in FAST)
    for other in others:
        check_same(other, first)


def test_sums_are_the_exact_ones():
    actual, reference = (array.astype(np.float64) for array in long_pair("ordinary"))
    for form in FAST:
        tally = BACKENDS[form](actual, reference, 0, actual.shape, RULES[0])
        errors = [abs(a - r) for a, r in zip(actual.tolist(), reference.tolist(), strict=True)]
        assert round_expansion(tally.sums.absolute) == math.fsum(errors)
        assert round_expansion(tally.sums.squared_error) == math.fsum(error * error for error in errors)
        assert exactly(tally, "absolute") == sum(map(Fraction, errors))


def test_nothing_merges_with_a_tally_to_itself():
    tally = BACKENDS["numpy"](*long_pair("rare"), 0, (LONG,), RULES[1])
    assert merge_tallies(Tally(), tally, RULES[1]) == merge_tallies(tally, Tally(), RULES[1]) == tally


@pytest.mark.parametrize("form", FAST)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "complex64"])
def test_groups_of_every_axis_are_the_sums_of_slices(form, dtype):
    generator = np.random.default_rng(2)
    shape = (3, 1, 35, 2, 70)
    actual, reference = ((generator.normal(size=shape) * 9).astype(dtype) for _ in "ar")
    tally = BACKENDS[form](actual.reshape(-1), reference.reshape(-1), 0, shape, RULES[0])
    errors = np.abs(actual.astype(np.complex128) - reference.astype(np.complex128))
    for axis, groups in enumerate(tally.groups):
        length = shape[axis]
        edges = [length * group // len(groups.n) for group in range(len(groups.n) + 1)]
        slices = [np.take(errors, range(low, high), axis) for low, high in itertools.pairwise(edges)]
        assert groups.n == [part.size for part in slices]
        assert groups.absolute == pytest.approx([part.sum() for part in slices])
        assert groups.squared == pytest.approx([(part * part).sum() for part in slices])
        if dtype == "complex64":
            assert groups.outward == groups.signed, "of complex numbers both are of |a| - |r|"
            continue
        signs = np.sign(reference.astype(np.float64)) * (actual.astype(np.float64) - reference.astype(np.float64))
        parts = [np.take(signs, range(low, high), axis) for low, high in itertools.pairwise(edges)]
        assert groups.outward == pytest.approx([part.sum() for part in parts])


@pytest.mark.parametrize("kind", LONG_KINDS)
@pytest.mark.parametrize("form", BACKENDS)
def test_logarithms_of_groups_are_those_of_the_errors_in_them(form, kind):
    """Taken one by one: of the end of each U's bin, which is U rounded up to eight significant bits."""
    pair, shape = (side[:1200] for side in long_pair(kind)), (4, 3, 100)
    actual, reference = pair
    tally = BACKENDS[form](actual, reference, 0, shape, RULES[0])
    finite = np.isfinite(actual) & np.isfinite(reference)
    with np.errstate(all="ignore"):
        distances = np.abs(actual.astype(np.longdouble) - reference) / np.spacing(np.abs(reference))
    logs = np.array([log2_of_end(u) if kept else 0.0 for u, kept in zip(distances, finite, strict=True)])
    for axis, groups in enumerate(tally.groups):
        length = shape[axis]
        edges = [length * group // len(groups.n) for group in range(len(groups.n) + 1)]
        parts = [np.take(logs.reshape(shape), range(low, high), axis) for low, high in itertools.pairwise(edges)]
        assert groups.logs == pytest.approx([part.sum() for part in parts], rel=1e-12, abs=1e-9)


def log2_of_end(ulps):
    with np.errstate(all="ignore"):
        mantissa, exponent = np.frexp(np.float64(ulps))
        return np.log2(np.ldexp(np.ceil(mantissa * 256), exponent - 8) + 0.25)


@pytest.mark.parametrize("form", BACKENDS)
def test_logarithms_are_infinite_in_the_groups_of_bins_without_an_end_alone(form):
    """The last bin that ends at a finite number ends at 255 * 2**1016."""
    unit = 5e-324
    actual = np.array([0.0, 255 * 2.0**1016 * unit, 255.5 * 2.0**1016 * unit, 1e300] * 50)
    groups = BACKENDS[form](actual, np.zeros(200), 0, (50, 4), RULES[0]).groups
    assert groups[1].logs == [-100.0, pytest.approx(50 * math.log2(255 * 2**1016)), math.inf, math.inf]
    assert groups[0].logs == [math.inf] * 16


@pytest.mark.parametrize("form", BACKENDS)
def test_without_rtol_the_size_of_a_reference_allows_nothing_even_beyond_float64(form):
    reference = np.array([1.3e308 + 1.3e308j] * 2)
    actual = np.array([reference[0], 0])
    assert BACKENDS[form](actual, reference, 0, (2,), RULES[0]).counts.matching == 1


@pytest.mark.parametrize("form", FAST)
def test_an_absolute_value_beyond_float64_has_its_ulp_in_long_doubles(form):
    actual, reference = np.zeros(1, np.longdouble), np.array([1.3e308 + 1.3e308j])
    found = BACKENDS[form](actual, reference, 0, (1,), RULES[0])
    assert found.maxima.magnitude == math.inf
    check_same(found, plain.tally_reference(actual, reference, 0, (1,), RULES[0]))


TINY = 2.0**-1022
HARD = {
    "runs of tiny errors, each larger than those before": (np.repeat(TINY * 2.0 ** np.arange(4), 128), np.zeros(512)),
    "products that cancel": (
        [1e10 + 1, 1 - 1e10, *[2.0**-30 + 2.0**-50] * 9],
        [1e10, -1e10, *[2.0**-30 + 2.0**-80] * 9],
    ),
    "products too small where neither factor is": ([2.0**-300, 2.0**-390], [2.0**-700, 2.0**-390]),
    "products of others too small": ([2.0**-300, *[1.5 * 2.0**-1000] * 5], [0.0, *[1.25 * 2.0**-1000] * 5]),
    "subnormal references just below the normal numbers": (np.zeros(9), TINY - 5e-324 * np.arange(9)),
}


@pytest.mark.parametrize("form", FAST)
@pytest.mark.parametrize("name", HARD)
def test_what_lies_near_the_ends_of_float64(form, name):
    """Also after another pair, because the core uses its tables of counters again."""
    actual, reference = (np.array(side) for side in HARD[name])
    expected = plain.tally_reference(actual, reference, 0, actual.shape, RULES[1])
    for _ in "twice":
        check_same(BACKENDS[form](actual, reference, 0, actual.shape, RULES[1]), expected)
