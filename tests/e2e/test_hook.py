"""Real pushes to a real remote: what the hook stops, and what it lets pass."""

import os
import signal
import subprocess
import time

from precreg.storage import SETTLED_NS
from precreg.vcs.dependency_index import INDEX_FILE
from tests.e2e.command import PATIENCE_S, change, environ, git, precreg
from tests.e2e.pushes import (
    GOOD,
    KERNEL,
    SUITE,
    WORSE,
    accepted,
    at_remote,
    commit,
    guarded,
    guarded_by_fork,
    installed,
    kernel,
    project,
    push,
    with_hook_in_fork,
    worsen,
)

__all__ = ["accepted", "guarded", "guarded_by_fork", "project"]


def test_a_push_that_makes_results_worse_is_stopped_until_it_is_mended(guarded):
    before = at_remote(guarded)
    worsen(guarded)
    passed, said = push(guarded)
    assert not passed
    assert at_remote(guarded) == before
    assert "1 of 2 cases before the push of" in said
    assert "FAILED   unit/twice/default   regressed" in said
    assert "other" not in said
    assert "git push --no-verify skips this check" in said
    change(kernel(guarded), WORSE, GOOD)
    mended = commit(guarded, "mended")
    passed, said = push(guarded)
    assert passed, said
    assert at_remote(guarded) == mended


def test_no_verify_goes_around(guarded_by_fork):
    worse = worsen(guarded_by_fork)
    passed, _ = push(guarded_by_fork, "--no-verify", "origin", "main")
    assert passed
    assert at_remote(guarded_by_fork) == worse


def test_a_push_that_touches_no_case_runs_none(guarded_by_fork):
    (guarded_by_fork / "README.md").write_text("Another text.\n")
    commit(guarded_by_fork, "words")
    passed, said = push(guarded_by_fork)
    assert passed, said
    assert "no case depends on the pushed files" in said
    assert not (guarded_by_fork / "reports").exists()
    (guarded_by_fork / "setup.py").write_text("import nothing\n")
    commit(guarded_by_fork, "code of another kind")
    passed, said = push(guarded_by_fork)
    assert passed, said
    assert "no case depends on the pushed files" in said
    assert not (guarded_by_fork / "reports").exists()


def test_a_push_of_nothing_new_passes(guarded_by_fork):
    assert push(guarded_by_fork)[0]


def test_the_first_push_to_an_empty_remote_runs_everything(project):
    installed(project)
    with_hook_in_fork(project)
    worsen(project)
    passed, said = push(project, "-u", "origin", "main")
    assert not passed
    assert "2 of 2 cases" in said
    assert at_remote(project) == ""
    change(kernel(project), WORSE, GOOD)
    commit(project, "mended")
    passed, said = push(project, "-u", "origin", "main")
    assert passed, said


def test_a_first_push_to_an_address_without_a_name(project, tmp_path):
    installed(project)
    with_hook_in_fork(project)
    worsen(project)
    passed, said = push(project, str(tmp_path / "remote.git"), "main")
    assert not passed
    assert "2 of 2 cases" in said


def test_a_case_without_a_baseline_stops_the_push_and_says_what_to_do(guarded_by_fork):
    (guarded_by_fork / "suites/unit/new.yaml").write_text(SUITE.replace("suite: twice", "suite: new"))
    commit(guarded_by_fork, "a new suite")
    passed, said = push(guarded_by_fork, CI="true")
    assert not passed
    assert "PROPOSED unit/new/default   new" in said
    assert "precreg baseline accept" in said
    assert precreg(guarded_by_fork, "baseline", "accept", "--all", "--reason", "new").returncode == 0
    commit(guarded_by_fork, "accepted")
    passed, said = push(guarded_by_fork)
    assert passed, said


def test_a_suite_that_cannot_be_read_stops_the_push(guarded_by_fork):
    (guarded_by_fork / "suites/unit/twice.yaml").write_text(SUITE + "sedes: 3\n")
    commit(guarded_by_fork, "a slip")
    passed, said = push(guarded_by_fork)
    assert not passed
    assert "error[unknown-key]" in said


