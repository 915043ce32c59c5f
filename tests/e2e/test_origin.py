"""Proposals in daily work with branches: which ones can be accepted, which are ignored, and what the command says."""

import json
import shutil

import pytest

from tests.e2e.command import change, copy_of, git, precreg
from tests.e2e.test_road import KERNEL, NARROW, ROAD, WIDE

WHY = ("--reason", "the accumulator of the device is float16")
CASES = ("unit/row_sum/float16-16x64", "unit/row_sum/float16-8x256")


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """A kernel that is worse than its baseline on branch `main`, and on `fast` with another comment; both committed."""
    folder = copy_of(ROAD, tmp_path_factory.mktemp("judged"))
    git(folder, "switch", "-q", "-c", "fast")
    (folder / KERNEL).write_text((folder / KERNEL).read_text() + "\n# faster\n")
    git(folder, "commit", "-q", "-a", "-m", "fast")
    assert precreg(folder, "run").returncode == 1
    return folder


@pytest.fixture
def project(judged, tmp_path):
    """A copy of the repository."""
    return shutil.copytree(judged, tmp_path / "project", symlinks=True)


def waiting(project):
    done = precreg(project, "baseline", "review", "--json")
    assert done.returncode == 0, done.stderr
    return {proposal["case"]: proposal for proposal in json.loads(done.stdout)["proposals"]}


def test_proposals_of_another_branch_are_ignored_and_come_back_with_it(project):
    git(project, "switch", "-q", "main")
    done = precreg(project, "baseline", "diff")
    assert "2 proposals of branch fast are ignored here (precreg baseline prune drops them)\n" in done.stdout
    assert done.stdout.endswith("\n0 proposals\n")
    for act in (("accept", "*", *WHY), ("accept", CASES[0], *WHY), ("reject", "*"), ("review", "--accept", "*", *WHY)):
        done = precreg(project, "baseline", *act)
        assert done.returncode == 2, done.stdout
        assert "error[no-proposal]" in done.stderr
        assert "2 proposals of branch fast are ignored here" in done.stdout
    assert git(project, "status", "--porcelain") == ""
    git(project, "switch", "-q", "fast")
    assert set(waiting(project)) == set(CASES)
    assert precreg(project, "baseline", "accept", "--all", *WHY).returncode == 0


def test_prune_drops_the_proposals_of_other_branches(project):
    git(project, "switch", "-q", "main")
    done = precreg(project, "baseline", "prune")
    assert f"dropped the proposal of {CASES[0]} from branch fast\n" in done.stdout
    assert "0 removed, 0 renamed, 2 proposals dropped" in done.stdout
    git(project, "switch", "-q", "fast")
    assert waiting(project) == {}


def test_a_run_here_replaces_the_proposals_of_another_branch(project):
    git(project, "switch", "-q", "main")
    assert precreg(project, "run").returncode == 1
    assert {proposal["branch"] for proposal in waiting(project).values()} == {"main"}
    assert precreg(project, "baseline", "accept", "--all", *WHY).returncode == 0


def test_a_run_of_all_cases_keeps_the_proposals_of_a_suite_that_another_branch_has(project):
    suite = project / "suites/unit/row_sum.yaml"
    suite.with_name("more.yaml").write_text(suite.read_text().replace("suite: row_sum", "suite: more"))
    precreg(project, "run", "--suite", "more")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "a further suite")
    git(project, "switch", "-q", "main")
    precreg(project, "run")
    git(project, "switch", "-q", "fast")
    assert {id.split("/")[1] for id in waiting(project)} == {"more"}


def switched_to_a_new_branch(project):
    git(project, "switch", "-q", "-c", "better-name")


def committed_something_else(project):
    (project / "README.md").write_text("about\n")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "about")


def amended(project):
    committed_something_else(project)
    git(project, "commit", "-q", "--amend", "-m", "fast, and about")


def rebased(project):
    git(project, "switch", "-q", "main")
    committed_something_else(project)
    git(project, "switch", "-q", "fast")
    git(project, "rebase", "-q", "main")


def detached(project):
    git(project, "switch", "-q", "--detach")


def detached_and_committed(project):
    detached(project)
    committed_something_else(project)


def branch_renamed(project):
    git(project, "branch", "-q", "-m", "fast", "faster")


def on_a_new_branch_with_a_commit(project):
    switched_to_a_new_branch(project)
    committed_something_else(project)


def suite_commented(project):
    suite = project / "suites/unit/row_sum.yaml"
    suite.write_text(suite.read_text() + "# rows\n")


