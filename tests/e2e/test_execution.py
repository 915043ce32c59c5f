"""Whatever a subject does to its process is one result among the others; what a run had, it keeps."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from precreg.storage import SETTLED_NS
from tests.e2e.command import PATIENCE_S, change, copy_of, environ, git, precreg, repository, started, with_suite
from tests.e2e.test_road import KERNEL, ROAD

KERNEL_OF_ACCIDENTS = """
import ctypes, os, signal, sys, time

import numpy as np


def subject(x, how):
    if how == "raises":
        raise ValueError("the subject's own words")
    if how == "exits":
        sys.exit(3)
    if how == "vanishes":
        os._exit(5)
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "segfaults":
        ctypes.string_at(0)
    if how == "hangs":
        time.sleep(60)
    if how == "forgets":
        return {}
    if how == "empties":
        return x[:0]
    if how == "poisons":
        return np.where(np.arange(x.size) == 2, np.nan, x)
    return x


def exact(x, how):
    if how == "bad reference":
        raise ZeroDivisionError("the reference's own words")
    return x[:0] if how == "empties" else x
"""
ACCIDENTS = {
    "raises": ("error", "subject_error"),
    "exits": ("error", "subject_error"),
    "vanishes": ("error", "crashed"),
    "killed": ("error", "crashed"),
    "segfaults": ("error", "crashed"),
    "hangs": ("error", "timed_out"),
    "forgets": ("failed", "missing_output"),
    "empties": ("failed", "empty"),
    "poisons": ("failed", "non_finite_mismatch"),
    "bad reference": ("error", "reference_error"),
    "well": ("proposed", "new"),
}
SUITE = f"""suite: s
subject: k:subject
reference: k:exact
matrix: {{how: {json.dumps(list(ACCIDENTS))}}}
inputs: {{x: {{shape: 20, dtype: float32, normal: {{}}}}}}
params: {{how: $how}}
timeout: 1
"""


def results(project, folder="reports"):
    return json.loads((project / folder / "record.json").read_text())["results"]


def test_every_accident_is_one_result_among_the_others(tmp_path):
    project = with_suite(tmp_path, SUITE, KERNEL_OF_ACCIDENTS)
    done = started(project, "run")
    assert done.returncode == 1, done.stderr
    found = {result["name"]: result["verdict"] for result in results(project)}
    assert {name: (verdict["status"], verdict["reason"]) for name, verdict in found.items()} == ACCIDENTS
    assert "SIGKILL" in found["killed"]["message"]
    assert "SIGSEGV" in found["segfaults"]["message"]
    assert "5" in found["vanishes"]["message"]
    assert "1 s" in found["hangs"]["message"]
    assert "the subject's own words" in done.stdout
    assert "first at 2" in found["poisons"]["message"]


def test_errors_alone_exit_with_2(tmp_path):
    project = with_suite(tmp_path, SUITE, KERNEL_OF_ACCIDENTS)
    assert started(project, "run", "killed", "raises").returncode == 2


def verdicts(project, folder="reports"):
    return {
        result["id"]: (result["verdict"], result["outcome"]["execution"]["outputs"])
        for result in results(project, folder)
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return a project of 60 cases, one kernel changed since their baselines, and the verdicts of a run in process."""
    project = copy_of(ROAD, tmp_path_factory.mktemp("whole"))
    change(
        project / "suites/unit/row_sum.yaml", "shape: [[8, 256], [16, 64]]", f"shape: {[[4, n] for n in range(16, 46)]}"
    )
    change(project / "suites/unit/row_sum.yaml", "  exclude: [{dtype: float32, shape: [16, 64]}]\n", "")
    precreg(project, "run")
    precreg(project, "baseline", "accept", "--all", "--reason", "first")
    change(
        project / KERNEL,
        "total = total + x[..., column]\n    return total\n\n\ndef exact",
        "total = total + x[..., column] * x.dtype.type(1.001)\n    return total\n\n\ndef exact",
    )
    precreg(project, "run")
    return project, verdicts(project)


