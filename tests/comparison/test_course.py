"""Along the order: the first failing pair, other bits, a rise of the error, and the counts of benchmarks."""

from statistics import median_low

import numpy as np
import pytest
from msgspec.structs import replace

from precreg.comparison.course import (
    GROWTH,
    count_benchmarks,
    course_rows,
    first_different,
    first_failing,
    first_measured_failing,
    first_rise,
    pair_errors,
)
from precreg.types.comparison import ComparedPair
from precreg.types.verdict import Reason, Status, Verdict
from tests.comparison.made import TOLERANCE, failed, identical, measured, missing, passed, reshaped

PASSED = Verdict(Status.PASSED, Reason.WITHIN_TOLERANCE)


def with_error(name, error, size=64):
    """Return a pair whose mean error is so large, in units of the mean magnitude."""
    reference = np.full(size, 2.0)
    return ComparedPair(name, "a", "r", PASSED, measured(reference * (1 + error), reference), TOLERANCE)


def course(*errors):
    return pair_errors([with_error(f"l.{place}", error) for place, error in enumerate(errors)])


def test_errors_are_relative_to_the_mean_magnitude():
    actual, reference = np.array([1.0, 2.5, -3.0]), np.array([1.0, 2.0, -4.0])
    pair = ComparedPair("y", "a", "r", PASSED, measured(actual, reference), TOLERANCE)
    pair = replace(pair, benchmark=measured(reference + 0.25, reference))
    (point,) = pair_errors([pair])
    assert point.error == pytest.approx((0.5 + 1.0) / 7.0)
    assert point.benchmark == pytest.approx(0.75 / 7.0)
    # The mean of atol + rtol*|r|, over mean |r|.
    assert point.allowed == pytest.approx(np.mean(1e-5 + 1e-3 * np.abs(reference)) / np.mean(np.abs(reference)))


def test_an_error_without_a_figure_is_none_and_not_zero():
    zeros = ComparedPair("z", "a", "r", PASSED, measured(np.ones(3), np.zeros(3)), TOLERANCE)
    assert [point.error for point in pair_errors([zeros, missing(), reshaped(), identical()])] == [
        None,
        None,
        None,
        0,
    ]


def test_a_pair_whose_elements_all_match_is_below_its_line():
    random = np.random.default_rng(0)
    for scale in (1e-6, 1e-3, 1.0, 1e6):
        reference = random.standard_normal(500) * scale
        allowed = 1e-5 + 1e-3 * np.abs(reference)
        pair = ComparedPair("y", "a", "r", PASSED, measured(reference + 0.99 * allowed, reference), TOLERANCE)
        (point,) = pair_errors([pair])
        assert pair.comparison.metrics["match_ratio"] == 1
        assert point.error < point.allowed


def test_the_first_failing_pair_is_the_first_in_order_and_not_the_worst():
    mild, bad = failed("l.1", ratio=1.5), failed("l.2", ratio=900.0)
    assert first_failing([passed(), mild, bad]) is mild
    assert first_failing([missing("l.0"), mild]).name == "l.0"
    assert first_measured_failing([missing("l.0"), reshaped(), mild]).name == "l.1"
    assert first_failing([passed()]) is None
    assert first_measured_failing([missing("l.0")]) is None


def test_other_bits_are_named_only_after_equal_ones():
    assert first_different([identical("a"), passed("b"), passed("c")]).name == "b"
    assert first_different([passed("b"), identical("a")]) is None
    assert first_different([identical("a"), identical("b")]) is None
    assert first_different([]) is None


def test_a_lasting_rise_is_found_where_it_begins():
    rise = first_rise(course(1e-3, 2e-3, 1e-3, 9e-3, 8e-3, 2e-2))
    assert rise.point.pair.name == "l.3"
    assert rise.points_before == 3
    assert rise.before == pytest.approx(1e-3, rel=1e-6)


def test_a_slow_growth_is_a_rise_too():
    rise = first_rise(course(*(1e-6 * 1.5**layer for layer in range(30))))
    assert 4 <= rise.point.place <= 10


@pytest.mark.parametrize(
    "errors",
    [
        (),
        (1e-3,),
        (1e-3, 2e-3, 3e-3, 1e-3),
        # One bad layer between good ones: the error does not stay.
        (1e-3, 1e-3, 0.1, 1e-3, 1e-3),
        (0.1, 1e-3, 1e-3),
        # Rounding after exact layers.
        (0.0, 0.0, 1e-16, 1e-16),
    ],
)
def test_one_level_is_no_rise(errors):
    assert first_rise(course(*errors)) is None


def test_points_without_a_figure_are_passed_over():
    points = pair_errors([with_error("a", 1e-3), missing("gone"), with_error("b", 1e-1), missing("lost")])
    assert first_rise(points).point.pair.name == "b"


def test_the_rule_of_a_rise_against_its_definition():
    random = np.random.default_rng(3)
    found = 0
    for _ in range(200):
        errors = np.exp(random.normal(0, 1.5, 12)) * 1e-3 * np.where(np.arange(12) > random.integers(12), 20, 1)
        points = course(*errors)
        exact = [point.error for point in points]
        expected = next(
            (
                place
                for place in range(1, 12)
                if min(exact[place], median_low(exact[place:])) > GROWTH * median_low(exact[:place])
            ),
            None,
        )
        rise = first_rise(points)
        assert (rise and rise.point.place) == expected
        found += expected is not None
    assert 20 < found < 200


def test_rows_of_a_curve_cover_every_point_once():
    points = course(*([1e-3] * 37))
    rows = course_rows(points, 16)
    assert len(rows) == 16
    assert [row.first.place for row in rows[1:]] == [row.last.place + 1 for row in rows[:-1]]
    assert (rows[0].first.place, rows[-1].last.place) == (0, 36)
    assert course_rows([], 16) == []
    assert course_rows(course(1.0, 2.0), 16)[1].largest.place == 1


def test_every_pair_with_a_benchmark_is_counted_once():
    other = measured(np.ones(8, np.float32), np.ones(8))
    pairs = [
        replace(passed("judged"), benchmark=passed().comparison, benchmark_path="b"),
        replace(passed("dtype"), benchmark=other, benchmark_path="b"),
        replace(passed("broken"), benchmark_path="b", benchmark_problem="no"),
        passed("absent"),
        missing(),
    ]
    assert count_benchmarks(pairs) == (1, 1, 1, 1, 1)
