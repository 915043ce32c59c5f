"""Suites that monitor the layers of a module: green, red after a loss in one layer, and bounded by name."""

import json
import shutil

import pytest

from tests.e2e.command import accept_on_main, change, precreg, repository, started, with_suite

SUITE = """\
suite: s
subject: {torch: "k:Net", dtype: $dtype, monitor: ["blocks.?", "norm"]}
matrix: {dtype: [float32, bfloat16]}
inputs:
  x: {shape: [64, 48], dtype: $dtype, normal: {}}
tolerance:
  rtol: 0.1
  atol: 0.2
"""
KERNEL = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(48)
        self.inner = nn.Linear(48, 48)
        self.between = None

    def forward(self, x):
        return x + torch.relu(self.inner(self.norm(x).to(self.between or x.dtype).to(x.dtype)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.norm = nn.LayerNorm(48)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.norm(x)
"""
PLANTED = "        self.norm = nn.LayerNorm(48)\n\n    def forward(self, x):\n        for"
LOSS = PLANTED.replace("\n\n", "\n        self.blocks[2].between = torch.float8_e4m3fn\n\n")


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    return accept_on_main(repository(with_suite(tmp_path_factory.mktemp("accepted"), SUITE, KERNEL)))


@pytest.fixture
def project(accepted, tmp_path):
    return shutil.copytree(accepted, tmp_path / "project")


def cases(folder):
    return {case["id"]: case for case in json.loads((folder / "reports/record.json").read_text())["results"]}


def test_layers_are_outputs_and_the_accepted_ones_are_identical_again(project):
    done = started(project, "run")
    assert done.returncode == 0, done.stdout
    assert "warning" not in done.stdout.lower()
    for case in cases(project).values():
        assert case["verdict"]["reason"] == "identical"
        names = [each["output"] for each in case["outcome"]["comparisons"] if each["seed"] == 0]
        layers = ("blocks.0", "blocks.1", "blocks.2", "blocks.3", "norm")
        assert names == ["out", *(f"{kind}.{name}" for kind in ("layer", "own") for name in layers)]


def test_a_loss_in_one_layer_is_found_in_its_own_error_alone(project):
    change(project / "suites/unit/k.py", PLANTED, LOSS)
    done = started(project, "run", "--jobs", "2")
    assert done.returncode == 1, done.stdout
    for case in cases(project).values():
        assert case["verdict"]["reason"] == "regressed"
        regressed = {each["output"] for each in case["verdict"]["findings"] if each["reason"] == "regressed"}
        assert {name for name in regressed if name.startswith("own.")} == {"own.blocks.2"}
        assert "layer.blocks.1" not in regressed
        assert "layer.blocks.2" in regressed
    assert "own.blocks.2" in done.stdout


def test_own_errors_are_bounded_by_pattern_and_by_name(project):
    suite = project / "suites/unit/s.yaml"
    bounds = "tolerance:\n  outputs:\n    own.*: {max_abs_error: 0.05}\n    own.blocks.3: {max_abs_error: 1e-9}\n"
    change(suite, "tolerance:\n", bounds)
    done = started(project, "run")
    assert done.returncode == 1, done.stdout
    for case in cases(project).values():
        assert case["verdict"]["reason"] == "out_of_tolerance"
        assert {each["output"] for each in case["verdict"]["findings"]} == {"own.blocks.3"}


BAD = {
    "pattern": ("blocks.?", "block.?", "subject_error", "expected a layer of k:Net"),
    "container": ('"blocks.?"', '"blocks"', "subject_error", "layer=blocks does not; try layer='blocks.*'"),
}


@pytest.mark.parametrize("mistake", BAD)
def test_a_wrong_pattern_is_one_message(project, mistake):
    old, new, reason, words = BAD[mistake]
    change(project / "suites/unit/s.yaml", old, new)
    done = started(project, "run")
    assert done.returncode == 2, done.stdout
    assert {case["verdict"]["reason"] for case in cases(project).values()} == {reason}
    assert words in done.stdout


def test_a_layer_that_draws_random_numbers_is_refused_by_name(project):
    change(project / "suites/unit/k.py", "self.norm = nn.LayerNorm(48)\n\n", "self.norm = nn.Dropout()\n\n")
    change(project / "suites/unit/s.yaml", "dtype: $dtype, monitor", "dtype: $dtype, mode: train, monitor")
    done = started(project, "run")
    assert "draw no random numbers but got monitor=norm" in done.stdout


def test_a_compiled_subject_has_no_monitor(project):
    change(project / "suites/unit/s.yaml", "monitor:", "compile: true, monitor:")
    done = precreg(project, "list")
    assert done.returncode == 2
    assert "expected monitor or compile but got both" in done.stderr
