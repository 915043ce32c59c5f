"""Traps of tools of this kind, each through the real command: what it says, what it stores, its exit code."""

import json
import re

import numpy as np
import pytest

from tests.e2e.command import change, git, precreg, repository, with_suite


@pytest.fixture
def held(tmp_path):
    """Return the function that stores two arrays, compares them, and returns the process and the record of the pair."""

    def held(actual, reference, *options):
        np.save(tmp_path / "a.npy", actual)
        np.save(tmp_path / "r.npy", reference)
        done = precreg(tmp_path, "compare", "a.npy", "r.npy", "--json", "record.json", *options)
        record = json.loads((tmp_path / "record.json").read_text())
        assert done.returncode == record["exit_code"]
        (pair,) = record["pairs"]
        return done, pair

    return held


def test_plus_infinity_is_not_minus_infinity(held):
    done, pair = held(
        np.array([1, np.inf], np.float32), np.array([1, -np.inf]), "--bound", "match_ratio=0", "--atol", "1e300"
    )
    assert (done.returncode, pair["verdict"]["reason"]) == (1, "non_finite_mismatch")
    assert "first at 1: actual inf, reference -inf" in done.stdout


@pytest.mark.parametrize("in_actual", [True, False])
def test_a_nan_on_one_side_fails_and_hides_no_other_error(held, in_actual):
    clean, spoilt = np.array([1, 2, 3.0]), np.array([1.5, np.nan, 3])
    done, pair = held(*((spoilt, clean) if in_actual else (clean, spoilt)), "--bound", "max_abs_error=1")
    assert (done.returncode, pair["verdict"]["reason"]) == (1, "non_finite_mismatch")
    assert pair["comparison"]["metrics"]["max_abs_error"] == 0.5
    assert pair["comparison"]["worst"]["index"] == [0]


@pytest.mark.parametrize(
    ("actual", "reference", "bound"),
    [
        ([0.0, 0.0], [0.0, 0.0], "max_rel_error=1e9"),  # 0/0
        ([1e200, 1.0], [-1e200, 1.0], "mse=1e300"),  # inf
        ([1.0, 1.0], [1.0, 1.0], "mare_ratio=1e9"),  # no benchmark
    ],
)
def test_a_metric_that_is_not_a_number_passes_no_bound(held, actual, reference, bound):
    done, pair = held(np.array(actual), np.array(reference), "--standard", "polygraphy-0.53", "--bound", bound)
    metric = bound.partition("=")[0]
    assert metric not in pair["comparison"]["metrics"]
    assert done.returncode == 1
    assert metric in {finding["metric"] for finding in pair["verdict"]["findings"]}


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_an_empty_array_is_no_pass(held, shape):
    done, pair = held(np.zeros(shape), np.zeros(shape))
    assert (done.returncode, pair["verdict"]["reason"]) == (1, "empty")


def test_a_result_of_nothing_but_nan_is_no_pass_even_where_the_reference_is_nan_too(held):
    done, pair = held(np.full(4, np.nan), np.full(4, np.nan))
    assert (done.returncode, pair["verdict"]["reason"]) == (1, "empty")
    done, pair = held(np.full(4, np.nan), np.ones(4))
    assert (done.returncode, pair["verdict"]["reason"]) == (1, "non_finite_mismatch")


def folders(tmp_path, count=5):
    for side in ("actual", "reference"):
        (tmp_path / side).mkdir()
        for number in range(count):
            np.save(tmp_path / side / f"t{number}.npy", np.full(8, 1.0 + number))


@pytest.mark.parametrize("side", ["actual", "reference"])
def test_a_missing_output_is_no_pass(tmp_path, side):
    folders(tmp_path)
    (tmp_path / side / "t3.npy").unlink()
    done = precreg(tmp_path, "compare", "actual", "reference")
    assert done.returncode == 1
    assert re.search(r"FAILED +t3 +missing_output", done.stdout)


def test_an_error_in_the_table_is_an_error_in_the_exit_code(tmp_path):
    folders(tmp_path, 20)
    np.save(tmp_path / "actual" / "t7.npy", np.full(8, 8.1))
    done = precreg(tmp_path, "compare", "actual", "reference")
    assert done.returncode == 1
    assert re.search(r"FAILED +t7 +out_of_tolerance", done.stdout)
    assert "1 of 20 pairs fails" in done.stdout
    np.save(tmp_path / "actual" / "t7.npy", np.full(8, 8.0))
    assert precreg(tmp_path, "compare", "actual", "reference").returncode == 0


