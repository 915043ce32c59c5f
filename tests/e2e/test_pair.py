"""precreg run --pair: two versions of a project in a real repository, run side by side by the real command."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.e2e.command import PATIENCE_S, change, environ, git, precreg, repository, started, with_suite

SUITE = """\
suite: s
subject: k:softmax
reference: k:exact
inputs:
  x: {shape: [5, 7], dtype: float32, normal: {mean: 0, std: 1}}
seeds: 3
tolerance: {rtol: 1e-2, atol: 1e-2}
"""
KERNEL = """\
import numpy as np


def softmax(x):
    e = np.exp(x)
    return e / e.sum(-1, keepdims=True)


def exact(x):
    e = np.exp(x)
    return e / e.sum(-1, keepdims=True)
"""
SUBJECT = "def softmax(x):\n    e = np.exp(x)\n    return e / e.sum(-1, keepdims=True)"
# 1.07 times the mean |error| and 1.16 times the maximum in ULP over 600 seeds, of which three seeds show nothing.
SLIGHTLY_WORSE = SUBJECT.replace("np.exp(x)", "np.exp(x - x[:, :1])")
MUCH_WORSE = SUBJECT.replace("np.exp(x)", "np.exp(x.astype('float16')).astype('float32')")


@pytest.fixture
def project(tmp_path):
    """A repository of one suite without any baseline."""
    return repository(with_suite(tmp_path / "project", SUITE, KERNEL))


def become(project, subject):
    change(project / "suites/unit/k.py", SUBJECT, subject)


def record_of(project):
    return json.loads((project / "reports" / "record.json").read_text())


def only_result(project):
    (result,) = record_of(project)["results"]
    return result


def paired_of(result):
    """Return the seeds that both versions ran, whether the result is clear, and the end of the test."""
    return tuple(result["paired"][name] for name in ("seeds", "clear", "end"))


def test_a_version_that_gives_the_same_bits_passes_without_any_baseline(project):
    become(project, SUBJECT + "  # the same")
    done = precreg(project, "run", "--pair", "HEAD", CI="true")
    assert done.returncode == 0, done.stdout + done.stderr
    commit = git(project, "rev-parse", "HEAD")
    assert f"1 of 1 cases judged by {commit[:8]}, run side by side" in done.stdout
    record, result = record_of(project), only_result(project)
    assert record["pair"] == result["baseline"]["entry"]["commit"] == commit
    assert (result["verdict"]["reason"], paired_of(result)) == ("identical", (3, True, None))
    assert result["paired"]["commit"] == commit


def test_a_project_may_lie_below_the_top_and_the_command_run_anywhere_in_it(tmp_path):
    project = with_suite(tmp_path / "top" / "numerics", SUITE, KERNEL)
    repository(tmp_path / "top")
    become(project, MUCH_WORSE)
    for folder in (project, project / "suites" / "unit"):
        assert precreg(folder, "run", "--pair", "HEAD").returncode == 1
        assert only_result(project)["verdict"]["reason"] == "regressed"


def test_a_version_that_is_worse_fails_and_leaves_no_trace(project):
    become(project, MUCH_WORSE)
    git(project, "stash")
    git(project, "stash", "apply")
    (project / "staged.txt").write_text("in the index\n")
    git(project, "add", "staged.txt")
    before = [git(project, *asked) for asked in (("status", "--porcelain"), ("stash", "list"), ("worktree", "list"))]
    done = precreg(project, "run", "--pair", "HEAD", TMPDIR=str(project.parent))
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"baseline  HEAD at \w{8}, run side by side on", done.stdout)
    assert only_result(project)["verdict"]["reason"] == "regressed"
    after = [git(project, *asked) for asked in (("status", "--porcelain"), ("stash", "list"), ("worktree", "list"))]
    assert after == before
    assert list(project.parent.glob("precreg-*")) == []


def test_a_loss_that_three_seeds_cannot_show_is_found_by_more(project):
    become(project, SLIGHTLY_WORSE)
    done = precreg(project, "run", "--pair", "HEAD", "--pair-seconds", "0", "--no-ci")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not clear: unit/s/default: out: bits changed, and 2 fresh seeds beside" in done.stdout
    assert paired_of(only_result(project)) == (2, False, "not_clear")
    done = precreg(project, "run", "--pair", "HEAD", "--pair-seconds", "600")
    assert done.returncode == 1, done.stdout + done.stderr
    result = only_result(project)
    assert result["verdict"]["reason"] == "regressed"
    assert result["paired"]["clear"]
    assert result["paired"]["seeds"] >= 20
    assert len(result["outcome"]["comparisons"]) == 3, "a proposal has the seeds of the case"


def test_a_case_that_the_other_version_cannot_compute_is_judged_by_what_was_accepted(project):
    precreg(project, "run", "--jobs", "0")
    precreg(project, "baseline", "accept", "--all", "--reason", "first")
    with_suite(project, SUITE.replace("suite: s", "suite: t").replace("k:softmax", "k:new"), name="t", kernel=KERNEL)
    (project / "suites/unit/k.py").write_text(KERNEL + "\n\nnew = softmax\n")
    done = precreg(project, "run", "--pair", "HEAD", "--no-ci")
    assert done.returncode == 2, done.stdout + done.stderr
    new = {result["id"]: result for result in record_of(project)["results"]}["unit/t/default"]
    assert new["verdict"]["reason"] == "new"
    assert "expected a function of k but got function=new" in new["paired"]["problem"]
    assert "judged by the stored baseline: unit/t/default: subject_error there" in done.stdout


def test_a_case_that_is_known_to_be_bad_stays_so_beside_a_version_that_is_as_bad(project):
    suite = project / "suites/unit/s.yaml"
    change(suite, "rtol: 1e-2, atol: 1e-2}", "rtol: 0, atol: 0, match_ratio: 1}\nexpect: fail\nreason: rounded twice")
    done = precreg(project, "run", "--pair", "HEAD", CI="true")
    assert done.returncode == 0, done.stdout
    assert only_result(project)["verdict"]["reason"] == "expected_failure"
    assert only_result(project)["paired"]["problem"] == "declared to be known-bad"


def test_a_version_that_crashed_is_mended_by_one_that_does_not(project):
    become(project, "import os\n\n\n" + SUBJECT.replace("e = np", "os._exit(3)\n    e = np"))
    git(project, "commit", "-qam", "crashes")
    change(project / "suites/unit/k.py", "    os._exit(3)\n", "")
    assert precreg(project, "run", "--pair", "HEAD", "--no-ci").returncode == 2, "it is new: nothing judges it"
    assert (
        only_result(project)["paired"]["problem"]
        == "crashed there: exited with code 3 while running the subject, seed 0"
    )


def test_a_verdict_is_the_same_with_any_number_of_workers_in_a_shard_and_alone(project):
    change(project / "suites/unit/s.yaml", "inputs:", "matrix: {rows: [3, 5, 9, 4000]}\ninputs:")
    change(project / "suites/unit/s.yaml", "[5, 7]", "[$rows, 7]")
    become(project, SLIGHTLY_WORSE)
    whole, *others = (
        judged(project, *asked, "--pair", "HEAD", "--pair-seconds", "60")
        for asked in (("--jobs", "1"), ("--jobs", "2", "--shard", "2/2"), ("*rows=9",))
    )
    assert len(whole) == 4
    assert len({seeds for _, seeds in whole.values()}) > 1, "some are clear at once, and others are not"
    for part in others:
        assert part == {id: whole[id] for id in part}


def judged(project, *asked):
    """Run, and return the verdict and the seeds of every case."""
    assert precreg(project, "run", *asked).returncode in (0, 1)
    return {
        result["id"]: (json.dumps(result["verdict"]), result["paired"]["seeds"])
        for result in record_of(project)["results"]
    }


def test_other_inputs_there_are_told_and_not_compared(tmp_path):
    suite = SUITE.replace("normal: {mean: 0, std: 1}", "file: {path: x.npy}")
    project = with_suite(tmp_path / "project", suite, KERNEL)
    np.save(project / "suites/unit/x.npy", np.ones((5, 7), "float32"))
    repository(project)
    np.save(project / "suites/unit/x.npy", np.zeros((5, 7), "float32"))
    done = precreg(project, "run", "--pair", "HEAD")
    assert only_result(project)["paired"]["problem"] == "it gets other inputs there, which it reads from files", done


def test_a_package_that_is_installed_from_the_working_tree_is_the_other_versions_own(project):
    (project / "src" / "ops").mkdir(parents=True)
    (project / "src" / "ops" / "__init__.py").write_text("from ops.sums import total\n")
    (project / "src" / "ops" / "sums.py").write_text("def total(e):\n    return e.sum(-1, keepdims=True)\n")
    become(project, "from ops import total\n\n\n" + SUBJECT.replace("e.sum(-1, keepdims=True)", "total(e)"))
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "a package")
    path = project.parent / "site"
    path.mkdir()
    (path / "sitecustomize.py").write_text(FINDER.format(project / "src"))
    done = started(project, "run", "--pair", "HEAD", PYTHONPATH=str(path))
    assert only_result(project)["verdict"]["reason"] == "identical", done.stdout
    change(project / "src/ops/sums.py", "e.sum(", "e.astype('float16').sum(")
    done = started(project, "run", "--pair", "HEAD", PYTHONPATH=str(path))
    assert (done.returncode, only_result(project)["verdict"]["reason"]) == (1, "regressed"), done.stdout


FINDER = """\
import sys
from importlib.util import spec_from_file_location


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "ops":
            return spec_from_file_location(name, "{0}/ops/__init__.py", submodule_search_locations=["{0}/ops"])


