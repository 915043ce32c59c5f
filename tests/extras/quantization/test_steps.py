"""Fake quantizers of a training by step, against direct computations."""

import json

import pytest
import torch
from torch import nn
from torch.ao.quantization import (
    FakeQuantize,
    MovingAverageMinMaxObserver,
    PerChannelMinMaxObserver,
    QConfig,
    get_default_qat_qconfig,
    prepare_qat,
)

import precreg


def net(qconfig=None):
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)).train()
    made.qconfig = qconfig or get_default_qat_qconfig("fbgemm")
    return prepare_qat(made)


def train(model, optimizer, steps, observed=None):
    generator = torch.Generator().manual_seed(1)
    for step in range(steps):
        x = torch.randn(32, 8, generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long()).backward()
        optimizer.step()
        if observed is not None:
            observed(step)


def sgd(model, rate=0.1):
    return torch.optim.SGD(model.parameters(), rate)


def test_weights_and_activations_are_sampled_at_every_nth_step():
    model = net()
    optimizer = sgd(model)
    with precreg.observe_quantization(model, optimizer, every=4) as observer:
        train(model, optimizer, 10)
    record = observer.record
    assert record.steps == 10
    assert sorted({each.step for each in record.figures}) == [0, 4, 8]
    assert {each.role for each in record.figures} == {"weight", "activation"}
    assert {each.name for each in record.figures} == {
        *("0.weight_fake_quant", "0.activation_post_process"),
        *("2.weight_fake_quant", "2.activation_post_process"),
    }


def test_the_figures_are_those_of_a_direct_computation():
    model = net()
    optimizer = sgd(model)
    direct = []

    def compute(step):
        fake = model[0].weight_fake_quant
        kept = [weights[-1], fake.scale.clone().double()]
        scale = kept[1].reshape(-1, 1)
        codes = torch.round(kept[0].double() / scale)
        quantized = codes.clamp(-128, 127) * scale
        error = quantized - kept[0].double()
        direct.append((float((error / scale).square().mean().sqrt()), float(error.norm() / kept[0].double().norm())))

    weights = []
    model[0].register_forward_pre_hook(lambda module, given: weights.append(module.weight.detach().clone()))
    with precreg.observe_quantization(model, optimizer, every=1) as observer:
        train(model, optimizer, 5, compute)
    found = [each for each in observer.record.figures if each.name == "0.weight_fake_quant"]
    assert [each.error_steps for each in found] == pytest.approx([each[0] for each in direct], rel=1e-4)
    assert [each.relative_error for each in found] == pytest.approx([each[1] for each in direct], rel=1e-4)


def test_training_keeps_its_bits():
    plain, watched = net(), net()
    train(plain, sgd(plain), 8)
    optimizer = sgd(watched)
    with precreg.observe_quantization(watched, optimizer, every=2):
        train(watched, optimizer, 8)
    assert all(
        torch.equal(a, b) for a, b in zip(plain.state_dict().values(), watched.state_dict().values(), strict=True)
    )


class Oscillating(nn.Module):
    """A weight of one element, which the training puts now above and now below the middle of two codes."""

    def __init__(self):
        super().__init__()
        fake = FakeQuantize(MovingAverageMinMaxObserver, 0, 15, dtype=torch.quint8)
        fake.disable_observer()
        fake.scale.fill_(0.1)
        self.weight_fake_quant = fake
        self.weight = nn.Parameter(torch.tensor([0.549, 0.9, 9.0]))

    def forward(self):
        return self.weight_fake_quant(self.weight).sum()


def test_a_weight_that_moves_to_and_fro_has_turned_back_and_clipped_ones_are_counted():
    model = Oscillating()
    optimizer = sgd(model, 0.0)
    with precreg.observe_quantization(model, optimizer, every=4) as observer:
        for step in range(9):
            model().backward()
            optimizer.step()
            with torch.no_grad():
                model.weight[0] = 0.551 if step % 2 == 0 else 0.549
                model.weight[1] += 0.1
    found = observer.record.figures
    assert [each.followed for each in found] == [3, 3, 3]
    assert [each.moved for each in found] == [0, 2, 2]
    assert [each.turned for each in found] == [0, 1, 1]
    assert [each.clipped for each in found] == [1, 1, 2]
    # The gradient of a clipped element is zero, and no other's.
    assert model.weight.grad.tolist()[2] == 0.0
    assert model.weight.grad.tolist()[0] != 0.0


