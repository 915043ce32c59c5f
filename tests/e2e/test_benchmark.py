"""Ratios to a second implementation through the real command: suites with a benchmark, and compare --regression."""

import json

import numpy as np
import pytest

from tests.e2e.command import change, git, precreg, repository, with_suite

KERNEL = """\
import numpy as np


def noise(x):
    # Errors of 20 roundoffs, drawn once for both implementations.
    return 20 * np.finfo(x.dtype).eps * np.random.default_rng(0).normal(size=x.shape)


def ours(x):
    return (x * (1 + FACTOR * noise(x))).astype(x.dtype)


def theirs(x):
    return (x * (1 + noise(x))).astype(x.dtype)


def exact(x):
    return x


def raises(x):
    raise RuntimeError("no device")
"""
SUITE = """\
suite: s
subject: k:ours
reference: k:exact
benchmark: k:theirs
matrix: {dtype: [float32, float64]}
inputs: {x: {shape: [64, 64], dtype: $dtype, uniform: {low: 2, high: 4}}}
seeds: 2
tolerance:
  rtol: 1e-3
  mean_abs_error_ratio: 1.1
"""


def project(folder, suite=SUITE, factor="1.58"):
    return repository(with_suite(folder, suite, KERNEL.replace("FACTOR", factor)))


def results(folder, *arguments):
    done = precreg(folder, "run", "--jobs", "0", *arguments)
    record = json.loads((folder / "reports/record.json").read_text())
    return done, {result["id"]: result for result in record["results"]}


def test_a_result_1_58_times_worse_shows_it_in_both_dtypes_and_fails(tmp_path):
    done, found = results(project(tmp_path))
    assert done.returncode == 1
    assert len(found) == 2
    for result in found.values():
        assert result["verdict"]["reason"] == "out_of_tolerance"
        for comparison in result["outcome"]["comparisons"]:
            assert comparison["metrics"]["mean_abs_error_ratio"] == pytest.approx(1.58, abs=0.02)
            assert comparison["metrics"]["mare_ratio"] == pytest.approx(1.58, abs=0.05)
            assert comparison["benchmark"]["mean_abs_error"] < comparison["metrics"]["mean_abs_error"]
    # msprobe's floor would have made less than 1 of it.
    floored = found["unit/s/float32"]["outcome"]["comparisons"][0]["metrics"]
    assert floored["floored_mere_ratio"] < 0.2
    assert "floored_mere_ratio" not in found["unit/s/float64"]["outcome"]["comparisons"][0]["metrics"]
    assert "mean_abs_error_ratio is 1.57" in done.stdout or "mean_abs_error_ratio is 1.58" in done.stdout
    for report in ("report.html", "summary.md", "junit.xml"):
        assert "mean_abs_error_ratio" in (tmp_path / "reports" / report).read_text(), report


def test_as_good_as_the_benchmark_is_accurate_enough(tmp_path):
    done, found = results(project(tmp_path, factor="1.05"))
    assert done.returncode == 2  # new
    assert {result["verdict"]["reason"] for result in found.values()} == {"new"}


@pytest.mark.parametrize(("standard", "code"), [("msprobe-benchmark-l2-26.2.0", 2), ("ascend-mere-mare-1", 2)])
def test_only_the_named_standard_floors(tmp_path, standard, code):
    suite = SUITE.replace("mean_abs_error_ratio: 1.1", f"standard: {standard}").replace(", float64", "")
    assert results(project(tmp_path, suite))[0].returncode == code


@pytest.mark.parametrize(
    ("benchmark", "words"),
    [("k:raises", "RuntimeError: no device"), ("{files: short.npy}", "out of the benchmark: expected shape (64, 64)")],
)
def test_a_benchmark_that_fails_is_no_pass(tmp_path, benchmark, words):
    folder = project(tmp_path, SUITE.replace("k:theirs", benchmark) if "k:" in benchmark else SUITE)
    if "files" in benchmark:
        np.save(tmp_path / "suites/unit/short.npy", np.zeros(3, np.float32))
        change(folder / "suites/unit/s.yaml", "k:theirs", benchmark)
    done, found = results(folder)
    assert done.returncode == 2
    for result in found.values():
        assert (result["verdict"]["status"], result["verdict"]["reason"]) == ("error", "benchmark_error")
        assert words in result["verdict"]["message"]


def test_a_bound_on_a_ratio_without_a_benchmark_is_broken(tmp_path):
    done, _ = results(project(tmp_path, SUITE.replace("benchmark: k:theirs\n", ""), factor="1"))
    assert done.returncode == 1
    assert "mean_abs_error_ratio needs a benchmark, and must be at most 1.1" in done.stdout


def test_a_benchmark_leaves_accepted_baselines_valid(tmp_path):
    folder = project(tmp_path, SUITE.replace("benchmark: k:theirs\n", "").replace("  mean_abs_error_ratio: 1.1\n", ""))
    assert results(folder)[0].returncode == 2
    assert precreg(folder, "baseline", "accept", "*", "--reason", "first").returncode == 0
    change(folder / "suites/unit/s.yaml", "matrix:", "benchmark: k:theirs\nmatrix:")
    done, found = results(folder)
    assert done.returncode == 0, done.stdout
    assert {result["verdict"]["reason"] for result in found.values()} == {"identical"}


def test_a_change_of_the_benchmarks_file_selects_its_cases(tmp_path):
    files = {"theirs.py": "def f(x):\n    return x\n"}
    folder = with_suite(tmp_path, SUITE.replace("k:theirs", "theirs:f"), KERNEL.replace("FACTOR", "1"))
    for name, text in files.items():
        (folder / "suites/unit" / name).write_text(text)
    repository(folder)
    change(folder / "suites/unit/theirs.py", "return x", "return x * 1")
    listed = precreg(folder, "list", "--changed-since", "HEAD")
    assert "unit/s/float32" in listed.stdout, listed.stdout + listed.stderr
    assert git(folder, "status", "--short")


def test_another_version_needs_no_benchmark(tmp_path):
    """A paired run: the commit has no module of the benchmark, and judges all the same."""
    folder = project(
        tmp_path, SUITE.replace("benchmark: k:theirs\n", "").replace("mean_abs_error_ratio", "max_rel_error")
    )
    (folder / "suites/unit/theirs.py").write_text("def f(x):\n    return (x * (1 + 1e-5)).astype(x.dtype)\n")
    change(folder / "suites/unit/s.yaml", "matrix:", "benchmark: theirs:f\nmatrix:")
    change(folder / "suites/unit/k.py", "1.58", "2.5")
    _, found = results(folder, "--pair", "HEAD", "--jobs", "1")
    for result in found.values():
        assert result["verdict"]["reason"] == "regressed"
        assert (result["paired"]["judged"], result["paired"]["cause"]) == (True, None)
        assert result["outcome"]["comparisons"][0]["benchmark"]["max_abs_error"] > 0
