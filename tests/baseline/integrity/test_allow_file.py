"""Entries that commands write into baselines/allow.yaml, and remove: comments, order, styles, and hostile texts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precreg.baseline.integrity.allowances import (
    NewAllowance,
    add_allowances,
    present_allowances,
    prune_allowances,
    render_allowance,
)
from precreg.baseline.integrity.sides import ALLOWABLE_KINDS, FILE, read_allowances
from precreg.errors import UserError
from precreg.types.warning import FindingKind
from tests.e2e.command import git, repository

NEW = NewAllowance("unit/mean/float16", FindingKind.BASELINE_CHANGED, "cheaper by half, decided in October")
CREEP = NewAllowance("unit/mean", FindingKind.CREEP, "half the price")
HEAD = """\
# Ask Ada before you add one.
allow:
  # the device is coarser
  - case: unit/a   # all of it
    change: bound_loosened
    reason: the device is coarser
  - {case: unit/b, change: case_removed, reason: nobody needs it}
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "baselines").mkdir()
    return tmp_path


def written(project, text):
    (project / FILE).write_text(text)


def text_of(project):
    return (project / FILE).read_text()


def entries_of(project):
    return [(entry.case, entry.kind, entry.reason) for entry in read_allowances(project)]


def test_an_entry_begins_the_file(tmp_path):
    assert add_allowances(tmp_path, [NEW], None) == [NEW]
    assert text_of(tmp_path) == (
        "allow:\n  - case: unit/mean/float16\n    change: baseline_changed\n"
        '    reason: "cheaper by half, decided in October"\n'
    )
    assert entries_of(tmp_path) == [NEW]


@pytest.mark.parametrize("before", ["", "# nothing yet\n", "# nothing yet", HEAD, HEAD.rstrip("\n")])
def test_what_stands_there_stays_as_it_is(project, before):
    written(project, before)
    former = entries_of(project)
    add_allowances(project, [NEW, CREEP], None)
    assert text_of(project).startswith(before)
    assert entries_of(project) == [*former, NEW, CREEP]


@pytest.mark.parametrize(
    "before",
    [
        "allow: []\n",
        "allow: [{case: unit/b, change: case_removed, reason: nobody needs it}]\n",
        "allow: [  ] \n# the end\n",
        "allow:\n- case: unit/a\n  change: bound_loosened\n  reason: r\n",
        "allow:\n    -\n      case: unit/a\n      change: bound_loosened\n      reason: r\n# the end\n",
        "allow:\n  - case: unit/a\n    change: bound_loosened\n    reason: |\n      two\n      lines\n",
        "\ufeffallow:\n  - case: unit/a\n    change: bound_loosened\n    reason: r\n",
    ],
)
def test_lists_of_every_style_take_another_entry(project, before):
    written(project, before)
    former = entries_of(project)
    add_allowances(project, [NEW], None)
    assert entries_of(project) == [*former, NEW]
    assert ("# the end" in text_of(project)) is ("# the end" in before)


def test_a_text_that_only_a_person_can_change_is_left_alone(project):
    written(project, HEAD + "...\n")
    with pytest.raises(UserError, match="bad-allowance"):
        add_allowances(project, [NEW], None)
    assert text_of(project) == HEAD + "...\n"


def test_a_file_with_a_mistake_is_left_alone(project):
    written(project, "alow: []\n")
    with pytest.raises(UserError, match="bad-allowance"):
        add_allowances(project, [NEW], None)
    assert text_of(project) == "alow: []\n"


def test_what_is_allowed_already_is_not_added_again(project):
    written(project, HEAD)
    inner = NewAllowance("unit/a/float16", FindingKind.BOUND_LOOSENED, "another reason")
    assert add_allowances(project, [inner, NEW, NEW], None) == [NEW]
    assert add_allowances(project, [NEW], None) == []


any_text = st.text(min_size=1, max_size=20).filter(lambda text: text.strip() and text.isprintable())


@settings(deadline=None)
@given(st.lists(st.tuples(any_text, st.sampled_from(ALLOWABLE_KINDS), any_text), min_size=1, max_size=4))
def test_any_text_comes_back(tmp_path_factory, given_entries):
    project = tmp_path_factory.mktemp("project")
    added = add_allowances(project, [NewAllowance(*entry) for entry in given_entries], None)
    assert entries_of(project) == added


@pytest.mark.parametrize("reason", ["yes", "null", "1e3", "- a", "a: b", "a # b", "*x", "[x]", "'", '"', "a\nb", "ä €"])
def test_texts_that_yaml_would_read_otherwise_are_quoted(project, reason):
    add_allowances(project, [NEW._replace(case=reason, reason=reason)], None)
    assert entries_of(project) == [(reason, NEW.kind, reason)]


def committed(project):
    if (project / ".git").exists():
        git(project, "add", "-A")
        git(project, "commit", "-q", "-m", "more")
    else:
        repository(project)
    return git(project, "rev-parse", "HEAD")


def test_a_reason_of_a_merged_entry_gets_the_date_because_the_same_text_allows_nothing(project):
    add_allowances(project, [NEW], None)
    base = committed(project)
    (second,) = add_allowances(project, [NEW], base)
    assert second.reason.startswith(f"{NEW.reason} (2")
    assert [entry.spent for entry in present_allowances(project, base)] == [True, False]
    base = committed(project)
    (third,) = add_allowances(project, [NEW], base)
    assert third.reason == second.reason.replace(")", ", 2)")


def test_entries_that_served_are_pruned_and_comments_and_others_stay(project):
    written(project, HEAD)
    add_allowances(project, [CREEP], None)
    base = committed(project)
    add_allowances(project, [NEW], base)
    gone = prune_allowances(project, base)
    assert [entry.case for entry in gone] == ["unit/a", "unit/b"]
    assert entries_of(project) == [CREEP, NEW]
    assert text_of(project).startswith(
        "# Ask Ada before you add one.\nallow:\n  # the device is coarser\n  - case: unit/mean\n    change: creep\n"
    )
    assert prune_allowances(project, base) == []


@pytest.mark.parametrize(
    ("before", "left"),
    [
        (HEAD, "# Ask Ada before you add one.\n  # the device is coarser\n"),
        (
            "allow:\n  - case: a\n    change: case_removed\n    reason: >\n      two\n      lines\n\n# end\n",
            "# end\n",
        ),
        ("# first\nallow: [{case: a, change: case_removed, reason: b}]\n", "# first\n"),
    ],
)
def test_the_last_entry_takes_the_list_along(project, before, left):
    written(project, before)
    base = committed(project)
    assert prune_allowances(project, base)
    assert text_of(project) == left
    assert entries_of(project) == []
    add_allowances(project, [NEW], base)
    assert entries_of(project) == [NEW]


def test_a_file_without_anything_left_is_removed(project):
    add_allowances(project, [NEW], None)
    assert len(prune_allowances(project, committed(project))) == 1
    assert not (project / FILE).exists()


def test_without_a_base_nothing_has_served(project):
    written(project, HEAD)
    assert prune_allowances(project, None) == []
    assert text_of(project) == HEAD


def test_the_lines_of_an_entry():
    assert render_allowance(CREEP) == ["- case: unit/mean", "  change: creep", "  reason: half the price"]
