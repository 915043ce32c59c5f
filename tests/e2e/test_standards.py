"""Standards that need more than bounds, through the real command: alternatives, parameters, a benchmark, regions."""

import json

import numpy as np
import pytest

from tests.e2e.command import precreg, repository, with_suite

REFERENCE = np.linspace(1, 2, 4000)


def off(by):
    """Return a result of which every element is off by a share of itself."""
    return (REFERENCE * (1 + by)).astype(np.float32)


@pytest.fixture
def compared(tmp_path):
    """Return the function that holds a result against the reference, beside a benchmark's where there is one."""

    def compared(actual, standard, benchmark=None):
        for name, array in {"a": actual, "r": REFERENCE, "b": benchmark}.items():
            if array is not None:
                np.save(tmp_path / f"{name}.npy", array)
        beside = [] if benchmark is None else ["--benchmark", "b.npy"]
        return precreg(tmp_path, "compare", "a.npy", "r.npy", *beside, "--standard", standard, "--json", "record.json")

    return compared


@pytest.mark.parametrize(("factor", "code"), [(1.9, 0), (2.1, 1)])
def test_errors_are_held_against_a_benchmarks(compared, tmp_path, factor, code):
    """From 2^-14 on the benchmark's own error is the yardstick: level L0 allows twice its mean."""
    done = compared(off(factor * 1e-3), "msprobe-benchmark-l0-26.2.0", off(1e-3))
    assert done.returncode == code, done.stdout
    (pair,) = json.loads((tmp_path / "record.json").read_text())["pairs"]
    assert pair["comparison"]["metrics"]["mere_ratio"] == pytest.approx(factor, rel=1e-3)


def test_without_a_benchmark_such_a_standard_fails_and_says_why(compared):
    done = compared(off(0), "msprobe-benchmark-l0-26.2.0")
    assert done.returncode == 1
    assert "mare_ratio needs a benchmark" in done.stdout


def test_an_alternative_passes_what_the_other_does_not(compared):
    """The mean is far beyond 64 ULP; 1 % of the elements are beyond 32 ULP, of which 5 % may be."""
    actual = off(0)
    actual[:40] *= 2
    assert compared(actual, "msprobe-ulp-26.2.0").returncode == 0
    actual[:400] *= 2
    done = compared(actual, "msprobe-ulp-26.2.0")
    assert done.returncode == 1
    assert "none of 2 alternatives holds: mean_ulp is " in done.stdout
    assert "; or share_above_32_ulp is 0.1, and must be at most 0.05" in done.stdout
    assert "(alternative 2)" in done.stdout


def test_dynamo_allows_what_eager_execution_is_off_by(compared):
    assert compared(off(1.5e-3), "torch-dynamo-2.13", off(1e-3)).returncode == 0
    assert compared(off(2.5e-3), "torch-dynamo-2.13", off(1e-3)).returncode == 1
    assert compared(off(2.5e-3), "torch-dynamo-2.13:tol=0.01", off(1e-3)).returncode == 0


def test_a_parameter_on_the_command_line(compared):
    assert compared(off(1e-2), "flaggems-1:reduced=768").returncode == 0
    assert compared(off(1e-2), "flaggems-1").returncode == 1
    done = compared(off(1e-2), "flaggems-1:reduce=768")
    assert done.returncode == 2
    assert "error[bad-value]: expected a parameter of flaggems-1 (reduced) but got reduce=768" in done.stderr


def test_a_standard_brings_its_own_regions(compared):
    """msprobe's accumulated error allows 2^-11 of |r|; the regions that hold without it would allow 2^-20."""
    assert compared(off(2**-12), "msprobe-accumulated-26.2.0").returncode == 0
    done = compared(off(2**-12), "msprobe-absolute-26.2.0")
    assert done.returncode == 1
    assert "relative_violation_share is 1, and must be at most 0" in done.stdout


SUITE = """\
suite: s
subject: k:near
reference: k:exact
inputs: {x: {shape: [64], dtype: float32, uniform: {low: 2, high: 4}}}
tolerance: {standard: NAME}
"""
KERNEL = (
    "import numpy as np\n\n\ndef near(x):\n    return x * np.float32(1 + 2**-12)\n\n\ndef exact(x):\n    return x\n"
)


@pytest.mark.parametrize(("name", "code"), [("msprobe-accumulated-26.2.0", 2), ("msprobe-absolute-26.2.0", 1)])
def test_a_suite_is_measured_by_its_standards_regions(tmp_path, name, code):
    """Accurate enough, it waits for a baseline: 2."""
    project = repository(with_suite(tmp_path, SUITE.replace("NAME", name), KERNEL))
    assert precreg(project, "run").returncode == code
