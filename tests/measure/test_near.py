"""The core's fast ways for pairs of small errors give the results of the plain form, at each of their limits."""

from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np
import pytest

from precreg.measure import plain
from precreg.measure.tally import MeasureRules
from precreg.quality.self_test import tally_differences

native = pytest.importorskip("precreg.measure.native", reason="no C++ compiler was there to build the core")

RUNS, RUN = 6, 128  # as RUN in precreg/measure/core/totals.hpp
RULES = MeasureRules(1e-6, 1e-9, 20)
PAIRS = [("float32", "float32"), ("float32", "float64"), ("float64", "float64"), ("float64", "float32")]


def neighbors(half_ulps, dtypes, spread=4):
    """Draw normal references, and actual values up to so many half ULPs away."""
    random = np.random.default_rng(half_ulps)
    reference = (random.choice((-1, 1), RUNS * RUN) * np.exp(random.normal(0, spread / 3, RUNS * RUN))).astype(
        dtypes[1]
    )
    steps = random.integers(-half_ulps, half_ulps + 1, reference.size)
    actual = reference.astype(np.float64) + steps * 0.5 * np.spacing(np.abs(reference.astype(dtypes[0]))).astype(
        np.float64
    )
    return actual.astype(dtypes[0]), reference


def check(actual, reference, shape=None):
    """Compare the two forms; return the counts."""
    shape = shape or actual.shape
    found = native.tally_native(actual, reference, 0, shape, RULES)
    assert not tally_differences(found, plain.tally_reference(actual, reference, 0, shape, RULES))
    return found.counts


@pytest.mark.parametrize("dtypes", PAIRS)
@pytest.mark.parametrize("half_ulps", [0, 1, 62, 63, 64, 65, 1000, 1 << 20])
def test_errors_at_the_limit_of_near_pairs(half_ulps, dtypes):
    counts = check(*neighbors(half_ulps, dtypes))
    assert counts.finite == RUNS * RUN
    assert (counts.exact_matches < counts.n) or half_ulps < 2


@pytest.mark.parametrize("dtypes", PAIRS)
@pytest.mark.parametrize("shape", [(RUNS * RUN,), (RUNS, RUN), (2, 3, RUN), (RUNS * 8, 4, 4)])
def test_zeros_of_both_signs_in_every_shape(shape, dtypes):
    actual, reference = neighbors(9, dtypes)
    random = np.random.default_rng(5)
    zero = random.random(actual.size) < 0.4
    actual[zero], reference[zero] = 0.0, random.choice((-0.0, 0.0), zero.sum())
    counts = check(actual, reference, shape)
    assert counts.zero_references == zero.sum()
    assert 0 < counts.zero_sign_differences < zero.sum()


@pytest.mark.parametrize("dtypes", PAIRS)
@pytest.mark.parametrize("value", [0.0, np.inf, np.nan, 1e-45, 1e-38, 1e-12, 2e-12, 1e-6, 1e30, 3e38])
def test_one_value_far_from_the_others_in_each_run(value, dtypes):
    for side in (0, 1):
        pair = neighbors(5, dtypes)
        pair[side][77::RUN] = value
        assert check(*pair).n == RUNS * RUN


@pytest.mark.parametrize("dtypes", PAIRS)
@pytest.mark.parametrize("spread", [1, 20, 60])
def test_references_of_many_binades(spread, dtypes):
    """Small values, the region of cancellation and violations of thresholds occur among them."""
    counts = check(*neighbors(40, dtypes, spread))
    if dtypes[0] == "float32" and spread == 20:
        assert min(counts.small_values, counts.cancellations, counts.relative_violations) > 0


@pytest.mark.parametrize("exponent", [-120, -100, -60, 60, 100, 125])
def test_magnitudes_at_the_ends_of_float32(exponent):
    for dtypes in PAIRS[:2]:
        actual, reference = neighbors(7, dtypes, 1)
        check(np.ldexp(actual, exponent), np.ldexp(reference, exponent))


@pytest.mark.parametrize("dtypes", [("float32", "float32"), ("float64", "float64")])
@pytest.mark.parametrize("spread", [1, 40, 80])
@pytest.mark.parametrize("value", [None, 0.0, np.inf, np.nan, 1e-45, 1e-12, 2e-12, 1e30, 3e38])
def test_identical_pairs_of_many_binades(value, spread, dtypes):
    actual, _ = neighbors(0, dtypes, spread)
    if value is not None:
        actual[100::RUN] = value
    counts = check(actual, actual.copy())
    assert counts.equal == counts.n == RUNS * RUN


def test_an_identical_run_but_for_its_last_pair():
    actual, _ = neighbors(0, PAIRS[0])
    reference = actual.copy()
    reference[RUN - 1 :: RUN] = np.nextafter(reference[RUN - 1 :: RUN], np.float32(np.inf))
    assert check(actual, reference).equal == RUNS * (RUN - 1)


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("shape", [(40, 1000), (7, 4096), (70, 513), (130, 600), (4, 9, 600), (3000, 6)])
def test_each_place_of_a_tile_gets_its_rows_in_their_order(shape, far):
    """Sums of groups are ordinary ones, so that another order gives other bits. `far` puts other runs between."""
    random = np.random.default_rng(5)
    reference = np.exp(random.normal(size=shape)).astype(np.float32)
    actual = (reference * (1 + random.uniform(-1e-6, 1e-6, shape))).astype(np.float32)
    if far:
        actual.flat[::5003] *= 2
    groups = native.tally_native(actual.reshape(-1), reference.reshape(-1), 0, shape, RULES).groups[-1]
    columns = shape[-1]
    # A row of few elements is repeated until it has 512 places or more.
    width = columns * -(-512 // columns)
    d = actual.astype(np.float64) - reference
    for sums, terms in ((groups.absolute, np.abs(d)), (groups.signed, d), (groups.squared, d * d)):
        padded = np.concatenate([terms.reshape(-1), np.zeros(-terms.size % width)])
        places = reduce(add, padded.reshape(-1, width), np.zeros(width))
        bounds = [group * columns // len(sums) for group in range(len(sums) + 1)]
        cycles = places.reshape(-1, columns).tolist()
        expected = [
            reduce(add, [x for cycle in cycles for x in cycle[low:high]], 0.0) for low, high in pairwise(bounds)
        ]
        assert sums == expected


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int32", "uint32", "float16"])
@pytest.mark.parametrize("least", [0, 1])
def test_identical_pairs_of_other_dtypes(dtype, least):
    """Each ulp of an integer is 1, also beside zeros."""
    values = (np.arange(1, RUNS * RUN + 1) % 200 + least).astype(dtype)
    counts = check(values, values.copy())
    assert counts.equal == counts.n == RUNS * RUN
