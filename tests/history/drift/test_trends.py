"""The trends of a history: changes, accepted levels, verdicts and suites, in each environment."""

import pytest
from msgspec.structs import replace

from precreg.errors import UserError
from precreg.history.drift.trends import TrendOptions, case_loss, is_failing, read_trends, suite_of
from precreg.history.store import open_history
from tests.history.made import record, started

STEPPED, STEADY, BETTER, BROKEN = "unit/sum/stepped", "unit/sum/steady", "unit/max/better", "unit/max/broken"


@pytest.fixture
def place(new_place):
    """Return a history of 12 runs on a CPU and 12 on a GPU; on the CPU a case is worse from its 7th run on."""
    where = new_place()
    with open_history(where, project="demo", create=True) as history:
        for night in range(12):
            cpu = {
                STEPPED: 3.0 if night >= 6 else 1.0,
                STEADY: 1.0,
                BETTER: 0.25 if night >= 4 else 1.0,
                BROKEN: None if night in (2, 11) else 1.0,
            }
            history.add(record(night * 1440, cpu))
            history.add(record(night * 1440 + 60, {STEPPED: 2.0}, "gpu"))
    return where


def trends(place, **options):
    with open_history(place, project="demo") as history, history.one_state():
        return read_trends(history, TrendOptions(**options), version="0.1", made="today")


def by_case(found):
    return {trend.case: trend for trend in found.cases}


def test_a_case_has_a_line_for_each_environment_with_its_changes(place):
    found = trends(place)
    assert found.environments == ("cpu", "gpu")
    assert (len(found.runs), found.series) == (24, 5)
    cpu, gpu = by_case(found)[STEPPED].lines
    assert (cpu.environment, gpu.environment, cpu.output, cpu.metric) == ("cpu", "gpu", "out", "mean_abs_error")
    assert [point.value for point in cpu.points] == [1.0] * 6 + [3.0] * 6
    assert {point.accepted for point in cpu.points} == {1.0}
    (change,) = cpu.changes
    # Runs of the two environments take turns, so the 7th of the CPU is run 13.
    assert (change.worse, change.change.first_bad, change.ratio) == (True, 13, pytest.approx(3.0))
    assert (cpu.growth, gpu.growth, gpu.changes) == (3.0, 2.0, ())


def test_failures_and_regressions_come_first_and_steady_cases_last(place):
    found = trends(place)
    assert [trend.case for trend in found.cases] == [STEPPED, BROKEN, BETTER, STEADY]
    assert [case_loss(trend) for trend in found.cases] == pytest.approx([3.0, 1.0, 1.0, 1.0])
    broken = by_case(found)[BROKEN]
    assert broken.failures == {"cpu": {5: "crashed", 23: "crashed"}}
    assert broken.latest == {"cpu": "crashed"}
    assert [trend.case for trend in found.cases if is_failing(trend)] == [BROKEN]
    # The runs without a value are gaps.
    assert [point.value for point in broken.lines[0].points][2] is None


def test_a_suite_has_the_geometric_mean_of_its_cases_and_their_failures(place):
    found = {(suite.suite, suite.environment): suite for suite in trends(place).suites}
    assert sorted(found) == [("unit/max", "cpu"), ("unit/sum", "cpu"), ("unit/sum", "gpu")]
    growth = found["unit/sum", "cpu"].growth
    assert growth[1] == 1.0
    assert growth[23] == pytest.approx(3**0.5)
    assert found["unit/max", "cpu"].failed == {5: 1, 23: 1}
    assert found["unit/max", "cpu"].ran[5] == 2
    # The case that crashed has no value at this run, so the other one alone is the mean.
    assert found["unit/max", "cpu"].growth[23] == pytest.approx(0.25)


def test_patterns_environments_and_a_day_choose(place):
    assert [trend.case for trend in trends(place, patterns=("sum/",), environments=("gpu",)).cases] == [STEPPED]
    late = trends(place, since=started(9 * 1440))
    assert [run.number for run in late.runs] == [19, 20, 21, 22, 23, 24]
    assert by_case(late)[STEPPED].lines[0].changes == ()


def test_a_chosen_metric_is_drawn_and_an_unknown_one_is_an_error(place):
    assert trends(place, metric="mean_abs_error").series == 5
    with pytest.raises(UserError) as raised:
        trends(place, metric="mean_abs_eror")
    assert raised.value.slug == "nothing-selected"
    assert "mean_abs_error" in f"{raised.value.message} {raised.value.hint}"
    with pytest.raises(UserError, match="whole name"):
        trends(place, metric="abs_error")


@pytest.mark.parametrize(
    ("options", "slug", "words"),
    [
        ({"patterns": ("nothing",)}, "nothing-selected", "nothing"),
        ({"environments": ("npu",)}, "empty-history", "npu in the history; there are runs of cpu, gpu"),
        ({"since": "2027-01-01T00:00:00+00:00"}, "empty-history", "the newest is of 2026-11-12"),
    ],
)
def test_a_choice_without_a_run_or_a_case_is_an_error(place, options, slug, words):
    with pytest.raises(UserError) as raised:
        trends(place, **options)
    assert raised.value.slug == slug
    assert words in raised.value.message


def test_an_empty_history_is_an_error(new_place):
    where = new_place()
    open_history(where, project="demo", create=True).__exit__(None, None, None)
    with pytest.raises(UserError, match="which has none"):
        trends(where)


def test_a_reason_of_a_newer_version_counts_as_a_failure(new_place):
    where = new_place()
    with open_history(where, project="demo", create=True) as history:
        night = record(0, {STEADY: 1.0})
        (result,) = night.results
        history.add(replace(night, results=(replace(result, verdict=replace(result.verdict, reason="melted")),)))
    (found,) = trends(where).cases
    assert found.failures == {"cpu": {1: "melted"}}


def test_the_suite_of_a_case_with_slashes_in_its_name():
    assert suite_of("unit/compare/a/b") == "unit/compare"
