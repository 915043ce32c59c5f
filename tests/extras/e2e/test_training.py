"""`precreg training MODULE:make`: what it prints and writes, and mistakes of the user."""

import json

import pytest

from tests.e2e.command import precreg

CODE = """
import torch
from torch.nn.functional import mse_loss


def batches(dtype=torch.float32):
    return [(x, x[:, :4]) for x in torch.randn(20, 8, 16).to(dtype)]


def network():
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))


def narrow():
    model = network().to(torch.bfloat16)
    return model, torch.optim.SGD(model.parameters(), lr=1e-3), batches(torch.bfloat16), mse_loss


def scaled():
    model = network()
    return {
        "model": model, "optimizer": torch.optim.AdamW(model.parameters(), lr=1e-3), "data": batches(),
        "loss": mse_loss, "autocast": "float16", "scaler": torch.amp.GradScaler("cpu", init_scale=2.0**22),
        "clip": 1.0, "accumulate": 2,
    }


def frozen():
    model = network().requires_grad_(False)
    weight = torch.nn.Parameter(torch.ones(()))
    optimizer = torch.optim.SGD([weight, *model.parameters()], lr=0.1)
    return {
        "model": model, "optimizer": optimizer, "data": batches(), "loss": mse_loss,
        "step": lambda recipe, batch: recipe.optimizer.step(),
    }


def nan():
    model, optimizer, data, loss = narrow()
    return model, optimizer, data, lambda output, target: loss((-output.abs() - 1).log(), target)


def idle():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return dict(model=model, optimizer=optimizer, data=batches(), loss=mse_loss, step=lambda recipe, batch: None)


def unscaled_step(recipe, batch):
    loss = recipe.loss(recipe.model(batch[0]), batch[1])
    loss.backward()
    recipe.optimizer.step()
    return loss


def unused():
    model, scaler = network(), torch.amp.GradScaler("cpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return dict(model=model, optimizer=optimizer, data=batches(), loss=mse_loss, scaler=scaler, step=unscaled_step)


def swapped():
    model = network()
    return torch.optim.SGD(model.parameters(), lr=0.1), model, batches(), mse_loss


def nothing():
    return None


def crashes():
    raise RuntimeError("no such disk")


def ends():
    model, optimizer, data, loss = narrow()
    return model, optimizer, iter(data), loss
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.py").write_text(CODE)
    return tmp_path


def test_lost_updates_are_the_answer_and_the_table_has_the_worst_first(folder):
    done = precreg(folder, "training", "train:narrow", "--steps", "30", "--json", "r.json", "--report", "r.html")
    assert done.returncode == 0, done.stderr
    record = json.loads((folder / "r.json").read_text())["record"]
    assert (record["begun"], [step["step"] for step in record["steps"]]) == (30, [0, 10, 20])
    shares = {}
    for name in ("0.weight", "0.bias", "2.weight", "2.bias"):
        updates = [p["update"] for step in record["steps"] for p in step["parameters"] if p["parameter"] == name]
        shares[name] = sum(u["lost"] for u in updates) / sum(u["intended"] for u in updates)
    worst = max(shares, key=shares.get)
    assert 0.5 < shares[worst] < 1
    assert f"{100 * shares[worst]:.3g} % of the updates of {worst} leave its bits unchanged" in done.stdout
    rows = done.stdout.partition("gradients by parameter\n")[2].splitlines()[1:5]
    assert [row.split()[0] for row in rows] == sorted(shares, key=lambda name: -shares[name])
    assert "30 steps began, 3 steps sampled (every 10)" in done.stdout
    assert done.stdout.endswith("written: r.json, r.html\n")
    assert "<h2>Gradient flow by parameter and step</h2>" in (folder / "r.html").read_text()


def test_a_scaled_training_shows_skipped_steps_formats_and_noise(folder):
    done = precreg(folder, "training", "train:scaled", "--steps", "20", "--every", "5", "--json", "-")
    report = json.loads(done.stdout)
    skipped = [point["is_skipped"] for point in report["record"]["scales"]]
    assert 0 < sum(skipped) < 20
    assert f"the scaler skipped {sum(skipped)} of 20 steps" in done.stderr
    assert report["record"]["steps"][-1]["parameters"][0]["gradient"]["format"] == "float16"
    assert "micro-batches, from" in done.stderr
    assert "first at step 0" in done.stderr
    assert report["losses"]["clip_order"] is None
    assert len(report["record"]["clips"]) == 20


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["train:frozen"], "error[no-gradients]: expected gradients but no parameter of train:frozen had one"),
        (["train:nothing"], "error[bad-outputs]: expected train:nothing to return a training but it lacks model"),
        (["train:unused"], "expected scaler.update() at the end of each step but train:unused never calls it"),
        (["train:idle"], "expected updates but the optimizer of train:idle made none in 100 steps"),
        (["train:swapped"], "error[bad-outputs]: expected a torch Module as model but got SGD"),
        (["train:crashes"], "error[model-failed]: expected train:crashes to return a training that runs but it failed"),
        (["train:missing"], "error[missing-function]"),
        (["other:make"], "error[missing-module]"),
        ([], "error[bad-value]: expected a training or stored gradients but got none"),
        (["train:narrow", "--gradients", "g"], "but got train:narrow and --gradients g"),
    ],
)
def test_mistakes_are_messages_without_a_traceback_of_precreg(folder, words, printed):
    done = precreg(folder, "training", *words)
    assert done.returncode == 2
    assert printed in done.stderr
    assert "precreg/training" not in done.stderr
    assert "what to do: " in done.stderr


def test_nan_and_data_that_ends_are_named(folder):
    done = precreg(folder, "training", "train:nan", "--steps", "3")
    assert done.returncode == 0, done.stderr
    assert "the training has NaN or infinite values in the loss (first at step 0)" in done.stdout.splitlines()[1]
    done = precreg(folder, "training", "train:ends")
    assert "the data ended before the steps did (first at step 20): 20 of 100" in done.stdout
    assert "20 steps began, 2 steps sampled (every 10)" in done.stdout
