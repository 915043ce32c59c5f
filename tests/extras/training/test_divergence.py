"""Trainings of torch get the verdict that is right by construction."""

import pytest
import torch

from precreg.errors import UserError
from precreg.training.divergence import DivergenceRequest, TrainingSource, compare_trainings

MODULE = """\
import torch
from torch import nn


def make(optimizer="sgd", shuffle=0, fault=0.0, half=False, clip=None):
    net = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 3))
    x = torch.randn(20, 16, 12)
    order = torch.randperm(20, generator=torch.Generator().manual_seed(shuffle)) if shuffle else torch.arange(20)
    data = [(x[at], x[at][:, :3].abs()) for at in order]
    kinds = {"sgd": (torch.optim.SGD, {"foreach": False}), "foreach": (torch.optim.SGD, {"foreach": True})}
    kind, options = kinds[optimizer]

    def loss(output, target):
        if half:
            output = output.half().float()
        return nn.functional.mse_loss(output, target) * (1 + fault)

    return dict(model=net, optimizer=kind(net.parameters(), lr=0.05, momentum=0.9, **options), data=data, loss=loss,
                clip=clip)


def alone():
    return 3
"""


@pytest.fixture
def training(tmp_path):
    (tmp_path / "nets.py").write_text(MODULE)
    return lambda name="make", dtype=None, device=None, **params: TrainingSource(
        name, f"nets:{name}", tmp_path, tmp_path, params, device, dtype
    )


def compared(a, b, **more):
    return compare_trainings(DivergenceRequest(a, b, **more), "0", lambda _name: None)


def test_the_same_training_is_identical_though_it_draws_from_the_global_generator(training):
    torch.rand(3)
    found = compared(training(), training())
    assert (found.verdict, found.steps[-1]) == ("identical", 20)
    assert found.losses_a[0] is None
    assert found.losses_a[1:] == found.losses_b[1:]
    assert all(loss is not None for loss in found.losses_a[1:])


def test_a_fused_update_is_identical_or_chaos(training):
    assert compared(training(), training(optimizer="foreach"), last=30).verdict in ("identical", "chaos")


def test_a_loss_that_is_one_ulp_larger_is_chaos(training):
    found = compared(training(), training(fault=1e-7), last=40)
    assert (found.verdict, found.steps[-1], len(found.twins)) == ("chaos", 40, 8)
    assert found.omissions.idle_twins == 0


@pytest.mark.parametrize(
    ("settings", "change"), [({}, {"half": True}), ({"dtype": "bfloat16"}, {}), ({}, {"fault": 1e-3})]
)
def test_narrow_outputs_weights_and_a_fault_are_losses(training, settings, change):
    found = compared(training(), training(**settings, **change))
    assert (found.verdict, found.reason) == ("loss", "start")
    assert found.b.dtypes == (settings.get("dtype", "float32"),)


def test_another_order_of_batches_is_named(training):
    found = compared(training(), training(shuffle=4))
    assert (found.verdict, found.reason) == ("unclear", "batch_order")


def test_other_values_and_devices_are_refused(training):
    with pytest.raises(UserError, match="alone to return a training but it lacks model"):
        compared(training("alone"), training())
    with pytest.raises(UserError, match="a training of numpy for device=mlu370"):
        compared(training(), training(device="mlu370"))
    with pytest.raises(UserError, match="floating dtype of torch"):
        compared(training(), training(dtype="int8"))
