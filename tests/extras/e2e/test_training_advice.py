"""`precreg training MODULE:make --advise`: its page, and mistakes of the user; and a suite that gates a training."""

import json

import pytest

from tests.e2e.command import THREADS, accept_on_main, change, precreg, repository, started

CODE = """
import torch
from torch.nn.functional import mse_loss


def batches(dtype=torch.float32):
    return [(x, x[:, :4]) for x in torch.randn(20, 8, 16).to(dtype)]


def network():
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))


def make():
    model = network()
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), batches(), mse_loss


def narrow():
    model = network().to(torch.bfloat16)
    return model, torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9), batches(torch.bfloat16), mse_loss


def scaled(scale):
    model = network()
    return {
        "model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.1), "data": batches(), "loss": mse_loss,
        "autocast": "float16", "scaler": torch.amp.GradScaler("cpu", init_scale=scale, backoff_factor=0.9),
    }


def well_scaled():
    return scaled(2.0**10)


def scaled_high():
    return scaled(2.0**24)


def tiny():
    model, optimizer, data, loss = make()
    scaler = torch.amp.GradScaler("cpu", init_scale=1.0)
    small = lambda output, target: 1e-7 * loss(output.float(), target)
    return {"model": model, "optimizer": optimizer, "data": data, "loss": small, "autocast": "float16",
            "scaler": scaler}


def frozen():
    model = network().requires_grad_(False)
    return model, torch.optim.SGD(model.parameters(), lr=0.1), batches(), mse_loss


def idle():
    model = network()
    return {"model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.1), "data": batches(),
            "loss": mse_loss, "step": lambda recipe, batch: recipe.optimizer.step()}


def nan():
    model, optimizer, data, loss = make()
    return model, optimizer, data, lambda output, target: loss((-output.abs() - 1).log(), target)


def diverges():
    model = network()
    return model, torch.optim.SGD(model.parameters(), lr=1e30), batches(), mse_loss


def too_large():
    model = torch.nn.Linear(2**23, 2**23)
    return model, torch.optim.SGD(model.parameters(), lr=0.1), batches(), mse_loss


def grows():
    # A request that no machine meets, in the float64 twin alone.
    model, optimizer, data, loss = make()
    def large(output, target):
        if output.dtype == torch.float64 and torch.is_grad_enabled():
            torch.empty(2**46)
        return loss(output, target)
    return model, optimizer, data, large


def of_another_model():
    return network(), torch.optim.SGD(network().parameters(), lr=0.1), batches(), mse_loss


def sums():
    return torch.nn.Linear(2, 2), None, batches(), mse_loss
"""

SUITE = """suite: trained
subject: {training: "train:make", steps: 20}
tolerance:
  outputs:
    lost.*: {max_abs_error: 0.05}
    underflow.*: {max_abs_error: 0.01}
    overflow.*: {max_abs_error: 0}
    skipped: {max_abs_error: 0}
    scale: {max_abs_error: 1}
    loss: {rms_error: 0.01}
"""


@pytest.fixture(name="folder")
def folder_of_trainings(tmp_path):
    (tmp_path / "train.py").write_text(CODE)
    return tmp_path


def training(folder, *arguments):
    return started(folder, "training", *arguments, **THREADS)


def test_the_page_has_the_advice_and_the_observed_steps(folder):
    options = ("--advise", "--steps", "20", "--seeds", "1", "--report", "t.html", "--json", "t.json")
    done = training(folder, "train:narrow", *options)
    assert done.returncode == 0, done.stderr
    page, advice = (folder / "t.html").read_text(), json.loads((folder / "t.json").read_text())
    first = advice["symptoms"][0]
    assert first["kind"] == "lost_updates"
    assert f"<h2>1. {first['text']}</h2>" in page
    assert "float32 master weights: lacks" in page
    assert "Gradient flow by parameter and step" in page
    assert "written: t.json, t.html" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train:make", "--seeds", "2"], "expected --advise beside --seeds 2"),
        (
            ["--gradients", "g.npz", "--advise"],
            "expected a training to rerun beside --advise but got --gradients g.npz",
        ),
        (["--advise"], "expected a training or stored gradients but got none"),
        (["train:make", "--advise", "--every", "2"], "expected --report beside --advise"),
        (["train:make", "--advise", "--scales"], "expected --report beside --advise"),
        (["train:frozen", "--advise"], "error[no-gradients]: expected gradients but no parameter of the optimizer"),
        (["train:idle", "--advise"], "error[no-gradients]: expected gradients but no parameter of the optimizer"),
        (["train:too_large", "--advise"], "error[out-of-memory]: expected memory for train:too_large"),
        (["train:of_another_model", "--advise"], "expected an optimizer of the model but none of its 4 parameters"),
        (["train:sums", "--advise"], "expected a torch Optimizer as optimizer but got NoneType"),
    ],
)
def test_mistakes_are_messages_with_a_remedy(folder, arguments, words):
    done = training(folder, *arguments)
    assert done.returncode == 2, done.stdout
    assert words in done.stderr
    assert "this is a bug of precreg" not in done.stderr
    assert "what to do:" in done.stderr


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nan", "the loss is NaN or infinite in float64 before the first step, so no format causes it: no advice"),
        ("diverges", "the float64 twin diverges to NaN or infinity, so no format causes it: no advice"),
        ("grows", "measure a smaller training with the same layers: the twin needs twice the memory of float32"),
    ],
)
def test_a_fault_that_no_format_causes_gets_no_remedy(folder, name, words):
    done = training(folder, f"train:{name}", "--advise", "--steps", "5", "--seeds", "1", "--json", "-")
    assert done.returncode == 0, done.stderr
    assert words in done.stderr
    found = json.loads(done.stdout)
    assert not found["is_damaged"]
    assert not any(symptom["effects"] for symptom in found["symptoms"])


