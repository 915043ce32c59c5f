"""The two files of a suite: what people review, what the statistics need, and what ties them."""

import json
import multiprocessing
import os
import shutil
import subprocess
import sys

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from precreg.baseline.store import (
    BaselineKey,
    Baselines,
    lock_baselines,
    migrate_baselines,
    read_all_entries,
    remove_entries,
    single_files,
    store_entries,
)
from precreg.baseline.suite_file import sums_file
from precreg.errors import UserError
from precreg.types.record import BaselineOutput, KnownBad
from tests.baseline.plain import document_of, write_former
from tests.baseline.samples import entries, entry
from tests.e2e.command import ROOT, git, repository

X, Y = BaselineKey("generic", "unit/a/x"), BaselineKey("generic", "unit/a/y")
SUMS = sums_file(X.file)


def refused(project):
    with pytest.raises(UserError) as caught:
        read_all_entries(project)
    return caught.value


def with_digits(error):
    """Return an entry whose figures have more than six digits everywhere."""
    output = BaselineOutput("float16", (8,), ["d0", "d1"], {"mean_abs_error": [error, 0.5], "bias": [None, -error]})
    known = KnownBad("bug", {"out": {"mean_abs_error": [error, 0.5]}})
    return replace(entry(), duration_s=error, outputs={"out": output}, known=known)


@settings(deadline=None)
@given(entries())
def test_any_entry_comes_back_bit_for_bit_and_is_written_as_the_same_bytes(tmp_path_factory, any_entry):
    project = tmp_path_factory.mktemp("project")
    store_entries(project, {X: any_entry})
    before = [(project / file).read_bytes() for file in (X.file, SUMS)]
    (again,) = read_all_entries(project).values()
    # The text of a float has its sign and all of its digits.
    assert repr(again) == repr(any_entry)
    store_entries(project, {X: again})
    assert [(project / file).read_bytes() for file in (X.file, SUMS)] == before


def test_people_read_six_digits_one_metric_a_line_and_no_sums(tmp_path):
    store_entries(tmp_path, {X: with_digits(1 / 3)})
    shown = (tmp_path / X.file).read_text()
    lines = [line.strip() for line in shown.splitlines()]
    assert '"mean_abs_error": [0.333333, 0.5],' in lines
    assert '"bias": [null, -0.333333]' in lines
    assert '"duration_s": 0.333333,' in lines
    assert '"sketch"' not in shown
    assert "0.3333333333333333" in (tmp_path / SUMS).read_text()


def test_the_sums_are_marked_as_generated_for_git(tmp_path):
    store_entries(tmp_path, {X: entry()})
    repository(tmp_path)
    found = git(tmp_path, "check-attr", "diff", "gitlab-generated", "linguist-generated", "--", SUMS)
    assert [line.rpartition(": ")[2] for line in found.splitlines()] == ["unset", "set", "set"]
    assert "unspecified" in git(tmp_path, "check-attr", "diff", "--", X.file)


def test_attributes_of_the_project_stay(tmp_path):
    (tmp_path / "baselines").mkdir()
    (tmp_path / "baselines/.gitattributes").write_text("* text\n")
    store_entries(tmp_path, {X: entry()})
    assert (tmp_path / "baselines/.gitattributes").read_text() == "* text\n"


def test_an_entry_without_its_sums_is_named_with_both_files(tmp_path):
    store_entries(tmp_path, {X: entry()})
    (tmp_path / SUMS).unlink()
    problem = refused(tmp_path)
    assert (problem.slug, problem.file) == ("unpaired-baseline", X.file)
    assert SUMS in problem.message
    assert "there are none" in problem.message
    assert "git checkout HEAD -- FILE.json FILE.sums" in str(problem)