def test_a_zero_reference_makes_no_relative_error(held):
    """0 + 1e-10 in the denominator would make a relative error of 1e3 of a difference of 1e-7."""
    done, pair = held(np.array([1e-7, 2, 3], np.float32), np.array([0, 2, 3.0]), "--bound", "max_rel_error=1e-6")
    assert done.returncode == 0, done.stdout
    assert pair["comparison"]["metrics"]["max_rel_error"] == 0
    assert pair["comparison"]["counts"]["zero_references"] == 1
    assert re.search(r"1 zero_references", done.stdout)


@pytest.mark.parametrize(
    ("actual", "reference", "dtype", "difference"),
    [([0, 7], [1, 7], "uint8", 1), ([6e4, 1], [-6e4, 1], "float16", 120_000), ([-128, 7], [127, 7], "int8", 255)],
)
def test_differences_are_taken_in_a_wider_type(held, actual, reference, dtype, difference):
    done, pair = held(np.array(actual, dtype), np.array(reference, dtype))
    assert done.returncode == 1
    metrics = pair["comparison"]["metrics"]
    assert (metrics["max_abs_error"], abs(metrics["bias"])) == (difference, difference / 2)


SUITE = """\
suite: s
subject: k:scaled
reference: k:exact
inputs: {x: {shape: [400], dtype: float32, uniform: {low: 1, high: 2}}}
tolerance: {rtol: 2e-3}
"""
KERNEL = """\
import numpy as np

WEIGHTS = np.float32(1)


def scaled(x):
    return x * np.sqrt(x) * WEIGHTS


def exact(x):
    return x * np.sqrt(x)
"""


def test_weights_times_1001_thousandths_keep_the_tolerance_and_are_told_from_the_baseline(tmp_path):
    project = repository(with_suite(tmp_path, SUITE, KERNEL))
    assert precreg(project, "run").returncode == 2
    assert precreg(project, "baseline", "accept", "--all", "--reason", "first").returncode == 0
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "accepted")
    change(project / "suites/unit/k.py", "np.float32(1)", "np.float32(1.001)")
    done = precreg(project, "run")
    assert done.returncode == 1
    (result,) = json.loads((project / "reports/record.json").read_text())["results"]
    assert result["verdict"]["reason"] == "regressed"
    assert "though within tolerance" in result["verdict"]["message"]
    assert result["outcome"]["comparisons"][0]["metrics"]["match_ratio"] == 1


def test_a_missing_baseline_is_no_pass(tmp_path):
    project = repository(with_suite(tmp_path, SUITE, KERNEL))
    here, in_ci = precreg(project, "run"), precreg(project, "run", CI="true")
    (result,) = json.loads((project / "reports/record.json").read_text())["results"]
    assert (here.returncode, in_ci.returncode, result["verdict"]["reason"]) == (2, 1, "new")


def test_a_tolerance_below_an_ulp_is_told_with_the_numbers(held):
    ones = np.ones(4, np.float32)
    done, _ = held(ones, ones, "--rtol", "1e-9")
    assert "rtol=1e-09 (command line) is below 1 ULP of float32 (1.19209e-07): rounding alone can break it" in (
        done.stdout + done.stderr
    )


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        (("--rtol", "1"), "rtol=1, match_ratio=1"),
        (("--atol", "5"), "atol=5, match_ratio=1 (command line) where |r| is 1 on average"),
        (("--standard", "polygraphy-cosine-0.53"), "cosine=0.997 (command line)"),
    ],
)
def test_a_tolerance_that_lets_everything_pass_is_told_with_the_numbers(held, options, numbers):
    ones = np.ones(4, np.float32)
    done, _ = held(2 * ones, ones, *options)
    assert done.returncode == 0
    assert f"a result that is wrong by 100 % passes: {numbers}" in done.stdout + done.stderr


@pytest.mark.parametrize("error", [1e-7, 3.0000000000000004e-300, 1.2345678901234567e-9])
def test_small_figures_are_neither_shown_nor_stored_as_zero(held, tmp_path, error):
    done, pair = held(np.array([error, 0.0]), np.zeros(2), "--report", "page.html")
    assert pair["comparison"]["metrics"]["max_abs_error"] == error
    assert pair["comparison"]["worst"]["actual"] == [error]
    assert f"{error:.4g}" in done.stdout
    assert f"{error:.4g}" in (tmp_path / "page.html").read_text()
    assert "0.000000" not in done.stdout
