"""One entry of a large file: the same entry, or the same mistake, as reading the whole file gives."""

import json
import os
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from precreg.baseline import file_notes, single_entry
from precreg.baseline.single_entry import CHECKED_FILES, find_entry
from precreg.baseline.store import BaselineKey, Baselines, read_all_entries, store_entries
from precreg.errors import UserError
from tests.baseline.samples import entries, entry

CHAIN = ("generic",)
FILE = "baselines/generic/unit/a.json"
SUMS = "baselines/generic/unit/a.sums"
NAMES = ["x", "xy", "y", "a/b", 'quo"te', "back\\slash", "ü", "\ud800", "out", "cases", "definition", "z}"]


@pytest.fixture(autouse=True)
def _every_file_is_large_and_old(monkeypatch):
    now = time.time_ns
    monkeypatch.setattr(single_entry, "LARGE_BYTES", 0)
    monkeypatch.setattr(file_notes, "time_ns", lambda: now() + 10**10)


def store(project, names=NAMES):
    accepted = {BaselineKey("generic", f"unit/a/{name}"): entry(f"1:{i}", i + 0.5) for i, name in enumerate(names)}
    store_entries(project, accepted)
    return {place.name: found for place, found in accepted.items()}


def checked(project):
    """Read all entries once, which notes the file."""
    every = {place.name: found for place, found in read_all_entries(project).items()}
    assert (project / CHECKED_FILES).exists()
    return every


def single(project, name):
    return find_entry(project, "generic", "unit/a", name)


def test_an_entry_is_found_in_a_file_that_was_read_once(tmp_path):
    stored = store(tmp_path)
    assert single(tmp_path, "x") is None
    assert checked(tmp_path) == stored
    alone = {name for name in NAMES if single(tmp_path, name) is not None}
    assert alone >= {*NAMES} - {"out", "cases", "definition"}
    for name in NAMES:
        assert Baselines(tmp_path).lookup(f"unit/a/{name}", CHAIN).entry == stored[name]
        if name in alone:
            assert single(tmp_path, name).entry == stored[name]


@pytest.mark.parametrize("name", ["w", "X", "", "x\\", "\n", "a", "b"])
def test_a_name_without_an_entry_has_none(tmp_path, name):
    store(tmp_path)
    checked(tmp_path)
    found = single(tmp_path, name)
    assert found is None or found.entry is None
    assert Baselines(tmp_path).lookup(f"unit/a/{name}", CHAIN) is None


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.text(min_size=1, max_size=6), entries(), min_size=1, max_size=5))
def test_any_entries_are_the_same_by_both_roads(tmp_path_factory, accepted):
    project = tmp_path_factory.mktemp("project")
    store_entries(project, {BaselineKey("generic", f"unit/a/{name}"): each for name, each in accepted.items()})
    every = checked(project)
    for name in accepted:
        found = single(project, name)
        assert found is None or found.entry == every[name]
        assert Baselines(project).lookup(f"unit/a/{name}", CHAIN).entry == every[name]


def replaced(path, before, after):
    def edit(project):
        text = (project / path).read_text(errors="surrogateescape")
        assert before in text
        (project / path).write_text(text.replace(before, after, 1), errors="surrogateescape")

    return edit


@pytest.mark.parametrize(
    "edit",
    [
        replaced(FILE, '"definition": "1:2"', '"definition": "1:3"'),
        replaced(FILE, '    "xy": {', '    "x": {'),
        replaced(FILE, '    "xy": {', '<<<<<<< HEAD\n    "xy": {'),
        replaced(FILE, '"suite": "unit/a"', '"suite": "unit/b"'),
        replaced(FILE, '"schema": "precreg-baseline/', '"schema": "precreg-baseline/9'),
        replaced(FILE, "\n  }\n}\n", "\n  }\n"),
        replaced(SUMS, '"case":"y"', '"case"'),
        replaced(SUMS, '"zeros":1', '"zeros":2'),
        lambda project: (project / SUMS).unlink(),
        lambda project: (project / FILE).write_text(""),
    ],
)
def test_after_an_edit_the_mistake_of_any_entry_is_found(tmp_path, edit):
    store(tmp_path)
    checked(tmp_path)
    edit(tmp_path)
    with pytest.raises(UserError) as whole:
        read_all_entries(tmp_path)
    for _ in range(2):
        with pytest.raises(UserError) as alone:
            Baselines(tmp_path).lookup("unit/a/x", CHAIN)
        assert str(alone.value) == str(whole.value)


def test_an_accepted_change_is_seen_at_once(tmp_path):
    store(tmp_path)
    checked(tmp_path)
    store_entries(tmp_path, {BaselineKey("generic", "unit/a/x"): entry("1:new", 7.5)})
    assert Baselines(tmp_path).lookup("unit/a/x", CHAIN).entry == entry("1:new", 7.5)


def test_a_change_without_a_change_of_size_and_time_is_seen(tmp_path):
    store(tmp_path)
    checked(tmp_path)
    before = (tmp_path / FILE).stat()
    replaced(FILE, '"definition": "1:2"', '"definition": "1:3"')(tmp_path)
    os.utime(tmp_path / FILE, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(UserError, match="mixed-baseline"):
        Baselines(tmp_path).lookup("unit/a/x", CHAIN)


def test_a_file_that_changed_just_now_is_not_noted(tmp_path, monkeypatch):
    monkeypatch.setattr(file_notes, "time_ns", time.time_ns)
    store(tmp_path)
    read_all_entries(tmp_path)
    assert not (tmp_path / CHECKED_FILES).exists()


@pytest.mark.parametrize(
    "damage", [lambda data: b"", lambda data: data[:-3], lambda data: b"{}", lambda data: data + b"[" * 100_000]
)
def test_damaged_notes_are_none(tmp_path, damage):
    stored = store(tmp_path)
    checked(tmp_path)
    notes = tmp_path / CHECKED_FILES
    notes.write_bytes(damage(notes.read_bytes()))
    assert single(tmp_path, "x") is None
    assert Baselines(tmp_path).lookup("unit/a/x", CHAIN).entry == stored["x"]
    assert single(tmp_path, "x").entry == stored["x"]


def test_notes_of_another_version_are_none(tmp_path):
    store(tmp_path)
    checked(tmp_path)
    notes = tmp_path / CHECKED_FILES
    notes.write_bytes(notes.read_bytes().replace(b"baselines.index ", b"baselines.index 9", 1))
    assert single(tmp_path, "x") is None


def test_a_file_in_another_layout_is_read_as_a_whole(tmp_path):
    stored = store(tmp_path)
    (tmp_path / FILE).write_text(json.dumps(json.loads((tmp_path / FILE).read_text()), indent=4))
    assert checked(tmp_path) == stored
    assert single(tmp_path, "x") is None
    assert Baselines(tmp_path).lookup("unit/a/x", CHAIN).entry == stored["x"]


def test_a_project_that_cannot_be_written_has_no_notes(tmp_path):
    (tmp_path / ".precreg").write_text("a file where the folder should be")
    stored = store(tmp_path)
    assert Baselines(tmp_path).lookup("unit/a/x", CHAIN).entry == stored["x"]
    assert single(tmp_path, "x") is None


def test_many_entries_of_a_file_are_read_at_once(tmp_path):
    names = [f"n{i}" for i in range(30)]
    stored = store(tmp_path, names)
    checked(tmp_path)
    baselines = Baselines(tmp_path)
    assert [baselines.lookup(f"unit/a/{name}", CHAIN).entry for name in names] == [*stored.values()]
