"""`precreg history` as a scheduled job uses it: real runs, real commits, one process a command."""

import json

import pytest

from tests.e2e.command import change, git, precreg, repository, with_suite

SUITE = """\
suite: s
subject: k:same
reference: k:same
matrix: {n: [32, 64]}
inputs: {x: {shape: [$n], dtype: float32, normal: {mean: 0, std: 1}}}
"""
KERNEL = """\
import numpy as np

EPS = 0.0


def same(x):
    return x if x.dtype == np.float64 else x + np.float32(EPS)
"""


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "demo"
    folder.mkdir()
    return repository(with_suite(folder, SUITE, KERNEL))


def night(project, eps=None, *arguments):
    """One night of the monitor: what is at HEAD is run, and kept."""
    if eps is not None:
        kernel = project / "suites" / "unit" / "k.py"
        line = next(line for line in kernel.read_text().splitlines() if line.startswith("EPS"))
        change(kernel, line, f"EPS = {eps}")
        git(project, "commit", "-qam", f"eps {eps}")
    precreg(project, "run", "--jobs", "0")
    return precreg(project, "history", "add", "reports", *arguments)


def test_a_monitor_keeps_its_runs(project):
    missing = night(project)
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr.startswith(".precreg/history.sqlite: error[missing-history]:")
    assert not (project / ".precreg" / "history.sqlite").exists()
    begun = precreg(project, "history", "add", "--create", "reports")
    assert (begun.returncode, begun.stdout) == (0, "added as run 1\n")
    again = precreg(project, "history", "add", "reports")
    assert (again.returncode, again.stdout) == (0, "nothing added: the history has this run already\n")
    assert night(project, "1e-3").stdout == "added as run 2\n"
    listed = precreg(project, "history", "list")
    assert listed.returncode == 0
    first, second, count = listed.stdout.splitlines()
    assert f"{git(project, 'rev-parse', 'HEAD')[:8]} on main, exit code" in second
    assert first.split()[0] == "1"
    assert count == "2 runs"
    assert precreg(project, "history", "list", "--environment", "npu").stdout == "0 runs\n"


def test_a_case_that_did_not_change_is_one_row(project):
    night(project, None, "--create")
    for eps in ("0.0 + 0.0", "1e-3"):
        night(project, eps)
    exported = precreg(project, "history", "export")
    assert exported.returncode == 0
    lines = [json.loads(line) for line in exported.stdout.splitlines()]
    assert [len(line["changes"]) for line in lines if "case" in line] == [2, 2]
    last = lines[-1]["changes"]["3"]["outputs"]["out"]["mean_abs_error"]
    assert last == [pytest.approx(1e-3, rel=1e-3), None]


def test_an_export_is_imported_once(project):
    night(project, None, "--create")
    night(project, "1e-3")
    assert precreg(project, "history", "export", "h.jsonl").returncode == 0
    other = {"PRECREG_HISTORY": "team.sqlite"}
    refused = precreg(project, "history", "import", "h.jsonl", **other)
    assert refused.returncode == 2
    assert "error[missing-history]" in refused.stderr
    assert precreg(project, "history", "import", "--create", "h.jsonl", **other).stdout == "h.jsonl: 2 runs added\n"
    assert precreg(project, "history", "import", "h.jsonl", **other).stdout == "h.jsonl: 0 runs added\n"
    assert precreg(project, "history", "export", **other).stdout == (project / "h.jsonl").read_text()
    assert precreg(project, "history", "import", "none.jsonl", **other).returncode == 2


