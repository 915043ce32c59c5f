"""`precreg training MODULE:FUNCTION --scales` measures a live training, and finds clipping before unscaling."""

import json

from tests.e2e.command import started

TRAIN = """import torch
from torch import nn


def clip_first(recipe, batch):
    inputs, target = batch
    recipe.optimizer.zero_grad()
    loss = recipe.loss(recipe.model(inputs), target)
    recipe.scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(recipe.model.parameters(), 1.0)
    recipe.scaler.step(recipe.optimizer)
    recipe.scaler.update()
    return loss


def make():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    return {
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.01),
        "data": [(torch.randn(16, 8), torch.randn(16, 1)) for _ in range(4)],
        "loss": nn.functional.mse_loss,
        "scaler": torch.amp.GradScaler("cpu", init_scale=2.0**12),
        "step": clip_first,
    }
"""


def test_a_live_training_has_scales_clipping_and_the_fault(tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    done = started(
        tmp_path, "training", "train:make", "--steps", "9", "--every", "3", "--scales",
        "--json", "found.json", "--report", "found.html",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "clipped before unscaling: 9 of 9 clippings, first at step 0; the limit 1 acted as 0.000244" in done.stdout
    losses = json.loads((tmp_path / "found.json").read_text())["losses"]
    # Every third of 9 steps is measured; the scaler's history has all of them.
    assert (losses["loss_scale"]["steps"], losses["scaler"]["steps"]) == (3, 9)
    assert losses["clip_order"]["effective_least"] == 2.0**-12
    page = (tmp_path / "found.html").read_text()
    for name in (
        "Gradient flow by parameter and step",
        "Loss scale of float16",
        "Scaler",
        "Clipping",
        "Sizes of gradients",
    ):
        assert f"<h2>{name}" in page
