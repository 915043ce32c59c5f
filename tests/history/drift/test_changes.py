"""What runs say beside figures: which can be compared, whether a series repeats, and what changed where."""

import pytest

from precreg.history.drift.judge import change_at, comparable_points, is_deterministic
from precreg.history.drift.record import DriftChange
from tests.history.drift.drawn import FACTS, run, runs, series


def of(prints):
    """Return runs by number with these fingerprints, and the points of a constant series."""
    among = {number: run(number, fingerprint) for number, fingerprint in enumerate(prints, 1)}
    return among, series([1.0] * len(prints)).points


@pytest.mark.parametrize(
    ("prints", "compared"),
    [
        ("aaaa", [1, 2, 3, 4]),
        ("aabb", [1, 2, 3, 4]),
        ("abc", [1, 2, 3]),
        ("abab", [2, 4]),
        ("aabba", [1, 2, 5]),
        ("ababc", [1, 2, 3, 4, 5]),
        ("a", [1]),
    ],
)
def test_machines_that_take_turns_are_set_apart_and_a_new_one_is_a_change(prints, compared):
    among, points = of(prints)
    assert [point.run for point in comparable_points(points, among)] == compared


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 1], True),
        ([1, 2], False),
        ([1], False),
        ([1, 1, 2, 2, 3, 3], True),
        ([1, 2, 3, 4, 4, 5], False),
        ([1, 1, 1, 9, 1, 1, 1], True),
        ([1, 1, 9, 9, 1, 1, 9, 9, 1, 1], False),
    ],
)
def test_a_series_repeats_where_half_of_its_runs_do_and_it_does_not_flicker(values, expected):
    among = {number: run(number) for number in range(1, len(values) + 1)}
    assert is_deterministic(series([float(value) for value in values]).points, among) is expected


@pytest.mark.parametrize(
    ("values", "commits", "expected"),
    [
        ([1, 2, 2], "aab", False),
        ([1, 2, 2], "abb", True),
        ([1, 2, 2, 2], "aabb", False),
        ([1, 1, 1, 2, 2, 2, 2], "abbbccd", True),
        ([1, 1, 1, 9, 1, 1, 1, 1, 1], "aabbccdde", True),
    ],
)
def test_a_series_does_not_repeat_if_reruns_of_its_code_differ(values, commits, expected):
    among = {number: run(number, commit=commit * 40) for number, commit in enumerate(commits, 1)}
    assert is_deterministic(series([float(value) for value in values]).points, among) is expected


def test_only_runs_on_one_fingerprint_tell_whether_a_series_repeats():
    among, _ = of("aabb")
    assert is_deterministic(series([1.0, 1.0, 2.0, 2.0]).points, among)
    among, _ = of("abcd")
    assert not is_deterministic(series([1.0] * 4).points, among)


def test_a_change_names_runs_commits_and_what_else_differs():
    among = {one.number: one for one in [*runs(2), run(3, "f2", facts=FACTS | {"numpy": "2.4.6"})]}
    points = series([1.0, 1.0, 2.0]).points
    assert change_at(2, points, among) == DriftChange(2, 3, "00000002..00000003", ("numpy 2.4.5 -> 2.4.6",))
    assert change_at(1, points, among) == DriftChange(1, 2, "00000001..00000002", ())
    assert change_at(0, points, among) == DriftChange(None, 1, "00000001", ())


def test_a_history_without_a_repository_names_no_commits():
    among = {one.number: one for one in runs(2, commit={1: "", 2: ""})}
    assert change_at(1, series([1.0, 2.0]).points, among).commits == ""
