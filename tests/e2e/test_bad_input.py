"""Whatever a user gets wrong: one clear message with its place, exit 2, no traceback, nothing written or lost."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.e2e.command import change, copy_of, environ, git, precreg, repository, with_suite
from tests.e2e.test_road import BASELINE, ROAD

INPUTS = "inputs: {x: {shape: 4, dtype: float32, normal: {}}}\n"
GOOD = f"suite: s\nsubject: k:same\nreference: k:same\n{INPUTS}"
PLAIN = GOOD.replace(INPUTS, "")

SUITES = {
    "unknown key": (GOOD + "tolerence: {rtol: 1}\n", "unknown-key", 5, "tolerance"),
    "misspelt dtype": (GOOD.replace("float32", "flaot32"), "unknown-dtype", 4, "float32"),
    "misspelt distribution": (GOOD.replace("normal", "nromal"), "unknown-distribution", 4, "normal"),
    "misspelt metric": (GOOD + "tolerance: {max_upl: 4}\n", "unknown-metric", 5, "max_ulp"),
    "unknown standard": (GOOD + "tolerance: {standard: torch-2.31}\n", "unknown-standard", 5, "torch-2.13"),
    "missing module": (GOOD.replace("subject: k:", "subject: kk:"), "missing-module", 2, "kk"),
    "missing function": (GOOD.replace("subject: k:same", "subject: k:smae"), "missing-function", 2, "same"),
    "cyclic params": (GOOD + "params: {a: $b, b: $a}\n", "cyclic-reference", 5, "a -> b -> a"),
    "unknown reference": (GOOD.replace("shape: 4", "shape: $shpae"), "unknown-reference", 4, "shpae"),
    "empty matrix": (GOOD + "matrix: {n: []}\n", "empty-matrix", 5, "n"),
    "all excluded": (GOOD + "matrix: {n: [1], exclude: [{n: 1}]}\n", "empty-matrix", 5, ""),
    "duplicate ids": (GOOD + "matrix: {n: [a, a]}\n", "duplicate-case", 5, "unit/s/a"),
    "duplicate key": (GOOD + "seeds: 1\nseeds: 2\n", "duplicate-key", 6, "seeds"),
    "code in a tag": (GOOD + "about: !!python/object/apply:os.system ['touch owned']\n", "yaml-tag", 5, "python"),
    "broken YAML": (GOOD + "tags: [a\n", "yaml-syntax", 6, ""),
    "path outside": (
        PLAIN + "inputs: {x: {shape: 4, dtype: float32, file: {path: ../../../../etc/x.npy}}}\n",
        "outside-project",
        4,
        "../../../../etc/x.npy",
    ),
    "no reference": ("suite: s\nsubject: k:same\n", "missing-key", 1, "reference"),
    "expect without reason": (GOOD + "expect: fail\n", "missing-key", 5, "reason"),
    "a word for a number": (GOOD + "seeds: three\n", "bad-value", 5, "three"),
}


def clear(done, slug, *parts):
    """Assert one message with a slug and an advice, exit 2, and no traceback."""
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert f"error[{slug}]: " in done.stderr
    assert done.stderr.count("error[") == 1
    assert "what to do: " in done.stderr
    for part in parts:
        assert part in done.stderr


@pytest.mark.parametrize(("suite", "slug", "line", "names"), SUITES.values(), ids=SUITES)
def test_a_mistake_in_a_suite(tmp_path, suite, slug, line, names):
    project = repository(with_suite(tmp_path, suite))
    done = precreg(project, "run")
    clear(done, slug, f"suites/unit/s.yaml:{line}: ", names)
    assert git(project, "status", "--porcelain") == ""
    assert not (project / "reports").exists()
    assert not (project / ".precreg").exists()


def test_two_suites_of_one_name(tmp_path):
    with_suite(tmp_path, GOOD)
    done = precreg(with_suite(tmp_path, GOOD, name="t"), "run")
    clear(done, "duplicate-suite", "suites/unit/t.yaml:1", "suites/unit/s.yaml:1")


@pytest.mark.parametrize(
    ("damage", "slug"),
    [
        (lambda text: text[: len(text) // 2], "unreadable-baseline"),
        (lambda text: "", "unreadable-baseline"),
        (lambda text: "\0\xff", "unreadable-baseline"),
        (lambda text: text.replace("precreg-baseline/4", "precreg-baseline/99"), "future-schema"),
        (lambda text: text.replace("precreg-baseline/4", "precreg-baseline/1"), "old-schema"),
        (lambda text: text.replace('"float16"', "16", 1), "unreadable-baseline"),
        (
            lambda text: text.replace('      "reason"', '<<<<<<< HEAD\n      "reason"', 1),
            "conflicted-baseline",
        ),
    ],
)
def test_a_damaged_baseline_is_never_taken_for_a_missing_one(tmp_path, damage, slug):
    project = copy_of(ROAD, tmp_path)
    damaged = damage((project / BASELINE).read_text())
    (project / BASELINE).write_text(damaged)
    clear(precreg(project, "run"), slug, BASELINE.as_posix())
    assert (project / BASELINE).read_text() == damaged
    assert not (project / ".precreg" / "proposals").exists()


def test_a_conflict_names_its_line(tmp_path):
    project = copy_of(ROAD, tmp_path)
    change(project / BASELINE, '  "environment": "generic",\n', '<<<<<<< HEAD\n  "environment": "generic",\n')
    clear(precreg(project, "run"), "conflicted-baseline", f"{BASELINE.as_posix()}:4: ")


def test_without_git_a_run_works_and_changed_since_says_what_it_needs(tmp_path):
    project = with_suite(tmp_path, GOOD)
    assert "commit none" in precreg(project, "run").stdout
    clear(precreg(project, "run", "--changed-since", "HEAD"), "no-git")
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "git").symlink_to("/nonexistent")
    python = os.path.dirname(sys.executable)
    without = precreg(project, "run", PATH=f"{empty}:{python}")
    assert "commit none" in without.stdout, without.stderr


def test_a_shallow_clone_is_told_to_fetch(tmp_path):
    origin = repository(with_suite(tmp_path / "origin", GOOD))
    git(origin, "commit", "-q", "--allow-empty", "-m", "second")
    first = git(origin, "rev-parse", "HEAD~1")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{origin}", "clone")
    clear(precreg(tmp_path / "clone", "run", "--changed-since", first), "unknown-revision", "shallow", "unshallow")


def test_a_dirty_tree_runs_and_says_so(tmp_path):
    project = copy_of(ROAD, tmp_path)
    assert "uncommitted" not in precreg(project, "run").stdout
    (project / "suites" / "unit" / "kernels" / "more.py").write_text("")
    assert "with uncommitted changes" in precreg(project, "run").stdout


def powerless(command):
    """Let root, whom no permission stops, run a command as the owner without the power to override permissions."""
    drop = "-dac_override,-dac_read_search"
    return ["setpriv", f"--bounding-set={drop}", f"--inh-caps={drop}", *command] if os.geteuid() == 0 else command


def test_a_read_only_folder(tmp_path):
    project = copy_of(ROAD, tmp_path / "project")
    before = (project / BASELINE).read_bytes()
    folders = [project, *(path for path in project.rglob("*") if path.is_dir() and ".git" not in path.parts)]
    for folder in folders:
        folder.chmod(0o555)
    try:
        command = powerless([sys.executable, "-m", "precreg", "run"])
        options = {"cwd": project, "env": environ(), "capture_output": True, "text": True, "check": False}
        done = subprocess.run(command, **options)
        elsewhere = subprocess.run([*command, "--output", str(tmp_path / "reports")], **options)
    finally:
        for folder in folders:
            folder.chmod(0o755)
    clear(done, "not-writable", "reports")
    assert (project / BASELINE).read_bytes() == before
    assert elsewhere.returncode == 1, elsewhere.stderr
    assert "warning   .precreg/ cannot be written" in elsewhere.stdout
    warnings = json.loads((tmp_path / "reports/record.json").read_text())["warnings"]
    assert warnings == [{"kind": "unwritable_folder", "folder": ".precreg"}]
    assert not (project / ".precreg").exists()


def test_a_damaged_proposal_stops_a_run_before_it_begins(tmp_path):
    project = copy_of(ROAD, tmp_path)
    precreg(project, "run")
    (project / ".precreg/proposals/unit/row_sum.json").write_text("{")
    shutil.rmtree(project / "reports")
    clear(precreg(project, "run"), "unreadable-proposals", ".precreg/proposals/unit/row_sum.json")
    assert not (project / "reports").exists()


def test_proposals_that_cannot_be_written_do_not_take_the_reports_along(tmp_path):
    project = copy_of(ROAD, tmp_path)
    (project / ".precreg" / "baselines.lock").mkdir(parents=True)
    done = precreg(project, "run")
    clear(done, "not-writable", ".precreg/baselines.lock")
    assert "exit 1: " in done.stdout
    assert (project / "reports/record.json").is_file()


def test_a_repository_that_git_refuses_is_warned_of(tmp_path):
    done = precreg(copy_of(ROAD, tmp_path), "run", GIT_TEST_ASSUME_DIFFERENT_OWNER="1")
    assert "commit none" in done.stdout
    assert re.search(r"warning   the commit is not known: .*dubious ownership", done.stdout)
    assert done.returncode == 1


def test_a_reports_folder_that_is_a_file(tmp_path):
    project = copy_of(ROAD, tmp_path)
    (project / "reports").write_text("in the way")
    clear(precreg(project, "run"), "not-writable", "reports")
    assert (project / "reports").read_text() == "in the way"


@pytest.mark.parametrize(
    ("arguments", "slug", "names"),
    [
        (["run", "no-such-case"], "nothing-selected", ""),
        (["run", "--suite", "row_smu"], "bad-value", "row_sum"),
        (["run", "--tag", "quick"], "bad-value", "quick"),
        (["run", "--shard", "4/3"], "bad-shard", "4/3"),
        (["run", "--shard", "all"], "bad-shard", "all"),
        (["run", "--resume"], "nothing-to-resume", ""),
        (["run", "--environment", "../x"], "bad-value", "../x"),
        (["run", "--changed-since", "nowhere"], "unknown-revision", "nowhere"),
        (["explain", "unit/row_sum/float16-8x265"], "nothing-selected", "float16-8x256"),
        (["report", "nowhere"], "missing-file", "nowhere"),
        (["report", "suites/unit/row_sum.yaml"], "unreadable-record", "row_sum.yaml"),
        (["baseline", "diff", "nothing"], "no-proposal", "nothing"),
        (["--project", "/", "run"], "no-project", "/"),
    ],
)
def test_a_mistake_in_a_command(tmp_path, arguments, slug, names):
    clear(precreg(copy_of(ROAD, tmp_path), *arguments), slug, names)


@pytest.mark.parametrize(
    "arguments", [["rnu"], ["run", "--teir", "unit"], ["run", "--tier", "nuit"], ["baseline", "x"]]
)
def test_a_misspelt_command_or_option(tmp_path, arguments):
    done = precreg(copy_of(ROAD, tmp_path), *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "Usage: " in done.stderr
    assert "error[bad-option]: " in done.stderr
    assert "what to do: write " in done.stderr or arguments[0] == "baseline"


def test_records_that_do_not_belong_together(tmp_path):
    project = copy_of(ROAD, tmp_path)
    precreg(project, "run", "--output", "a")
    precreg(project, "run", "--output", "b", "--environment", "npu-x")
    clear(precreg(project, "report", "a", "b"), "mixed-records", "environment")
