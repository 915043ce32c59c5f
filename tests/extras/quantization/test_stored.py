"""Models that torch.ao has quantized: their own scales are read, and the simulation gives what the models give."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.ao import quantization as tq
from torch.ao.nn.quantized import FloatFunctional

from precreg.errors import UserError
from precreg.quantization.session import GivenModel, QuantizationOptions, quantize_module
from precreg.quantization.torch import read_batches

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.skipif("x86" not in torch.backends.quantized.supported_engines, reason="torch has no such engine"),
]


class Stubbed(nn.Module):
    """A small network with stubs, a residual by FloatFunctional, and no other operation on quantized values."""

    def __init__(self):
        super().__init__()
        self.quant, self.dequant = tq.QuantStub(), tq.DeQuantStub()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.relu = nn.ReLU()
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.skip = FloatFunctional()
        self.head = nn.Linear(8 * 36, 4)

    def forward(self, x):
        x = self.relu(self.norm(self.conv(self.quant(x))))
        x = self.skip.add(x, self.second(x))
        return self.dequant(self.head(x.flatten(1)))


def batches():
    torch.manual_seed(1)
    return [torch.randn(8, 3, 8, 8) for _ in range(3)]


def measured(model, data, twin=None):
    found = read_batches(data, "data")
    return quantize_module(GivenModel(model, twin=twin), found, found, QuantizationOptions(None, None), "m", "data")


def fused():
    torch.manual_seed(0)
    net = Stubbed().train()
    for x in batches():
        net(x)
    return tq.fuse_modules(net.eval(), [["conv", "norm", "relu"]])


def converted():
    net = fused()
    net.qconfig = tq.get_default_qconfig("x86")
    prepared = tq.prepare(net)
    for x in batches():
        prepared(x)
    return tq.convert(prepared)


def results(model, data):
    with torch.no_grad():
        return torch.cat([model(x) for x in data]).double()


def relative(exact, found):
    return float((found - exact).norm() / exact.norm())


def test_a_static_model_is_measured_with_its_own_scales():
    record = measured(converted(), batches(), fused())
    assert [row.layer for row in record.rows] == ["quant", "conv", "second", "skip", "head"]
    exact, executed = results(fused(), batches()), results(converted(), batches())
    assert record.executed.relative == pytest.approx(relative(exact, executed), rel=1e-5)
    # All scales together are the quantized model, up to codes that its integer sums round otherwise.
    assert record.total.relative == pytest.approx(record.executed.relative, rel=0.05)
    assert "simulation_differs" not in {event.kind for event in record.events}
    conv = record.rows[1]
    weight = converted().conv.weight()
    direct = relative(fused().conv[0].weight.detach().double(), weight.dequantize().double())
    # torch dequantizes in float32.
    assert conv.weight.figures.relative_error == pytest.approx(direct, rel=1e-5)
    assert conv.weight.figures.codes_used == len(np.unique(weight.int_repr().numpy()))
    assert (conv.weight.quantizer.granularity, conv.activation_role) == ("channel", "output")


def test_the_error_of_one_static_layer_equals_a_direct_computation():
    record = measured(converted(), batches(), fused())
    net, quantized = fused(), converted()
    row = next(row for row in record.rows if row.layer == "second")
    with torch.no_grad():
        net.second.weight.copy_(quantized.second.weight().dequantize())
    exact = results(fused(), batches())
    assert row.weight_alone.relative == pytest.approx(relative(exact, results(net, batches())), rel=1e-6)
    scale, zero = float(quantized.second.scale), int(quantized.second.zero_point)

    def rounded(_module, _arguments, result):
        return torch.fake_quantize_per_tensor_affine(result, scale, zero, 0, 255)

    net.second.register_forward_hook(rounded)
    assert row.both_alone.relative == pytest.approx(relative(exact, results(net, batches())), rel=1e-4)


def test_without_the_float_model_weights_have_no_error_of_their_own():
    record = measured(converted(), batches())
    conv = next(row for row in record.rows if row.layer == "conv")
    assert (conv.weight_alone, conv.weight.figures.relative_error) == (None, None)
    assert conv.weight.figures.codes_used > 50
    assert {event.name for event in record.events if event.kind == "no_float_twin"} == {"conv", "second", "head"}
    assert record.total.relative == pytest.approx(record.executed.relative, rel=0.05)


def test_an_operation_that_quantizes_elsewhere_is_reported():
    class Mean(Stubbed):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(8, 4)

        def forward(self, x):
            x = self.relu(self.norm(self.conv(self.quant(x))))
            # The mean of quantized values is rounded to their scale.
            return self.dequant(self.head(x.mean((2, 3))))

    torch.manual_seed(0)
    net = Mean().eval()
    net.qconfig = tq.get_default_qconfig("x86")
    prepared = tq.prepare(tq.fuse_modules(net, [["conv", "norm", "relu"]]))
    for x in batches():
        prepared(x)
    record = measured(tq.convert(prepared), batches())
    (event,) = [event for event in record.events if event.kind == "simulation_differs"]
    assert float(event.detail) > 0.1 * record.executed.relative


@pytest.mark.parametrize("with_twin", [True, False])
def test_a_dynamic_model_is_measured_as_it_runs(with_twin):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 6)).eval()
    quantized = tq.quantize_dynamic(net, {nn.Linear}, dtype=torch.qint8)
    data = [torch.randn(16, 16) for _ in range(2)]
    record = measured(quantized, data, net if with_twin else None)
    assert [row.layer for row in record.rows] == ["0", "2"]
    assert record.total.relative == pytest.approx(record.executed.relative, rel=1e-4)
    assert all(row.activation.quantizer.dynamic and row.activation.quantizer.format == "int7" for row in record.rows)
    if with_twin:
        exact = results(net, data)
        assert record.executed.relative == pytest.approx(relative(exact, results(quantized, data)), rel=1e-6)
        direct = relative(net[0].weight.detach().double(), quantized[0].weight().dequantize().double())
        assert record.rows[0].weight.figures.relative_error == pytest.approx(direct, rel=1e-6)


def test_a_fake_quantized_model_is_measured_with_each_fake_quantization_on():
    torch.manual_seed(0)
    net = tq.fuse_modules_qat(Stubbed().train(), [["conv", "norm", "relu"]])
    net.qconfig = tq.get_default_qat_qconfig("x86")
    net = tq.prepare_qat(net)
    for x in batches():
        net(x)
    record = measured(net, batches())
    assert [row.layer for row in record.rows] == ["quant", "conv", "second", "skip", "head"]
    net.eval().apply(tq.disable_observer)
    executed = results(net, batches())
    net.apply(tq.disable_fake_quant)
    exact = results(net, batches())
    assert record.total.relative == pytest.approx(relative(exact, executed), rel=1e-3)
    assert record.executed.relative == pytest.approx(relative(exact, executed), rel=1e-6)
    second = next(row for row in record.rows if row.layer == "second")
    net.second.weight_fake_quant.fake_quant_enabled[0] = 1
    assert second.weight_alone.relative == pytest.approx(relative(exact, results(net, batches())), rel=1e-6)


def test_a_quantized_module_without_a_float_form_asks_for_the_float_model():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = nn.Sequential(tq.QuantStub(), nn.Conv2d(3, 4, 1), nn.Hardswish(), tq.DeQuantStub()).eval()
        net.qconfig = tq.get_default_qconfig("x86")
        prepared = tq.prepare(net)
        for x in batches():
            prepared(x)
        quantized = tq.convert(prepared)
    with pytest.raises(UserError, match="2: Hardswish") as caught:
        measured(quantized, batches())
    assert "--float" in caught.value.hint


def test_a_float_model_of_another_shape_is_refused():
    other = fused()
    other.head = nn.Linear(8 * 36, 5)
    with pytest.raises(UserError, match=r"layer head with weights of \(4, 288\) but got \(5, 288\)"):
        measured(converted(), batches(), other)


def test_a_dynamic_recurrent_layer_stays_and_is_reported():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.head = nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 3)

        def forward(self, x):
            return self.head(self.lstm(x)[0][:, -1])

    torch.manual_seed(0)
    quantized = tq.quantize_dynamic(Recurrent().eval(), {nn.LSTM, nn.Linear}, dtype=torch.qint8)
    record = measured(quantized, [torch.randn(4, 5, 8)])
    assert [row.layer for row in record.rows] == ["head"]
    assert [(event.name, event.detail) for event in record.events if event.kind == "not_covered"] == [("lstm", "LSTM")]