def gated(tmp_path, name="make"):
    unit = tmp_path / "suites" / "unit"
    unit.mkdir(parents=True)
    (unit / "train.py").write_text(CODE)
    (unit / "trained.yaml").write_text(SUITE.replace("train:make", f"train:{name}"))
    return unit


@pytest.mark.parametrize(
    ("healthy", "faulty", "outputs"),
    [
        ("make", "narrow", ["lost.0.weight"]),
        ("well_scaled", "scaled_high", ["skipped", "overflow.0.weight"]),
        ("well_scaled", "tiny", ["underflow.0.weight"]),
    ],
)
def test_a_suite_fails_when_a_fault_is_planted(tmp_path, healthy, faulty, outputs):
    unit = gated(tmp_path, healthy)
    folder = accept_on_main(repository(tmp_path))
    done = precreg(folder, "run")
    assert done.returncode == 0, done.stdout
    change(unit / "trained.yaml", f"train:{healthy}", f"train:{faulty}")
    done = precreg(folder, "run", "--diagnose", 0)
    assert done.returncode == 1, done.stdout
    assert "out_of_tolerance" in done.stdout
    for output in outputs:
        assert f"values    {output}: actual" in done.stdout


def test_a_baseline_gates_a_loss_without_a_bound(tmp_path):
    unit = gated(tmp_path)
    (unit / "trained.yaml").write_text('suite: trained\nsubject: {training: "train:make", steps: 20}\n')
    folder = accept_on_main(repository(tmp_path))
    assert precreg(folder, "run").returncode == 0
    change(
        unit / "train.py",
        "def make():\n    model = network()\n",
        "def make():\n    return narrow()\n    model = network()\n",
    )
    done = precreg(folder, "run", "--diagnose", 300)
    assert done.returncode == 1, done.stdout
    assert "loss" in done.stdout
    # No search for a cause, which would rerun the training for half a minute: the command that finds causes instead.
    command = "precreg training suites/unit/train:make --advise --steps 20"
    assert f"rewrite of one operation explains figures of a whole run: {command}\n" in done.stdout
    assert "diagnosed" not in done.stdout
    diagnosed = precreg(folder, "diagnose", "unit/trained")
    assert (diagnosed.returncode, f"to do: measure the parts of the run: {command}\n" in diagnosed.stdout) == (1, True)
    traced = precreg(folder, "trace", "unit/trained")
    assert (traced.returncode, f"what to do: measure its parts: {command}\n" in traced.stderr) == (2, True)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("steps: 20", "steps: 0", "expected a whole number from 1 but got steps=0"),
        ("steps: 20", "seed: -1", "expected a whole number from 0 to 4,294,967,295 but got seed=-1"),
        ("steps: 20", "stesp: 20", 'but got stesp; did you mean "steps"'),
        ("train:make", "train:mke", "error[missing-function]"),
    ],
)
def test_mistakes_in_a_suite_have_their_line(tmp_path, before, after, words):
    change(gated(tmp_path) / "trained.yaml", before, after)
    done = precreg(tmp_path, "list")
    assert done.returncode == 2
    assert "suites/unit/trained.yaml:2: " in done.stderr
    assert words in done.stderr


def test_a_suite_names_a_training_that_cannot_run(tmp_path):
    gated(tmp_path, "frozen")
    done = precreg(tmp_path, "run")
    assert "expected gradients but no parameter of the optimizer had one in 20 steps" in done.stdout


def test_explain_has_the_bounds_of_each_output(tmp_path):
    gated(tmp_path)
    precreg(tmp_path, "run")
    done = precreg(tmp_path, "explain", "unit/trained/default")
    assert done.returncode == 0, done.stderr
    assert "tolerance of output 'lost.0.weight' in float32" in done.stdout
