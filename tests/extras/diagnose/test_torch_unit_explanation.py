"""A transformer's failure names the unit case of the module that changed; its modules are functions of Python."""

from precreg.diagnose.unit_explanation import explain_by_units
from precreg.suite import load_cases
from precreg.vcs import commit_of
from tests.e2e.command import change, repository

MODULES = """\
import torch


class LayerNorm(torch.nn.Module):
    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + 1e-5)


class Attention(torch.nn.Module):
    def forward(self, x):
        scores = x @ x.transpose(-1, -2) / 4.0
        return torch.softmax(scores, -1) @ x


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.attention = LayerNorm(), Attention()

    def forward(self, x):
        return x + self.attention(self.norm(x))


def transformer(x):
    with torch.no_grad():
        return torch.nn.Sequential(Block(), Block(), LayerNorm())(torch.from_numpy(x)).numpy()


def layer_norm(x):
    with torch.no_grad():
        return LayerNorm()(torch.from_numpy(x)).numpy()


def attention(x):
    with torch.no_grad():
        return Attention()(torch.from_numpy(x)).numpy()
"""


def test_a_changed_layer_norm_explains_the_loss_of_a_transformer(tmp_path):
    folder = tmp_path / "project"
    for name in ("unit/layer_norm", "unit/attention", "model/transformer"):
        suite = name.partition("/")[2]
        path = folder / f"suites/{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        inputs = "inputs: {x: {shape: [4, 10, 16], dtype: float32, normal: {}}}"
        path.write_text(f"suite: {suite}\nsubject: modules:{suite}\nreference: modules:{suite}\n{inputs}\n")
    file = folder / "suites/modules.py"
    file.write_text(MODULES)
    repository(folder)
    good = "torch.sqrt((centred * centred).mean(-1, keepdim=True) + 1e-5)"
    change(file, good, "(centred.square().mean(-1, keepdim=True).sqrt() + 1e-3)")
    # A refactoring of the other module.
    good = "        return torch.softmax(scores, -1) @ x"
    change(file, good, "        weights = torch.softmax(scores, -1)\n        return weights @ x")
    cases = {case.id: case for case in load_cases(folder)}
    units = [case for case in cases.values() if case.tier == "unit"]
    (found,) = explain_by_units(
        cases["model/transformer/default"], units, folder, seed=0, accepted=commit_of(folder, "HEAD"), seconds=300
    )
    assert (found.case, found.share) == ("unit/layer_norm/default", 1.0)
    assert found.shared == ("suites/modules.py:LayerNorm.forward",)
