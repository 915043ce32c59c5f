import pytest

from precreg.types import RepeatDifference
from precreg.verdict.repeats import differs


@pytest.mark.parametrize(
    ("difference", "text"),
    [
        (None, ""),
        (
            RepeatDifference("out", 0, 2, (0, 37), 12, 512, 1.1920929e-07),
            " at [0, 37]: 12 of 512 elements differ, by at most 1.19e-07, between run 1 and 2 of seed 0",
        ),
        (
            RepeatDifference("out", 1, 3, (5,), 1, 9, 0.5, 0),
            " at [5]: 1 of 9 elements differs, by at most 0.5, between run 1 and 3 of seed 1",
        ),
        (
            RepeatDifference("out", 0, 2, (), 1, 1, None, 1),
            ": 1 of 1 elements differs, 1 of them NaN or infinite, between run 1 and 2 of seed 0",
        ),
        (
            RepeatDifference("out", 0, 2, (0,), 3, 4, 2.0, 1),
            " at [0]: 3 of 4 elements differ, 1 of them NaN or infinite, by at most 2, between run 1 and 2 of seed 0",
        ),
        (
            RepeatDifference("out", 0, 2, (0,), 1, 4, 0.0),
            " at [0]: 1 of 4 elements differs, in their bits alone, between run 1 and 2 of seed 0",
        ),
        (
            RepeatDifference("out", 0, 2, (0,), 2, 4, None),
            " at [0]: 2 of 4 elements differ, by more than float64 holds, between run 1 and 2 of seed 0",
        ),
        (
            RepeatDifference("out", 0, 2),
            ": not there in both, or of another shape or dtype, between run 1 and 2 of seed 0",
        ),
    ],
)
def test_says_where_and_by_how_much(difference, text):
    assert differs(difference) == text