def test_a_branch_that_is_not_checked_out_is_checked_as_it_was_committed(guarded_by_fork):
    git(guarded_by_fork, "checkout", "-q", "-b", "work")
    worsen(guarded_by_fork)
    git(guarded_by_fork, "checkout", "-q", "main")
    passed, said = push(guarded_by_fork, "origin", "work")
    assert not passed
    assert "temporary checkout" in said
    assert "FAILED   unit/twice/default   regressed" in said
    assert (guarded_by_fork / "reports" / "junit.xml").exists()
    assert at_remote(guarded_by_fork, "refs/heads/work") == ""
    assert len(git(guarded_by_fork, "worktree", "list").splitlines()) == 1
    assert git(guarded_by_fork, "status", "--porcelain") == ""


def test_a_tree_that_hides_what_is_pushed(guarded_by_fork):
    worsen(guarded_by_fork)
    change(kernel(guarded_by_fork), WORSE, GOOD)
    passed, said = push(guarded_by_fork)
    assert not passed
    assert "temporary checkout" in said
    assert "FAILED   unit/twice/default   regressed" in said
    assert GOOD in kernel(guarded_by_fork).read_text(), "the working tree is left as it was"


def test_variables_that_git_sets_in_hooks_bend_nothing(guarded_by_fork):
    worsen(guarded_by_fork)
    change(kernel(guarded_by_fork), WORSE, GOOD)
    index = guarded_by_fork / ".git" / "index"
    before = index.read_bytes()
    passed, said = push(guarded_by_fork, GIT_DIR=".git", GIT_WORK_TREE=str(guarded_by_fork), GIT_INDEX_FILE=str(index))
    assert not passed
    assert "FAILED   unit/twice/default   regressed" in said
    assert index.read_bytes() == before
    assert len(git(guarded_by_fork, "worktree", "list").splitlines()) == 1


def test_a_tree_that_is_worse_than_what_is_pushed(guarded_by_fork):
    kernel(guarded_by_fork).write_text(KERNEL + "# harmless\n")
    good = commit(guarded_by_fork, "harmless")
    change(kernel(guarded_by_fork), GOOD, WORSE)
    passed, said = push(guarded_by_fork)
    assert passed, said
    assert "temporary checkout" in said
    assert at_remote(guarded_by_fork) == good
    assert WORSE in kernel(guarded_by_fork).read_text()


def test_a_module_that_was_not_committed_is_missed(guarded_by_fork):
    kernel(guarded_by_fork).write_text("from helper import twice, exact\n")
    commit(guarded_by_fork, "moved, in part")
    (guarded_by_fork / "suites/unit/helper.py").write_text(KERNEL)
    passed, said = push(guarded_by_fork)
    assert not passed
    assert "helper" in said


def test_what_a_checkout_proposes_can_be_accepted(guarded_by_fork):
    (guarded_by_fork / "suites/unit/new.yaml").write_text(SUITE.replace("suite: twice", "suite: new"))
    commit(guarded_by_fork, "a new suite")
    (guarded_by_fork / "suites/unit/scratch.py").write_text("")
    passed, said = push(guarded_by_fork)
    assert not passed
    assert "temporary checkout" in said
    assert "unit/new/default" in precreg(guarded_by_fork, "baseline", "diff").stdout


def test_deleting_a_branch_needs_no_check(guarded_by_fork):
    worsen(guarded_by_fork)
    git(guarded_by_fork, "push", "-q", "--no-verify", "origin", "main:work")
    passed, said = push(guarded_by_fork, "origin", "--delete", "work")
    assert passed, said
    assert "no case depends" in said


