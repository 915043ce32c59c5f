"""The counts of baseline files: those of reading every file, whatever the notes hold."""

import os
import time

import pytest

from precreg.baseline import counts, file_notes
from precreg.baseline.counts import ACCEPTED_MARKER, CASE_MARKER, COUNTS_FILE, EntryCounts, count_entries
from precreg.baseline.store import BaselineKey, store_entries
from precreg.errors import UserError
from tests.baseline.samples import entry

CHAIN = ("here", "generic")
FILE = "baselines/generic/unit/a.json"


@pytest.fixture(autouse=True)
def _every_project_is_large_and_old(monkeypatch):
    now = time.time_ns
    monkeypatch.setattr(counts, "LARGE_BYTES", 0)
    monkeypatch.setattr(file_notes, "time_ns", lambda: now() + 10**10)


@pytest.fixture
def project(tmp_path):
    places = [BaselineKey(env, f"unit/{suite}/{i}") for env in CHAIN for suite in "ab" for i in range(3)]
    store_entries(tmp_path, {place: entry(f"1:{i}", i + 0.5) for i, place in enumerate(places)})
    return tmp_path


def plain(project):
    paths = [path for each in CHAIN for path in sorted((project / "baselines" / each).glob("*/*.json"))]
    read = {path.relative_to(project).as_posix(): path.read_bytes() for path in paths}
    return {file: EntryCounts(data.count(CASE_MARKER), data.count(ACCEPTED_MARKER)) for file, data in read.items()}


def read_files(monkeypatch):
    """Note the files that are read."""
    found = []
    read = counts.read_project_bytes
    monkeypatch.setattr(counts, "read_project_bytes", lambda project, file: found.append(file) or read(project, file))
    return found


def test_files_that_stay_are_read_once(project, monkeypatch):
    found = read_files(monkeypatch)
    first = count_entries(project, CHAIN)
    assert first == plain(project)
    assert len(first) == 4
    assert found == [*first]
    assert list(first) == list(count_entries(project, CHAIN))
    assert count_entries(project, CHAIN) == first
    assert len(found) == 4


def change_in_place(path):
    facts = path.stat()
    data = path.read_bytes().replace(CASE_MARKER, b'\n      "definitiom": ', 1)
    path.write_bytes(data)
    # The size and the time of the content are those from before.
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def replace_by_former(path):
    other = path.with_name("other")
    other.write_bytes(path.read_bytes() + CASE_MARKER)
    facts = path.stat()
    os.utime(other, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    other.rename(path)


def link_to_other(path):
    target = path.with_name("b.json")
    target.write_bytes(target.read_bytes() + ACCEPTED_MARKER)
    path.unlink()
    path.symlink_to("b.json")


@pytest.mark.parametrize("change", [change_in_place, replace_by_former, link_to_other, lambda path: path.unlink()])
def test_a_file_that_changed_is_counted_again(project, change):
    before = count_entries(project, CHAIN)
    change(project / FILE)
    assert count_entries(project, CHAIN) == plain(project) != before


def test_the_target_of_a_link_that_changes_is_counted_again(project):
    link_to_other(project / FILE)
    before = count_entries(project, CHAIN)
    change_in_place(project / "baselines/generic/unit/b.json")
    assert count_entries(project, CHAIN) == plain(project) != before


def test_a_file_that_changed_just_now_is_not_noted(project, monkeypatch):
    monkeypatch.setattr(file_notes, "time_ns", time.time_ns)
    found = read_files(monkeypatch)
    assert count_entries(project, CHAIN) == count_entries(project, CHAIN) == plain(project)
    assert len(found) == 8


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-7],
        lambda data: data[: data.index(b"\n")],
        lambda data: b"",
        lambda data: data.replace(b"3", b"4", 1) if b"3" in data else data + b"3",
        lambda data: data.replace(b"baseline_counts.index ", b"baseline_counts.index 9", 1),
        lambda data: b"\xff" + data,
        lambda data: data.partition(b"\n")[0] + b"\n[" * 9999,
    ],
)
def test_damaged_notes_and_those_of_another_version_count_as_missing(project, damage, monkeypatch):
    expected = count_entries(project, CHAIN)
    notes = project / COUNTS_FILE
    notes.write_bytes(damage(notes.read_bytes()))
    found = read_files(monkeypatch)
    assert count_entries(project, CHAIN) == expected
    assert len(found) == 4
    assert count_entries(project, CHAIN) == expected
    assert len(found) == 4


def test_notes_that_are_a_folder_or_cannot_be_written_stop_nothing(project, monkeypatch):
    expected = plain(project)
    (project / COUNTS_FILE).mkdir(parents=True)
    assert count_entries(project, CHAIN) == expected

    def refuse(*_):
        raise OSError(28, "No space left on device")

    (project / COUNTS_FILE).rmdir()
    monkeypatch.setattr(file_notes, "replace_file", refuse)
    assert count_entries(project, CHAIN) == expected


def test_a_file_that_cannot_be_read_is_the_same_mistake_with_notes(project, tmp_path_factory):
    count_entries(project, CHAIN)
    outside = tmp_path_factory.mktemp("outside") / "a.json"
    outside.write_bytes((project / FILE).read_bytes())
    (project / FILE).unlink()
    (project / FILE).symlink_to(outside)
    with pytest.raises(UserError, match="link out of it"):
        count_entries(project, CHAIN)
    (project / FILE).unlink()
    os.mkfifo(project / FILE)
    with pytest.raises(UserError, match="unreadable-baseline"):
        count_entries(project, CHAIN)
