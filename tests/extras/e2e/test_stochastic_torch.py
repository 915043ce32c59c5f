"""A torch subject has samples by moved last bits of its inputs: the digits are those of its condition."""

import json
from math import log2, log10

from precreg.measure.significant_digits import normal_allowance
from tests.e2e.command import precreg

KERNELS = """\
import numpy as np


def less_one(x):
    return x - 1
"""
SUITE = """\
suite: less_one
subject: {torch: kernels:less_one}
reference: kernels:less_one
inputs:
  x: {shape: [64], dtype: float32, uniform: {low: 1.0009765625, high: 1.000978}}
seeds: 2
stochastic: {samples: 30}
"""


def test_moved_last_bits_show_the_condition_of_a_torch_subject(tmp_path):
    (tmp_path / "suites/unit").mkdir(parents=True)
    (tmp_path / "suites/unit/kernels.py").write_text(KERNELS)
    (tmp_path / "suites/unit/less_one.yaml").write_text(SUITE)
    done = precreg(tmp_path, "run")
    assert done.returncode == 2, done.stdout + done.stderr
    (result,) = json.loads((tmp_path / "reports/record.json").read_text())["results"]
    # x - 1 is 2^-10 of x, and a move has a standard deviation of sqrt(2/3) of the last place, 2^-23.
    expected = (13 - log2((2 / 3) ** 0.5) - normal_allowance(30, 0.95, 0.95)) * log10(2)
    for comparison in result["outcome"]["comparisons"]:
        assert comparison["digits"]["settings"]["noise"] == "inputs"
        assert abs(comparison["metrics"]["median_significant_digits"] - expected) < log10(2)