def test_what_has_no_figures_is_counted():
    model = net()
    model.add_module("spare", FakeQuantize())
    optimizer = sgd(model)
    model[2].weight_fake_quant.disable_fake_quant()
    model.spare = model._modules.pop("spare")
    observer = precreg.observe_quantization(model, optimizer, every=2)
    forward = model.forward
    model.forward = lambda x: nn.Sequential.forward(nn.Sequential(*list(model)[:3]), x)
    with observer:
        train(model, optimizer, 4)
    model.forward = forward
    events = {(each.kind, each.name, each.times) for each in observer.record.events}
    assert ("disabled", "2.weight_fake_quant", 2) in events
    assert ("never_ran", "spare", 1) in events


def test_evaluations_and_further_micro_batches_are_no_samples():
    model = net()
    optimizer = sgd(model)
    with precreg.observe_quantization(model, optimizer, every=1) as observer:
        model.eval()(torch.randn(4, 8))
        assert observer.record.figures == ()
        model.train()
        for _ in range(3):
            model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
    assert {each.step for each in observer.record.figures} == {0}
    assert len(observer.record.figures) == 4


def test_codes_of_a_part_of_many_weights_are_followed_and_the_others_counted():
    made = nn.Sequential(nn.Linear(128, 96)).train()
    made.qconfig = QConfig(
        FakeQuantize.with_args(observer=MovingAverageMinMaxObserver),
        FakeQuantize.with_args(
            observer=PerChannelMinMaxObserver,
            dtype=torch.qint8,
            quant_min=-128,
            quant_max=127,
            qscheme=torch.per_channel_symmetric,
        ),
    )
    model = prepare_qat(made)
    optimizer = sgd(model)
    with precreg.observe_quantization(model, optimizer, every=1) as observer:
        model(torch.randn(4, 128)).sum().backward()
        optimizer.step()
    weight = next(each for each in observer.record.figures if each.role == "weight")
    assert (weight.elements, weight.followed) == (12288, 4096)
    assert [each.detail for each in observer.record.events] == ["8,192 of 12,288"]


def test_the_page_and_the_text_name_quantizers_and_escape_them(tmp_path):
    model = net()
    model.add_module("<b>x</b>", FakeQuantize())
    optimizer = sgd(model)
    with precreg.observe_quantization(model, optimizer, every=1, keep=12) as observer:
        train(model, optimizer, 3)
    observer.write_html(tmp_path / "page.html")
    observer.write_json(tmp_path / "record.json")
    page = (tmp_path / "page.html").read_text()
    assert "<b>x" not in page
    assert "Turned back by step" in page
    assert json.loads((tmp_path / "record.json").read_text())["dropped"] == 3
    shown = str(observer)
    assert "3 older figures made room" in shown
    assert "the largest error at step 2 has" in shown


def test_nan_is_counted_and_has_no_figures():
    model = net()
    optimizer = sgd(model)
    with precreg.observe_quantization(model, optimizer, every=1) as observer:
        model.apply(torch.ao.quantization.disable_observer)
        model(torch.full((2, 8), float("nan")))
    assert ("non_finite", "0.activation_post_process") in {(each.kind, each.name) for each in observer.record.events}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: (nn.Linear(2, 2), sgd(nn.Linear(2, 2)), {}), "but Linear has none"),
        (lambda: ("model", None, {}), "but got str"),
        (lambda: (net(), "sgd", {}), "expected an optimizer of torch but got str"),
        (lambda: (net(), None, {"every": 0}), "every=0"),
    ],
)
def test_what_cannot_be_observed_is_refused(make, message):
    model, optimizer, options = make()
    with pytest.raises(precreg.UserError, match=message):
        precreg.observe_quantization(model, optimizer, **options)
