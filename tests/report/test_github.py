"""Annotations and the summary of a step, by GitHub's rules of reading a log."""

import re

import pytest
from msgspec.structs import replace

from precreg.errors import UserError
from precreg.report.github import MAX_ANNOTATIONS, MAX_SUMMARY_BYTES, append_step_summary, render_github
from precreg.types.case import Location
from precreg.types.verdict import Reason, Status
from tests.report.made import UNUSED, crashed, passed, proposed, regressed, run_of, verdict

_LINE = re.compile(r"::(?P<level>error|warning|notice) ?(?P<properties>[^:]*)::(?P<message>.*)")


def annotations(record, summary="all\n"):
    """Return (level, properties, message) of each command that GitHub would execute."""
    found, token = [], None
    for line in render_github(record, summary).splitlines():
        # GitHub ignores spaces before a command.
        text = line.strip()
        if token is not None:
            token = None if text == f"::{token}::" else token
        elif stop := re.fullmatch(r"::stop-commands::(\w{32})", text):
            token = stop[1]
        elif command := _LINE.fullmatch(text):
            pairs = (pair.split("=", 1) for pair in command["properties"].split(","))
            properties = {name: _read(value, ",:") for name, value in pairs}
            found.append((command["level"], properties, _read(command["message"], "")))
        else:
            raise AssertionError(f"not a command: {line!r}")
    assert token is None, "GitHub would ignore the commands of all steps that follow"
    return found


def _read(text, more):
    for character in f"{more}\r\n%":
        text = text.replace(f"%{ord(character):02X}", character)
    return text


def test_a_failure_is_an_error_at_its_line_with_its_message():
    ((level, properties, message),) = annotations(run_of(regressed(), passed()))
    assert level == "error"
    assert properties == {"file": "suites/unit/row_sum.yaml", "line": "1", "title": "precreg.regressed"}
    assert message.startswith("unit/row_sum/float16-8x256: regressed: ")
    assert "grew 4.9x" in message


def test_what_waits_for_a_person_is_a_warning():
    assert [level for level, *_ in annotations(run_of(proposed()))] == ["warning"]


def test_a_run_without_a_failure_has_no_annotation():
    assert annotations(run_of(passed())) == []


@pytest.mark.parametrize("file", ["a,line=9::b.yaml", "100%2C.yaml", "50%.yaml"])
def test_a_file_name_never_becomes_a_command_or_a_property(file):
    record = run_of(replace(regressed(), source=Location(file, 3)))
    ((_, properties, _),) = annotations(record)
    assert (properties["file"], properties["line"]) == (file, "3")


def test_a_line_of_a_subject_in_the_summary_is_no_command():
    assert annotations(run_of(), "  ::error file=x,line=1,title=y::made up\n::set-env name=A::b\n::0::\n") == []


def test_a_summary_without_a_line_break_at_its_end_does_not_hide_the_annotations():
    assert len(annotations(run_of(regressed()), "cut")) == 1


def test_the_token_differs_from_run_to_run():
    first, second = (render_github(run_of(), "\n").splitlines()[0] for _ in range(2))
    assert first != second


@pytest.mark.parametrize(
    ("count", "shown", "more"), [(MAX_ANNOTATIONS, MAX_ANNOTATIONS, None), (70, MAX_ANNOTATIONS, "60 more in ")]
)
def test_as_many_as_github_shows_are_written_and_the_rest_is_counted(count, shown, more):
    found = annotations(run_of(*(crashed(f"case{i:02}") for i in range(count))))
    assert [level for level, *_ in found].count("error") == shown
    assert [message.startswith(more) for level, _, message in found if level == "notice"] == [True] * (more is not None)


def test_the_notice_of_the_rest_is_one_of_the_notices():
    unused = [replace(UNUSED, about=f"unit/case{i}") for i in range(30)]
    found = annotations(run_of(findings=unused))
    assert [level for level, *_ in found] == ["notice"] * MAX_ANNOTATIONS
    assert found[-1][2].startswith("21 more in ")


def test_a_message_is_no_longer_than_github_shows():
    ((_, _, message),) = annotations(run_of(crashed(verdict=verdict(Reason.SUBJECT_ERROR, Status.ERROR, "x" * 9000))))
    assert len(message) == 4000


def test_the_summary_follows_what_other_commands_of_the_step_wrote(tmp_path):
    file = tmp_path / "summary"
    file.write_text("before\n")
    append_step_summary(run_of(regressed()), {"GITHUB_STEP_SUMMARY": str(file)})
    text = file.read_text()
    assert text.startswith("before\n# precreg: ")
    assert "unit/row_sum/float16-8x256" in text


def test_the_summary_stays_below_the_limit_of_a_step(tmp_path):
    file = tmp_path / "summary"
    file.write_text("x" * (MAX_SUMMARY_BYTES - 300))
    append_step_summary(run_of(regressed()), {"GITHUB_STEP_SUMMARY": str(file)})
    assert file.stat().st_size <= MAX_SUMMARY_BYTES
    assert file.read_text().endswith("The rest is in summary.md: GitHub shows 1 MiB of a step.\n")


def test_without_the_variable_nothing_is_written(tmp_path):
    append_step_summary(run_of(regressed()), {})
    assert list(tmp_path.iterdir()) == []


def test_a_summary_that_cannot_be_written_is_an_error_of_the_user(tmp_path):
    with pytest.raises(UserError, match="absent"):
        append_step_summary(run_of(), {"GITHUB_STEP_SUMMARY": str(tmp_path / "absent" / "summary")})
