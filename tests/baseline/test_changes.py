"""Changes of baselines: their kinds, their order, and those since a commit of a real repository."""

import pytest
from msgspec.structs import replace

from precreg.baseline.changes import change_of_entries, changes_since, sort_changes
from precreg.baseline.review import compare_metrics
from precreg.baseline.store import BaselineKey, read_all_entries, remove_entries, store_entries
from precreg.baseline.suite_file import BASELINES_FOLDER
from precreg.errors import UserError
from precreg.types.record import BaselineOutput
from tests.baseline.plain import document_of, write_former
from tests.baseline.samples import entry
from tests.e2e.command import git, repository

V, W, X, Y, Z = (BaselineKey("generic", f"unit/a/{name}") for name in "vwxyz")


def measured(definition="1:aa", digest="d0", **metrics):
    """Return an entry with these metrics, at each of two seeds."""
    output = BaselineOutput("float16", (8,), [digest, "d1"], {name: [value, value] for name, value in metrics.items()})
    return replace(entry(definition), outputs={"out": output})


def change(old, new, place=X):
    return change_of_entries(place, old, new, () if new is None else compare_metrics(old, new), "why")


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (None, measured(rms_error=1.0), "new"),
        (measured(rms_error=1.0), None, "removed"),
        (measured(rms_error=1.0), measured("1:bb", rms_error=2.0), "redefined"),
        (measured(rms_error=1.0), measured(rms_error=1.5), "worse"),
        (measured(rms_error=1.0), measured(rms_error=0.5), "better"),
        (measured(rms_error=1.0, mean_ulp=1.0), measured(rms_error=0.1, mean_ulp=1.01), "worse"),
        (measured(rms_error=1.0), measured(digest="d9", rms_error=1.0), "bits"),
        (measured(rms_error=1.0), measured(), "worse"),
        (measured(max_ulp=1.0, rms_error=1.0), measured(max_ulp=9.0, rms_error=0.9), "better"),
        (measured(max_ulp=1.0, rms_error=1.0), measured(max_ulp=9.0, rms_error=1.0), "worse"),
    ],
)
def test_a_change_has_the_kind_of_its_largest_loss_in_a_mean(old, new, kind):
    assert change(old, new).kind == kind


def test_the_main_metric_is_the_largest_loss():
    found = change(measured(rms_error=1.0, mean_ulp=1.0), measured(rms_error=1.1, mean_ulp=3.0)).main
    assert (found.metric, found.ratio) == ("mean_ulp", 3.0)


def test_losses_come_first_from_the_largest_and_a_loss_from_zero_is_the_largest():
    base = measured(rms_error=1.0)
    changes = [
        change(base, measured(rms_error=0.1), V),
        change(base, measured(rms_error=1.2), W),
        change(None, base, X),
        change(measured(rms_error=0.0), measured(rms_error=1e-9), Y),
        change(base, measured(rms_error=7.0), Z),
    ]
    assert [each.place for each in sort_changes(changes)] == [Y, Z, W, X, V]


@pytest.fixture
def project(tmp_path):
    store_entries(tmp_path, {X: measured(rms_error=1.0), Y: measured(rms_error=1.0), Z: measured(rms_error=1.0)})
    return repository(tmp_path)


def test_changes_since_a_commit_are_those_of_figures_and_digests(project):
    commit = git(project, "rev-parse", "HEAD")
    store_entries(
        project, {X: measured(rms_error=2.0), Y: replace(measured(rms_error=1.0), reason="again", seen=["f"])}
    )
    store_entries(project, {W: measured(rms_error=1.0)})
    remove_entries(project, [Z])
    git(project, "add", "-A")
    git(project, "commit", "-qm", "later")
    found, changes = changes_since(project, commit)
    assert found == commit
    assert [(each.place, each.kind) for each in changes] == [(X, "worse"), (Z, "removed"), (W, "new")]
    assert [each.place for each in changes_since(project, commit, ["unit/a/x"])[1]] == [X]
    assert changes_since(project, "HEAD") == (git(project, "rev-parse", "HEAD"), [])


def test_a_commit_with_files_of_an_earlier_version_is_compared(project):
    path = project / X.file
    write_former(path, document_of(path))
    git(project, "add", "-A")
    git(project, "commit", "-qm", "earlier")
    store_entries(project, read_all_entries(project))
    assert changes_since(project, "HEAD")[1] == []


def test_a_pattern_without_a_baseline_is_refused(project):
    with pytest.raises(UserError, match="expected a baseline"):
        changes_since(project, "HEAD", ["unit/b"])


def test_a_commit_without_baselines_has_none(tmp_path):
    (tmp_path / "f").write_text("")
    folder = repository(tmp_path)
    store_entries(folder, {X: measured(rms_error=1.0)})
    assert (folder / BASELINES_FOLDER).is_dir()
    assert [each.kind for each in changes_since(folder, "HEAD")[1]] == ["new"]
