"""`precreg export` of layers of a torch module, and `compare` of what it writes."""

import numpy as np
import pytest
import torch

from tests.e2e.command import precreg, with_suite

MODEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.act = nn.ReLU(inplace=True)
        self.rnn = nn.LSTM(4, 2)
        self.last = nn.Linear(4, 2)

    def forward(self, x):
        for layer in reversed(self.layers):
            x = self.act(layer(x))
        return {"y": self.last(x), "state": self.rnn(x)[1]}


class Pair(nn.Sequential):
    def forward(self, x):
        return self[0](x), x


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.pair = Pair(nn.Linear(4, 2))

    def forward(self, x):
        y, x = self.pair(x)
        return {"pair.0": y, "x": x}


def scaled(x, w):
    assert isinstance(x, torch.Tensor)
    return torch.relu(x) * 2
"""


@pytest.fixture
def project(tmp_path):
    with_suite(tmp_path, "suite: s\nsubject: k:scaled\nreference: k:scaled\n", MODEL)
    np.save(tmp_path / "x.npy", np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4))
    return tmp_path


def export(project, *arguments, model="suites/unit/k:Net", output="out.npz"):
    return precreg(project, "export", model, "--input", "x.npy", "--output", output, *arguments)


def shown(done):
    return [line.split("  ")[1].split(":")[0] for line in done.stdout.splitlines()]


def test_layers_are_written_in_the_order_of_execution(project):
    done = export(project, "--layer", "layers.*", "--layer", "act", "--layer", "last")
    assert done.returncode == 0, done.stderr
    assert shown(done) == ["layers.2", "act.0", "layers.1", "act.1", "layers.0", "act.2", "last"]
    space = {}
    exec(MODEL, space)
    torch.manual_seed(0)
    net, x = space["Net"]().eval(), torch.from_numpy(np.load(project / "x.npy"))
    first = net.layers[2](x).detach().numpy()
    found = np.load(project / "out.npz")
    np.testing.assert_allclose(found["layers.2"], first, rtol=1e-6)
    assert (found["layers.2"] < 0).any(), "the ReLU after it overwrites the tensor, and not what is written"
    np.testing.assert_array_equal(found["act.0"], np.maximum(found["layers.2"], 0))


def test_a_layer_with_several_outputs_and_the_modules_own(project):
    done = export(project, "--layer", "rnn", "--node", "y")
    assert shown(done) == ["rnn.0", "rnn.1.0", "rnn.1.1", "y"], done.stderr
    assert shown(export(project)) == ["y", "state.0", "state.1"]


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        ("layer.1", 'but got layer=layer.1; did you mean "layers.1"?'),
        (
            "conv*",
            "of k:Net (layers, layers.0, layers.1, layers.2, act, rnn, last) but got layer=conv*",
        ),
        ("layers", "expected a layer of k:Net that runs (none of those named) but layer=layers does not; try"),
    ],
)
def test_a_layer_that_is_not_there(project, layer, expected):
    done = export(project, "--layer", layer)
    assert done.returncode == 2
    assert "error[unknown-node]: " in done.stderr
    assert expected in done.stderr
    assert not (project / "out.npz").exists()


def test_outputs_of_one_name_do_not_replace_each_other(project):
    done = export(project, "--layer", "pair", "--layer", "pair.0", model="suites/unit/k:Holder")
    assert (done.returncode, "but got two of name=pair.0; export pair alone" in done.stderr) == (2, True), done.stderr
    done = export(project, "--layer", "pair", "--node", "pair.0", model="suites/unit/k:Holder")
    assert (done.returncode, "but got pair.0 of each; export the nodes alone" in done.stderr) == (2, True), done.stderr
    assert not (project / "out.npz").exists()
    done = export(project, "--layer", "pair", "--node", "x", model="suites/unit/k:Holder")
    assert shown(done) == ["pair.0", "pair.1", "x"]


def test_a_function_gets_tensors_if_asked(project):
    np.save(project / "w.npy", np.ones(1))
    done = export(project, "--input", "w.npy", "--torch", model="suites/unit/k:scaled", output="y.npy")
    assert done.returncode == 0, done.stderr
    assert np.load(project / "y.npy").min() == 0
    done = export(project, "--input", "w.npy", "--layer", "act", model="suites/unit/k:scaled")
    assert "expected a module beside layers but k:scaled is a function" in done.stderr
    done = export(project, "--torch", "--device", "ascend")
    assert "error[bad-value]: expected --device for a model in numpy but got one in torch" in done.stderr


def test_what_is_written_can_be_compared(project):
    for name in ("a.npz", "b.npz"):
        assert export(project, "--layer", "layers.*", output=name).returncode == 0
    done = precreg(project, "compare", "--golden", "a.npz", "--actual", "b.npz")
    assert done.returncode == 0, done.stdout
    assert "3" in done.stdout
