"""Scores counted by hand."""

from math import inf

import pytest

from precreg.quality.scoring import (
    BrokenRate,
    Effect,
    Score,
    Share,
    broken_limits,
    missed_faults,
    tally_scores,
    tally_scores_by,
)
from precreg.report.detection import describe_broken_rate


def made(effect, *, factor=1.0, worse=False, harmful=True, pinned=False, case="unit/s/a", fault="f"):
    return Score(case, case.split("/")[0], "s", fault, harmful, pinned, effect, worse, factor)


SCORES = [
    made(Effect.NO_EFFECT),
    made(Effect.CAUGHT, factor=3.0, worse=True),
    made(Effect.CAUGHT, factor=1.2, worse=True, case="unit/s/b"),
    made(Effect.CAUGHT, factor=None, worse=True, case="model/s/c"),
    made(Effect.MISSED, factor=1.4, worse=True, case="model/s/c", fault="g"),
    made(Effect.MISSED, factor=1.0),
    made(Effect.ERROR, factor=None),
    made(Effect.NO_EFFECT, harmful=False),
    made(Effect.SILENT, harmful=False),
    made(Effect.SILENT, harmful=False, factor=1.1, worse=True),
    made(Effect.FALSE_ALARM, harmful=False),
    made(Effect.FALSE_ALARM, harmful=False, factor=inf, worse=True, pinned=True),
]


def test_counts():
    row = tally_scores("all", SCORES)
    assert (row.cases, row.planted, row.harmless, row.errors) == (3, 6, 5, 1)
    assert row.caught == Share(3, 5)
    assert row.caught_worse == Share(3, 4)
    assert row.caught_slight == Share(1, 2)
    assert row.flagged == Share(1, 3)
    assert row.flagged_bits == Share(1, 1)


def test_a_share_of_nothing_is_none():
    assert Share(0, 0).ratio is None
    assert Share(1, 4).ratio == 0.25


def test_per_tier_in_their_order_without_empty_ones():
    rows = tally_scores_by(SCORES, lambda score: score.tier, ("unit", "integration", "model"))
    assert [(row.name, row.caught) for row in rows] == [("unit", Share(2, 3)), ("model", Share(1, 2))]


def test_the_worst_misses_come_first_and_those_not_worse_not_at_all():
    scores = [*SCORES, made(Effect.MISSED, factor=inf, worse=True), made(Effect.MISSED, factor=None, worse=True)]
    assert [score.factor for score in missed_faults(scores)] == [inf, 1.4, None]


@pytest.mark.parametrize(
    ("at_least", "at_most", "told"),
    [
        (None, None, []),
        (0.75, 0.34, []),
        (0.76, None, [BrokenRate("detection", 0.75, 0.76)]),
        (None, 0.33, [BrokenRate("false_alarms", 1 / 3, 0.33)]),
        (1.0, 0.0, [BrokenRate("detection", 0.75, 1.0), BrokenRate("false_alarms", 1 / 3, 0.0)]),
    ],
)
def test_limits(at_least, at_most, told):
    assert broken_limits(tally_scores("all", SCORES), at_least, at_most) == told


def test_a_broken_limit_is_told_with_the_rate():
    assert describe_broken_rate(BrokenRate("detection", 0.75, 0.76)) == "detection 0.7500 is below 0.76"
    assert describe_broken_rate(BrokenRate("false_alarms", 1 / 3, 0.0)) == "false alarms 0.3333 are above 0"


def test_a_share_of_nothing_breaks_no_limit():
    assert broken_limits(tally_scores("all", SCORES[:1]), 1.0, 0.0) == []
