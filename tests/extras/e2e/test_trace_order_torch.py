"""precreg trace of functions of torch that compute a golden in another order, or in another precision."""

import json

import pytest

from tests.e2e.command import change, repository, started, with_suite

SUITE = """\
suite: step
subject: {torch: k:step}
golden: {torch: k:golden}
matrix: {dtype: [float32, bfloat16]}
inputs:
  w: {shape: [64, 64], dtype: $dtype, normal: {}}
  m: {shape: [64, 64], dtype: $dtype, normal: {std: 0.2}}
  v: {shape: [64, 64], dtype: $dtype, uniform: {low: 0.5, high: 0.7}}
tolerance: none
"""
KERNEL = """\
import torch


def step(w, m, v):
    return {"w": w - (0.3 * m) / torch.sqrt(v)}


def golden(w, m, v):
    quotient = m / torch.sqrt(v)
    return {"w": w - 0.3 * quotient}
"""


@pytest.fixture
def project(tmp_path):
    return repository(with_suite(tmp_path, SUITE, KERNEL, "step"))


def order_of(project, dtype):
    done = started(project, "trace", f"step/{dtype}", "--json", "-")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)["order"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_swap_is_named(project, dtype):
    order = order_of(project, dtype)
    assert (order["first"]["name"], order["first"]["site"]["line"]) == ("aten.mul", 5)
    assert (order["counterpart"]["name"], order["counterpart"]["site"]["line"]) == ("aten.div", 9)
    assert 0 < order["changed"] < order["elements"] == 4096


def test_a_golden_of_another_precision_has_no_other_order(project):
    kernel = project / "suites" / "unit" / "k.py"
    change(kernel, "(0.3 * m) / torch.sqrt(v)", "0.3 * (m / torch.sqrt(v))")
    change(kernel, "quotient = m / torch.sqrt(v)", "quotient = (m.float() / torch.sqrt(v.float())).to(m.dtype)")
    assert order_of(project, "bfloat16") is None