def test_a_tag_is_checked_unless_it_is_on_the_way_to_a_branch(guarded_by_fork):
    worsen(guarded_by_fork)
    git(guarded_by_fork, "tag", "-a", "v1", "-m", "first release")
    passed, said = push(guarded_by_fork, "origin", "v1")
    assert not passed
    assert "tags/v1" in said
    change(kernel(guarded_by_fork), WORSE, GOOD)
    commit(guarded_by_fork, "mended")
    passed, said = push(guarded_by_fork, "origin", "v1", "main")
    assert passed, said


def test_a_tag_of_a_file_is_let_pass(guarded_by_fork):
    git(guarded_by_fork, "tag", "key", git(guarded_by_fork, "rev-parse", "HEAD:README.md"))
    passed, said = push(guarded_by_fork, "origin", "key")
    assert passed, said


def test_of_several_branches_each_is_checked(guarded_by_fork):
    git(guarded_by_fork, "checkout", "-q", "-b", "bad")
    worsen(guarded_by_fork)
    git(guarded_by_fork, "checkout", "-q", "-b", "good", "main")
    kernel(guarded_by_fork, "k2").write_text(KERNEL + "# harmless\n")
    commit(guarded_by_fork, "harmless")
    passed, said = push(guarded_by_fork, "origin", "good", "bad")
    assert not passed
    assert "1 of 2 cases before the push of" in said
    assert at_remote(guarded_by_fork, "refs/heads/good") == ""


def test_a_forced_push_is_compared_with_what_it_replaces(guarded_by_fork):
    kernel(guarded_by_fork, "k2").write_text(KERNEL + "# harmless\n")
    commit(guarded_by_fork, "harmless")
    assert push(guarded_by_fork)[0]
    git(guarded_by_fork, "reset", "-q", "--hard", "HEAD~1")
    worsen(guarded_by_fork)
    passed, said = push(guarded_by_fork, "--force", "origin", "main")
    assert not passed
    assert "2 of 2 cases" in said


def test_somebody_else_pushed_meanwhile(guarded_by_fork, tmp_path):
    git(tmp_path, "clone", "-q", str(tmp_path / "remote.git"), "colleague")
    repository_of_ben = tmp_path / "colleague"
    git(
        repository_of_ben, "-c", "user.name=Ben", "-c", "user.email=b@x.org", "commit", "--allow-empty", "-q", "-m", "b"
    )
    git(repository_of_ben, "push", "-q", "origin", "main")
    worsen(guarded_by_fork)
    passed, said = push(guarded_by_fork, "--force", "origin", "main")
    assert not passed
    assert "1 of 2 cases before" in said


def test_a_branch_without_suites_is_let_pass(guarded_by_fork):
    git(guarded_by_fork, "checkout", "-q", "--orphan", "pages")
    git(guarded_by_fork, "rm", "-rfq", ".")
    (guarded_by_fork / "index.html").write_text("pages")
    commit(guarded_by_fork, "pages")
    passed, said = push(guarded_by_fork, "origin", "pages")
    assert passed, said
    assert "nothing to check" in said


def test_an_interrupted_check_leaves_no_worktree_behind(guarded):
    slow = KERNEL.replace("    return x * 2", "    import time\n    time.sleep(60)\n    return x * 2")
    kernel(guarded).write_text(slow)
    commit(guarded, "slow")
    kernel(guarded).write_text(KERNEL)
    before = at_remote(guarded)
    process = subprocess.Popen(
        ["git", "push", "origin", "main"],
        cwd=guarded,
        env=environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + PATIENCE_S
    while len(git(guarded, "worktree", "list").splitlines()) == 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=PATIENCE_S)[0]
    assert process.returncode != 0, said
    assert "Traceback" not in said
    while len(git(guarded, "worktree", "list").splitlines()) > 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(git(guarded, "worktree", "list").splitlines()) == 1
    assert at_remote(guarded) == before


def reads_suites(said):
    """Tell from what PYTHONVERBOSE printed, which names modules that importlib imports by name, too."""
    assert "import 'precreg.cli.hook'" in said
    return "import 'precreg.storage.yaml_source'" in said