@pytest.mark.parametrize(
    "step",
    [
        switched_to_a_new_branch,
        committed_something_else,
        amended,
        rebased,
        detached,
        detached_and_committed,
        branch_renamed,
        on_a_new_branch_with_a_commit,
        suite_commented,
    ],
)
def test_what_changes_no_code_keeps_the_proposals(project, step):
    step(project)
    shown = precreg(project, "baseline", "diff").stdout
    assert "ignored" not in shown
    assert "outdated" not in shown
    assert {id: proposal["outdated"] for id, proposal in waiting(project).items()} == dict.fromkeys(CASES, False)
    assert precreg(project, "baseline", "accept", "--all", *WHY).returncode == 0


def test_a_dirty_tree_is_committed_after_its_run(project):
    change(project / KERNEL, "# faster", "# even faster")
    precreg(project, "run")
    commit = git(project, "rev-parse", "HEAD")
    assert {proposal["commit"] for proposal in waiting(project).values()} == {f"{commit}-dirty"}
    git(project, "commit", "-q", "-a", "-m", "even faster")
    assert not any(proposal["outdated"] for proposal in waiting(project).values())
    git(project, "switch", "-q", "-c", "moved")
    assert set(waiting(project)) == set(CASES)


def test_a_dirty_tree_that_is_stashed_away_is_outdated_and_said_with_its_commit(project):
    change(project / KERNEL, "# faster", "# even faster")
    precreg(project, "run")
    commit = git(project, "rev-parse", "HEAD")
    git(project, "stash", "-q")
    said = f"outdated: it ran at commit {commit[:8]}-dirty on branch fast, and its code or definition changed since"
    assert precreg(project, "baseline", "diff").stdout.count(said) == 2
    git(project, "stash", "pop", "-q")
    assert "outdated" not in precreg(project, "baseline", "diff").stdout


def test_an_outdated_proposal_runs_again_before_it_is_accepted(project):
    change(project / KERNEL, NARROW, WIDE)
    done = precreg(project, "baseline", "accept", "--all", *WHY)
    assert done.returncode == 2
    assert "error[unconfirmed-loss]" in done.stderr
    assert f"{CASES[0]}: outdated: it ran at commit" in done.stderr
    change(project / KERNEL, WIDE, NARROW)
    change(project / KERNEL, "# faster", "# the same as before")
    done = precreg(project, "baseline", "accept", "--all", *WHY)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("(2 reruns: the same bits)") == 2


def test_a_worktree_has_proposals_of_its_own(project, tmp_path_factory):
    other = tmp_path_factory.mktemp("worktrees") / "other"
    git(project, "worktree", "add", "-q", "--detach", str(other), "main")
    assert waiting(other) == {}
    precreg(other, "run")
    assert {proposal["branch"] for proposal in waiting(other).values()} == {""}
    git(other, "switch", "-q", "-c", "here")
    assert set(waiting(other)) == set(CASES)
    git(other, "switch", "-q", "--detach", "fast")
    assert set(waiting(other)) == set(CASES), "main is an ancestor of fast"
    assert all(proposal["outdated"] for proposal in waiting(other).values())


def test_a_detached_proposal_is_ignored_before_its_commit(project):
    git(project, "switch", "-q", "--detach")
    precreg(project, "run")
    commit = git(project, "rev-parse", "--short=8", "HEAD")
    git(project, "switch", "-q", "main")
    assert f"2 proposals of commit {commit} are ignored here" in precreg(project, "baseline", "diff").stdout


def test_proposals_of_an_earlier_version_are_read_and_belong_here(project):
    file = project / ".precreg/proposals/unit/row_sum.json"
    document = json.loads(file.read_text())
    for proposal in document["cases"].values():
        del proposal["branch"], proposal["code"]
    file.write_text(json.dumps(document))
    git(project, "switch", "-q", "main")
    shown = precreg(project, "baseline", "diff").stdout
    assert "2 proposals" in shown
    assert "ignored" not in shown


def test_outside_a_repository_all_proposals_belong_here(tmp_path):
    folder = copy_of(ROAD, tmp_path / "project")
    git(folder, "update-ref", "-d", "HEAD")
    (folder / ".git").rename(tmp_path / "gone")
    precreg(folder, "run", GIT_CEILING_DIRECTORIES=str(tmp_path))
    done = precreg(folder, "baseline", "accept", "--all", *WHY, GIT_CEILING_DIRECTORIES=str(tmp_path))
    assert done.returncode == 0, done.stderr
