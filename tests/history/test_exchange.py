"""An export is complete or refused: whatever was cut or changed in it, nothing of it is imported."""

import msgspec
import pytest

from precreg.errors import UserError
from precreg.history.store import open_history
from tests.history.made import record

A, B = "unit/s/a", "unit/s/b"


@pytest.fixture
def lines(new_place):
    with open_history(new_place(), project="demo", create=True) as history:
        history.add(record(0, {A: 1.0, B: 1.0}))
        history.add(record(1, {A: 2.0}))
        return list(history.export())


@pytest.fixture
def history(new_place):
    with open_history(new_place(), project="demo", create=True) as opened:
        yield opened


def test_the_lines_are_the_header_the_runs_and_the_cases(lines):
    header, first, second, a, b = map(msgspec.json.decode, lines)
    assert header == {"schema": "precreg-history/1", "project": "demo", "runs": 2, "cases": 2}
    assert (first["number"], second["number"]) == (1, 2)
    state = {"definition": "1:d", "reason": "identical", "outputs": {"out": {"mean_abs_error": [2.0, 1.0]}}}
    assert a["changes"]["2"] == state
    assert (a["case"], a["environment"], a["ran"], list(a["changes"])) == (A, "cpu", [[1, 2]], ["1", "2"])
    assert (b["case"], b["environment"], b["ran"], list(b["changes"])) == (B, "cpu", [[1, 1]], ["1"])


def refused(history, lines):
    with pytest.raises(UserError) as problem:
        history.import_lines(lines, "history.jsonl")
    assert history.runs() == ()
    assert problem.value.file == "history.jsonl"
    return problem.value


@pytest.mark.parametrize("length", range(5))
def test_a_file_that_was_cut_between_lines_is_refused(history, lines, length):
    error = refused(history, lines[:length])
    assert (error.slug, error.line) == ("unreadable-history", length + 1)


@pytest.mark.parametrize("line", range(5))
def test_a_file_that_was_cut_within_a_line_is_refused(history, lines, line):
    error = refused(history, [*lines[:line], lines[line][:20]])
    assert (error.slug, error.line) == ("unreadable-history", line + 1)


@pytest.mark.parametrize(
    ("line", "change"),
    [
        (0, {"schema": "precreg-record/1"}),
        (0, {"schema": "precreg-history/one"}),
        (0, {"cases": 1}),
        (0, {"runs": 1}),
        (0, {"runs": -1}),
        (1, {"number": 2}),
        (1, {"number": 0}),
        (1, {"started": "2026-11-30T03:00:00+00:00"}),
        (1, {"started": "yesterday"}),
        (2, {"started": "yesterday"}),
        (1, {"started": "2026-11-01T03:00:00"}),
        (1, {"environment": "npu"}),
        (1, {"more": 1}),
        (3, {"environment": "npu"}),
        (3, {"ran": []}),
        (3, {"ran": [[2, 1]]}),
        (3, {"ran": [[1, 7]]}),
        (4, {"ran": [[1, 2], [1, 2]], "changes": {}}),
        (4, {"changes": {"2": {"definition": "1:d", "reason": "new", "outputs": {}}}}),
        (4, {"changes": {"1": {"definition": "1:d"}}}),
        (4, {"case": A}),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(history, lines, line, change):
    changed = msgspec.json.encode(msgspec.json.decode(lines[line]) | change)
    assert refused(history, [*lines[:line], changed, *lines[line + 1 :]]).slug == "unreadable-history"


def test_two_runs_of_one_identity_are_refused(history, lines):
    identity = msgspec.json.decode(lines[1])["identity"]
    changed = msgspec.json.encode(msgspec.json.decode(lines[2]) | {"identity": identity})
    assert "identity" in refused(history, [*lines[:2], changed, *lines[3:]]).message


def test_a_file_of_a_newer_version_is_refused(history, lines):
    changed = lines[0].replace(b"precreg-history/1", b"precreg-history/2")
    assert refused(history, [changed, *lines[1:]]).slug == "future-schema"


def test_numbers_are_read_back_to_the_last_bit(history, new_place):
    figures = {f"unit/s/{place}": figure for place, figure in enumerate((1 / 3, 5e-324, 1.7976931348623157e308, 0.1))}
    history.add(record(0, figures))
    with open_history(new_place(), project="demo", create=True) as other:
        other.import_lines(list(history.export()), "x")
        assert list(other.series("cpu")) == list(history.series("cpu"))
