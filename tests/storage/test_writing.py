"""Files that are the old ones or the new ones, and folders that git does not see."""

import multiprocessing
import os
import resource
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from precreg.errors import UserError
from precreg.storage.files import make_scratch_folder, replace_file, report_write_errors, require_writable


def test_a_file_is_made_and_replaced_and_nothing_is_left_beside_it(tmp_path):
    for content in (b"old", b"new\r\n\xff"):
        replace_file(tmp_path / "x", content)
        assert (tmp_path / "x").read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [("none/x.html", r"the folder .*none does not exist"), (".", "it is a folder"), ("shut/x", "gives no permission")],
)
def test_a_place_that_cannot_be_written_is_named_before_the_work(tmp_path, name, problem):
    (tmp_path / "shut").mkdir()
    (tmp_path / "shut").chmod(0o500)
    if name == "shut/x" and os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    with pytest.raises(UserError, match=problem) as caught:
        require_writable(tmp_path / "x.json", tmp_path / name)
    assert caught.value.slug == "not-writable"
    require_writable(tmp_path / "x.json", Path("/dev/null"), Path("report.html"))


def too_large(path, limit):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    with pytest.raises(OSError, match="File too large"):
        replace_file(path, b"n" * (2 * limit))


def test_a_write_that_fails_half_way_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    child = multiprocessing.get_context("fork").Process(target=too_large, args=(path, 10_000))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_is_written_to_and_stays(tmp_path):
    os.mkfifo(tmp_path / "x")
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit((tmp_path / "x").read_bytes)
        replace_file(tmp_path / "x", b"new")
        assert read.result() == b"new"
    assert (tmp_path / "x").is_fifo()


def test_a_folder_in_the_way_stays(tmp_path):
    (tmp_path / "x").mkdir()
    with pytest.raises(OSError, match="directory"):
        replace_file(tmp_path / "x", b"new")
    assert list(tmp_path.iterdir()) == [tmp_path / "x"]


def test_what_cannot_be_written_is_a_mistake_of_the_user(unprivileged):
    unprivileged.chmod(0o500)
    with pytest.raises(UserError, match="Permission denied") as caught, report_write_errors("reports/x"):
        replace_file(unprivileged / "x", b"new")
    assert (caught.value.slug, caught.value.file) == ("not-writable", "reports/x")


def test_git_does_not_see_what_is_in_a_scratch_folder(tmp_path):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    make_scratch_folder(tmp_path / "a" / "reports")
    (tmp_path / "a" / "reports" / "record.json").write_text("{}")
    seen = subprocess.run(["git", "status", "--porcelain"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert seen.stdout == ""


def test_a_folder_that_is_there_stays_as_it_is(tmp_path):
    make_scratch_folder(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_may_be_made_by_many_at_once(tmp_path):
    together = Barrier(8)

    def make(number):
        together.wait()
        make_scratch_folder(tmp_path / str(number))

    with ThreadPoolExecutor(8) as threads:
        for number in range(100):
            list(threads.map(make, [number] * 8))
    assert all((tmp_path / str(number) / ".gitignore").is_file() for number in range(100))


@pytest.mark.parametrize("folder", [".", "/"])
def test_a_folder_without_a_name_is_refused_as_one(folder):
    with pytest.raises(OSError, match="directory"):
        replace_file(Path(folder), b"new")