sys.meta_path.append(Finder)
"""


def test_a_paired_run_judges_the_time(project):
    change(project / "suites/unit/s.yaml", "seeds: 3", "seeds: 3\nbudget: {time_ratio: 5}")
    become(project, "import time\n\n\n" + SUBJECT.replace("e = np", "time.sleep(0.02)\n    e = np"))
    git(project, "commit", "-qam", "slow")
    done = precreg(project, "run", "--pair", "HEAD")
    assert done.returncode == 0, done.stdout
    change(project / "suites/unit/k.py", "0.02", "0.5")
    done = precreg(project, "run", "--pair", "HEAD", "--max-seeds", "6")
    assert (done.returncode, only_result(project)["verdict"]["reason"]) == (1, "over_budget"), done.stdout


def test_a_merge_base_may_be_named_as_git_writes_it(project):
    git(project, "checkout", "-q", "-b", "feature")
    become(project, MUCH_WORSE)
    git(project, "commit", "-qam", "worse")
    base = git(project, "rev-parse", "main")
    git(project, "checkout", "-q", "main")
    git(project, "commit", "-q", "--allow-empty", "-m", "main goes on")
    git(project, "checkout", "-q", "feature")
    assert precreg(project, "run", "--pair", "main...").returncode == 1
    assert record_of(project)["pair"] == base


def test_accepted_figures_of_another_environment_are_told_apart_from_the_codes(project):
    precreg(project, "run", "--jobs", "0", OMP_NUM_THREADS="1")
    precreg(project, "baseline", "accept", "--all", "--reason", "first")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "accepted")
    become(project, MUCH_WORSE)
    here = {"OMP_NUM_THREADS": "2"}
    precreg(project, "run", "--no-ci", **here)
    shown = precreg(project, "baseline", "diff").stdout
    assert "environment: threads 1 -> 2" in shown
    assert "are unknown: precreg run --pair REVISION" in shown
    precreg(project, "run", "--pair", "HEAD", "--no-ci", **here)
    shown = precreg(project, "baseline", "diff").stdout
    assert "code and environment are unknown" not in shown
    assert "to be stored in baselines/generic/unit/s.json" in shown
    (line,) = [line for line in shown.splitlines() if "mean_abs_error" in line]
    accepted, proposed = line.split()[3], line.split()[5]
    (parts,) = [
        after for before, after in zip(shown.splitlines(), shown.splitlines()[1:], strict=False) if before == line
    ]
    assert f"due to the environment {accepted} -> {accepted}" in parts
    assert f"due to the code {accepted} -> {proposed}" in parts
    assert precreg(project, "baseline", "accept", "--all", "--reason", "on purpose", **here).returncode == 0
    kept = json.loads((project / "baselines" / "environments.json").read_text())["environments"]
    assert {facts["threads"] for facts in kept.values()} == {"1", "2"}


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_removes_the_checkout(project, ending):
    started = project.parent / "started"
    sleeping = f"open({str(started)!r}, 'w').close()\n    time.sleep(60)\n    e = np"
    become(project, "import time\n\n\n" + SUBJECT.replace("e = np", sleeping))
    git(project, "commit", "-qam", "slow")
    command = [sys.executable, "-m", "precreg", "run", "--pair", "HEAD"]
    running = subprocess.Popen(
        command, cwd=project, env=environ(TMPDIR=str(project.parent)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    end = time.monotonic() + PATIENCE_S
    while not started.exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert list(project.parent.glob("precreg-*")), "the checkout is there while it runs"
    running.send_signal(ending)
    running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 128 + ending
    assert list(project.parent.glob("precreg-*")) == []
    assert len(git(project, "worktree", "list").splitlines()) == 1


@pytest.mark.parametrize(
    ("asked", "error", "told"),
    [
        (("--pair", "HEAD", "--jobs", "0"), "error[bad-pair]", "--jobs 0"),
        (("--pair", "HEAD", "--resume"), "error[bad-pair]", "--resume"),
        (
            ("--pair", "off", "--max-seeds", "64"),
            "error[bad-pair]",
            "--pair auto or --pair REVISION beside --max-seeds",
        ),
        (("--pair", "off", "--pair-run-seconds", "1"), "error[bad-pair]", "beside --pair-run-seconds"),
        (("--pair", "HEAD", "--pair-seconds", "nan"), "'--pair-seconds'", "nan is not a time"),
        (("--pair", "HEAD~1"), "error[bad-pair]", "expected a commit with suites/ but got pair=HEAD~1"),
        (("--pair", "nowhere"), "error[unknown-revision]", "revision='nowhere'"),
    ],
)
def test_what_cannot_be_paired_is_a_clear_error(tmp_path, asked, error, told):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "README").write_text("before\n")
    repository(folder)
    with_suite(folder, SUITE, KERNEL)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "suites")
    done = precreg(folder, "run", *asked)
    assert done.returncode == 2
    assert error in done.stderr
    assert told in done.stderr
    assert not os.path.exists(folder / "reports" / "record.json")
