"""The growth of errors against figures worked out by hand: the points, both laws, and which of them holds."""

from fractions import Fraction
from math import expm1, isclose, log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from precreg.report.error_growth import (
    EXPONENTIAL_LAW,
    RANDOM_WALK_LAW,
    GrowthPoint,
    compare_laws,
    fit_one_sign,
    fit_random_signs,
    growth_series,
    growth_slope,
)
from precreg.types.case import Growth
from tests.report.made import crashed
from tests.report.studies.made import DEPTHS, GROWTH, E, U, case, link, measured, rounding, truncating

STUDY = GROWTH.growth


def found(results, study=STUDY, suite="unit/growth"):
    return growth_series(study, suite, results)


def test_a_chain_that_truncates_follows_the_exponential():
    (one,) = found(truncating())
    assert one.name == "truncating"
    assert [point.n for point in one.points] == list(DEPTHS)
    assert {point.direction for point in one.points} == {-1.0}
    assert isclose(one.e, E, rel_tol=1e-12)
    assert isclose(one.grown(1024), 1 - (1 + expm1(E)) ** 1024, rel_tol=1e-9)
    assert compare_laws(one).law == EXPONENTIAL_LAW
    assert compare_laws(one).grown < 1 + 1e-9
    assert 0.98 < growth_slope(one) < 1


def test_a_chain_that_rounds_follows_the_square_root():
    (one,) = found(rounding())
    assert isclose(one.c, U)
    assert compare_laws(one).law == RANDOM_WALK_LAW
    assert isclose(compare_laws(one).walked, 1)
    assert isclose(growth_slope(one), 0.5)
    # fitted to U * (1, 2, 4) at n = 1, 4, 16, the other law says 7 U / 21 an operation, which is 1024 / 3 U at the end
    assert isclose(compare_laws(one).grown, 1024 / 3 / 32, rel_tol=1e-3)


def test_both_laws_are_fitted_to_few_operations_alone():
    first = found(truncating((1, 4, 16)))[0]
    assert compare_laws(first) is None
    assert [getattr(first, name) for name in "ec"] == [getattr(found(truncating())[0], name) for name in "ec"]
    assert found(truncating(), Growth("depth", fit_to=1))[0].e == pytest.approx(E)
    assert [point.n for point in found(truncating(), Growth("depth", fit_to=256))[0].foretold] == [1024]


def test_the_fits_by_hand():
    points = [GrowthPoint("a", 1, 0.5, 1.0), GrowthPoint("b", 3, 7.0, 1.0)]
    assert isclose(fit_one_sign(points), (log(1.5) + log(8)) / 4)
    assert isclose(fit_random_signs(points), sqrt((0.25 + 49) / 4))
    shrinking = [GrowthPoint("a", 2, 0.75, -1.0)]
    assert isclose(fit_one_sign(shrinking), log(0.25) / 2)


def test_what_nothing_is_left_of_has_no_logarithm_and_what_is_exact_no_law():
    lost = GrowthPoint("a", 4, 1.0, -1.0)
    assert fit_one_sign([lost]) is None
    assert fit_one_sign([lost, GrowthPoint("b", 2, 0.75, -1.0)]) == log(0.25) / 2
    exact = found([link("exact", n, 0.0, 0, 0) for n in DEPTHS])[0]
    assert (exact.e, exact.c, compare_laws(exact), growth_slope(exact)) == (None, None, None, None)
    assert (exact.grown(5), exact.walked(5)) == (0.0, 0.0)


def test_series_are_the_other_parameters_by_name():
    assert [one.name for one in found([*truncating(), *rounding()])] == ["rounding", "truncating"]
    alone = [case("growth", f"depth={n}", {"depth": n}, [measured({"mean_rel_error": n * 1e-7})]) for n in (16, 1)]
    assert [(one.name, [point.n for point in one.points]) for one in found(alone)] == [("", [1, 16])]


def test_outputs_are_series_where_there_are_several():
    results = [
        case(
            "growth",
            f"depth={n}",
            {"depth": n},
            [measured({"mean_rel_error": n * 1e-7}, output=name) for name in ("m", "v")],
        )
        for n in DEPTHS
    ]
    assert [one.name for one in found(results)] == ["m", "v"]


def test_a_point_is_the_mean_over_seeds_and_its_direction_that_of_all_elements():
    seeds = [
        measured({"mean_rel_error": 1e-6}, {"above": 30, "below": 0}, 0),
        measured({"mean_rel_error": 3e-6}, {"above": 0, "below": 10}, 1),
    ]
    (one,) = found([case("growth", "depth=1", {"depth": 1}, seeds)])
    assert one.points == (GrowthPoint("unit/growth/depth=1", 1, 2e-6, 0.5),)


def test_what_measured_nothing_is_no_point():
    without = case("growth", "depth=4", {"depth": 4}, [measured({})])
    failed = crashed("x", id="unit/growth/x", suite="growth", parameters={"depth": 1})
    other_tier = [replace(result, tier="model") for result in truncating()]
    assert found([without, failed, *other_tier]) == []
    assert found(truncating(), suite="unit/other") == []


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=8, unique=True), st.floats(-1e-3, 1e-3).filter(abs))
def test_one_sign_finds_the_e_that_made_the_points(numbers, e):
    points = [GrowthPoint("x", n, abs(expm1(n * e)), 1.0 if e > 0 else -1.0) for n in numbers]
    assert isclose(fit_one_sign(points), e, rel_tol=1e-9)


def test_products_of_rounded_factors_grow_as_the_laws_say():
    """Chains of exact products, each rounded to 12 bits by whole numbers alone, apart from everything of precreg."""
    random = np.random.default_rng(7)

    def rounded(value, to_nearest):
        shift = max(0, (value.numerator // value.denominator).bit_length() - 12)
        half = Fraction(1, 2) if to_nearest else 0
        return Fraction(int(value / 2**shift + half) * 2**shift)

    def errors(to_nearest):
        by_depth = {n: [] for n in (1, 4, 16, 64)}
        for _ in range(60):
            exact = computed = Fraction(2**40 + int(random.integers(2**40)))
            computed = exact = rounded(exact, to_nearest=True)
            for n in range(1, 65):
                factor = Fraction(int(random.integers(3000, 5000)), 4000)
                exact, computed = exact * factor, rounded(computed * factor, to_nearest)
                if n in by_depth:
                    by_depth[n].append(float(computed / exact - 1))
        return [
            link("x", n, float(np.mean(np.abs(of))), sum(e > 0 for e in of), sum(e < 0 for e in of))
            for n, of in by_depth.items()
        ]

    truncated, nearest = (found(errors(way))[0] for way in (False, True))
    assert compare_laws(truncated).law == EXPONENTIAL_LAW
    assert compare_laws(truncated).grown < 1.1
    assert truncated.e < 0
    assert compare_laws(nearest).law == RANDOM_WALK_LAW
    assert compare_laws(nearest).walked < 1.5


def test_errors_beyond_their_square_have_laws():
    (one,) = found([link("far", n, 1e200 * n, 1, 0) for n in (1, 4, 64)])
    assert isclose(one.c, 1e200 * sqrt(17 / 5))
    assert compare_laws(one).law == RANDOM_WALK_LAW
