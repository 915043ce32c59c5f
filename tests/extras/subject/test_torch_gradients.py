"""Gradients of subjects of torch, against formulas in numpy and against differences of exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from precreg.errors import UserError
from precreg.subject.torch.gradients import cotangent, gradient_groups
from precreg.subject.torch.run import run_torch

NET = """\
import torch
from torch import nn


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.unused = nn.Parameter(torch.ones(4))
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)

    def forward(self, x, index):
        return self.layer(x) * self.frozen


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(12))
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x * self.scale


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 2).to(torch.bfloat16)
        self.b = nn.Linear(2, 2)

    def forward(self, x):
        return self.b(self.a(x.to(self.a.weight.dtype)).to(self.b.weight.dtype))


class Sparse(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 2, sparse=True)

    def forward(self, tokens):
        return self.table(tokens)


def product(x, y):
    return {"p": x * y, "sum": (x + y).sum()}


def softmax(x):
    return torch.softmax(x, dim=-1)


def cubic(x):
    return x**3 - 2 * x


def constant(x):
    return torch.ones(2)


def taken(x):
    return {"y": x, "grad.x": x}
"""


@pytest.fixture
def run(write, call):
    write("suites/unit/net.py", NET)

    def run(name, inputs, gradients, **options):
        return run_torch({"torch": name, "gradients": gradients, **options}, call(inputs)).arrays

    return run


def factors(name, shape):
    return cotangent(name, torch.zeros(shape, dtype=torch.float64)).numpy()


def test_gradients_of_inputs_are_those_of_the_formula(run):
    x, y = np.array([1.0, 2.0, -3.0]), np.array([0.5, -4.0, 8.0])
    got = run("net:product", {"x": x, "y": y}, ["inputs"])
    assert list(got) == ["p", "sum", "grad.x", "grad.y"]
    of_p, of_sum = factors("p", (3,)), factors("sum", ())
    assert got["grad.x"].tolist() == (y * of_p + of_sum).tolist()
    assert got["grad.y"].tolist() == (x * of_p + of_sum).tolist()


def test_the_gradient_of_a_softmax_is_not_hidden(run):
    x = np.array([[0.5, -1.0, 2.0, 0.0]])
    got = run("net:softmax", {"x": x}, ["inputs"])
    s, c = got["out"], factors("out", (1, 4))
    np.testing.assert_allclose(got["grad.x"], s * (c - (s * c).sum()), rtol=1e-14)
    assert np.abs(got["grad.x"]).max() > 0.01, "a plain sum would give zeros"


def test_the_cotangent_is_the_same_numbers_in_every_format():
    exact = cotangent("y", torch.zeros(40, dtype=torch.float64))
    for dtype in (torch.float8_e5m2, torch.float8_e4m3fn, torch.bfloat16, torch.float16, torch.complex64):
        assert torch.equal(cotangent("y", torch.zeros(40, dtype=dtype)).to(torch.complex128).real, exact)
    assert not (exact == 0).any()
    assert not torch.equal(cotangent("z", torch.zeros(40, dtype=torch.float64)), exact)
    # Pinned: every platform and version of numpy has the same ones.
    assert exact[:8].tolist() == PINNED


PINNED = [1.5, -0.5, -1.75, -1.75, -1.5, -1.5, 1.25, -0.5]


def test_gradients_of_parameters_are_grouped(run):
    x = np.array([[1.0, -2.0, 0.5]])
    got = run("net:Linear", {"x": x, "index": np.array([1])}, ["inputs", "parameters"], dtype="float64")
    assert list(got) == ["out", "grad.x", "grad.vectors", "grad.matrices"]
    c = factors("out", (1, 2))
    assert got["grad.matrices"].tolist() == (c.T @ x).reshape(-1).tolist()
    # The unused parameter comes first in the order of the module, and has zeros; the frozen one has no gradient.
    assert got["grad.vectors"].tolist() == [0, 0, 0, 0, *c[0]]


def test_25_parameters_give_two_outputs(run):
    got = run("net:Deep", {"x": np.ones((2, 4), np.float32)}, ["parameters"])
    assert {name: array.shape for name, array in got.items() if name != "out"} == {
        "grad.matrices": (12 * 16,),
        "grad.vectors": (12 * 4 + 1,),
    }


def test_parameters_of_several_dtypes_have_a_group_each_and_the_reference_has_the_same(run):
    x = np.ones((1, 2), np.float32)
    got = run("net:Mixed", {"x": x}, ["parameters"])
    names = ["grad.matrices.bfloat16", "grad.vectors.bfloat16", "grad.matrices.float32", "grad.vectors.float32"]
    assert [*got][1:] == names
    assert [array.dtype.name for array in got.values()][1:] == ["bfloat16", "bfloat16", "float32", "float32"]
    wide = run("net:Mixed", {"x": x.astype(np.float64)}, ["parameters"], widened="float64")
    assert [*wide] == [*got]
    assert {array.dtype.name for array in wide.values()} == {"float64"}


def test_a_sparse_gradient_is_dense(run):
    got = run("net:Sparse", {"tokens": np.array([1, 3, 1])}, ["parameters"])["grad.matrices"].reshape(5, 2)
    assert (got[[0, 2, 4]] == 0).all()
    c = factors("out", (3, 2))
    assert got[1].tolist() == (c[0] + c[2]).tolist()


def test_a_wrong_gradient_of_a_bias_is_not_drowned_by_weights():
    class Large(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(300, 4)

    groups = {group.output: group.parameters for group in gradient_groups(Large())}
    assert groups == {"grad.matrices": ("layer.weight",), "grad.vectors": ("layer.bias",)}


@pytest.mark.parametrize(
    ("name", "message"),
    [("net:constant", "got none that requires a gradient"), ("net:taken", "added output grad.x but an output has it")],
)
def test_no_gradient_and_a_taken_name(run, name, message):
    with pytest.raises(UserError, match=message):
        run(name, {"x": np.ones(2)}, ["inputs"])


def test_a_gradient_agrees_with_differences_of_exact_arithmetic(run):
    """The derivative of c * (x^3 - 2x) by central differences of rationals, without any of torch."""
    x = np.array([0.5, -1.25, 3.0])
    c = factors("out", (3,))
    step = Fraction(1, 2**40)

    def f(value):
        return value**3 - 2 * value

    def slope(value):
        return (f(value + step) - f(value - step)) / (2 * step)

    expected = [float(Fraction(k) * slope(Fraction(v))) for k, v in zip(c, x, strict=True)]
    np.testing.assert_allclose(run("net:cubic", {"x": x}, ["inputs"])["grad.x"], expected, rtol=1e-14)
