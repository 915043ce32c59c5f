"""The store of outcomes: damaged, foreign and full files are empty ones, and two processes may use one."""

import os
import sqlite3
from contextlib import closing
from multiprocessing import get_context

import pytest
from msgspec.structs import replace

from precreg.run.reuse import store as module
from precreg.run.reuse.store import MAX_VARIANTS, OUTCOMES_FILE, KeptOutcome, OutcomeStore, PathSet
from precreg.types import Execution, Outcome
from tests.run.reuse.projects import runs

__all__ = ["runs"]


def kept(number=0, size=0):
    outcome = Outcome("unit/s/c", "d", Execution(facts={"text": os.urandom(size).hex()}))
    return KeptOutcome(f"files {number}", "seen", "loaded", "shadows", "constants", "2026", "c0ffee", outcome)


def stored(project, key="k"):
    opened = OutcomeStore(project)
    found = [*opened.find(key)]
    opened.close()
    return found


def add(project, *rows, sets=()):
    opened = OutcomeStore(project)
    opened.add([*rows], [*sets])
    opened.close()


def test_outcomes_and_sets_come_back(tmp_path):
    first, other = kept(1), kept(2)
    content = PathSet({"/a": "1"}, ["numpy"])
    add(tmp_path, ("k", first), ("k", other), ("l", first), sets=[content])
    assert sorted(each.files for each in stored(tmp_path)) == ["files 1", "files 2"]
    opened = OutcomeStore(tmp_path)
    assert opened.find_set(opened.set_name(content)) == content
    assert opened.find_set("unknown") is None
    assert stored(tmp_path, "unknown") == []


def contents(project):
    with closing(sqlite3.connect(project / OUTCOMES_FILE)) as database:
        return [content for (content,) in database.execute("SELECT content FROM outcomes")]


def test_the_first_outcome_of_a_process_compresses_the_others(tmp_path):
    text = os.urandom(1000).hex()
    same = [replace(kept(number), outcome=Outcome(text, "d", Execution())) for number in range(20)]
    add(tmp_path, *((f"k{number}", each) for number, each in enumerate(same)))
    add(tmp_path, ("l", kept(7, 1000)))
    assert [stored(tmp_path, f"k{number}") for number in range(20)] == [[each] for each in same]
    assert stored(tmp_path, "l")[0].files == "files 7", "another process compressed it with another text"
    assert sum(map(len, contents(tmp_path))) < 21 * 200


def test_an_outcome_without_the_text_that_compressed_it_does_not_count(tmp_path):
    add(tmp_path, ("k", kept(1)))
    with closing(sqlite3.connect(tmp_path / OUTCOMES_FILE)) as database, database:
        database.execute("DELETE FROM sets")
    assert stored(tmp_path) == []


def test_a_text_goes_with_the_last_outcome_that_needs_it(tmp_path, monkeypatch):
    for number in range(12):
        monkeypatch.setattr(module, "time", lambda day=number: day * 86400)
        add(tmp_path, (f"k{number}", kept(number, 10_000)))
    monkeypatch.setattr(module, "MAX_BYTES", 150_000)
    OutcomeStore(tmp_path).close()
    left = [number for number in range(12) if stored(tmp_path, f"k{number}")]
    assert left
    assert left == [*range(12 - len(left), 12)]
    with closing(sqlite3.connect(tmp_path / OUTCOMES_FILE)) as database:
        assert database.execute("SELECT count(*) FROM sets").fetchone() == (len(left),)


def test_a_case_has_a_few_outcomes_at_most(tmp_path):
    for number in range(MAX_VARIANTS + 3):
        add(tmp_path, ("k", kept(number)))
    found = {each.files for each in stored(tmp_path)}
    assert len(found) == MAX_VARIANTS
    assert f"files {MAX_VARIANTS + 2}" in found, "the newest stays"


