"""Modules in a wider dtype: beside the same casts written by hand, and with the mistakes of a configuration."""

import ml_dtypes
import numpy as np
import pytest
import torch

from precreg.errors import UserError
from precreg.subject.torch.run import run_torch, weights_by_module

NET = """\
import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.scale = nn.Parameter(torch.rand(8))
        self.register_buffer("shift", torch.rand(8))
        self.seen = []

    def forward(self, x, keep=None):
        self.seen.append((x.dtype, self.scale.dtype, torch.is_autocast_enabled("cpu")))
        return self.linear(x * self.scale) * self.scale + self.shift


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Scaled(), Scaled()])
        self.head = nn.Linear(8, 8)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)
        self.last.weight = self.first.weight

    def forward(self, x):
        return self.last(self.first(x))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x)[0] + x


class Failing(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        try:
            self.inner(x)
        except ValueError:
            return x @ x.mT


class Inner(nn.Module):
    def forward(self, x):
        raise ValueError("no result")


def plain(x):
    return x
"""
X = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float16)


@pytest.fixture
def run(write, call):
    write("suites/unit/k.py", NET)

    def run(name="Net", x=X, **options):
        return run_torch({"torch": f"k:{name}", "seed": 3, **options}, call({"x": x})).arrays["out"]

    return run


def by_hand(name="Net"):
    """Return the module with the weights of the subject."""
    space = {}
    exec(NET, space)
    torch.manual_seed(3)
    return space[name]().eval()


def same_bits(array, tensor):
    expected = tensor.detach().numpy()
    return array.dtype == expected.dtype and array.tobytes() == expected.tobytes()


def test_a_module_with_all_below_it(run):
    net = by_hand().half()
    wide = net.layers[1].float()
    with torch.no_grad():
        expected = net.head(wide(net.layers[0](torch.from_numpy(X)).float()).half())
    kept = run(dtype="float16", keep_in={"float32": ["layers.1"]})
    assert same_bits(kept, expected)
    assert not same_bits(run(dtype="float16"), expected)


def test_the_code_of_a_module_alone(run):
    net = by_hand().half()
    layer, x = net.layers[0], torch.from_numpy(X)
    with torch.no_grad():
        scale, shift = layer.scale.float(), layer.shift.float()
        inner = layer.linear((x.float() * scale).half()).float()
        expected = net.head(net.layers[1]((inner * scale + shift).half()))
    assert same_bits(run(dtype="float16", keep_in={"float32": ["layers.0:own"]}), expected)


def test_the_module_itself_gives_its_result_in_the_narrow_dtype(run):
    net = by_hand().half().double()
    with torch.no_grad():
        expected = net(torch.from_numpy(X).double()).half()
    everything = run(dtype="float16", keep_in={"float64": [":own", "*"]})
    assert same_bits(everything, expected)


def test_several_patterns_and_dtypes(run):
    net = by_hand().bfloat16()
    x = torch.from_numpy(X.astype(np.float32)).bfloat16()
    with torch.no_grad():
        hidden = net.layers[0].float()(x.float()).bfloat16()
        hidden = net.layers[1].double()(hidden.double()).bfloat16()
        expected = net.head(hidden)
    given = x.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    kept = run(
        x=given,
        dtype="bfloat16",
        keep_in={"float32": ["layers.0"], "float64": ["layers.[1]"]},
    )
    assert kept.tobytes() == expected.view(torch.int16).numpy().tobytes()


def test_a_shared_weight_stays_narrow_where_it_is_narrow(run):
    net = by_hand("Tied").half()
    with torch.no_grad():
        hidden = net.first(torch.from_numpy(X))
        last = torch.nn.functional.linear(hidden.float(), net.last.weight.float(), net.last.bias.float())
    assert same_bits(run("Tied", dtype="float16", keep_in={"float32": ["last"]}), last.half())


def test_a_module_that_uses_the_weights_of_one_below_it(run):
    x = torch.from_numpy(X[None])
    net = by_hand("Attention").half()
    attention = net.attention.float()
    with torch.no_grad():
        expected = attention(x.float(), x.float(), x.float())[0].half() + x
    assert same_bits(run("Attention", X[None], dtype="float16", keep_in={"float32": ["attention"]}), expected)


def test_autocast_is_off_inside_and_on_again_below(run):
    x = X.astype(np.float32)
    net = by_hand()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        layer, hidden = net.layers[0], torch.from_numpy(x)
        inner = layer.linear(hidden * layer.scale)
        with torch.autocast("cpu", enabled=False):
            hidden = inner.float() * layer.scale + layer.shift
        expected = net.head(net.layers[1](hidden))
        with torch.autocast("cpu", enabled=False):
            whole = layer(torch.from_numpy(x))
        of_whole = net.head(net.layers[1](whole))
    own = run(x=x, autocast="bfloat16", keep_in={"float32": ["layers.0:own"]})
    assert own.tobytes() == expected.view(torch.int16).numpy().tobytes()
    kept = run(x=x, autocast="bfloat16", keep_in={"float32": ["layers.0"]})
    assert kept.tobytes() == of_whole.view(torch.int16).numpy().tobytes() != own.tobytes()


def test_autocast_comes_back_after_an_error_inside(run):
    x = X.astype(np.float32)
    expected = run("Failing", x, autocast="bfloat16")
    kept = run("Failing", x, autocast="bfloat16", keep_in={"float32": ["inner"]})
    assert kept.dtype == expected.dtype
    assert kept.tobytes() == expected.tobytes()


def test_two_calls_have_the_same_bits(run):
    first, second = (run(dtype="float16", keep_in={"float32": ["layers.0", "head"]}) for _ in range(2))
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize(
    ("keep_in", "slug", "expected"),
    [
        ({"float32": ["layers.2"]}, "unknown-node", "expected a layer of k:Net (layers, layers.0"),
        ({"float32": ["layers.0"], "float64": ["layers.0.linear"]}, "bad-value", "but got two for layers.0.linear"),
        ({"float32": [":own"], "float64": [":own"]}, "bad-value", "but got two for :own"),
    ],
)
def test_names_that_fit_no_module_or_two_dtypes(run, keep_in, slug, expected):
    with pytest.raises(UserError) as error:
        run(dtype="float16", keep_in=keep_in)
    assert error.value.slug == slug
    assert expected in error.value.message


def test_a_function_has_no_modules(run, call):
    with pytest.raises(UserError, match="expected a module beside dtype, keep_in"):
        run("plain", dtype="float16", keep_in={"float32": ["x"]})
    assert weights_by_module({"torch": "k:plain"}, call({"x": X})) == {}


def test_the_weights_that_each_module_holds_itself(run, call):
    assert weights_by_module({"torch": "k:Net"}, call({"x": X})) == {
        "": 0,
        "layers": 0,
        "layers.0": 16,
        "layers.0.linear": 72,
        "layers.1": 16,
        "layers.1.linear": 72,
        "head": 72,
    }
