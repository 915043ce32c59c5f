import math
import resource
import subprocess
import sys

import msgspec
import pytest
from msgspec.structs import replace

from precreg.errors import UserError
from precreg.run.journal import JournalHeader, journal_header, resume_journal, start_journal
from precreg.types.outcome import Comparison, Execution, Failure, Histogram, Outcome, Positions, RepeatDifference
from precreg.types.record import Environment
from precreg.types.verdict import Reason

HEADER = JournalHeader("precreg-journal/3", "0.1.0", "shop", "cpu-x86_64", "7d8d9dbe", "0" * 32)
COMPARISON = Comparison(
    "out",
    0,
    "float32",
    (2, 3),
    "float64",
    (2, 3),
    metrics={"max_abs_error": 5e-324, "max_ulp": math.nextafter(1.0, 2.0)},
    counts={"n": 6},
    worst=Positions([4, 0], [0.1, "nan"], [1, "inf"]),
    histogram=Histogram(2, [3900, 3901], [1, 3]),
    heat=[0.0, 1e-300],
)
DIFFERENCE = RepeatDifference("out", 1, 3, (0, 2), 1, 6, 0.1)
RAN = Execution(("i",), {"out": ("d",)}, 1e-6, ("out",), differences=(DIFFERENCE,))
OUTCOMES = [
    Outcome("unit/s/a", "1:a", RAN, (COMPARISON,), ("grad",)),
    Outcome("unit/s/b", "1:b", Execution(failure=Failure(Reason.CRASHED, "killed by SIGSEGV", 'line\n"quoted" é'))),
    # These two are compressed with the first.
    Outcome("unit/s/c", "1:c", RAN, (replace(COMPARISON, seed=1), replace(COMPARISON, seed=2))),
    Outcome("unit/s/d", "1:d", RAN, (replace(COMPARISON, dtype="float16"),)),
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / ".precreg" / "journal.jsonl"


@pytest.fixture
def written(path):
    """The journal of a run that was stopped after four cases."""
    journal = start_journal(path, HEADER)
    for outcome in OUTCOMES:
        journal.append(outcome)
    journal.close()
    return path


def resumed(path, header=HEADER):
    journal, outcomes = resume_journal(path, header)
    journal.close()
    return outcomes


def refused(path, header=HEADER):
    with pytest.raises(UserError, match="expected") as caught:
        resume_journal(path, header)
    return caught.value


def test_what_was_written_comes_back_bit_for_bit(written):
    assert resumed(written) == {outcome.case: outcome for outcome in OUTCOMES}


def test_an_outcome_is_with_the_system_before_the_journal_is_closed(path):
    journal = start_journal(path, HEADER)
    journal.append(OUTCOMES[0])
    assert path.read_bytes().count(b"\n") == 2
    journal.close()


def test_a_new_run_takes_the_place_of_the_last(written):
    start_journal(written, HEADER).close()
    assert resumed(written) == {}


def test_a_run_goes_on_where_it_was_cut_anywhere(written):
    whole = written.read_bytes()
    for length in range(whole.index(b"\n") + 1, len(whole) + 1):
        written.write_bytes(whole[:length])
        journal, outcomes = resume_journal(written, HEADER)
        assert len(outcomes) == whole[:length].count(b"\n") - 1
        for outcome in OUTCOMES[len(outcomes) :]:
            journal.append(outcome)
        journal.close()
        assert written.read_bytes() == whole


def test_what_is_broken_elsewhere_is_refused_with_its_line(written):
    lines = written.read_bytes().split(b"\n")
    packed = lines[3]
    assert packed.startswith(b'"')
    cut = b'"' + packed[5:]
    packed_ones = (b'"', b'""', b'"_"', packed[:-1], packed[:-9] + b'"', cut, packed * 2)
    for broken in (b"{", b"", b'{"case": 1}', b"\xff", *packed_ones):
        for place in (2, 4):
            written.write_bytes(b"\n".join([*lines[: place - 1], broken, *lines[place:]]))
            error = refused(written)
            assert (error.slug, error.line, error.file) == ("unreadable-journal", place, str(written))


def test_a_changed_first_outcome_is_no_dictionary_of_the_others(written):
    written.write_bytes(written.read_bytes().replace(b'"max_ulp"', b'"max_ulq"'))
    error = refused(written)
    assert (error.slug, error.line) == ("unreadable-journal", 4)


def test_a_packed_line_is_a_fifth_of_its_json(written):
    lines = written.read_bytes().splitlines()
    plain = len(msgspec.json.encode(OUTCOMES[3]))
    assert lines[1] == msgspec.json.encode(OUTCOMES[0])
    assert len(lines[4]) < plain / 5


def test_a_journal_of_plain_lines_goes_on_with_plain_lines(written):
    """Version 0.1.0 wrote schema 2."""
    header = msgspec.json.encode(replace(HEADER, schema="precreg-journal/2"))
    whole = b"".join(line + b"\n" for line in (header, *map(msgspec.json.encode, OUTCOMES)))
    written.write_bytes(b"".join(whole.splitlines(keepends=True)[:3]))
    journal, outcomes = resume_journal(written, HEADER)
    assert list(outcomes.values()) == OUTCOMES[:2]
    for outcome in OUTCOMES[2:]:
        journal.append(outcome)
    journal.close()
    assert written.read_bytes() == whole
    assert resumed(written) == {outcome.case: outcome for outcome in OUTCOMES}


@pytest.mark.parametrize(
    ("first_line", "slug"),
    [
        (b'{"schema": "precreg-journal/4", "new": []}\n', "future-schema"),
        (b'{"schema": "precreg-journal/1"}\n', "unreadable-journal"),
        (b'{"schema": "precreg-journal/two"}\n', "unreadable-journal"),
        (b'{"schema": "precreg-record/1"}\n', "unreadable-journal"),
        (b'{"schema": "precreg-journal/2"}\n', "unreadable-journal"),
        (b'{"schema": "precreg-journal/3"}\n', "unreadable-journal"),
        (b"text\n", "unreadable-journal"),
        (b'{"schema": "precr', "nothing-to-resume"),
        (b"", "nothing-to-resume"),
    ],
)
def test_a_file_that_begins_otherwise(written, first_line, slug):
    written.write_bytes(first_line)
    assert refused(written).slug == slug


@pytest.mark.parametrize("name", ["precreg", "project", "environment", "fingerprint", "code"])
def test_a_run_does_not_go_on_with_other_code_or_elsewhere(written, name):
    error = refused(written, replace(HEADER, **{name: "other"}))
    assert error.slug == "code-changed"
    assert f"expected {name}=" in error.message
    assert len(resumed(written)) == len(OUTCOMES)


def test_without_a_journal_there_is_nothing_to_resume(path):
    assert refused(path).slug == "nothing-to-resume"
    assert not path.exists()


def test_two_processes_do_not_write_one_journal(written):
    journal, _ = resume_journal(written, HEADER)
    before = written.read_bytes()
    code = "import tests.run.test_journal as t; from pathlib import Path; "
    code += f"t.start_journal(Path({str(written)!r}), t.HEADER)"
    second = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "error[locked]" in second.stderr
    assert refused(written).slug == "locked"
    assert written.read_bytes() == before
    journal.close()
    assert len(resumed(written)) == len(OUTCOMES)


def test_a_folder_that_is_made_for_it_is_not_seen_by_git(written):
    assert (written.parent / ".gitignore").read_text() == "*\n"


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="expected to be able to write") as caught:
        start_journal(tmp_path / "file" / "journal", HEADER)
    assert caught.value.slug == "not-writable"


