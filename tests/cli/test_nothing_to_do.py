"""Commands that find nothing to do answer before their options are parsed, and answer the same."""

import os
import subprocess
import sys
import time

import pytest

from precreg.storage import SETTLED_NS
from precreg.vcs import INDEX_FILE
from tests.e2e.command import environ, git, repository, with_suite

SUITE = """suite: s
subject: k:same
reference: k:same
inputs: {x: {shape: [4], dtype: float32, normal: {}}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Make a repository of three commits: a suite, a module that no case needs, and a document; with an index."""
    folder = repository(with_suite(tmp_path_factory.mktemp("project"), SUITE))
    for name in ("unused.py", "README.md"):
        (folder / name).write_text("")
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", name)
    (folder / ".precreg").mkdir(exist_ok=True)
    (folder / ".precreg/.gitignore").write_text("*\n")
    time.sleep(SETTLED_NS / 1e9 + 0.1)
    called(folder, "run", "--changed-since", "HEAD~2")
    assert (folder / INDEX_FILE).exists()
    return folder


def called(folder, *words, given="", **variables):
    """Call the command; return its exit code, both outputs, and whether it imported click."""
    code = "import atexit, sys; sys.argv[0] = 'precreg'\n"
    code += "atexit.register(lambda: print('click' in sys.modules))\nfrom precreg.__main__ import main; main()"
    command = [sys.executable, "-P", "-c", code, *words]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, input=given, env=outside(**variables), check=False
    )
    out, _, click = done.stdout.rstrip("\n").rpartition("\n")
    return (done.returncode, out, done.stderr), click == "True"


def outside(**variables):
    """Return the environment of a shell without a variable of an option."""
    return {name: value for name, value in environ().items() if name != "PRECREG_DIAGNOSE"} | variables


def pushed(folder, before, after="HEAD"):
    ids = [git(folder, "rev-parse", name).strip() for name in (after, before)]
    return f"refs/heads/main {ids[0]} refs/heads/main {ids[1]}\n"


@pytest.mark.parametrize("since", ["HEAD", "HEAD~1", "HEAD~2", "main"])
def test_a_run_without_a_change_of_a_case_answers_at_once(folder, since):
    quick, imported = called(folder, "run", "--changed-since", since)
    assert not imported
    assert quick[0] == 0
    # An option more, and click parses them.
    assert called(folder, "run", "--changed-since", since, "--no-ci") == (quick, True)


@pytest.mark.parametrize("before", ["HEAD", "HEAD~1", "HEAD~2"])
def test_a_push_without_a_change_of_a_case_answers_at_once(folder, before):
    given = pushed(folder, before)
    quick, imported = called(folder, "hook", "run", "--folder", ".", "--", "origin", "url", given=given)
    assert not imported
    assert "precreg: no case depends on the pushed files" in quick[2]
    assert called(folder, "hook", "run", "--folder=.", "--", "origin", "url", given=given) == (quick, True)


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (("run", "--changed-since", "nowhere"), ""),
        (("run", "--changed-since", "--strict"), ""),
        (("run", "--changed-since"), ""),
        (("run", "--changed-since", "HEAD", "nothing"), ""),
        (("hook", "run", "--folder", ".", "--", "origin", "url"), "no refs\n"),
        (("hook", "run", "--folder", "nowhere", "--", "origin", "url"), f"refs/heads/main {'1' * 40} m {'0' * 40}\n"),
    ],
)
def test_any_other_words_reach_the_command(folder, words, given):
    (code, _, err), imported = called(folder, *words, given=given)
    assert imported
    assert "Traceback" not in err
    assert (code == 2) == ("nothing" not in words)


def test_a_mistake_in_a_variable_of_an_option_reaches_the_command(folder):
    (code, _, err), imported = called(folder, "run", "--changed-since", "HEAD", PRECREG_DIAGNOSE="soon")
    assert (code, imported) == (2, True), err


def test_a_job_of_ci_reaches_the_command(folder):
    _, imported = called(folder, "run", "--changed-since", "HEAD", CI_NODE_INDEX="1", CI_NODE_TOTAL="2")
    assert imported


def test_a_changed_case_reaches_the_command_with_the_pushed_refs(folder, tmp_path):
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", folder, copy], check=True)
    (copy / "suites/unit/k.py").write_text("def same(x):\n    return x + 0\n")
    git(copy, "commit", "-qam", "changed")
    words = ("hook", "run", "--folder", ".", "--", "origin", "url")
    (_, _, err), imported = called(copy, *words, given=pushed(copy, "HEAD~1"))
    assert imported
    assert "precreg: 1 of 1 cases before the push of" in err


def test_an_interrupted_hook_pushes_nothing(folder):
    """git waits for the hook, which waits for its input here."""
    command = [sys.executable, "-P", "-m", "precreg", "hook", "run", "--folder", ".", "--", "origin", "url"]
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=outside()) as hook:
        deadline = time.monotonic() + 30
        while not is_waiting(hook.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)
        hook.send_signal(2)
        err = hook.stderr.read().decode()
        hook.stdin.close()
    assert (hook.returncode, err) == (130, "interrupted: nothing is pushed\n")


def is_waiting(pid):
    """Return whether a process waits for its standard input."""
    try:
        return "pipe" in open(f"/proc/{pid}/wchan").read()
    except OSError:
        return os.path.exists(f"/proc/{pid}")
