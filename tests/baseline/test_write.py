from __future__ import annotations

import multiprocessing
import os
import resource
import stat
import weakref
from collections.abc import Mapping
from pathlib import Path

import pytest

from precreg.baseline.store import (
    LOCK_FILE,
    BaselineKey,
    lock_baselines,
    read_all_entries,
    remove_entries,
    store_entries,
    write_file,
)
from precreg.baseline.suite_file import read_baseline_file, sums_file
from precreg.errors import UserError
from precreg.types import BaselineEntry
from tests.baseline.samples import entry

PLACE = BaselineKey("generic", "unit/a/x")
FORK = multiprocessing.get_context("fork")
SPAWN = multiprocessing.get_context("spawn")


def in_child(work, *arguments) -> int:
    child = FORK.Process(target=work, args=arguments)
    child.start()
    child.join()
    return child.exitcode


def put_many(project: Path, first: int, number: int) -> None:
    for case in range(first, first + number):
        with lock_baselines(project):
            store_entries(project, {BaselineKey("generic", f"unit/a/{case}"): entry(error=float(case))})


def test_two_processes_that_accept_cases_of_one_suite_lose_none(tmp_path):
    children = [SPAWN.Process(target=put_many, args=(tmp_path, 1000 * child, 25)) for child in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0]
    expected = {str(case): entry(error=float(case)) for first in (0, 1000) for case in range(first, first + 25)}
    assert read_baseline_file(tmp_path, "generic", "unit/a") == expected


def test_putting_and_removing_leave_the_other_entries(tmp_path):
    other = BaselineKey("generic", "unit/a/y")
    store_entries(tmp_path, {PLACE: entry(error=1.0), other: entry(error=2.0)})
    store_entries(tmp_path, {PLACE: entry(error=3.0)})
    assert read_all_entries(tmp_path) == {PLACE: entry(error=3.0), other: entry(error=2.0)}
    remove_entries(tmp_path, [PLACE, BaselineKey("generic", "unit/a/never")])
    assert read_all_entries(tmp_path) == {other: entry(error=2.0)}


def test_a_file_that_holds_no_entry_goes(tmp_path):
    store_entries(tmp_path, {PLACE: entry()})
    remove_entries(tmp_path, [PLACE])
    assert list((tmp_path / PLACE.file).parent.iterdir()) == []
    remove_entries(tmp_path, [PLACE])


def test_a_file_that_cannot_be_read_stops_everything_before_the_first_write(tmp_path):
    broken = tmp_path / "baselines/generic/unit/b.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("<<<<<<< HEAD\n")
    with pytest.raises(UserError, match="conflicted-baseline"):
        store_entries(tmp_path, {PLACE: entry(), BaselineKey("generic", "unit/b/x"): entry()})
    assert [path.name for path in broken.parent.iterdir()] == ["b.json"]
    assert broken.read_text() == "<<<<<<< HEAD\n"


def test_a_locked_store_is_waited_for_and_then_named(tmp_path):
    refused = pytest.raises(UserError, match=r"^\.precreg/baselines\.lock: error\[locked\]")
    with lock_baselines(tmp_path), refused, lock_baselines(tmp_path, timeout_s=0.05):
        pytest.fail("two hold one lock")
    with lock_baselines(tmp_path, timeout_s=0.05):
        assert (tmp_path / LOCK_FILE).exists()


def die_with_the_lock(project: Path) -> None:
    with lock_baselines(project):
        os.kill(os.getpid(), 9)


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    assert in_child(die_with_the_lock, tmp_path) == -9
    with lock_baselines(tmp_path, timeout_s=0.05):
        pass


def test_what_happens_under_the_lock_is_not_taken_for_its_failure(tmp_path):
    with pytest.raises(TimeoutError), lock_baselines(tmp_path):
        raise TimeoutError
    with pytest.raises(FileExistsError), lock_baselines(tmp_path):
        raise FileExistsError


def test_the_working_folder_hides_itself_from_git(tmp_path):
    with lock_baselines(tmp_path):
        assert (tmp_path / ".precreg/.gitignore").read_text() == "*\n"


