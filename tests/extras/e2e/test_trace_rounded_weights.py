"""A specification's dtype rounds weights before the call: the trace names them, because no error contains this."""

import json

import numpy as np
import pytest
import torch

from tests.e2e.command import repository, started, with_suite

SUITE = """\
suite: s
subject: {torch: "k:Net", dtype: DTYPE}
inputs:
  x: {shape: [16, 8], dtype: DTYPE, normal: {}}
"""
KERNEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inner = nn.Linear(8, 4)
        self.register_buffer("factor", torch.full((3,), 0.5))

    def forward(self, x):
        return self.inner(x) * self.factor.sum()
"""


def trace_of(folder, dtype):
    project = repository(with_suite(folder, SUITE.replace("DTYPE", dtype), KERNEL))
    run = started(project, "trace", "unit/s", "--json", "trace.json", OMP_NUM_THREADS="1")
    assert run.returncode == 0, run.stderr
    return run.stdout, json.loads((project / "trace.json").read_text())


def test_rounded_weights_are_counted(tmp_path):
    text, trace = trace_of(tmp_path, "float16")
    torch.manual_seed(0)
    weights = np.concatenate([each.detach().numpy().reshape(-1) for each in torch.nn.Linear(8, 4).parameters()])
    changed = int(np.sum(weights.astype(np.float16) != weights))
    assert 0 < changed <= 36
    (event,) = [each for each in trace["events"] if each["kind"] == "rounded_weights"]
    assert (event["name"], event["changed"], event["elements"]) == ("float16", changed, 39)
    assert f"rounded weights: float16, {changed} of 39 elements: the case rounded weights before" in text
    assert trace["same_bits"] is True


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_dtype_that_rounds_nothing_is_no_event(tmp_path, dtype):
    assert [each for each in trace_of(tmp_path, dtype)[1]["events"] if each["kind"] == "rounded_weights"] == []
