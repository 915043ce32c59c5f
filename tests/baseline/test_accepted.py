"""The past of a baseline: what is kept of it when another value is accepted, and what nothing of it is lost for."""

from __future__ import annotations

from math import exp, hypot, isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from precreg.baseline.entry import (
    MAX_ACCEPTED_VALUES,
    accepted_value,
    accepted_values,
    combine_half_widths,
    is_continuation,
    succeed_entry,
)
from precreg.measure.metrics import mean_metrics
from precreg.types.record import BaselineEntry, BaselineOutput
from precreg.verdict.whole_run import cumulative_losses


def entry(number: int, error: float, definition: str = "1:aa", outputs: tuple[str, ...] = ("out",)) -> BaselineEntry:
    """Return what is accepted as number so and so, its means the error and, so that they differ, shares of it."""
    metrics = {metric: [error / share] for share, metric in enumerate(mean_metrics()[:3], 1)}
    kept = BaselineOutput("float32", (8,), [f"d{number}"], metrics)
    told = f"reason {number}", "Ada", f"2026-11-{number % 30 + 1:02}", f"c{number}"
    return BaselineEntry(definition, ["i0"], *told, "f00d", 1.0, dict.fromkeys(outputs, kept))


def accepted(*errors: float, definitions: str = "") -> BaselineEntry:
    """Accept entries one after another, and return the last."""
    last = None
    for number, error in enumerate(errors):
        made = entry(number, error, definitions[number] if definitions else "1:aa")
        last = succeed_entry(made, last)
    return last


def reasons(of: BaselineEntry) -> list[str]:
    return [value.reason for value in accepted_values(of)]


def test_the_first_has_no_past_and_every_later_one_has_those_before_it():
    assert accepted(1.0).accepted == []
    third = accepted(1.0, 2.0, 3.0)
    assert third.accepted == [accepted_value(entry(0, 1.0)), accepted_value(entry(1, 2.0))]
    assert reasons(third) == ["reason 0", "reason 1", "reason 2"]
    (first, _) = third.accepted
    assert (first.date, first.author, first.commit) == ("2026-11-01", "Ada", "c0")
    assert first.means["out"] == {"mean_abs_error": [1.0], "rms_error": [0.5], "mean_ulp": [pytest.approx(1 / 3)]}


def test_what_takes_its_own_place_is_no_other_value():
    second = accepted(1.0, 2.0)
    again = replace(entry(1, 2.0), date="2026-12-31", confirmation="2 reruns: the same bits")
    assert succeed_entry(again, second).accepted == second.accepted
    assert len(succeed_entry(replace(again, reason="another"), second).accepted) == 2


def test_a_case_that_is_defined_otherwise_keeps_its_past_and_creeps_from_its_own_beginning():
    redefined = accepted(1.0, 5.0, definitions="ab")
    assert [value.definition for value in accepted_values(redefined)] == ["a", "b"]
    assert list(cumulative_losses(redefined, {})) == []
    back = accepted(1.0, 5.0, 2.0, definitions="aba")
    assert {found.factor for found in cumulative_losses(back, {})} == {2.0}, (
        "a definition that comes back has its old values"
    )


def test_of_many_values_the_first_the_smallest_and_the_last_are_kept():
    errors = [2.0, 3.0, 1.0, *(4.0 + step for step in range(60))]
    last = accepted(*errors)
    assert reasons(last) == [
        "reason 0",
        "reason 2",
        *(f"reason {number}" for number in range(63 - MAX_ACCEPTED_VALUES - 1, 63)),
    ]


errors = st.lists(st.floats(1.0, 1e3), min_size=1, max_size=70)


@given(errors)
def test_the_past_is_bounded_and_its_creep_is_that_of_everything_ever_accepted(errors):
    last = accepted(*errors)
    assert len(last.accepted) <= 1 + MAX_ACCEPTED_VALUES + len(mean_metrics())
    found = {one.metric: one.factor for one in cumulative_losses(last, {})}
    grown = errors[-1] / min(errors)
    assert set(found) == ({"mean_abs_error", "rms_error", "mean_ulp"} if grown > 1 else set())
    for factor in found.values():
        assert isclose(factor, grown)


@given(st.lists(st.floats(0, 0.1), min_size=1, max_size=70))
def test_thinning_forgets_no_doubt(steps):
    """Values that only grow: the first stays the smallest, and is as far from the last as all steps together."""
    last, error = None, 1.0
    for number, step in enumerate([0.0, *steps]):
        error *= 1.01
        made = succeed_entry(entry(number, error), last)
        last = replace(made, reach={"out": {"mean_abs_error": step}}) if number else made
    (found,) = (one for one in cumulative_losses(last, {}) if one.metric == "mean_abs_error")
    if found.reason == "reason 0":
        assert isclose(found.lower, found.factor * exp(-hypot(*steps)))
    else:
        assert found.lower >= 1.01 ** len(steps) * exp(-hypot(*steps))


def test_steps_together_are_known_where_each_is():
    one, other = {"out": {"rms_error": 0.3, "mean_ulp": 0.1}}, {"out": {"rms_error": 0.4}, "loss": {"mean_ulp": 0.1}}
    assert combine_half_widths([one]) == one
    assert combine_half_widths([one, other]) == {"out": {"rms_error": 0.5}}
    assert combine_half_widths([{}, other]) == {}


@given(errors, st.integers(0, MAX_ACCEPTED_VALUES))
def test_every_entry_continues_those_before_it(errors, since):
    former = accepted(*errors)
    last = former
    for number in range(since):
        last = succeed_entry(entry(len(errors) + number, 1.0 + number % 7), last)
    assert is_continuation(last, former)


def test_a_past_that_was_left_out_or_altered_continues_nothing():
    former, last = accepted(1.0, 2.0), accepted(1.0, 2.0, 3.0)
    first, second = last.accepted
    assert is_continuation(last, former)
    dearer = replace(first, means={"out": {"mean_abs_error": [2.9]}})
    for past in ([], [first], [second], [dearer, second], [first, replace(second, steps=9)], [second, first]):
        assert not is_continuation(replace(last, accepted=past), former)
    assert not is_continuation(replace(former, accepted=[]), former)
    assert not is_continuation(replace(former, reach={"out": {"mean_abs_error": 9.0}}), former)
    assert is_continuation(replace(former, reason="said better"), former)
