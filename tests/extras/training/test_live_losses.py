"""Gauges on a live training: clipping before unscaling is found, and the losses are those of the stored gradients."""

import numpy as np
import pytest
import torch

import precreg
from precreg.report.training.record_view import answer_training, render_training_html, view_of_training
from precreg.training.gauges import GradientGauges
from precreg.training.gradients import read_gradients
from precreg.training.loss_scale import sweep_scales
from tests.extras.training.test_scaler import SCALES


def trained(*, clips_first=False, scale=2.0**10, steps=6, store=None, limit=1.0):
    """Train a small network with a scaler; clip before or after unscaling. Return the record and the losses."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    gauges = GradientGauges("float16", norms=[limit])
    with precreg.observe(model, optimizer, scaler, every=1) as observer:
        observer.listeners.append(gauges.add)
        for step in range(steps):
            x, y = torch.randn(32, 8), torch.randn(32, 1)
            optimizer.zero_grad()
            scaler.scale((model(x) - y).square().mean() * SCALES[step % len(SCALES)]).backward()
            if store is not None:
                arrays = {name: p.grad.numpy() for name, p in model.named_parameters()}
                np.savez(store / f"{step}.npz", loss_scale=scaler.get_scale(), **arrays)
            if clips_first:
                torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
            scaler.unscale_(optimizer)
            if not clips_first:
                torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
            scaler.step(optimizer)
            scaler.update()
    record = observer.record
    return record, gauges.result(record.scales, record.clips)


def test_clipping_before_unscaling_is_named_with_the_limit_that_acted():
    record, losses = trained(clips_first=True)
    order = losses.clip_order
    assert (order.clippings, order.scaled, order.first_step) == (6, 6, 0)
    assert order.effective_least == order.effective_greatest == 2.0**-10
    assert order.clipped == 6
    # The true norms are those that the gauges measured before any clipping.
    assert order.clipped_after == sum(norm > 1.0 for norm in losses.clipping.norms) < 6
    assert answer_training(record, losses).startswith("clipped before unscaling: 6 of 6 clippings, first at step 0")


def test_clipping_after_unscaling_is_no_fault():
    record, losses = trained()
    assert losses.clip_order is None
    assert len(record.clips) == 6


def test_live_and_stored_gradients_have_the_same_losses(tmp_path):
    _, losses = trained(store=tmp_path)
    stored = sweep_scales(read_gradients(tmp_path))
    assert stored.overflow_steps == losses.loss_scale.overflow_steps
    assert [layer.zero for layer in stored.layers] == [layer.zero for layer in losses.loss_scale.layers]
    assert stored.largest == losses.loss_scale.largest


def test_a_scale_that_overflows_is_skipped_and_drawn():
    record, losses = trained(scale=2.0**127, steps=4)
    assert losses.scaler.skipped > 0
    view = view_of_training(record, losses)
    assert sum(point.is_skipped for point in view.scales) == losses.scaler.skipped
    assert "skipped" in render_training_html(record, losses)


@pytest.mark.parametrize("clips_first", [False, True])
def test_the_page_of_a_live_training_has_its_maps(clips_first):
    record, losses = trained(clips_first=clips_first)
    text = render_training_html(record, losses)
    assert "Gradient flow by parameter and step" in text
    assert "0.weight" in text
    assert ("clipped before unscaling" in text) == clips_first
