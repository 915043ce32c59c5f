"""The fixture `precision` takes tensors as results, references and inputs."""

import pytest

from tests.e2e.command import change
from tests.pytest_plugin.session import accept, counted, project, pytest_, verdicts

TESTS = """
import numpy as np
import torch

X = torch.linspace(-3, 3, 256).reshape(16, 16)


def softmax(x):
    return torch.softmax(x, dim=-1)


def test_bfloat16_with_a_gradient(precision):
    x = X.to(torch.bfloat16).requires_grad_()
    result = precision.check(softmax(x), reference=softmax(x.double()), inputs={"x": x})
    (comparison,) = result.outcome.comparisons
    assert (comparison.dtype, comparison.reference_dtype) == ("bfloat16", "float64")


def test_nested(precision):
    precision.check({"y": [softmax(X), softmax(X)]}, golden={"y.0": softmax(X), "y.1": softmax(X)})


def test_drawn(precision):
    def draw(rng):
        return {"x": torch.from_numpy(rng.normal(size=(4, 8))).to(torch.float16), "scale": rng.normal(size=1)}

    def actual(x, scale):
        assert isinstance(x, torch.Tensor) and isinstance(scale, np.ndarray)
        return softmax(x.add_(0))

    precision.check(actual, reference=lambda x, scale: softmax(x.double()), inputs=draw, seeds=3)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "suites").mkdir()
    (tmp_path / "test_ops.py").write_text(TESTS)
    return project(tmp_path)


def test_tensors_are_checked_accepted_and_a_loss_fails(folder):
    done = pytest_(folder)
    assert [reason for _, reason in verdicts(folder / "reports").values()] == ["new"] * 3, done.stdout
    accept(folder, "*")
    done = pytest_(folder)
    assert counted(done) == {"passed": 3}, done.stdout
    assert [reason for _, reason in verdicts(folder / "reports").values()] == ["identical"] * 3
    change(folder / "test_ops.py", "check(softmax(x), r", "check(softmax(x) * (1 + 2.0**-7), r")
    done = pytest_(folder)
    assert done.returncode == 1, done.stdout