def overfill(project: Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
    store_entries(project, {BaselineKey("generic", f"unit/a/{case}"): entry() for case in range(50)})


def overfill_and_tell(project: Path) -> None:
    try:
        overfill(project)
    except UserError as problem:
        os._exit(7 if problem.slug == "not-writable" and problem.file == sums_file(PLACE.file) else 1)


def test_a_full_disk_keeps_the_old_file_and_leaves_nothing_else(tmp_path):
    store_entries(tmp_path, {PLACE: entry()})
    folder = (tmp_path / PLACE.file).parent
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert sorted(before) == ["a.json", "a.sums"]
    assert in_child(overfill_and_tell, tmp_path) == 7
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def overfill_the_second_suite(project: Path) -> None:
    small, large = BaselineKey("generic", "unit/a/x"), [BaselineKey("generic", f"unit/b/{case}") for case in range(50)]
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
    try:
        store_entries(project, dict.fromkeys((small, *large), entry(error=5.0)))
    except UserError as problem:
        os._exit(7 if problem.slug == "not-writable" and "resume" in problem.hint else 1)


def test_a_disk_that_fills_at_a_later_suite_changes_no_suite(tmp_path):
    store_entries(tmp_path, {PLACE: entry(error=1.0), BaselineKey("generic", "unit/b/0"): entry(error=2.0)})
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert in_child(overfill_the_second_suite, tmp_path) == 7
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_entries_are_read_one_at_a_time(tmp_path):
    alive = most = 0

    class Counted(Mapping):
        """Make each entry when it is read, and count those that nobody has dropped yet."""

        def __getitem__(self, place):
            nonlocal alive, most
            made = Watched(**{name: getattr(entry(), name) for name in entry().__struct_fields__})
            alive, most = alive + 1, max(most, alive + 1)
            weakref.finalize(made, dropped)
            return made

        def __iter__(self):
            return (BaselineKey("generic", f"unit/{suite}/{case}") for suite in "ab" for case in range(50))

        def __len__(self):
            return 100

    class Watched(BaselineEntry, frozen=True, weakref=True):
        pass

    def dropped() -> None:
        nonlocal alive
        alive -= 1

    store_entries(tmp_path, Counted())
    assert len(read_all_entries(tmp_path)) == 100
    assert most <= 3


@pytest.mark.parametrize("closed", ["baselines/generic/unit", "."])
def test_a_folder_without_permission_is_named_and_keeps_what_it_has(unprivileged, closed):
    store_entries(unprivileged, {PLACE: entry()})
    (unprivileged / closed).chmod(0o555)
    with pytest.raises(UserError, match="not-writable"), lock_baselines(unprivileged):
        store_entries(unprivileged, {BaselineKey("generic", "unit/a/y"): entry()})
    (unprivileged / closed).chmod(0o755)
    assert read_all_entries(unprivileged) == {PLACE: entry()}


def test_what_a_killed_writer_left_is_no_obstacle(tmp_path):
    store_entries(tmp_path, {PLACE: entry(error=1.0)})
    left = (tmp_path / PLACE.file).with_name(".a.json.1234.tmp")
    left.write_text("half")
    store_entries(tmp_path, {PLACE: entry(error=2.0)})
    assert read_all_entries(tmp_path) == {PLACE: entry(error=2.0)}
    assert not left.exists()


def test_a_link_in_place_of_the_temporary_file_is_not_followed(tmp_path):
    outside = tmp_path / "outside.txt"
    outside.write_text("precious")
    project = tmp_path / "project"
    (project / "baselines/generic/unit").mkdir(parents=True)
    (project / "baselines/generic/unit/.a.json.tmp").symlink_to(outside)
    store_entries(project, {PLACE: entry()})
    assert outside.read_text() == "precious"


def test_files_get_the_permissions_that_the_user_gives_new_files(tmp_path):
    (tmp_path / "other").touch()
    store_entries(tmp_path, {PLACE: entry()})
    assert stat.S_IMODE((tmp_path / PLACE.file).stat().st_mode) == stat.S_IMODE((tmp_path / "other").stat().st_mode)


def test_a_reason_that_is_no_unicode_is_stored_all_the_same(tmp_path):
    store_entries(tmp_path, {PLACE: entry(reason="gr\udcfc\udcdfe, Größe")})
    assert "Größe" in (tmp_path / PLACE.file).read_text()
    assert read_all_entries(tmp_path) == {PLACE: entry(reason="gr\udcfc\udcdfe, Größe")}


def test_a_folder_where_a_file_should_be_is_named(tmp_path):
    (tmp_path / "a.json").mkdir()
    with pytest.raises(UserError, match=r"^a.json: error\[not-writable\]"):
        write_file(tmp_path, "a.json", "")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