def test_sums_of_another_commit_are_refused(tmp_path):
    store_entries(tmp_path, {X: entry(error=1.0)})
    older = (tmp_path / SUMS).read_bytes()
    store_entries(tmp_path, {X: entry(error=2.0)})
    (tmp_path / SUMS).write_bytes(older)
    problem = refused(tmp_path)
    assert (problem.slug, "it has the sums of other entries" in problem.message) == ("unpaired-baseline", True)


@pytest.mark.parametrize("place", ["metrics", "bounds", "duration_s", "sketch"])
def test_edited_sums_are_refused(tmp_path, place):
    store_entries(tmp_path, {X: with_digits(1 / 3)})
    header, line = (tmp_path / SUMS).read_text().splitlines()
    sums = json.loads(line)["sums"]
    # Within the six digits that people see, so that only the checksum shows it.
    text = json.dumps(sums[place]).replace("0.3333333333333333", "0.33333334").replace("[7, 8]", "[8, 7]")
    assert json.loads(text) != sums[place]
    sums[place] = json.loads(text)
    (tmp_path / SUMS).write_text("\n".join([header, json.dumps(json.loads(line) | {"sums": sums})]))
    assert refused(tmp_path).slug == "mixed-baseline"


@pytest.mark.parametrize("shown", ["[0.333334, 0.5]", "[0.333333]", '["0.333333", 0.5]', "0.333333", "{}", "null"])
def test_a_reviewed_figure_is_the_one_that_judges(tmp_path, shown):
    """An editor who wants other figures reviewed than those that judge changes neither sums nor checksum."""
    store_entries(tmp_path, {X: with_digits(1 / 3)})
    text = (tmp_path / X.file).read_text()
    start = text.index('"metrics"')
    (tmp_path / X.file).write_text(text[:start] + text[start:].replace("[0.333333, 0.5]", shown, 1))
    problem = refused(tmp_path)
    assert problem.slug == "mixed-baseline"
    assert "outputs.out" in problem.message


@pytest.mark.parametrize(
    ("line", "slug"),
    [
        ("1", "unreadable-baseline"),
        ("{", "unreadable-baseline"),
        ('{"case": "x", "of": "CHECKSUM"}', "unreadable-baseline"),
        ('{"case": "x", "of": "CHECKSUM", "sums": []}', "unreadable-baseline"),
        ('{"case": "x", "of": "CHECKSUM", "sums": {}, "more": 1}', "unreadable-baseline"),
        ('{"case": "x", "of": "CHECKSUM", "of": "CHECKSUM", "sums": {}}', "unreadable-baseline"),
        ('{"case": "x", "of": "CHECKSUM", "sums": {"duration_s": NaN}}', "unreadable-baseline"),
        ('{"case": "x", "of": "CHECKSUM", "sums": {"metrics": [1]}}', "mixed-baseline"),
        ('{"case": "x", "of": "CHECKSUM", "sums": {}}', "mixed-baseline"),
        ("", "unpaired-baseline"),
    ],
)
def test_sums_of_any_other_shape_are_refused(tmp_path, line, slug):
    store_entries(tmp_path, {X: with_digits(1 / 3)})
    checksum = json.loads((tmp_path / X.file).read_text())["cases"]["x"]["checksum"]
    header = (tmp_path / SUMS).read_text().splitlines()[0]
    (tmp_path / SUMS).write_text(f"{header}\n{line.replace('CHECKSUM', checksum)}\n")
    problem = refused(tmp_path)
    assert problem.slug == slug
    if slug == "unreadable-baseline":
        assert (problem.file, problem.line) == (SUMS, 2)


@pytest.mark.parametrize(
    ("before", "after", "slug"),
    [
        ("precreg-sums/1", "precreg-sums/2", "future-schema"),
        ("precreg-sums/1", "precreg-baseline/4", "unreadable-baseline"),
        ('"unit/a"', '"unit/b"', "unreadable-baseline"),
        ('"generic"', '"cpu"', "unreadable-baseline"),
    ],
)
def test_sums_of_another_place_or_version_are_refused(tmp_path, before, after, slug):
    store_entries(tmp_path, {X: entry()})
    (tmp_path / SUMS).write_text((tmp_path / SUMS).read_text().replace(before, after, 1))
    assert (refused(tmp_path).slug, refused(tmp_path).file) == (slug, SUMS)


