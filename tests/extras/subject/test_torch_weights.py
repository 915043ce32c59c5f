"""Weights from files: what fits is taken, and nothing in a file runs."""

import pickle

import ml_dtypes
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from precreg.errors import UserError
from precreg.subject.torch.run import run_torch


@pytest.fixture
def folder(project, write):
    write("suites/unit/net.py", "import torch\n\ndef Net():\n    return torch.nn.Linear(2, 3)\n")
    return project / "suites" / "unit"


@pytest.fixture
def run(call, folder):
    def run(weights, **options):
        spec = {"torch": "net:Net", "arguments": {}, "weights": weights, **options}
        return run_torch(spec, call({"input": np.eye(2, dtype=np.float32)})).arrays["out"]

    return run


WEIGHT = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
BIAS = torch.tensor([0.5, 0.25, 0.125])
GIVEN = {"weight": WEIGHT, "bias": BIAS}
# The rows of the weight's transpose, and the bias.
EXPECTED = [[1.5, 3.25, 5.125], [2.5, 4.25, 6.125]]


def test_safetensors_and_pt_give_the_same_weights(run, folder):
    save_file(GIVEN, folder / "w.safetensors")
    torch.save(GIVEN, folder / "w.pt")
    torch.save({"state_dict": GIVEN, "epoch": 3}, folder / "w.pth")
    torch.save({name: each.to(torch.bfloat16) for name, each in GIVEN.items()}, folder / "narrow.pt")
    for name in ("w.safetensors", "w.pt", "w.pth", "narrow.pt"):
        assert run(name).tolist() == EXPECTED


def test_a_changed_file_is_read_again(run, folder):
    save_file(GIVEN, folder / "w.safetensors")
    assert run("w.safetensors").tolist() == EXPECTED
    save_file({"weight": WEIGHT, "bias": BIAS * 0, "more": BIAS[:0]}, folder / "other.safetensors")
    save_file({"weight": WEIGHT, "bias": BIAS * 0}, folder / "w.safetensors")
    assert run("w.safetensors").tolist() == [[1, 3, 5], [2, 4, 6]]


class Evil:
    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return open, (str(self.trace), "w")


def test_a_pickle_that_would_run_code_runs_none(run, folder):
    trace = folder / "trace"
    torch.save({"weight": WEIGHT, "bias": Evil(trace)}, folder / "evil.pt")
    (folder / "plain.pt").write_bytes(pickle.dumps(Evil(trace)))
    for name in ("evil.pt", "plain.pt"):
        with pytest.raises(UserError, match=f"{name} holds objects .*whose loading would run code") as caught:
            run(name)
        assert caught.value.slug == "bad-weights"
        # torch's text advises to load the file without protection.
        assert "weights_only" not in str(caught.value)
    assert not trace.exists()


MANY = {f"layer{index}": BIAS for index in range(5)}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"weight": WEIGHT}, "expected the weights of Linear but w.pt lacks bias\n"),
        (GIVEN | MANY, "w.pt has unknown layer0, layer1, layer2 and 2 more\n"),
        ({"weight": WEIGHT.T, "bias": BIAS}, r"w.pt has other shapes: weight \(2, 3\) for \(3, 2\)\n"),
        ({"weight": BIAS, "extra": BIAS}, r"lacks bias; has unknown extra; has other shapes: weight \(3,\) for"),
        (GIVEN | {"bias": BIAS.cfloat()}, "w.pt has complex numbers for bias\n"),
        ([WEIGHT], "expected tensors by name but w.pt holds list"),
        ({"weight": 3}, "expected tensors by name but w.pt holds dict"),
    ],
)
def test_weights_that_do_not_fit_are_listed(run, folder, weights, message):
    torch.save(weights, folder / "w.pt")
    with pytest.raises(UserError, match=message) as caught:
        run("w.pt")
    assert caught.value.slug == "bad-weights"


def test_damaged_files(run, folder):
    torch.save(GIVEN, folder / "w.pt")
    whole = (folder / "w.pt").read_bytes()
    (folder / "cut.pt").write_bytes(whole[: len(whole) // 2])
    (folder / "text.pt").write_text("hello")
    (folder / "empty.pt").write_text("")
    for name, reason in (("cut.pt", "RuntimeError"), ("text.pt", "Error"), ("empty.pt", "EOFError")):
        with pytest.raises(UserError, match=f"got {name}: .*{reason}") as caught:
            run(name)
        assert caught.value.slug == "bad-weights"
    (folder / "text.safetensors").write_text("hello")
    with pytest.raises(UserError, match="expected a header") as caught:
        run("text.safetensors")
    assert caught.value.slug == "bad-safetensors-file"


def test_weights_are_rounded_once_to_the_dtype_of_the_module(run, folder):
    fine = torch.tensor([1 + 2.0**-30, 1.0, 1.0], dtype=torch.float64)
    torch.save({"weight": WEIGHT, "bias": fine}, folder / "w.pt")
    assert run("w.pt")[0, 0] == 2
    bias = np.array([0.3, 0.1, 0.7], ml_dtypes.bfloat16)
    save_file(
        {"weight": WEIGHT, "bias": torch.tensor(bias.astype(np.float32)).to(torch.bfloat16)}, folder / "b.safetensors"
    )
    assert (run("b.safetensors")[0] - [1, 3, 5]).tolist() == pytest.approx(bias.astype(np.float64), abs=1e-6)