def test_a_verdict_is_the_same_alone_in_a_selection_in_process_and_in_shards(whole):
    project, together = whole
    assert len({verdict["reason"] for verdict, _ in together.values()}) > 1, "the test needs verdicts that differ"
    for options in (
        ["--jobs", "1"],
        ["--jobs", "3"],
        ["float16"],
        ["4x16", "4x40"],
        [next(iter(together))],
    ):
        precreg(project, "run", *options)
        some = verdicts(project)
        assert some == {case: together[case] for case in some}
    for part in (1, 2, 3):
        precreg(project, "run", "--shard", f"{part}/3", "--output", f"part{part}")
    codes = precreg(project, "report", "part1", "part2", "part3", "--output", "merged").returncode
    assert verdicts(project, "merged") == together
    assert codes == 1


def test_an_empty_shard_is_part_of_the_run_and_a_missing_one_is_noticed(tmp_path):
    project = copy_of(ROAD, tmp_path)
    codes = [precreg(project, "run", "--shard", f"{i}/4", "--output", f"part{i}").returncode for i in (1, 2, 3, 4)]
    assert sorted(codes) == [0, 0, 1, 2]
    assert min(len(results(project, f"part{i}")) for i in (1, 2, 3, 4)) == 0
    assert precreg(project, "report", "part1", "part2", "part3", "part4").returncode == 1
    assert len(results(project)) == 3
    done = precreg(project, "report", "part1", "part2", "part4")
    assert done.returncode == 2
    assert "error[mixed-records]" in done.stderr
    assert "without 3/4" in done.stderr


def test_gitlabs_shard_variables_are_the_default(whole):
    project, together = whole
    precreg(project, "run", CI_NODE_INDEX="2", CI_NODE_TOTAL="3")
    assert len(results(project)) == len(together) // 3


SLOW = """
import os, time


def same(x, n):
    time.sleep(float(os.environ.get("SLEEP_S", 0)))
    return x


def exact(x, n):
    return x
"""
SLOW_SUITE = """suite: s
subject: k:same
reference: k:exact
matrix: {n: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]}
inputs: {x: {shape: 20, dtype: float32, normal: {}}}
params: {n: $n}
"""


def lines(journal):
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