def test_what_cases_depend_on_is_remembered(guarded_by_fork):
    (guarded_by_fork / "setup.py").write_text("import nothing\n")
    commit(guarded_by_fork, "code of another kind")
    time.sleep(SETTLED_NS / 1e9 + 0.1)
    passed, said = push(guarded_by_fork, PYTHONVERBOSE="1")
    assert passed, said
    assert reads_suites(said)
    (guarded_by_fork / "setup.py").write_text("import nothing, again\n")
    commit(guarded_by_fork, "more of it")
    passed, said = push(guarded_by_fork, PYTHONVERBOSE="1")
    assert passed, said
    assert not reads_suites(said)
    assert "no case depends on the pushed files" in said
    change(kernel(guarded_by_fork), "def exact", "import new\n\n\ndef exact")
    (guarded_by_fork / "new.py").write_text("import newer\n")
    commit(guarded_by_fork, "a module more")
    assert push(guarded_by_fork, "--no-verify", "origin", "main")[0]
    (guarded_by_fork / "newer.py").write_text("raise ValueError\n")
    commit(guarded_by_fork, "a module that only the new one imports")
    passed, said = push(guarded_by_fork)
    assert not passed
    assert "1 of 2 cases before the push of" in said


def test_what_is_remembered_is_that_of_the_working_tree_and_no_other_branch(guarded_by_fork):
    git(guarded_by_fork, "checkout", "-q", "-b", "work")
    (guarded_by_fork / "loss.py").write_text(KERNEL)
    kernel(guarded_by_fork).write_text("from loss import exact, twice\n")
    commit(guarded_by_fork, "moved")
    assert push(guarded_by_fork, "--no-verify", "origin", "work")[0]
    change(guarded_by_fork / "loss.py", GOOD, WORSE)
    commit(guarded_by_fork, "a wider loss")
    git(guarded_by_fork, "checkout", "-q", "main")
    time.sleep(SETTLED_NS / 1e9 + 0.1)
    precreg(guarded_by_fork, "run", "--changed-since", "work^0")
    assert (guarded_by_fork / INDEX_FILE).exists()
    passed, said = push(guarded_by_fork, "origin", "work")
    assert not passed
    assert "temporary checkout" in said
    assert "FAILED   unit/twice/default   regressed" in said


def test_what_cannot_be_read_as_it_was_committed_is_said_with_the_commit_and_stops_the_push(guarded_by_fork):
    """The module is there, but not in the commit: without a word of the checkout nobody would understand."""
    suite = SUITE.replace("twice", "third").replace("k:third", "k3:twice")
    (guarded_by_fork / "suites" / "unit" / "third.yaml").write_text(suite)
    broken = commit(guarded_by_fork, "a suite without its module")
    kernel(guarded_by_fork, "k3").write_text(KERNEL)
    passed, said = push(guarded_by_fork)
    assert not passed
    named = f"{broken[:8]}, main"
    lines = said.splitlines()
    assert lines[0] == (
        f"precreg: before the push of {named}, in a temporary checkout, because the working tree differs in "
        "suites/unit/k3.py"
    )
    assert lines[1].startswith("suites/unit/third.yaml:2: error[missing-module]")
    assert lines[3] == "  see: docs/errors/subjects.md#missing-module"
    assert lines[4] == f"precreg: the push is stopped ({named}); git push --no-verify skips this check"


def test_of_several_branches_that_the_remote_knows_nothing_of_each_is_compared_with_the_one_before(project):
    installed(project)
    with_hook_in_fork(project)
    git(project, "branch", "alike")
    git(project, "switch", "-q", "-c", "other")
    (project / "README.md").write_text("Words.\n")
    change(kernel(project), "x + x", "x + x + 0")
    commit(project, "one kernel")
    passed, said = push(project, "origin", "main", "alike", "other")
    assert passed, said
    assert [line.partition(" cases before")[0] for line in said.splitlines() if " cases before" in line] == [
        "precreg: 2 of 2",
        "precreg: 1 of 2",
    ]
    assert at_remote(project, "refs/heads/other") == git(project, "rev-parse", "HEAD")
