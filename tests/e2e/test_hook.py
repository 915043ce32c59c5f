"""Real pushes to a real remote: what the hook stops, what it lets pass, and that no hook of anybody's gets lost."""

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time

import pytest

from tests.e2e.command import change, environ, git, precreg, repository

SUITE = """\
suite: twice
subject: k:twice
reference: k:exact
inputs:
  x: {shape: [64, 16], dtype: float32, normal: {mean: 0, std: 1}}
tolerance: {rtol: 1e-2}
"""
KERNEL = "def twice(x):\n    return x * 2\n\n\ndef exact(x):\n    return x + x\n"
GOOD, WORSE = "return x * 2", "return (x.astype('float16') * 2).astype(x.dtype)"
OTHER = SUITE.replace("twice", "other").replace("k:other", "k2:twice").replace("k:exact", "k2:exact")
MAIN = "refs/heads/main"


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    """A repository of two suites whose results are accepted, committed, and not pushed yet."""
    folder = tmp_path_factory.mktemp("accepted")
    unit = folder / "suites" / "unit"
    unit.mkdir(parents=True)
    for name, suite, module in (("twice", SUITE, "k"), ("other", OTHER, "k2")):
        (unit / f"{name}.yaml").write_text(suite)
        (unit / f"{module}.py").write_text(KERNEL)
    (folder / "README.md").write_text("A project.\n")
    repository(folder)
    accept(folder)
    return folder


def accept(project):
    precreg(project, "run", "--jobs", "0")
    done = precreg(project, "baseline", "accept", "--all", "--reason", "first")
    assert done.returncode == 0, done.stderr
    commit(project, "accepted")


@pytest.fixture
def project(accepted, tmp_path):
    """The repository under a name that no shell script should see unquoted, and an empty remote, `origin`."""
    place = tmp_path / 'präzise $HOME\'s "Ordner"'
    shutil.copytree(accepted, place, ignore=shutil.ignore_patterns("reports", ".precreg", "__pycache__"))
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "remote.git")
    git(place, "remote", "add", "origin", str(tmp_path / "remote.git"))
    return place


@pytest.fixture
def guarded(project):
    """The repository with the hook installed, after its first push."""
    git(project, "push", "-q", "-u", "origin", "main")
    installed(project)
    return project


