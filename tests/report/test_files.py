"""The reports of a run in one folder."""

import pytest

from precreg.errors import UserError
from precreg.report.files import write_reports
from precreg.report.record import read_run_record
from tests.e2e.command import REPORT_FILES
from tests.report.made import road


def test_every_file_is_written_and_named(tmp_path):
    written = write_reports(road(), tmp_path / "reports", "gitlab")
    assert tuple(path.name for path in written) == REPORT_FILES
    there = {path.name for path in (tmp_path / "reports").iterdir()} - {".gitignore"}
    assert there == {path.name for path in written}


def test_every_report_can_be_made_again_from_the_record(tmp_path):
    first = write_reports(road(), tmp_path / "a", "strict")
    again = write_reports(read_run_record(first[0]), tmp_path / "b", "strict")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]


def test_a_folder_that_cannot_be_is_a_mistake_of_the_user(tmp_path):
    (tmp_path / "reports").write_text("in the way")
    with pytest.raises(UserError, match="not-writable"):
        write_reports(road(), tmp_path / "reports", "gitlab")
