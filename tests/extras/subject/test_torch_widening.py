"""The default reference computes in float64 whatever dtypes the code names."""

import numpy as np
import pytest

from precreg.subject.torch.run import run_torch

CODE = """\
import torch
from torch import nn


def cast(x):
    y = x.to(torch.bfloat16).exp().float() + x.half() + x.to(dtype=torch.float8_e5m2).to(torch.float32)
    return y.type(torch.float16).to(x.dtype)


def made(x):
    return torch.zeros(3) + x + torch.full((3,), 0.1, dtype=torch.float16) + torch.tensor([0.1, 0.2, 0.3])


def bits(x):
    return (x.to(torch.int64) + 0x3F800000).to(torch.int32).view(torch.float32) * x


def whole(x):
    return x.to(torch.int8), x.argmax()


def noise(x):
    return x + torch.randn(3)


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x):
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)
"""
X = np.array([0.3, -1.7, 2.9])


@pytest.fixture
def run(write, call):
    write("suites/unit/narrowing.py", CODE)

    def run(name, x=X, **options):
        return run_torch({"torch": f"narrowing:{name}", **options}, call({"x": x})).arrays

    return run


def test_casts_are_left_out(run):
    got = run("cast", widened="float64")["out"]
    np.testing.assert_allclose(got, np.exp(X) + 2 * X, rtol=1e-15)
    assert np.abs(run("cast")["out"] - got).max() > 1e-3, "the subject itself casts"


def test_tensors_are_made_in_float64(run):
    got = run("made", widened="float64")["out"]
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, X + 0.1 + np.array([0.1, 0.2, 0.3]), rtol=1e-15)


def test_a_view_of_bits_and_whole_numbers_stay(run):
    ones = np.array([0.0, 1.0, 2.0])
    np.testing.assert_array_equal(run("bits", ones, widened="float64")["out"], run("bits", ones)["out"])
    got = run("whole", widened="float64")
    assert (got["0"].dtype, got["0"].tolist(), got["1"].item()) == (np.int8, [0, -1, 2], 2)


def test_seeded_noise_is_the_subjects(run):
    x = X.astype(np.float32)
    wide = run("noise", x.astype(np.float64), widened="float64")["out"]
    np.testing.assert_allclose(run("noise", x)["out"], wide, atol=1e-6)


def test_a_norm_that_computes_in_float32_has_a_reference_in_float64(run):
    exact = X / np.sqrt((X**2).mean() + 1e-6)
    np.testing.assert_allclose(run("Norm", widened="float64")["out"], exact, rtol=4e-16)


def test_gradients_are_in_float64(run):
    got = run("Norm", widened="float64", gradients=["inputs", "parameters"])
    assert {array.dtype.name for array in got.values()} == {"float64"}
    cast = run("cast", widened="float64", gradients=["inputs"])["grad.x"]
    import torch

    from precreg.subject.torch.gradients import cotangent

    factors = cotangent("out", torch.zeros(3, dtype=torch.float64)).numpy()
    np.testing.assert_allclose(cast, factors * (np.exp(X) + 2), rtol=1e-14)
