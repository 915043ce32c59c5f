"""The checksum of an entry: what changes it, what does not, and hunks of two sides of a merge."""

import json
import re
from itertools import product

import pytest
from hypothesis import given, settings
from msgspec import to_builtins
from msgspec.structs import replace

from precreg.baseline.integrity.criteria import CasePairs, ProjectSide
from precreg.baseline.integrity.findings import find_rewritten_entries
from precreg.baseline.store import BaselineKey, add_checksums, count_unchecked_entries, read_all_entries, store_entries
from precreg.baseline.suite_file import baseline_header, read_baseline_file
from precreg.baseline.text import entry_checksum, render_baseline
from precreg.errors import UserError
from tests.baseline.plain import document_of, sibling, write_former
from tests.baseline.samples import entries, entry

X, Y = BaselineKey("generic", "unit/a/x"), BaselineKey("generic", "unit/a/y")
HEADER = baseline_header("generic", "unit/a")


def stored(project):
    return (project / X.file).read_text()


def refused(project, text):
    (project / X.file).write_text(text)
    with pytest.raises(UserError) as caught:
        read_all_entries(project)
    return caught.value


def test_every_stored_entry_has_the_checksum_of_its_content(tmp_path):
    store_entries(tmp_path, {X: entry(error=0.5), Y: entry(error=1.0)})
    cases = document_of(tmp_path / X.file)["cases"]
    assert [case["checksum"] for case in cases.values()] == [entry_checksum(case) for case in cases.values()]
    assert cases["x"]["checksum"] != cases["y"]["checksum"]
    assert re.fullmatch("[0-9a-f]{16}", cases["x"]["checksum"])
    assert count_unchecked_entries(tmp_path) == 0


@settings(deadline=None)
@given(entries())
def test_any_entry_comes_back_through_its_checksum(tmp_path_factory, any_entry):
    project = tmp_path_factory.mktemp("project")
    store_entries(project, {X: any_entry})
    assert read_all_entries(project) == {X: any_entry}


def test_an_entry_that_was_edited_is_named_with_its_line_and_what_to_do(tmp_path):
    store_entries(tmp_path, {X: entry(error=0.5), Y: entry(error=1.0)})
    problem = refused(tmp_path, stored(tmp_path).replace("[1.0, 1.0]", "[1.5, 1.5]"))
    lines = stored(tmp_path).splitlines()
    assert (problem.slug, problem.file, problem.line) == ("mixed-baseline", X.file, lines.index('    "y": {') + 1)
    assert "edited, or merged from two sides" in problem.message
    assert "git checkout main -- FILE" in str(problem)


@pytest.mark.parametrize("checksum", ["", "0" * 16, None, 7, [], {"a": []}])
def test_a_checksum_of_any_kind_that_does_not_fit_is_refused(tmp_path, checksum):
    slug = "unpaired-baseline" if isinstance(checksum, str) else "mixed-baseline"
    store_entries(tmp_path, {X: entry()})
    document = json.loads(stored(tmp_path))
    whole = document_of(tmp_path / X.file) | {"schema": "precreg-baseline/3"}
    document["cases"]["x"]["checksum"] = whole["cases"]["x"]["checksum"] = checksum
    assert refused(tmp_path, json.dumps(document)).slug == slug
    assert refused(tmp_path, json.dumps(whole)).slug == "mixed-baseline"


def test_every_mixture_of_two_sides_is_refused(tmp_path):
    """Two sides change the figures and the reason of one entry; whoever resolves takes hunks of each."""
    sides, sums = [], []
    for error, reason in ((0.5, "mine"), (1.0, "theirs")):
        store_entries(tmp_path, {X: replace(entry(error=error, reason=reason), seen=[reason])})
        sides.append(stored(tmp_path).splitlines(keepends=True))
        sums.append(sibling(tmp_path / X.file).read_text())
    # git merges the lines of the sums.
    sibling(tmp_path / X.file).write_text("".join(dict.fromkeys("".join(sums).splitlines(keepends=True))))
    differing = [number for number, (mine, theirs) in enumerate(zip(*sides, strict=True)) if mine != theirs]
    assert len(differing) >= 4
    for choice in product((0, 1), repeat=len(differing)):
        lines = list(sides[0])
        for number, side in zip(differing, choice, strict=True):
            lines[number] = sides[side][number]
        if len(set(choice)) == 1:
            (tmp_path / X.file).write_text("".join(lines))
            assert read_all_entries(tmp_path)
        else:
            assert refused(tmp_path, "".join(lines)).slug == "mixed-baseline"


def test_order_spelling_and_empty_members_change_no_checksum():
    plain = json.loads(render_baseline(HEADER, {"x": entry()}))["cases"]["x"]
    later = {"new_field": {}, "another": [], "third": "", "fourth": None, **dict(reversed(plain.items()))}
    later["outputs"] = {"out": {**plain["outputs"]["out"], "fifth": {}}}
    assert entry_checksum(later) == entry_checksum(plain) == entry_checksum(json.loads(json.dumps(plain, indent=7)))
    assert entry_checksum({**plain, "new_field": {"a": 1}}) != entry_checksum(plain)
    assert entry_checksum({**plain, "checksum": "0" * 16}) == entry_checksum(plain)


def test_the_checksum_of_an_entry_stays_what_it_was():
    """Baselines of every project have it, so a change of this text is a change of their format."""
    assert entry_checksum(json.loads(json.dumps(to_builtins(entry())))) == "931c11ced66f40d6"


def test_entries_of_earlier_versions_are_read_counted_and_completed(tmp_path):
    accepted = {X: entry(), Y: entry(error=1.0)}
    store_entries(tmp_path, accepted)
    before = document_of(tmp_path / X.file)
    write_former(tmp_path / X.file, before)
    assert read_all_entries(tmp_path) == accepted
    assert count_unchecked_entries(tmp_path) == 2
    assert add_checksums(tmp_path) == 2
    assert read_all_entries(tmp_path) == accepted
    assert (count_unchecked_entries(tmp_path), add_checksums(tmp_path)) == (0, 0)
    assert document_of(tmp_path / X.file) == before


def test_an_added_checksum_is_no_changed_baseline(tmp_path):
    store_entries(tmp_path, {X: replace(entry(), definition="pytest-1:aa")})
    write_former(tmp_path / X.file, document_of(tmp_path / X.file))
    base = ProjectSide({}, read_all_entries(tmp_path))
    add_checksums(tmp_path)
    head = ProjectSide({}, read_all_entries(tmp_path))
    assert list(find_rewritten_entries(base, head, CasePairs((), (), (), ()))) == []


def test_accepting_one_case_of_a_file_leaves_the_figures_of_the_others(tmp_path):
    store_entries(tmp_path, {X: entry(error=0.5), Y: entry(error=1.0)})
    before = stored(tmp_path).splitlines()
    store_entries(tmp_path, {X: entry(error=0.75)})
    half = before.index('    "y": {')
    assert stored(tmp_path).splitlines()[half:] == before[half:]
    assert read_baseline_file(tmp_path, "generic", "unit/a")["y"] == entry(error=1.0)