def test_old_runs_go_and_the_anchor_stays(project):
    night(project, None, "--create")
    git(project, "tag", "v1.0")
    for eps in ("1e-3", "2e-3", "3e-3"):
        night(project, eps)
    pruned = precreg(project, "history", "prune", "--keep", "1", "--keep-commit", "v1.0")
    assert pruned.returncode == 0, pruned.stderr
    assert [line.split()[:3] for line in pruned.stdout.splitlines()[:-1]] == [["removed", "run", n] for n in "23"]
    assert pruned.stdout.endswith("2 removed\n")
    runs = precreg(project, "history", "list").stdout.splitlines()
    assert [line.split()[0] for line in runs[:-1]] == ["1", "4"]
    assert precreg(project, "history", "prune", "--before", "2000-01-01").stdout == "0 removed\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "expected --before DATE, --weekly-before DATE or --keep N"),
        (("--keep", "0"), "Invalid value for '--keep'"),
        (("--before", "soon"), "error[bad-value]: expected a day such as 2026-11-21 but got before=soon"),
        (("--before", "9999-12-31T23:00-12:00"), "error[bad-value]: expected a day such as 2026-11-21"),
        (("--weekly-before", "soon"), "error[bad-value]: expected a day such as 2026-11-21 but got weekly-before=soon"),
        (("--keep", "1", "--keep-commit", "v9"), "error[unknown-revision]"),
        (("--keep", "1", "--keep-commit", "HEAD"), "error[bad-value]: expected a revision that a run"),
    ],
)
def test_a_prune_that_is_not_understood_removes_nothing(project, arguments, said):
    night(project, None, "--create")
    (project / "new").touch()
    git(project, "add", "new")
    git(project, "commit", "-qm", "not run")
    done = precreg(project, "history", "prune", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert precreg(project, "history", "list").stdout.endswith("1 run\n")


def test_the_trends_are_one_page_in_the_folder_of_the_reports(project):
    night(project, None, "--create")
    for eps in ("1e-4", "1e-4 + 0", "1e-4 + 0.0", "1e-2", "1e-2 + 0", "1e-2 + 0.0"):
        night(project, eps)
    done = precreg(project, "history", "page")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("reports/history.html: ")
    assert done.stdout.endswith(" series, 2 cases, 7 runs, 1 environment\n")
    page = (project / "reports" / "history.html").read_text()
    commit = git(project, "log", "--format=%h", "--abbrev=8", "--grep", "eps 1e-2$")
    assert "mean_abs_error regressed with a step at run 5: " in page
    assert f"..{commit}" in page
    one = precreg(project, "history", "page", "*32*", "--output", "trends", "--metric", "max_abs_error", "--lang", "zh")
    assert one.stdout.startswith("trends: ")
    assert "1 case, 7 runs" in one.stdout
    text = (project / "trends").read_text()
    assert ("max_abs_error" in text, '<html lang="zh-Hans">' in text) == (True, True)
    (project / "folder").mkdir()
    assert precreg(project, "history", "page", "--output", "folder").stdout.startswith("folder/history.html: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--since", "soon"), "error[bad-value]: expected a day such as 2026-11-21 but got since=soon"),
        (("--since", "soon"), "--since 2026-11-21"),
        (("--since", "9000-01-01"), "error[empty-history]: expected a run that started at 9000-01-01"),
        (("--environment", "npu"), "error[empty-history]: expected a run of environment npu in the history; there are"),
        (("nothing",), "error[nothing-selected]"),
        (("--metric", "mean_abs_eror"), "error[nothing-selected]"),
        (("--materiality", "inf"), "inf is not finite"),
        (("--output", "none/page.html"), "error[not-writable]"),
    ],
)
def test_a_page_that_is_not_understood_is_an_error_without_a_page(project, arguments, said):
    night(project, None, "--create")
    done = precreg(project, "history", "page", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert not (project / "reports" / "history.html").exists()


def test_a_page_of_a_missing_or_an_empty_history_is_an_error(project):
    assert "error[missing-history]" in precreg(project, "history", "page").stderr
    night(project, None, "--create")
    precreg(project, "history", "prune", "--before", "9999-01-01")
    assert "error[empty-history]" in precreg(project, "history", "page").stderr


def test_the_shards_of_a_run_are_one_run(project):
    for part in ("1/2", "2/2"):
        precreg(project, "run", "--jobs", "0", "--shard", part, "--output", f"reports/{part[0]}")
    half = precreg(project, "history", "add", "--create", "reports/1")
    assert half.returncode == 2
    assert "error[mixed-records]" in half.stderr
    whole = precreg(project, "history", "add", "--create", "reports/1", "reports/2")
    assert whole.stdout == "added as run 1\n"
    assert precreg(project, "history", "export").stdout.count('"case"') == 2


def test_another_environment_is_named(project):
    night(project, None, "--create")
    record = project / "reports" / "record.json"
    data = json.loads(record.read_text())
    data["environment"]["fingerprint"] = "beef"
    data["environment"]["facts"]["numpy"] = "9.9"
    numpy = json.loads((project / "reports" / "record.json").read_text())["environment"]["facts"]["numpy"]
    record.write_text(json.dumps(data | {"duration_s": 99.0}))
    precreg(project, "history", "add", "reports")
    assert f"another environment than run 1: numpy {numpy} -> 9.9\n" in precreg(project, "history", "list").stdout


def test_an_export_to_parquet_without_pyarrow_names_the_extra_and_leaves_no_file(project):
    night(project, None, "--create")
    (project / "blocked").mkdir()
    (project / "blocked" / "pyarrow.py").write_text("raise ImportError('blocked')\n")
    done = precreg(project, "history", "export", "h.parquet", PYTHONPATH=str(project / "blocked"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "error[missing-extra]: expected pyarrow, which writes Parquet" in done.stderr
    assert "pip install 'precreg[parquet]'" in done.stderr
    assert not (project / "h.parquet").exists()
