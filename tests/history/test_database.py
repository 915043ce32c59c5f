"""Where a history may be, and what is said where it cannot be read or written. tests/postgresql asks it of a server."""

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from precreg.errors import UserError
from precreg.history.store import open_history
from tests.history.made import points, record
from tests.history.test_store import ROOT, A, error_of

GOLDEN = ROOT / "tests" / "golden" / "stored" / "history.sqlite"


def begun(place):
    with open_history(place, project="demo", create=True) as history:
        history.add(record(0, {A: 1.0}))
    return place


def test_a_file_that_is_being_read_stays_as_large_as_it_is(tmp_path):
    """What was removed is removed all the same, so that is no error."""
    place = begun(tmp_path / "h.sqlite")
    with (
        open_history(place, project="demo", wait_s=0.1) as history,
        closing(sqlite3.connect(place, isolation_level=None)) as reader,
    ):
        reader.execute("BEGIN")
        assert len(reader.execute("SELECT * FROM precreg_runs").fetchall()) == 1
        history._database.compact()


@pytest.mark.parametrize("name", ["h.sqlite", "folder/below/h", "100%25 #1?mode=ro", "präzision"])
def test_a_file_may_have_any_name(tmp_path, name):
    begun(tmp_path / name)
    assert (tmp_path / name).is_file()
    with open_history(str(tmp_path / name), project="demo") as history:
        assert len(history.runs()) == 1


def test_a_url_names_a_file_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    begun("sqlite:///relative.sqlite")
    assert (tmp_path / "relative.sqlite").is_file()
    begun(f"sqlite:///{tmp_path}/absolute.sqlite")
    assert (tmp_path / "absolute.sqlite").is_file()


def test_looking_for_a_history_makes_none(tmp_path):
    assert error_of(tmp_path / "h.sqlite").slug == "missing-history"
    assert not (tmp_path / "h.sqlite").exists()
    (tmp_path / "h.sqlite").touch()
    assert error_of(tmp_path / "h.sqlite").slug == "missing-history"


@pytest.mark.parametrize(
    ("place", "slug"),
    [
        ("mysql://ada:hunter2@host/db", "history-unavailable"),
        ("postgresql://ada:hunter2@x@host/db", "history-unavailable"),
        ("postgresql://ada:hunter2@host:port/db", "history-unavailable"),
        ("sqlite://", "history-unavailable"),
        ("://", "history-unavailable"),
        (".", "history-unavailable"),
    ],
)
def test_what_no_history_can_be_is_refused_without_its_password(place, slug):
    error = error_of(place)
    assert error.slug == slug
    assert "hunter2" not in str(error)


def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path):
    file = tmp_path / "h.sqlite"
    file.write_text("notes\n" * 1000)
    assert error_of(file).slug == error_of(file, create=True).slug == "history-unavailable"
    assert file.read_text() == "notes\n" * 1000


def test_a_folder_is_no_history(tmp_path):
    assert error_of(tmp_path).slug == "history-unavailable"
    assert "it is a folder" in str(error_of(tmp_path))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("DELETE FROM precreg_history", "the name of its project is missing"),
        ("DELETE FROM precreg_figures", "a run has a case without a stored state"),
        ("DELETE FROM precreg_scopes", "a run has no stored scope"),
        ("UPDATE precreg_figures SET run = 9", "a state belongs to run 9, which does not exist"),
        ("UPDATE precreg_figures SET figures = x'00'", "a case's figures cannot be read: expected 16 bytes but got 1"),
        ("UPDATE precreg_figures SET figures = 'text'", "expected a value of type bytes"),
        ("UPDATE precreg_figures SET form = 0.5", "expected a value of type int"),
        ("UPDATE precreg_figures SET form = 7", "there is no text 7"),
        ("UPDATE precreg_texts SET text = '{bad'", "a case's figures cannot be read"),
        ("DELETE FROM precreg_texts", "there is no text"),
        ("UPDATE precreg_scopes SET bitmap = x'00'", "the scope of a run cannot be read"),
        ("UPDATE precreg_runs SET facts = '[]'", "a run's facts cannot be read"),
    ],
)
def test_what_no_history_wrote_is_said_to_be_damaged(tmp_path, damage, said):
    place = begun(tmp_path / "h.sqlite")
    with closing(sqlite3.connect(place)) as connection, connection:
        connection.execute(damage)
    with pytest.raises(UserError, match=said) as raised, open_history(place, project="demo") as history:
        list(history.series(history.runs()[0].environment))
    assert raised.value.slug == "history-unavailable"
    assert raised.value.file == str(place)


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").touch()
    assert error_of(tmp_path / "file" / "h.sqlite", create=True).slug == "not-writable"