def test_the_outcomes_of_the_longest_time_make_room(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_BYTES", 200_000)
    days = iter(range(100))
    for number in range(30):
        day = next(days)
        monkeypatch.setattr(module, "time", lambda day=day: day * 86400)
        add(tmp_path, (f"k{number}", kept(number, 10_000)))
        # The first one is used each day.
        opened = OutcomeStore(tmp_path)
        assert [*opened.find("k0")], number
        opened.close()
    assert os.path.getsize(tmp_path / OUTCOMES_FILE) < 400_000
    assert stored(tmp_path, "k0")
    assert stored(tmp_path, "k29")
    assert not stored(tmp_path, "k5")


STATEMENTS = {
    "tables": "CREATE TRIGGER t INSERT ON sets BEGIN SELECT 1; END",
    "version": "PRAGMA user_version = 99",
}


@pytest.mark.parametrize("damage", ["random", "empty", "torn", "tables", "version", "folder", "link", "text"])
def test_a_damaged_store_is_empty_and_is_made_anew(tmp_path, damage):
    add(tmp_path, *((f"k{number}", kept(number, 500)) for number in range(50)))
    path = tmp_path / OUTCOMES_FILE
    content = path.read_bytes()
    if damage in STATEMENTS:
        with sqlite3.connect(path) as database:
            database.execute(STATEMENTS[damage])
        database.close()
    elif damage in ("folder", "link"):
        path.unlink()
        if damage == "folder":
            path.mkdir()
        else:
            (tmp_path / "elsewhere").write_bytes(content)
            path.symlink_to(tmp_path / "elsewhere")
    else:
        half = content[: len(content) // 2]
        path.write_bytes({"random": os.urandom(9000), "empty": b"", "torn": half, "text": b"x"}[damage])
    assert sum(len(stored(tmp_path, f"k{number}")) for number in range(50)) == 0
    if damage == "folder":
        return
    add(tmp_path, ("k", kept(7)))
    assert [each.files for each in stored(tmp_path)] == ["files 7"]


def test_a_bit_that_flips_in_an_outcome_is_noticed(tmp_path):
    add(tmp_path, ("k", kept(1, 300)))
    path = tmp_path / OUTCOMES_FILE
    content = path.read_bytes()
    row = sqlite3.connect(path).execute("SELECT content FROM outcomes").fetchone()[0]
    place = content.index(row) + len(row) // 2
    path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
    assert stored(tmp_path) == []


def test_an_outcome_under_another_key_does_not_count(tmp_path):
    add(tmp_path, ("k", kept(1)))
    with sqlite3.connect(tmp_path / OUTCOMES_FILE) as database:
        database.execute("UPDATE outcomes SET key = 'l'")
    database.close()
    assert stored(tmp_path, "l") == []


def test_a_store_of_another_user_does_not_count(tmp_path, monkeypatch):
    add(tmp_path, ("k", kept(1)))
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    assert stored(tmp_path) == []


def test_a_store_that_cannot_be_written_or_is_locked_stops_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_WAIT_S", 0.05)
    add(tmp_path, ("k", kept(1)))
    with sqlite3.connect(tmp_path / OUTCOMES_FILE) as database:
        database.execute("BEGIN EXCLUSIVE")
        add(tmp_path, ("l", kept(2)))
        assert stored(tmp_path) == []
    database.close()
    assert stored(tmp_path)
    assert not stored(tmp_path, "l")


def fill(project, start):
    for number in range(start, start + 20):
        add(project, (f"k{number}", kept(number)))


def test_two_processes_write_one_store(tmp_path):
    processes = [get_context("spawn").Process(target=fill, args=(tmp_path, start)) for start in (0, 20)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert all(stored(tmp_path, f"k{number}") for number in range(40))


def test_a_run_with_a_damaged_store_runs_each_case(runs):
    runs()
    assert runs() == {"a", "b"}
    (runs.project / OUTCOMES_FILE).write_bytes(b"damaged" * 1000)
    assert runs() == set()
    assert runs() == {"a", "b"}


def test_a_new_file_has_pages_in_which_outcomes_share_a_page(tmp_path):
    store = OutcomeStore(tmp_path)
    assert store.find_set("none") is None
    store.close()
    with closing(sqlite3.connect(tmp_path / OUTCOMES_FILE)) as database:
        assert database.execute("PRAGMA page_size").fetchone() == (8192,)
