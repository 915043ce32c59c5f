"""Failures of one cause are one group, and errors come before failures by values."""

import numpy as np
from msgspec.structs import replace

from precreg.comparison.groups import differing_axes, group_failed_pairs
from precreg.comparison.summary import group_rows
from precreg.types.comparison import ComparedPair
from precreg.types.verdict import AbsentArray, Finding, OtherShape, Reason, Status, Verdict
from tests.comparison.made import TOLERANCE, failed, identical, measured, passed, record_of


def unreadable(name, message="expected {size} bytes but the file has 3", size=64):
    text = f"a/{name}.npy: {message.format(size=size)}"
    verdict = Verdict(Status.ERROR, Reason.SUBJECT_ERROR, text, (Finding(Reason.SUBJECT_ERROR, text),))
    return ComparedPair(name, f"a/{name}.npy", f"r/{name}.npy", verdict)


def absent(name, side="actual"):
    finding = Finding(Reason.MISSING_OUTPUT, "m", fact=AbsentArray(side, name))
    return ComparedPair(name, None, "r", Verdict(Status.FAILED, Reason.MISSING_OUTPUT, "m", (finding,)))


def shaped(name, actual, expected):
    fact = OtherShape(expected, actual, "oracle")
    finding = Finding(Reason.SHAPE_MISMATCH, "shapes", fact=fact)
    verdict = Verdict(Status.FAILED, Reason.SHAPE_MISMATCH, "shapes", (finding,))
    return ComparedPair(name, "a", "r", verdict, measured(np.zeros(actual), np.zeros(expected)), TOLERANCE)


def grouped(*pairs):
    return [(str(group.reason), [pair.name for pair in group.pairs]) for group in group_failed_pairs(pairs)]


def test_fifty_errors_of_one_cause_come_before_sixty_failures():
    failures = [failed(f"layers.{number}") for number in range(60)]
    errors = [unreadable(f"layers.{number}", size=number) for number in range(60, 110)]
    found = grouped(*failures, passed("good"), *errors)
    assert [(reason, len(names)) for reason, names in found] == [("subject_error", 50), ("out_of_tolerance", 60)]
    rows = group_rows(record_of(*failures, *errors))
    assert rows[0].number == "50"
    # Numbers differ, so that one message stands for the others; the path of one file is left out.
    assert rows[0].cause == "such as: expected 60 bytes but the file has 3"
    assert rows[0].members == "layers.60, layers.61, layers.62 and 47 more"


def test_the_same_error_is_quoted_as_it_is():
    rows = group_rows(record_of(unreadable("x"), unreadable("y")))
    assert rows[0].cause == "expected 64 bytes but the file has 3"


def test_other_errors_are_other_groups():
    assert grouped(unreadable("a"), unreadable("b", "a pickled object"), unreadable("c")) == [
        ("subject_error", ["a", "c"]),
        ("subject_error", ["b"]),
    ]


def test_a_broken_archive_is_one_cause():
    message = "out/dump.npz: expected a whole .npz file but got: truncated"
    verdict = Verdict(Status.ERROR, Reason.SUBJECT_ERROR, message, (Finding(Reason.SUBJECT_ERROR, message),))
    pairs = [ComparedPair(f"dump:{name}", "out/dump.npz", "r", verdict) for name in "abc"]
    (row,) = group_rows(record_of(*pairs))
    assert (row.number, row.cause) == ("3", "expected a whole .npz file but got: truncated")


def test_absent_arrays_are_grouped_by_side():
    assert grouped(absent("a"), absent("b", "reference"), absent("c")) == [
        ("missing_output", ["a", "c"]),
        ("missing_output", ["b"]),
    ]


def test_shapes_are_grouped_by_the_axes_that_differ():
    one, two = shaped("a", (1, 8), (4, 8)), shaped("b", (1, 32, 3), (4, 32, 3))
    other = shaped("c", (4, 8), (4, 9))
    assert grouped(one, other, two) == [("shape_mismatch", ["a", "b"]), ("shape_mismatch", ["c"])]
    (row,) = group_rows(record_of(one, two, other))
    assert row.cause == "axis 0 has length 1 in place of 4"
    assert differing_axes((2, 3), (3, 2)) == ((0, 2, 3), (1, 3, 2))
    assert differing_axes((2,), (1, 2)) == ()


def test_failures_are_grouped_by_the_metric_that_decides():
    ulp = failed("c")
    finding = replace(ulp.verdict.findings[0], metric="max_ulp")
    ulp = replace(ulp, verdict=replace(ulp.verdict, findings=(finding,)))
    assert [names for _, names in grouped(failed("a"), ulp, failed("b"))] == [["a", "b"], ["c"]]
    rows = group_rows(record_of(failed("a"), failed("b"), ulp))
    assert [row.cause for row in rows] == ["match_ratio below its limit"]


def test_pairs_that_passed_are_in_no_group():
    assert grouped(passed(), identical()) == []