def installed(project, *arguments):
    done = precreg(project, "hook", "install", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def kernel(project, name="k"):
    return project / "suites" / "unit" / f"{name}.py"


def worsen(project, message="a wider loss", name="k"):
    change(kernel(project, name), GOOD, WORSE)
    return commit(project, message)


def commit(project, message):
    git(project, "add", "-A")
    git(project, "commit", "-q", "--allow-empty", "-m", message)
    return git(project, "rev-parse", "HEAD")


def push(project, *arguments, **variables):
    """Run `git push ARGUMENTS` and return (whether it came through, all that was printed)."""
    done = subprocess.run(
        ["git", "push", *(arguments or ("origin", "main"))],
        cwd=project,
        env=environ(**variables),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode == 0, done.stdout + done.stderr


def at_remote(project, ref=MAIN):
    return git(project, "ls-remote", "origin", ref).partition("\t")[0]


def test_a_push_that_makes_results_worse_is_stopped_until_it_is_mended(guarded):
    before = at_remote(guarded)
    worsen(guarded)
    passed, said = push(guarded)
    assert not passed
    assert at_remote(guarded) == before
    assert "1 of 2 cases before the push of" in said
    assert "FAILED   unit/twice/default   regressed" in said
    assert "other" not in said
    assert "git push --no-verify goes around this" in said
    change(kernel(guarded), WORSE, GOOD)
    mended = commit(guarded, "mended")
    passed, said = push(guarded)
    assert passed, said
    assert at_remote(guarded) == mended


def test_no_verify_goes_around(guarded):
    worse = worsen(guarded)
    passed, _ = push(guarded, "--no-verify", "origin", "main")
    assert passed
    assert at_remote(guarded) == worse


def test_a_push_that_touches_no_case_runs_none(guarded):
    (guarded / "README.md").write_text("Another text.\n")
    commit(guarded, "words")
    passed, said = push(guarded)
    assert passed, said
    assert "no case depends on what is pushed" in said
    assert not (guarded / "reports").exists()
    (guarded / "setup.py").write_text("import nothing\n")
    commit(guarded, "code of another kind")
    passed, said = push(guarded)
    assert passed, said
    assert "no case depends on what is pushed" in said
    assert not (guarded / "reports").exists()


def test_a_push_of_nothing_new_passes(guarded):
    assert push(guarded)[0]


def test_the_first_push_to_an_empty_remote_runs_everything(project):
    installed(project)
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
    worsen(project)
    passed, said = push(project, str(tmp_path / "remote.git"), "main")
    assert not passed
    assert "2 of 2 cases" in said


def test_without_a_remote_the_hook_is_installed_and_git_has_the_word(project):
    git(project, "remote", "remove", "origin")
    assert "installed in .git/hooks/pre-push" in installed(project)
    passed, said = push(project, "origin", "main")
    assert not passed
    assert "precreg" not in said.replace(str(project), "")


def test_a_case_without_a_baseline_stops_the_push_and_says_what_to_do(guarded):
    (guarded / "suites/unit/new.yaml").write_text(SUITE.replace("suite: twice", "suite: new"))
    commit(guarded, "a new suite")
    passed, said = push(guarded, CI="true")
    assert not passed
    assert "PROPOSED unit/new/default   new" in said
    assert "precreg baseline accept" in said
    assert precreg(guarded, "baseline", "accept", "--all", "--reason", "new").returncode == 0
    commit(guarded, "accepted")
    passed, said = push(guarded)
    assert passed, said


def test_a_suite_that_cannot_be_read_stops_the_push(guarded):
    (guarded / "suites/unit/twice.yaml").write_text(SUITE + "sedes: 3\n")
    commit(guarded, "a slip")
    passed, said = push(guarded)
    assert not passed
    assert "error[unknown-key]" in said


def test_a_branch_that_is_not_checked_out_is_checked_as_it_was_committed(guarded):
    git(guarded, "checkout", "-q", "-b", "work")
    worsen(guarded)
    git(guarded, "checkout", "-q", "main")
    passed, said = push(guarded, "origin", "work")
    assert not passed
    assert "temporary checkout" in said
    assert "FAILED   unit/twice/default   regressed" in said
    assert (guarded / "reports" / "junit.xml").exists()
    assert at_remote(guarded, "refs/heads/work") == ""
    assert len(git(guarded, "worktree", "list").splitlines()) == 1
    assert git(guarded, "status", "--porcelain") == ""


def test_a_tree_that_hides_what_is_pushed(guarded):
    worsen(guarded)
    change(kernel(guarded), WORSE, GOOD)
    passed, said = push(guarded)
    assert not passed
    assert "temporary checkout" in said
    assert "FAILED   unit/twice/default   regressed" in said
    assert GOOD in kernel(guarded).read_text(), "the working tree is left as it was"


def test_variables_that_git_sets_in_hooks_bend_nothing(guarded):
    worsen(guarded)
    change(kernel(guarded), WORSE, GOOD)
    index = guarded / ".git" / "index"
    before = index.read_bytes()
    passed, said = push(guarded, GIT_DIR=".git", GIT_WORK_TREE=str(guarded), GIT_INDEX_FILE=str(index))
    assert not passed
    assert "FAILED   unit/twice/default   regressed" in said
    assert index.read_bytes() == before
    assert len(git(guarded, "worktree", "list").splitlines()) == 1


def test_a_tree_that_is_worse_than_what_is_pushed(guarded):
    kernel(guarded).write_text(KERNEL + "# harmless\n")
    good = commit(guarded, "harmless")
    change(kernel(guarded), GOOD, WORSE)
    passed, said = push(guarded)
    assert passed, said
    assert "temporary checkout" in said
    assert at_remote(guarded) == good
    assert WORSE in kernel(guarded).read_text()


def test_a_module_that_was_not_committed_is_missed(guarded):
    kernel(guarded).write_text("from helper import twice, exact\n")
    commit(guarded, "moved, in part")
    (guarded / "suites/unit/helper.py").write_text(KERNEL)
    passed, said = push(guarded)
    assert not passed
    assert "helper" in said


def test_what_a_checkout_proposes_can_be_accepted(guarded):
    (guarded / "suites/unit/new.yaml").write_text(SUITE.replace("suite: twice", "suite: new"))
    commit(guarded, "a new suite")
    (guarded / "suites/unit/scratch.py").write_text("")
    passed, said = push(guarded)
    assert not passed
    assert "temporary checkout" in said
    assert "unit/new/default" in precreg(guarded, "baseline", "diff").stdout


def test_deleting_a_branch_needs_no_check(guarded):
    worsen(guarded)
    git(guarded, "push", "-q", "--no-verify", "origin", "main:work")
    passed, said = push(guarded, "origin", "--delete", "work")
    assert passed, said
    assert "no case depends" in said


def test_a_tag_is_checked_unless_it_is_on_the_way_to_a_branch(guarded):
    worsen(guarded)
    git(guarded, "tag", "-a", "v1", "-m", "first release")
    passed, said = push(guarded, "origin", "v1")
    assert not passed
    assert "tags/v1" in said
    change(kernel(guarded), WORSE, GOOD)
    commit(guarded, "mended")
    passed, said = push(guarded, "origin", "v1", "main")
    assert passed, said


def test_a_tag_of_a_file_is_let_pass(guarded):
    git(guarded, "tag", "key", git(guarded, "rev-parse", "HEAD:README.md"))
    passed, said = push(guarded, "origin", "key")
    assert passed, said


def test_of_several_branches_each_is_checked(guarded):
    git(guarded, "checkout", "-q", "-b", "bad")
    worsen(guarded)
    git(guarded, "checkout", "-q", "-b", "good", "main")
    kernel(guarded, "k2").write_text(KERNEL + "# harmless\n")
    commit(guarded, "harmless")
    passed, said = push(guarded, "origin", "good", "bad")
    assert not passed
    assert "1 of 2 cases before the push of" in said
    assert at_remote(guarded, "refs/heads/good") == ""


def test_a_forced_push_is_compared_with_what_it_replaces(guarded):
    kernel(guarded, "k2").write_text(KERNEL + "# harmless\n")
    commit(guarded, "harmless")
    assert push(guarded)[0]
    git(guarded, "reset", "-q", "--hard", "HEAD~1")
    worsen(guarded)
    passed, said = push(guarded, "--force", "origin", "main")
    assert not passed
    assert "2 of 2 cases" in said


def test_somebody_else_pushed_meanwhile(guarded, tmp_path):
    git(tmp_path, "clone", "-q", str(tmp_path / "remote.git"), "colleague")
    repository_of_ben = tmp_path / "colleague"
    git(
        repository_of_ben, "-c", "user.name=Ben", "-c", "user.email=b@x.org", "commit", "--allow-empty", "-q", "-m", "b"
    )
    git(repository_of_ben, "push", "-q", "origin", "main")
    worsen(guarded)
    passed, said = push(guarded, "--force", "origin", "main")
    assert not passed
    assert "1 of 2 cases before" in said


def test_a_hook_of_somebody_else_is_kept(project):
    hook = project / ".git/hooks/pre-push"
    hook.write_text("#!/bin/sh\n# theirs\n")
    done = precreg(project, "hook", "install")
    assert done.returncode == 2
    assert "error[hook-exists]" in done.stderr
    assert hook.read_text() == "#!/bin/sh\n# theirs\n"


def test_a_chained_hook_is_asked_first_with_all_that_git_says(guarded, tmp_path):
    assert "uninstalled" in precreg(guarded, "hook", "uninstall").stdout
    hook = guarded / ".git/hooks/pre-push"
    theirs = f'#!/bin/sh\necho "$1" > "{tmp_path}/heard"\ncat >> "{tmp_path}/heard"\ntest ! -e "{tmp_path}/no"\n'
    hook.write_text(theirs)
    hook.chmod(0o755)
    installed(guarded, "--chain")
    worse = worsen(guarded)
    passed, said = push(guarded)
    assert not passed
    assert "regressed" in said
    name, line = (tmp_path / "heard").read_text().splitlines()
    assert name == "origin"
    assert line.split() == [MAIN, worse, MAIN, at_remote(guarded)]
    (tmp_path / "no").touch()
    passed, said = push(guarded)
    assert not passed
    assert "precreg" not in said
    assert precreg(guarded, "hook", "uninstall").returncode == 0
    assert hook.read_text() == theirs
    assert os.access(hook, os.X_OK)
    assert not (guarded / ".git/hooks/pre-push.before-precreg").exists()


def test_a_second_hook_is_not_chained_over_the_first(project):
    hooks = project / ".git/hooks"
    (hooks / "pre-push.before-precreg").write_text("first")
    (hooks / "pre-push").write_text("second")
    done = precreg(project, "hook", "install", "--chain")
    assert done.returncode == 2
    assert "error[hook-exists]" in done.stderr
    assert [(hooks / name).read_text() for name in ("pre-push.before-precreg", "pre-push")] == ["first", "second"]


def test_installing_again_changes_nothing_and_updates_an_older_hook(project):
    installed(project)
    hook = project / ".git/hooks/pre-push"
    now = hook.read_text()
    installed(project)
    assert hook.read_text() == now
    hook.write_text(now.replace("version 1.", "version 0.").replace(sys.executable, "/gone/python"))
    installed(project)
    assert hook.read_text() == now


def test_uninstalling_what_is_not_installed(project):
    hook = project / ".git/hooks/pre-push"
    assert "nothing to uninstall" in precreg(project, "hook", "uninstall").stdout
    hook.write_text("theirs")
    done = precreg(project, "hook", "uninstall")
    assert (done.returncode, hook.read_text()) == (0, "theirs")


@pytest.fixture
def other_python(tmp_path):
    """A virtual environment of its own, with all that this one has, at a path that needs quotes."""
    place = tmp_path / "it's a $venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    (site_packages,) = place.glob("lib/*/site-packages")
    ours = sysconfig.get_path("purelib")
    (site_packages / "ours.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    return place / "bin" / "python"


def test_a_hook_whose_python_is_gone_stops_the_push_and_says_why(guarded, other_python):
    subprocess.run([other_python, "-m", "precreg", "hook", "install"], cwd=guarded, env=environ(), check=True)
    worsen(guarded)
    passed, said = push(guarded)
    assert not passed
    assert "regressed" in said
    assert "not where it was" not in said
    shutil.rmtree(other_python.parents[1])
    before = at_remote(guarded)
    passed, said = push(guarded)
    assert not passed
    assert "precreg: the push is stopped, because it cannot be checked" in said
    assert f"expected: {other_python} -m precreg" in said
    assert at_remote(guarded) == before
    installed(guarded)
    change(kernel(guarded), WORSE, GOOD)
    commit(guarded, "mended")
    passed, said = push(guarded)
    assert passed, said


def test_a_package_that_is_installed_from_src(guarded, other_python):
    (site_packages,) = other_python.parents[1].glob("lib/*/site-packages")
    (site_packages / "editable.pth").write_text(f"{guarded / 'src'}\n")
    package = guarded / "src" / "ours"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from ours.core import exact, twice\n")
    shutil.move(kernel(guarded), package / "core.py")
    kernel(guarded).write_text("from ours import exact, twice\n")
    commit(guarded, "moved to src")
    subprocess.run([other_python, "-m", "precreg", "hook", "install"], cwd=guarded, env=environ(), check=True)
    passed, said = push(guarded)
    assert passed, said
    change(package / "core.py", GOOD, WORSE)
    commit(guarded, "a wider loss")
    passed, said = push(guarded)
    assert not passed
    assert "1 of 2 cases" in said
    change(package / "core.py", WORSE, GOOD)
    passed, said = push(guarded)
    assert not passed, "the working tree hides what is pushed"
    assert "in a temporary checkout, because the working tree differs in src/ours/core.py\n" in said
    assert "FAILED   unit/twice/default   regressed" in said
    commit(guarded, "mended")
    change(package / "core.py", GOOD, WORSE)
    passed, said = push(guarded)
    assert passed, said


def test_no_repository_is_a_clear_error(tmp_path):
    (tmp_path / "suites").mkdir()
    for arguments in (["install"], ["uninstall"], ["run", "origin", "url"]):
        done = precreg(tmp_path, "hook", *arguments, GIT_CEILING_DIRECTORIES=str(tmp_path.parent))
        assert done.returncode == 2
        assert "error[no-git]" in done.stderr


def test_core_hookspath_is_honoured(project):
    git(project, "config", "core.hooksPath", ".hooks of ours")
    said = installed(project)
    assert ".hooks of ours/pre-push" in said
    assert "do not commit" in said
    worsen(project)
    git(project, "reset", "-q", "HEAD")
    passed, said = push(project)
    assert not passed
    assert "regressed" in said


def test_a_linked_worktree_shares_the_hook(guarded, tmp_path):
    linked = tmp_path / "linked tree"
    git(guarded, "worktree", "add", "-q", "-b", "work", str(linked))
    worsen(linked)
    passed, said = push(linked, "origin", "work")
    assert not passed
    assert "FAILED" in said
    assert "temporary checkout" not in said
    installed(linked)
    assert (guarded / ".git/hooks/pre-push").read_text().count("\ncheck ") == 1


def test_a_submodule_has_a_hook_of_its_own(project, tmp_path):
    git(project, "push", "-q", "origin", "main")
    whole = tmp_path / "whole"
    whole.mkdir()
    (whole / "x").touch()
    repository(whole)
    allowed = ("-c", "protocol.file.allow=always")
    git(whole, *allowed, "submodule", "add", "-q", str(tmp_path / "remote.git"), "part")
    part = whole / "part"
    git(part, "config", "user.name", "Ada")
    git(part, "config", "user.email", "ada@example.org")
    installed(part)
    assert (whole / ".git/modules/part/hooks/pre-push").exists()
    worsen(part)
    passed, said = push(part)
    assert not passed
    assert "regressed" in said


def test_two_projects_of_one_repository(accepted, tmp_path):
    for name in ("first project", "second"):
        for part in ("suites", "baselines"):
            shutil.copytree(accepted / part, tmp_path / "mono" / name / part, dirs_exist_ok=True)
    mono = repository(tmp_path / "mono")
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "remote.git")
    git(mono, "remote", "add", "origin", str(tmp_path / "remote.git"))
    git(mono, "push", "-q", "origin", "main")
    for name in ("first project", "second"):
        installed(mono / name)
    worsen(mono / "second")
    passed, said = push(mono)
    assert not passed
    assert "no case depends on what is pushed" in said
    assert "1 of 2 cases" in said
    assert (mono / "second/reports").exists()
    assert not (mono / "first project/reports").exists()
    assert precreg(mono / "second", "hook", "uninstall").returncode == 0
    passed, said = push(mono)
    assert passed, said
    assert "no case depends on what is pushed" in said
    assert precreg(mono / "first project", "hook", "uninstall").returncode == 0
    assert not (mono / ".git/hooks/pre-push").exists()


def test_a_branch_without_suites_is_let_pass(guarded):
    git(guarded, "checkout", "-q", "--orphan", "pages")
    git(guarded, "rm", "-rfq", ".")
    (guarded / "index.html").write_text("pages")
    commit(guarded, "pages")
    passed, said = push(guarded, "origin", "pages")
    assert passed, said
    assert "nothing to check" in said


def test_a_package_at_the_top_does_not_stand_in_for_an_installed_one(guarded):
    (guarded / "click.py").write_text("raise SystemExit('the wrong click')\n")
    (guarded / "precreg.py").write_text("raise SystemExit('the wrong precreg')\n")
    commit(guarded, "names")
    passed, said = push(guarded)
    assert passed, said
    assert "wrong" not in said


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
    deadline = time.monotonic() + 60
    while len(git(guarded, "worktree", "list").splitlines()) == 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=60)[0]
    assert process.returncode != 0, said
    assert "Traceback" not in said
    while len(git(guarded, "worktree", "list").splitlines()) > 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(git(guarded, "worktree", "list").splitlines()) == 1
    assert at_remote(guarded) == before
