"""First-order estimates against derivatives by torch's forward mode, and against measured errors."""

import numpy as np
import pytest
import torch
from torch import nn

from precreg.quantization import QuantizationOptions, quantize_module, read_given_model
from precreg.quantization.codes import make_quantizer
from precreg.quantization.torch import estimate_first_order, read_batches, simulate_module

INT8 = make_quantizer("int8", granularity="channel")
INPUTS = make_quantizer("int8")


class Net(nn.Module):
    """Four layers; the second one has a channel of outliers."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.first = nn.Linear(12, 16)
        self.second = nn.Linear(16, 16)
        self.third = nn.Linear(16, 16)
        self.head = nn.Linear(16, 5)
        with torch.no_grad():
            self.second.weight[:, 3] *= 40.0

    def forward(self, x):
        x = torch.relu_(self.first(x))
        x = x + torch.tanh(self.second(x))
        return self.head(torch.relu_(self.third(x)))


def batches(count=4, size=64):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(size, 12, generator=generator) for _ in range(count)]


def exact_first_order(model, name):
    """Return |J e| / |f| by forward mode: the layer's own errors, pushed through the float model."""
    noise = signal = 0.0
    layer = next(each for each in model.parts if each.facts.name == name)
    for batch in model.batches:
        seen = []
        keep = seen.append
        handle = layer.module.register_forward_hook(lambda _, x, y, keep=keep: keep((x[0].clone(), y.clone())))
        model.module(batch)
        handle.remove()
        layer.quantize()
        error = layer.module.forward(layer.activation(seen[0][0])) - seen[0][1]
        layer.restore()

        def moved(step, error=error, batch=batch):
            handle = layer.module.register_forward_hook(lambda _, given, result: result + step * error)
            found = model.module(batch)
            handle.remove()
            return found

        with torch.no_grad():
            value, slope = torch.func.jvp(moved, (torch.tensor(0.0),), (torch.tensor(1.0),))
        noise += float(slope.double().square().sum())
        signal += float(value.double().square().sum())
    return (noise / signal) ** 0.5


def test_estimates_are_the_derivatives_along_the_errors():
    model = simulate_module(Net(), batches(), batches(), INT8, INPUTS)
    found = estimate_first_order(model)
    assert list(found) == ["first", "second", "third", "head"]
    for name, value in found.items():
        # 16 probes of 256 inputs: a relative standard error of about 2 %.
        assert value == pytest.approx(exact_first_order(model, name), rel=0.1)


def test_a_layer_that_is_linear_in_its_errors_has_its_measured_error():
    record = measured(Net())
    head = {each.layer: each for each in record.sensitivity.layers}["head"]
    assert head.first_order == pytest.approx(head.alone, rel=0.1)


def measured(net, data=None, **options):
    data = read_batches(batches() if data is None else data, "test")
    chosen = QuantizationOptions(INT8, INPUTS, with_sensitivity=True, **options)
    return quantize_module(read_given_model(net, "test"), data, data, chosen, "test", "test")


def test_the_layer_with_outliers_is_first_by_all_methods():
    found = measured(Net()).sensitivity
    for method in ("first_order", "alone"):
        assert max(found.layers, key=lambda each, method=method: getattr(each, method)).layer == "second"
    assert min(found.layers, key=lambda each: each.without).layer == "second"
    assert found.first_order_alone == 1.0
    assert found.root_sum == pytest.approx(np.sqrt(sum(each.alone**2 for each in found.layers)))


def test_without_a_layer_is_the_model_with_all_others_quantized():
    net = Net()
    found = {each.layer: each for each in measured(net).sensitivity.layers}
    model = simulate_module(net, batches(), batches(), INT8, INPUTS)
    exact = model.run(set(), set()).outputs
    names = {"first", "third", "head"}
    changed = model.run(names, names).outputs
    noise = sum(((a - b) ** 2).sum() for a, b in zip(exact, changed, strict=True))
    assert found["second"].without == pytest.approx((noise / sum((a**2).sum() for a in exact)) ** 0.5, rel=1e-12)


class Frozen(Net):
    """A net whose call keeps no gradients, as a method that generates text."""

    @torch.no_grad()
    def forward(self, x):
        return super().forward(x)


def test_a_model_without_gradients_is_measured_alone_and_counted():
    record = measured(Frozen())
    assert {each.first_order for each in record.sensitivity.layers} == {None}
    assert record.sensitivity.first_order_alone is None
    assert [each.kind for each in record.events] == ["no_gradient"] * 4


def test_an_attention_and_its_last_layer_have_estimates_of_their_own():
    torch.manual_seed(0)
    net = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
    data = [torch.randn(24, 6, 16) for _ in range(4)]
    found = measured(net, data).sensitivity
    assert {"self_attn", "self_attn.out_proj", "linear1", "linear2"} == {each.layer for each in found.layers}
    for each in found.layers:
        assert each.first_order == pytest.approx(each.alone, rel=0.15)


def test_training_and_gradients_of_the_users_model_stay_as_they_are():
    net = Net()
    before = {name: each.clone() for name, each in net.state_dict().items()}
    measured(net)
    assert net.training
    assert all(each.grad is None for each in net.parameters())
    assert all(torch.equal(each, before[name]) for name, each in net.state_dict().items())
