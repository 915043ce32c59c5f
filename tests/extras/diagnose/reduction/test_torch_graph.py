"""Transformers of torch with fragile layers, reduced to operations of aten."""

import pytest

from precreg.diagnose.reduction import ReduceSettings, reduce_case
from precreg.errors import UserError
from precreg.suite.expand import load_cases
from tests.e2e.command import started

NET = """\
import torch
from torch import nn
from torch.nn import functional


class Norm(nn.Module):
    def __init__(self, width, fragile):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.fragile = fragile

    def forward(self, x):
        if self.fragile:
            square = (x * x).mean(-1, keepdim=True).half().float()
            variance = square - x.mean(-1, keepdim=True) ** 2
        else:
            variance = x.var(-1, keepdim=True, unbiased=False)
        return (x - x.mean(-1, keepdim=True)) * torch.rsqrt(variance + 1e-3) * self.weight


class Block(nn.Module):
    def __init__(self, width, fragile_norm, fragile_scores):
        super().__init__()
        self.norm = Norm(width, fragile_norm)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.last = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.fragile = fragile_scores

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        if self.fragile:
            scores = (scores + 900).half().float()
        x = x + self.out(torch.softmax(scores, -1) @ v)
        return x + self.down(functional.gelu(self.up(self.last(x))))


class Net(nn.Module):
    def __init__(self, norms=(), scores=(), width=32, layers=4):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, at in norms, at in scores) for at in range(layers))
        self.norm = Norm(width, False)

    def forward(self, x):
        x = x + 8
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class Weighted(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(32, 1, bias=False)
        nn.init.constant_(self.linear.weight, 1.003)

    def forward(self, x):
        return self.linear(x.sign())


def written_in_place(x):
    y = x.clone()
    y[0] += 1
    y[1:].mul_(3)
    return y.half().float().cumsum(0)


def branches(x):
    return x.half().float() if x.sum().item() > 0 else x.half().float() * 2


def in_double(x):
    return x.double().half().double()
"""

SUITE = """\
suite: net
subject: {torch: "net:SUBJECT"OPTIONS}
inputs:
  x: {shape: [12, 32], dtype: float32, normal: {mean: 0, std: 1}}
tolerance: {rtol: 1e-3, atol: 1e-3}
"""


def project(folder, subject="Net", options="", tolerance="{rtol: 1e-3, atol: 1e-3}"):
    unit = folder / "suites" / "unit"
    unit.mkdir(parents=True)
    (unit / "net.py").write_text(NET)
    text = SUITE.replace("SUBJECT", subject).replace("OPTIONS", options)
    (unit / "net.yaml").write_text(text.replace("{rtol: 1e-3, atol: 1e-3}", tolerance))
    return folder


def reduced(folder, **settings):
    (case,) = load_cases(folder)
    return reduce_case(case, folder, ReduceSettings(folder / "reduced", ("cpu", "generic"), **settings))


def test_a_network_without_a_fragile_layer_passes(tmp_path):
    assert reduced(project(tmp_path)).status == "passed"


def test_two_fragile_layers_are_two_parts(tmp_path):
    found = reduced(project(tmp_path, options=", arguments: {norms: [1], scores: [2]}"), parts=4)
    assert (found.status, found.engine) == ("reduced", "torch")
    assert found.operations > 100
    assert [[(kept.name, kept.site.module) for kept in part.kept] for part in found.parts] == [
        [("aten._to_copy", "blocks.2")],
        [("aten._to_copy", "blocks.1.norm")],
    ]
    assert found.parts[0].kept[0].site.code == "scores = (scores + 900).half().float()"
    assert found.parts[0].alone > found.parts[1].alone > 1
    assert found.parts[1].others < 1
    assert all(part.proof == pytest.approx(part.alone, rel=0.05) for part in found.parts)


def test_the_part_passes_with_the_remedy(tmp_path):
    found = reduced(project(tmp_path, options=", arguments: {scores: [2]}"))
    file = tmp_path / "reduced" / "suites" / "unit" / "reduced_net_default.py"
    assert file.read_text().count("torch.float16") == 1
    done = started(tmp_path, "--project", "reduced", "run", "--jobs", "0")
    assert f"FAILED   {found.parts[0].case}   out_of_tolerance" in done.stdout
    file.write_text(file.read_text().replace("torch.float16", "torch.float32"))
    done = started(tmp_path, "--project", "reduced", "run", "--jobs", "0")
    assert f"PROPOSED {found.parts[0].case}   new" in done.stdout


def test_weights_of_the_part_are_stored(tmp_path):
    """autocast converts a weight, and that rounds: the part reads the weight from a file."""
    found = reduced(project(tmp_path, "Weighted", options=", autocast: bfloat16", tolerance="{rtol: 0, atol: 1e-2}"))
    assert found.status == "reduced"
    (part,) = found.parts
    assert [kept.name for kept in part.kept] == ["aten._to_copy"]
    assert [tensor.role for tensor in part.tensors] == ["output"]
    assert "suites/unit/reduced_net_default/weights.safetensors" in part.files
    assert part.proof == pytest.approx(part.alone, rel=0.05)


def test_writes_in_place_are_values_of_their_own(tmp_path):
    found = reduced(project(tmp_path, "written_in_place", tolerance="{rtol: 1e-6, atol: 1e-6}"))
    assert found.status == "reduced"
    assert [kept.name for kept in found.parts[0].kept] == ["aten._to_copy"]


def test_a_call_that_torch_fx_cannot_record_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"expected a call that torch\.fx records"):
        reduced(project(tmp_path, "branches", tolerance="{rtol: 1e-6, atol: 1e-6}"))


def test_float64_is_refused(tmp_path):
    with pytest.raises(UserError, match="narrower than float64"):
        reduced(project(tmp_path, "in_double", tolerance="{rtol: 1e-6, atol: 1e-6}"))
