"""`precreg init` for modules and functions of torch, and for ONNX models: green at once."""

import pytest
import yaml

from tests.e2e.command import repository, started

MODELS = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(12, 8), nn.GELU(), nn.Linear(8, 4))

    def forward(self, x):
        return self.layers(x)


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 5, 3)

    def forward(self, images):
        return self.convolution(images)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 6)

    def forward(self, tokens):
        return self.embedding(tokens).sum(1)


class Block(nn.Module):
    def __init__(self, dim: int, num_heads: int, p: float):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.attention = nn.MultiheadAttention(dim, num_heads, dropout=p, batch_first=True)

    def forward(self, x):
        hidden = self.norm(x)
        return x + self.attention(hidden, hidden, hidden)[0]


class Needy(nn.Module):
    def __init__(self, width, settings):
        super().__init__()


class Odd(nn.Module):
    def __init__(self, heads):
        super().__init__()
        assert heads % 2, "heads come in threes"

    def forward(self, x):
        return x


small = Block(8, 2, 0.0)


def swish(x: torch.Tensor) -> torch.Tensor:
    return x * torch.sigmoid(x)
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "models.py").write_text(MODELS)
    return repository(tmp_path)


@pytest.mark.parametrize(
    ("name", "argument", "shape"),
    [
        ("Net", "x", ["$batch", 12]),
        ("Pictures", "images", ["$batch", 3, 16, 20]),
        ("Words", "tokens", ["$batch", 32]),
        ("swish", "x", ["$rows", 64]),
    ],
)
def test_torch_is_green_at_once(project, name, argument, shape):
    done = started(project, "init", f"models:{name}")
    assert done.returncode == 0, done.stdout + done.stderr
    suite = yaml.safe_load((project / f"suites/unit/{name}.yaml").read_text())
    assert suite["subject"]["torch"] == f"models:{name}"
    assert suite["inputs"][argument]["shape"] == shape
    assert started(project, "run").returncode == 0
    assert "precreg[torch]" in (project / ".gitlab-ci.yml").read_text()


def test_a_class_gets_guessed_arguments(project):
    done = started(project, "init", "models:Block")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "arguments  dim=64, num_heads=4, p=0.1 (by name or annotation)" in done.stdout
    suite = yaml.safe_load((project / "suites/unit/Block.yaml").read_text())
    assert suite["subject"]["arguments"] == {"dim": 64, "num_heads": 4, "p": 0.1}
    assert suite["inputs"]["x"]["shape"] == ["$batch", 64]
    assert started(project, "run").returncode == 0


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("Needy", "Needy needs settings", "small = Needy(width=64, settings=...), then precreg init models:small"),
        ("Odd", "heads come in threes", "small = Odd(heads=4), then precreg init models:small"),
    ],
)
def test_a_class_that_no_guess_makes_is_an_error_that_shows_its_arguments(project, name, message, hint):
    done = started(project, "init", f"models:{name}")
    assert done.returncode == 2
    assert "error[no-guess]" in done.stderr
    assert message in done.stderr
    assert hint in done.stderr
    assert "Traceback" not in done.stderr


def test_the_hint_works(project):
    done = started(project, "init", "models:small")
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_onnx_model_is_green_at_once(project):
    from onnx import TensorProto, helper, save

    graph = helper.make_graph(
        [helper.make_node("Softmax", ["x"], ["y"], axis=-1)],
        "softmax",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 10])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 10])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    save(model, str(project / "soft.max.onnx"))
    done = started(project, "init", "soft.max.onnx")
    assert done.returncode == 0, done.stdout + done.stderr
    suite = yaml.safe_load((project / "suites/unit/soft_max.yaml").read_text())
    assert suite["subject"] == {"onnx": "../../soft.max.onnx"}
    assert suite["inputs"]["x"] == {"shape": ["$batch", 10], "dtype": "float32", "normal": {"mean": 0, "std": 1}}
    assert started(project, "run").returncode == 0
    assert "precreg[onnx]" in (project / ".gitlab-ci.yml").read_text()
