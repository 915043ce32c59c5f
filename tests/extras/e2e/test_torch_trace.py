"""`precreg trace` of a module of torch: another version, dumps of another machine, and a fault of the formula."""

import json

import numpy as np
import pytest

from tests.e2e.command import git, repository, started, with_suite

SUITE = """\
suite: s
subject: {torch: "k:Net", dtype: float32}
reference: k:exact
inputs:
  x: {shape: [16, 48], dtype: float32, normal: {mean: 0, std: 0.01}}
"""
KERNEL = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(48, eps=1e-5)
        self.inner = nn.Linear(48, 48)

    def forward(self, x):
        return x + torch.relu(self.inner(self.norm(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def exact(x):
    import numpy as np

    net = Net()
    for block in net.blocks:
        weight, bias = (value.detach().numpy().astype(np.float64) for value in block.inner.parameters())
        normed = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        x = x + np.maximum(normed @ weight.T + bias, 0)
    return x
"""


@pytest.fixture
def project(tmp_path):
    return repository(with_suite(tmp_path, SUITE, KERNEL))


def plant(project, before, after):
    file = project / "suites" / "unit" / "k.py"
    text = file.read_text()
    assert text.count(before) == 1
    file.write_text(text.replace(before, after))


def traced(project, *arguments):
    done = started(project, "trace", "unit/s", *arguments, "--json", "trace.json", OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    return json.loads((project / "trace.json").read_text()), done.stdout


def test_a_good_module_has_no_loss_and_a_reference_of_numpy_agrees(project):
    trace, text = traced(project)
    (out,) = trace["outputs"]
    assert (trace["dtype"], trace["same_bits"], trace.get("formula")) == ("float32", True, None)
    assert out["formula"]["relative"] < 1e-12 < out["rounding"]["relative"] < 1e-6
    assert "first loss" not in text


def test_a_version_with_a_cast_in_one_layer_is_named_by_its_module(project):
    plant(project, "self.inner(self.norm(x))", "self.inner(self.norm(x.bfloat16().float()))")
    found = traced(project, "--against", "HEAD")[0]["against"]
    first = found["first"]
    assert (found["kind"], first["dtype"], first["site"]["module"]) == ("new", "bfloat16", "blocks.0")
    assert "x.bfloat16()" in first["site"]["code"]
    assert found["commit"] == git(project, "rev-parse", "HEAD")


def test_an_epsilon_that_a_version_dropped_is_named_with_both_lines(project):
    plant(project, "eps=1e-5", "eps=0.0")
    trace, _ = traced(project, "--against", "HEAD")
    for found in (trace["formula"], trace["against"]["formula"]):
        assert "native_layer_norm" in found["first"]["name"]
        assert found["first"]["site"]["module"] == "blocks.0.norm"
    assert trace["formula"]["other"] == "reference"


def test_layers_that_another_machine_stored_are_compared_in_order(project):
    import torch

    namespace = {}
    exec(KERNEL, namespace)
    from precreg.run import draw_inputs
    from precreg.suite import load_cases

    (case,) = load_cases(project)
    x = torch.from_numpy(draw_inputs(case, 0, project / "suites" / "unit", project)["x"])
    (project / "dumps").mkdir()
    with torch.no_grad():
        for number, block in enumerate(namespace["Net"]().blocks):
            # The second block of the other machine has a fault, which the third one inherits.
            x = block(x) if number != 1 else block(x.bfloat16().float())
            np.save(project / "dumps" / f"blocks.{number}.npy", x.numpy())
    found = traced(project, "--dumps", "dumps")[0]["dumps"]
    assert [(each["name"], each["unexplained"]) for each in found["layers"]] == [
        ("blocks.0", False),
        ("blocks.1", True),
        ("blocks.2", True),
    ]
    assert found["only_dumped"] == []
    assert "blocks.0.norm" in found["only_traced"]