def test_a_full_disk_is_one_error(path):
    journal = start_journal(path, HEADER)
    size = path.stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, hard))
    try:
        with pytest.raises(UserError, match="No space left") as caught:
            journal.append(OUTCOMES[0])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.slug == "not-writable"
    journal.close()
    assert resumed(path) == {}


def test_a_run_judged_by_another_revision_is_not_resumed(path):
    start_journal(path, replace(HEADER, against="main")).close()
    assert resumed(path, replace(HEADER, against="main")) == {}
    assert "against=main" in refused(path, HEADER).message


def test_a_journal_that_has_the_revision_behind_the_digest_is_resumed(path):
    start_journal(path, replace(HEADER, code=f"{HEADER.code} against main")).close()
    assert resumed(path, replace(HEADER, against="main")) == {}
    assert refused(path, HEADER).slug == refused(path, replace(HEADER, against="next")).slug == "code-changed"


def test_the_header_knows_the_code_and_the_machine(tmp_path):
    environment = Environment("cpu-arm64", ("cpu-arm64", "cpu", "generic"), "12345678", {})
    before = journal_header(tmp_path, environment)
    (tmp_path / "kernel.py").write_text("X = 1\n")
    after = journal_header(tmp_path, environment)
    assert (before.environment, before.fingerprint, before.project) == ("cpu-arm64", "12345678", tmp_path.name)
    assert after == replace(before, code=after.code)
    assert after.code != before.code
