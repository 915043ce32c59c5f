"""docs/analyzers.md as it stands there: its package, its suite, and every report that is made of it."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from tests.e2e.command import ROOT, change, environ, git, precreg, repository

PAGE = (ROOT / "docs" / "analyzers.md").read_text()
FILES = dict(re.findall(r"^```\w+ file=(\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
METRICS = ["signs.flip_share", "rows.max_sum_error", "rows.max_sum_share"]
CENTRED = "x - x.mean(axis=-1, keepdims=True)"
NARROW = "(x.dtype.itemsize < 8)"
ONE_SIDED = f"{CENTRED} + x.dtype.type(1e-6 * {NARROW})"
"""Errors of one sign in float32, far within its bounds."""

PLAIN = """\
suite: plain
subject: kernels:centred
reference: kernels:centred
inputs:
  x: {shape: [8, 8], dtype: float32, normal: {}}
tolerance: {atol: 1e-3}
"""
FORMULA = "max over rows |sum a - sum r|"


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The package of the page, as it is where it was installed for editing: setuptools reads its entry points."""
    folder = tmp_path_factory.mktemp("package")
    for path, content in FILES.items():
        if path.startswith("package/"):
            (folder / path.removeprefix("package/")).write_text(content)
    command = [sys.executable, "-c", "from setuptools import setup; setup()", "--quiet", "egg_info"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture
def project(tmp_path):
    """The project of the page, in a repository."""
    for path, content in FILES.items():
        if path.startswith("suites/"):
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(content)
    return repository(tmp_path)


@pytest.fixture
def run(project, package):
    """Return a function that runs `precreg ARGUMENTS` where the package is installed, and requires an exit code."""

    def run(*arguments, code=0, **variables):
        done = precreg(project, *arguments, PYTHONPATH=str(package), **variables)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


@pytest.fixture
def accepted(project, run):
    """The project after its first run was accepted."""
    run("run", "--jobs", "2", code=2)
    run("baseline", "accept", "--all", "--reason", "first version")
    return project


def results(project):
    return {result["name"]: result for result in json.loads((project / "reports/record.json").read_text())["results"]}


def test_the_console_of_the_page(run):
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        for command, expected in re.findall(r"^\$ precreg (.*)\n((?:[^$].*\n)+)", block, re.MULTILINE):
            words = [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', command)]
            shown = run(*words, code=2 if command == "run" else 0)
            for line in expected.splitlines():
                assert re.search(".*".join(map(re.escape, re.split(r"\s*\.\.\.\s*", line))), shown), shown


def test_the_metrics_are_in_the_record_the_proposal_and_the_page(project, run):
    run("run", "--jobs", "2", code=2)
    comparison = results(project)["float32"]["outcome"]["comparisons"][0]
    assert comparison["metrics"]["signs.flip_share"] == 0
    assert 0 < comparison["metrics"]["rows.max_sum_error"] < 1e-4
    assert [row[0] for row in comparison["described"]] == METRICS
    proposed = json.loads((project / ".precreg/proposals/unit/centred.json").read_text())["cases"]["float32"]["entry"]
    assert list(proposed["outputs"]["out"]["metrics"])[-3:] == METRICS
    page = (project / "reports/report.html").read_text()
    assert f'"rows.max_sum_error":"{FORMULA} (unit: value)"' in page
    assert '["rows.max_sum_error","value",' in page
    assert "rows.max_sum_error" in run("baseline", "diff")


def test_an_accepted_case_is_identical_and_proposes_nothing(accepted, run):
    assert "2 passed" in run("run", "--jobs", "2")
    assert not list((accepted / ".precreg/proposals").rglob("*.json"))


def test_growth_of_a_metric_that_regression_names_is_a_regression(accepted, run):
    change(accepted / "suites/unit/kernels.py", CENTRED, ONE_SIDED)
    run("run", "--jobs", "0", "float32", code=1)
    verdict = results(accepted)["float32"]["verdict"]
    assert verdict["reason"] == "regressed"
    assert "rows.max_sum_error" in {finding["metric"] for finding in verdict["findings"]}


def test_a_bound_of_the_suite_and_one_of_the_project_hold(accepted, run):
    change(accepted / "suites/unit/kernels.py", CENTRED, f"(1 - 2 * {NARROW}) * ({CENTRED})")
    shown = run("run", "--jobs", "0", code=1)
    assert "signs.flip_share" in shown
    finding = next(f for f in results(accepted)["float32"]["verdict"]["findings"] if f["metric"] == "signs.flip_share")
    assert (finding["limit"], finding["source"]["line"]) == (0.01, 13)
    change(accepted / "suites/unit/centred.yaml", "  signs.flip_share: 0.01\n", "")
    run("run", "--jobs", "0", code=1)
    finding = next(f for f in results(accepted)["float32"]["verdict"]["findings"] if f["metric"] == "signs.flip_share")
    assert (finding["limit"], finding["source"]) == (0.05, {"file": "suites/tolerances.yaml", "line": 1})


def test_a_baseline_from_before_is_identical_and_the_figures_are_proposed(project, run):
    text = FILES["suites/unit/centred.yaml"]
    before = re.sub(r"analyzers:.*\n|  signs.*\n|  float32:.*\n|  regression:.*\n", "", text)
    (project / "suites/unit/centred.yaml").write_text(before)
    run("run", "--jobs", "0", code=2)
    assert not set(METRICS) & set(results(project)["float32"]["outcome"]["comparisons"][0]["metrics"])
    run("baseline", "accept", "--all", "--reason", "first version")
    (project / "suites/unit/centred.yaml").write_text(text)
    run("run", "--jobs", "0")
    assert results(project)["float32"]["verdict"]["reason"] == "identical"
    run("baseline", "accept", "--all", "--reason", "with analyzers")
    stored = json.loads((project / "baselines/generic/unit/centred.json").read_text())["cases"]["float32"]
    assert stored["outputs"]["out"]["metrics"].keys() >= set(METRICS)
    run("run", "--jobs", "0")
    assert not list((project / ".precreg/proposals").rglob("*.json"))


def test_reports_reviews_and_histories_need_no_package(accepted, run):
    change(accepted / "suites/unit/kernels.py", CENTRED, ONE_SIDED)
    for _ in range(2):
        run("run", "--jobs", "0", "float32", code=1)
        assert precreg(accepted, "history", "add", "--create", "reports").returncode == 0
    (accepted / "reports/report.html").unlink()
    assert precreg(accepted, "report", "reports").returncode == 1
    assert f'"rows.max_sum_error":"{FORMULA} (unit: value)"' in (accepted / "reports/report.html").read_text()
    assert "rows.max_sum_error" in precreg(accepted, "baseline", "diff").stdout
    assert "rows.max_sum_error" in precreg(accepted, "drift").stdout


def test_a_change_of_an_analyzer_in_the_repository_selects_the_cases_that_ask(project, package, run):
    shutil.copytree(package, project / "package")
    (project / "suites/unit/plain.yaml").write_text(PLAIN)
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "with the package")
    change(project / "package/our_analyzers.py", "signs < 0", "signs < -0.5")
    done = precreg(project, "list", "--changed-since", "HEAD", PYTHONPATH=str(project / "package"))
    assert done.stdout.split() == ["unit/centred/float16", "unit/centred/float32"], done.stderr
    assert "analyzers   signs, rows" in run("explain", "unit/centred/float32")


def test_where_the_package_is_missing_a_suite_that_asks_says_so(project):
    done = precreg(project, "list")
    assert done.returncode == 2
    got = "suites/tolerances.yaml:1: error[unknown-analyzer]: expected an installed analyzer (classes) but got"
    assert got in done.stderr


def test_stored_arrays_take_analyzers(tmp_path, package):
    signs = np.array([1, -1, 1, 1], np.float32)
    np.save(tmp_path / "actual.npy", signs)
    np.save(tmp_path / "reference.npy", np.abs(signs).astype(np.float64))
    words = ["compare", "actual.npy", "reference.npy", "--atol", 3, "--json", "c.json", "--report", "c.html"]
    asked = ["--analyzer", "signs", "--bound", "signs.flip_share=0.25"]
    done = precreg(tmp_path, *words, *asked, PYTHONPATH=str(package))
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads((tmp_path / "c.json").read_text())
    assert record["settings"]["analyzers"] == ["signs"]
    assert record["pairs"][0]["comparison"]["metrics"]["signs.flip_share"] == 0.25
    assert "share of a r &lt; 0 among a r != 0" in (tmp_path / "c.html").read_text()
    done = precreg(tmp_path, *words, *asked[:-1], "signs.flip_share=0.2", PYTHONPATH=str(package))
    assert done.returncode == 1
    assert "signs.flip_share is 0.25, and must be at most 0.2" in done.stdout
    done = precreg(tmp_path, *words, *asked[2:], PYTHONPATH=str(package))
    assert done.returncode == 2
    assert "expected signs under analyzers but got signs.flip_share=0.25 without it" in done.stderr
    done = precreg(tmp_path, *words, "--analyzer", "rows", PYTHONPATH=str(package))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def broken(tmp_path):
    """A package with an analyzer that raises on its first element."""
    (tmp_path / "site/broken-1.dist-info").mkdir(parents=True)
    code = "import precreg\n\n\n@precreg.analyzer(precreg.Metric('n', '1', 'a number', 'lower', 'ours'))\n"
    (tmp_path / "site/of_broken.py").write_text(f"{code}def broken(actual, reference):\n    return {{'n': 1 / 0}}\n")
    (tmp_path / "site/broken-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (tmp_path / "site/broken-1.dist-info/entry_points.txt").write_text(
        "[precreg.analyzers]\nbroken = of_broken:broken\n"
    )
    return tmp_path / "site"


def test_an_analyzer_that_fails_on_stored_arrays_is_an_error(tmp_path, broken):
    np.save(tmp_path / "a.npy", np.float32(1))
    done = precreg(tmp_path, "compare", "a.npy", "a.npy", "--analyzer", "broken", PYTHONPATH=str(broken))
    assert done.returncode == 2
    assert "analyzer_error" in done.stdout
    assert "it raised ZeroDivisionError: division by zero" in done.stdout


@pytest.mark.parametrize("jobs", [0, 2])
def test_an_analyzer_that_fails_makes_its_case_an_error_with_the_traceback(jobs, project, broken, package):
    change(project / "suites/unit/centred.yaml", "[signs, rows]", "[signs, rows, broken]")
    paths = f"{package}:{broken}"
    done = precreg(project, "run", "--jobs", jobs, "float32", PYTHONPATH=paths)
    assert done.returncode == 2, done.stdout + done.stderr
    result = results(project)["float32"]
    failure = result["outcome"]["execution"]["failure"]
    assert (result["verdict"]["status"], failure["reason"]) == ("error", "analyzer_error")
    assert "expected analyzer broken to measure output out" in failure["message"]
    assert failure["detail"].rstrip().endswith("ZeroDivisionError: division by zero")
    assert "return {'n': 1 / 0}" in failure["detail"]
    assert "precreg/analyzers" not in failure["detail"]


def test_a_run_without_analyzers_reads_no_entry_points(tmp_path):
    (tmp_path / "suites/unit").mkdir(parents=True)
    (tmp_path / "suites/unit/kernels.py").write_text(FILES["suites/unit/kernels.py"])
    (tmp_path / "suites/unit/plain.yaml").write_text(PLAIN)
    code = "import sys, importlib.metadata\nimportlib.metadata.entry_points = None\n"
    code += "sys.argv = ['precreg', 'run', '--jobs', '0']\nfrom precreg.__main__ import main; main()"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=environ(), capture_output=True, text=True, check=False)
    assert "1 proposed" in done.stdout, done.stdout + done.stderr