@pytest.mark.parametrize("jobs", ["0", "2"])
def test_a_killed_run_goes_on_where_it_was(tmp_path, jobs):
    project = repository(with_suite(tmp_path, SLOW_SUITE, SLOW))
    journal = project / ".precreg" / "journal.jsonl"
    command = [sys.executable, "-m", "precreg", "run", "--jobs", jobs]
    running = subprocess.Popen(
        command, cwd=project, env=environ(SLEEP_S="0.1"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + PATIENCE_S
    while lines(journal) < 6 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    had = lines(journal)
    assert 6 <= had < 21
    done = precreg(project, "run", "--jobs", jobs, "--resume")
    assert len(results(project)) == 20
    assert lines(journal) == 21, "what the killed run had was kept, and not run again"
    resumed = verdicts(project)
    precreg(project, "run", "--jobs", jobs)
    assert verdicts(project) == resumed
    assert done.returncode == 2


def test_resume_refuses_other_code(tmp_path):
    project = copy_of(ROAD, tmp_path)
    precreg(project, "run")
    change(project / KERNEL, '"""Sum along the last axis in float64', '"""Sum in float64')
    done = precreg(project, "run", "--resume")
    assert done.returncode == 2
    assert "error[code-changed]" in done.stderr


def test_changed_since_selects_what_a_change_touches(tmp_path):
    project = copy_of(ROAD, tmp_path)
    done = precreg(project, "run", "--changed-since", "HEAD")
    assert (done.returncode, done.stdout) == (0, "nothing changed since HEAD: no case to run\n")
    (project / "notes.txt").write_text("nothing to do with any case")
    assert precreg(project, "run", "--changed-since", "HEAD").returncode == 0
    with (project / KERNEL).open("a") as kernel:
        kernel.write("\n# touched\n")
    assert precreg(project, "run", "--changed-since", "HEAD").returncode == 1
    assert len(results(project)) == 3
    git(project, "commit", "-qam", "touched")
    assert precreg(project, "run", "--changed-since", "HEAD").returncode == 0
    assert precreg(project, "list", "--changed-since", "HEAD~1").stdout.count("\n") == 3


def test_report_writes_where_run_does(tmp_path):
    project = copy_of(ROAD, tmp_path / "project")
    precreg(project, "run", "--output", tmp_path / "made")
    below = project / "suites" / "unit"
    assert precreg(below, "report", tmp_path / "made").returncode == 1
    assert results(project) == results(tmp_path, "made")
    shutil.rmtree(project / "reports")
    assert precreg(tmp_path, "--project", project, "report", "made").returncode == 1
    assert (project / "reports/record.json").is_file()
    assert precreg(tmp_path, "report", "made").returncode == 1
    assert (tmp_path / "reports/record.json").is_file()


def test_threads_are_limited_in_this_process_too(tmp_path):
    project = copy_of(ROAD, tmp_path)
    unset = {name: value for name, value in environ().items() if not name.endswith("_NUM_THREADS")}
    command = [sys.executable, "-m", "precreg", "run", "--jobs"]
    facts = []
    for jobs in ("0", "2"):
        subprocess.run([*command, jobs], cwd=project, env=unset, capture_output=True, check=False)
        facts.append(json.loads((project / "reports/record.json").read_text())["environment"]["facts"]["threads"])
    assert facts[0] == facts[1]
    assert facts[0] == "1"


def test_the_record_tells_what_git_said_before_a_case_ran(tmp_path):
    project = with_suite(
        tmp_path, SUITE, "def subject(x, how):\n    open('left', 'w').close()\n    return x\n\n\nexact = subject\n"
    )
    precreg(repository(project), "run", "well")
    assert (project / "left").exists()
    assert json.loads((project / "reports" / "record.json").read_text())["git"]["dirty"] is False


def test_a_run_in_a_folder_below_finds_the_project(tmp_path):
    project = copy_of(ROAD, tmp_path)
    below = project / "suites" / "unit"
    assert precreg(below, "list").stdout.count("\n") == 3
    assert "../../reports/record.json" in precreg(below, "run").stdout
    assert (project / "reports" / "record.json").is_file()


def test_a_shard_in_which_nothing_changed_has_a_record_too(tmp_path):
    project = copy_of(ROAD, tmp_path)
    for part in (1, 2):
        done = precreg(project, "run", "--changed-since", "HEAD", "--shard", f"{part}/2", "--output", f"part{part}")
        assert (done.returncode, results(project, f"part{part}")) == (0, [])
    assert precreg(project, "report", "part1", "part2", "--output", "whole").returncode == 0


def light(project, *arguments):
    """Return what was printed by a command that may import next to nothing; the last line tells whether it did."""
    code = f"import sys\nfrom precreg.cli.main import precreg\nprecreg({arguments!r}, standalone_mode=False)\n"
    code += "print({'msgspec', 'yaml', 'numpy', 'git'} & set(sys.modules) or 'light')"
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=project, env=environ(), capture_output=True, text=True, check=True).stdout


def test_a_run_in_which_nothing_changed_imports_next_to_nothing(tmp_path):
    project = copy_of(ROAD, tmp_path)
    assert light(project, "run", "--changed-since", "HEAD").splitlines()[-1] == "light"


def test_a_run_that_finds_nothing_touched_for_the_second_time_neither(tmp_path):
    project = copy_of(ROAD, tmp_path)
    (project / "setup.py").write_text("import nothing")
    time.sleep(SETTLED_NS / 1e9 + 0.1)  # what is younger is not remembered
    first = started(project, "run", "--changed-since", "HEAD")
    assert (first.returncode, first.stdout) == (0, "no case depends on what changed since HEAD\n")
    second = light(project, "run", "--tier", "unit", "--changed-since", "HEAD")
    assert second == first.stdout + "light\n"
    misspelt = precreg(project, "run", "--suite", "misspelt", "--changed-since", "HEAD")
    assert (misspelt.returncode, "suite=misspelt" in misspelt.stderr) == (2, True)
    third = precreg(project, "run", "--changed-since", "HEAD", PRECISION_THRESHOLDS="{")
    assert (third.returncode, "error[bad-thresholds]" in third.stderr) == (2, True)