def test_a_conflict_in_the_sums_is_named(tmp_path):
    store_entries(tmp_path, {X: entry()})
    (tmp_path / SUMS).write_text("<<<<<<< HEAD\n" + (tmp_path / SUMS).read_text())
    problem = refused(tmp_path)
    assert (problem.slug, problem.file, problem.line) == ("conflicted-baseline", SUMS, 1)


def die_at(moment, project, act):
    """Act in this process, and be killed before its nth change of the file system."""
    seen = 0

    def hook(event, arguments):
        nonlocal seen
        changes = event in ("os.rename", "os.remove", "os.mkdir") or (event == "open" and "x" in str(arguments[1]))
        if changes and str(project) in str(arguments[0]):
            seen += 1
            if seen == moment:
                os.kill(os.getpid(), 9)

    sys.addaudithook(hook)
    act(project)
    os._exit(0)


def replace_one_and_add_one(project):
    store_entries(project, {X: with_digits(2 / 3), Y: entry(error=5.0)})


def remove_all(project):
    remove_entries(project, [X])


def migrate(project):
    migrate_baselines(project)


@pytest.mark.parametrize(
    ("act", "after"),
    [
        (replace_one_and_add_one, {X: with_digits(2 / 3), Y: entry(error=5.0)}),
        (remove_all, {}),
        (migrate, {X: with_digits(1 / 3)}),
    ],
)
def test_a_kill_at_any_moment_leaves_the_former_entries_or_the_new_ones(tmp_path, act, after):
    before, exit_code, moment = {X: with_digits(1 / 3)}, -9, 0
    while exit_code == -9:
        moment += 1
        project = tmp_path / str(moment)
        store_entries(project, before)
        if act is migrate:
            write_former(project / X.file, document_of(project / X.file))
        child = multiprocessing.get_context("fork").Process(target=die_at, args=(moment, project, act))
        child.start()
        child.join()
        exit_code = child.exitcode
        assert read_all_entries(project) in (before, after)
        act(project)
        assert read_all_entries(project) == after
        left = {path.suffix for path in (project / X.file).parent.iterdir()}
        assert left == ({".json", ".sums"} if after else set())
        assert b"0.3333333333333333" not in (project / SUMS).read_bytes() if act is replace_one_and_add_one else True
    assert (exit_code, moment > 2) == (0, True)


def replace_many(project):
    for number in range(150):
        with lock_baselines(project):
            store_entries(project, {X: with_digits(1 / (number + 3))})


def test_a_reader_never_sees_the_files_of_two_states(tmp_path):
    store_entries(tmp_path, {X: with_digits(1 / 3)})
    writer = multiprocessing.get_context("fork").Process(target=replace_many, args=(tmp_path,))
    writer.start()
    reads = 0
    while writer.is_alive():
        assert Baselines(tmp_path).lookup(X.id, ("generic",)) is not None
        reads += 1
    writer.join()
    assert (writer.exitcode, reads > 10) == (0, True)


def test_two_branches_that_accept_two_cases_merge(tmp_path):
    store_entries(tmp_path, {X: with_digits(1 / 3), Y: entry(error=1.0)})
    repository(tmp_path)
    git(tmp_path, "checkout", "-qb", "work")
    store_entries(tmp_path, {X: with_digits(2 / 3)})
    git(tmp_path, "commit", "-qam", "x")
    git(tmp_path, "checkout", "-q", "main")
    store_entries(tmp_path, {Y: entry(error=2.0)})
    git(tmp_path, "commit", "-qam", "y")
    git(tmp_path, "merge", "-q", "work")
    assert read_all_entries(tmp_path) == {X: with_digits(2 / 3), Y: entry(error=2.0)}