def test_a_history_in_a_folder_that_may_only_be_read_is_read(unprivileged):
    place = begun(unprivileged / "h.sqlite")
    place.chmod(0o444)
    unprivileged.chmod(0o555)
    with open_history(place, project="demo") as history:
        assert points(history.series("cpu")) == {A: [(1, 1.0, 1.0)]}
        with pytest.raises(UserError) as problem:
            history.add(record(1, {A: 1.0}))
    assert problem.value.slug == "not-writable"
    assert error_of(unprivileged / "new.sqlite", create=True).slug == "not-writable"


def test_a_full_disk_leaves_the_history_as_it_was(tmp_path):
    """The file may not grow beyond what it is: what a full disk is to a process."""
    place = begun(tmp_path / "h.sqlite")
    code = f"""
import resource
from pathlib import Path
from precreg.errors import UserError
from precreg.history.store import open_history
from tests.history.made import record
place = Path({str(place)!r})
resource.setrlimit(resource.RLIMIT_FSIZE, (place.stat().st_size, resource.RLIM_INFINITY))
with open_history(place, project="demo") as history:
    try:
        history.add(record(1, {{f"unit/s/{{n}}": 1.0 for n in range(2000)}}))
    except UserError as error:
        print(error.slug)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "not-writable\n"
    with open_history(place, project="demo") as history:
        assert points(history.series("cpu")) == {A: [(1, 1.0, 1.0)]}


def test_removed_runs_give_their_space_back(tmp_path):
    place = tmp_path / "h.sqlite"
    with open_history(place, project="demo", create=True) as history:
        for minutes in range(12):
            history.add(record(minutes, {f"unit/s/{number}": float(minutes) for number in range(1000)}))
        before = Path(place).stat().st_size
        history.prune(keep=1)
    assert Path(place).stat().st_size < before / 2


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.6, 0.9, 0.999])
def test_a_truncated_file_is_refused(tmp_path, share):
    place = tmp_path / "h.sqlite"
    with open_history(place, project="demo", create=True) as history:
        for minutes in range(3):
            history.add(record(minutes, {f"unit/s/{number}": float(minutes) for number in range(500)}))
    content = place.read_bytes()
    place.write_bytes(content[: int(share * len(content))])
    error = error_of_export(place)
    # An empty file is a database without a history.
    assert error.slug == ("history-unavailable" if share else "missing-history")


def error_of_export(place):
    with pytest.raises(UserError) as problem:
        export(place)
    return problem.value


def export(place):
    with open_history(place, project="demo") as history:
        return list(history.export())


def test_a_disk_that_fills_in_an_upgrade_leaves_the_history_as_it_was(tmp_path):
    place = tmp_path / "h.sqlite"
    shutil.copyfile(GOLDEN, place)
    before = place.read_bytes()
    code = f"""
import resource
from precreg.errors import UserError
from precreg.history.store import open_history
resource.setrlimit(resource.RLIMIT_FSIZE, ({len(before)}, resource.RLIM_INFINITY))
try:
    open_history({str(place)!r}, project="quotients")
except UserError as error:
    print(error.slug, error.message)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("not-writable expected to upgrade the history once from precreg-history/1")
    with closing(sqlite3.connect(place)) as connection:
        assert connection.execute("SELECT version FROM precreg_history").fetchall() == [("precreg-history/1",)]
        assert connection.execute("SELECT count(*) FROM precreg_changes").fetchall() == [(7,)]