def test_a_conflict_of_one_case_leaves_sums_that_fit_each_side(tmp_path):
    store_entries(tmp_path, {X: with_digits(1 / 3)})
    repository(tmp_path)
    git(tmp_path, "checkout", "-qb", "work")
    store_entries(tmp_path, {X: with_digits(2 / 3)})
    git(tmp_path, "commit", "-qam", "theirs")
    git(tmp_path, "checkout", "-q", "main")
    store_entries(tmp_path, {X: with_digits(1 / 7)})
    git(tmp_path, "commit", "-qam", "ours")
    done = subprocess.run(["git", "-C", tmp_path, "merge", "-q", "work"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert git(tmp_path, "diff", "--name-only", "--diff-filter=U") == X.file
    for side, entry_of_side in (("--ours", with_digits(1 / 7)), ("--theirs", with_digits(2 / 3))):
        git(tmp_path, "checkout", "-q", side, "--", X.file)
        assert read_all_entries(tmp_path) == {X: entry_of_side}
    # The next acceptance leaves the sums of its entries alone.
    store_entries(tmp_path, {X: with_digits(2 / 3)})
    assert len((tmp_path / SUMS).read_text().splitlines()) == 2


def test_old_files_are_read_and_migrated_with_reason_author_and_date(tmp_path):
    signed = replace(with_digits(1 / 3), reason="why", author="Ada <ada@example.org>", date="2026-01-02")
    store_entries(tmp_path, {X: signed, BaselineKey("cpu", "unit/b/z"): entry()})
    before = read_all_entries(tmp_path)
    write_former(tmp_path / X.file, document_of(tmp_path / X.file))
    assert read_all_entries(tmp_path) == before
    assert single_files(tmp_path) == [X.file]
    other = (tmp_path / "baselines/cpu/unit/b.json").stat().st_mtime_ns
    assert migrate_baselines(tmp_path) == {X.file: 1}
    assert read_all_entries(tmp_path) == before
    assert (single_files(tmp_path), migrate_baselines(tmp_path)) == ([], {})
    assert (tmp_path / "baselines/cpu/unit/b.json").stat().st_mtime_ns == other


def test_an_unreadable_file_keeps_the_others_from_being_migrated(tmp_path):
    store_entries(tmp_path, {X: entry(), BaselineKey("generic", "unit/b/z"): entry()})
    for name in ("a", "b"):
        path = tmp_path / f"baselines/generic/unit/{name}.json"
        write_former(path, document_of(path))
    (tmp_path / "baselines/generic/unit/b.json").write_text('{\n  "schema": "precreg-baseline/3", <\n')
    with pytest.raises(UserError, match="unreadable-baseline"):
        migrate_baselines(tmp_path)
    assert not (tmp_path / SUMS).exists()


def test_the_shipped_baselines_judge_with_every_bit_that_one_file_had(tmp_path):
    """A verdict is a function of an entry, so entries with equal bits give equal verdicts."""
    shutil.copytree(ROOT / "baselines", tmp_path / "baselines")
    shipped = read_all_entries(tmp_path)
    assert len(shipped) > 500
    for path in (tmp_path / "baselines").glob("*/*/*.json"):
        write_former(path, document_of(path))
    assert not [*(tmp_path / "baselines").glob("*/*/*.sums")]
    # The text of a float has all of its digits and its sign, and == takes 0.0 for -0.0.
    assert repr(read_all_entries(tmp_path)) == repr(shipped)


def test_shipped_files_are_in_the_present_form():
    assert single_files(ROOT) == []
    for path in (ROOT / "baselines").glob("*/*/*.json"):
        shown = path.read_text()
        for output in (output for case in json.loads(shown)["cases"].values() for output in case["outputs"].values()):
            figures = [figure for values in output["metrics"].values() for figure in values if figure is not None]
            assert [float(f"{figure:.6g}") for figure in figures] == figures
        assert '"sketch"' not in shown
        assert '"groups"' not in shown
