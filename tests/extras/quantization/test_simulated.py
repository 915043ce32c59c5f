"""A float module quantized in simulation: every figure equals a direct computation in torch, layer by layer."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import conv2d, linear

from precreg.errors import UserError
from precreg.quantization.codes import make_quantizer
from precreg.quantization.model import measure_model
from precreg.quantization.proposal import BitBudget
from precreg.quantization.session import QuantizationOptions, quantize_module, read_given_model
from precreg.quantization.torch import read_batches, simulate_module


class Small(nn.Module):
    """Two convolutions and a linear layer, with a residual."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.block = nn.Conv2d(8, 8, 3, padding=1, groups=2)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        x = x + torch.relu(self.block(x))
        return self.head(x.mean((2, 3)))


@pytest.fixture(name="net")
def small_net():
    torch.manual_seed(3)
    return Small().eval()


@pytest.fixture(name="data")
def small_data():
    torch.manual_seed(4)
    return [torch.randn(6, 3, 8, 8) for _ in range(3)]


INT8 = make_quantizer("int8")
BY_CHANNEL = make_quantizer("int8", granularity="channel")


def direct_weight(weight, levels=127):
    """Return weights in symmetric int8 with a scale for each output channel."""
    scale = (weight.abs().amax(dim=tuple(range(1, weight.ndim)), keepdim=True) / levels).float()
    return ((weight.double() / scale.double()).round().clamp(-levels - 1, levels) * scale.double()).float()


def direct_inputs(net, data):
    """Return the largest magnitude of the inputs of each layer, by hand."""
    stem, block, head = [], [], []
    with torch.no_grad():
        for x in data:
            stem.append(x.abs().max())
            a = torch.relu(net.stem(x))
            block.append(a.abs().max())
            b = (a + torch.relu(net.block(a))).mean((2, 3))
            head.append(b.abs().max())
    return {"stem": max(stem), "block": max(block), "head": max(head)}


def direct_activation(x, largest):
    scale = (largest / 127).float().double()
    return ((x.double() / scale).round().clamp(-128, 127) * scale).float()


def direct_run(net, data, weights, activations, largest):
    """Return the results with quantized layers, written out as functions."""

    def given(name, x):
        return direct_activation(x, largest[name]) if name in activations else x

    def matrix(name):
        weight = getattr(net, name).weight
        return direct_weight(weight) if name in weights else weight

    found = []
    with torch.no_grad():
        for x in data:
            a = torch.relu(conv2d(given("stem", x), matrix("stem"), net.stem.bias, padding=1))
            b = torch.relu(conv2d(given("block", a), matrix("block"), net.block.bias, padding=1, groups=2))
            c = (a + b).mean((2, 3))
            found.append(linear(given("head", c), matrix("head"), net.head.bias).double())
    return torch.cat(found)


def relative(exact, found):
    return float((found - exact).norm() / exact.norm())


def flips(exact, found):
    return int((exact.argmax(-1) != found.argmax(-1)).sum())


def test_every_figure_equals_a_direct_computation(net, data):
    cost = measure_model(simulate_module(net, data, data, BY_CHANNEL, INT8))
    largest = direct_inputs(net, data)
    exact = direct_run(net, data, (), (), largest)
    assert [row.layer for row in cost.rows] == ["stem", "block", "head"]
    before = []
    for row in cost.rows:
        name = row.layer
        before.append(name)
        for error, weights, activations in (
            (row.weight_alone, [name], []),
            (row.activation_alone, [], [name]),
            (row.both_alone, [name], [name]),
            (row.accumulated, before, before),
        ):
            found = direct_run(net, data, weights, activations, largest)
            # A code may differ where float32 sums of the convolutions do.
            assert error.relative == pytest.approx(relative(exact, found), rel=1e-4)
            assert error.flips == flips(exact, found)
            assert error.sqnr_db == pytest.approx(-20 * np.log10(error.relative))
    assert cost.total == cost.rows[-1].accumulated


def test_the_error_of_a_layer_is_that_of_its_own_results(net, data):
    cost = measure_model(simulate_module(net, data, data, BY_CHANNEL, INT8))
    largest = direct_inputs(net, data)
    with torch.no_grad():
        x = torch.cat(data)
        exact = net.stem(x).double()
        found = conv2d(direct_activation(x, largest["stem"]), direct_weight(net.stem.weight), net.stem.bias, padding=1)
    assert cost.rows[0].layer_error == pytest.approx(relative(exact, found.double()), rel=1e-6)


def test_the_module_keeps_its_weights_mode_and_results(net, data):
    before = copy.deepcopy(net.state_dict())
    net.train()
    measure_model(simulate_module(net, data, data, BY_CHANNEL, INT8))
    assert net.training
    assert "forward" not in vars(net.stem)
    assert all(torch.equal(before[name], each) for name, each in net.state_dict().items())


def test_planted_fragile_layers_are_ranked_first(data):
    """One channel of two layers is huge, so one scale for all channels leaves few codes for the others."""
    torch.manual_seed(0)
    layers = [nn.Linear(32, 32) for _ in range(8)]
    net = nn.Sequential(*layers)
    with torch.no_grad():
        for number, size in ((2, 300.0), (5, 100.0)):
            net[number].weight[0] *= size
            # The next layer takes the channel back, so that the model's results stay of one size.
            net[number].bias[0] *= size
            net[number + 1].weight[:, 0] /= size
    batches = [torch.randn(64, 32) for _ in range(2)]
    cost = measure_model(simulate_module(net, batches, batches, make_quantizer("int8"), None))
    ranked = sorted(cost.rows, key=lambda row: -row.cost)
    assert [row.layer for row in ranked[:2]] == ["2", "5"]
    assert ranked[0].weight.spread.outliers[0].channel == 0
    healed = measure_model(simulate_module(net, batches, batches, BY_CHANNEL, None))
    assert healed.rows[2].cost < ranked[0].cost / 20


def test_layers_inside_an_encoder_run_one_by_one(data):
    torch.manual_seed(0)
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2).eval()
    batches = [torch.randn(2, 5, 16)]
    with torch.no_grad():
        expected = net(batches[0])
    model = simulate_module(net, batches, batches, BY_CHANNEL, INT8)
    assert torch.allclose(torch.from_numpy(model.run(set(), set()).outputs[0]), expected.double(), atol=1e-5)
    names = [layer.name for layer in model.layers]
    assert names == [
        f"layers.{number}.{name}"
        for number in range(2)
        for name in ("self_attn", "self_attn.out_proj", "linear1", "linear2")
    ]
    cost = measure_model(model)
    assert all(row.cost > 0 for row in cost.rows)
    assert model.events == []


def test_a_layer_that_does_not_run_is_an_event(data):
    class Unused(Small):
        def __init__(self):
            super().__init__()
            self.spare = nn.Linear(3, 3)

    model = simulate_module(Unused().eval(), data, data, BY_CHANNEL, INT8)
    assert [(event.kind, event.name) for event in model.events] == [("not_run", "spare")]


def test_a_computed_weight_stays_float(net, data):
    nn.utils.parametrizations.weight_norm(net.head)
    model = simulate_module(net, data, data, BY_CHANNEL, INT8)
    assert ("computed_weight", "head") in [(event.kind, event.name) for event in model.events]
    head = measure_model(model).rows[-1]
    assert (head.weight_alone, head.weight) == (None, None)
    assert head.activation_alone == head.both_alone


def test_patterns_choose_layers(net, data):
    model = simulate_module(net, data, data, BY_CHANNEL, INT8, ["b*", "head"])
    assert [layer.name for layer in model.layers] == ["block", "head"]
    with pytest.raises(UserError, match='layers=haed; did you mean "head"') as caught:
        simulate_module(net, data, data, BY_CHANNEL, INT8, ["haed"])
    assert caught.value.slug == "unknown-node"


def test_an_embedding_is_quantized_by_name():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 4)).eval()
    batches = [torch.randint(0, 10, (5, 3))]
    cost = measure_model(simulate_module(net, batches, batches, BY_CHANNEL, INT8, ["*"]))
    assert [(row.kind, row.activation is None) for row in cost.rows] == [("Embedding", True), ("Linear", False)]
    assert cost.rows[0].weight_alone.relative > 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_modules_of_other_dtypes(net, data, dtype):
    low, batches = net.to(dtype), [x.to(dtype) for x in data]
    cost = measure_model(simulate_module(low, batches, batches, BY_CHANNEL, INT8))
    assert all(0 < row.cost < 0.1 for row in cost.rows)


def test_dynamic_scales_follow_each_call(net, data):
    dynamic = make_quantizer("int8", dynamic=True)
    batches = [data[0], data[1] * 1000]
    fixed = measure_model(simulate_module(net, [data[0] * 1000], batches[:1], None, INT8, ["stem"])).total
    moving = measure_model(simulate_module(net, [data[0] * 1000], batches[:1], None, dynamic, ["stem"])).total
    # The scale of values a thousand times as large leaves nothing of these.
    assert fixed.relative > 0.3
    assert moving.relative < 0.02


def test_more_values_than_are_kept_are_counted(net, monkeypatch):
    monkeypatch.setattr("precreg.quantization.torch.observed.KEPT_VALUES", 1000)
    torch.manual_seed(0)
    batches = [torch.randn(32, 3, 16, 16)]
    batches[0][7, 1, 3, 3] = 50.0
    model = simulate_module(net, batches, batches, BY_CHANNEL, INT8)
    sampled = {event.name: event.count for event in model.events if event.kind == "sampled"}
    stem = model.layers[0].activation
    assert sampled["stem"] + stem.figures.elements == batches[0].numel()
    # The largest value sets the scale, so that no sample loses it.
    assert max(each.threshold for each in stem.calibrations if each.method == "max") == 50.0


def test_a_metric_of_the_user_is_in_every_row(net, data):
    def share_of_class(outputs):
        return float(np.mean([each.argmax(-1) == 2 for each in outputs]))

    given = read_given_model((net, data, share_of_class), "net:make")
    batches = read_batches(data, "data")
    record = quantize_module(given, batches, batches, QuantizationOptions(BY_CHANNEL, INT8), "net:make", "data")
    with torch.no_grad():
        expected = float((torch.cat([net(x) for x in data]).argmax(-1) == 2).double().mean())
    assert record.float_metric == pytest.approx(expected)
    assert all(0.0 <= row.both_alone.metric <= 1.0 for row in record.rows)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([], "expected at least one batch of inputs but got 0"),
        (7, "of type int"),
        ([["a"]], "batch 0"),
        ([torch.full((2, 3, 8, 8), float("nan"))], "384 of 384 NaN or infinite in batch 0"),
        (
            [torch.randn(2, 4, 8, 8)],
            r"batch 0: 0: float32 \(2, 4, 8, 8\)\n  RuntimeError: .*expected .* to have 3 channels",
        ),
        ([torch.randn(2, 3, 8, 8), torch.randn(0, 3, 8, 8)], "batch 1 of data has no inputs: 0: float32"),
        ([{"y": torch.randn(2, 3, 8, 8)}], r"batch 0: y: float32 \(2, 3, 8, 8\)"),
    ],
)
def test_calibration_data_that_does_not_fit_is_refused_with_its_shape(net, data, words):
    with pytest.raises(UserError, match=words):
        simulate_module(net, read_batches(data, "data").batches, [], BY_CHANNEL, INT8)


def test_a_float_model_with_nan_is_refused(net, data):
    with torch.no_grad():
        net.head.bias[0] = float("nan")
    with pytest.raises(UserError, match="expected finite results of the float model but got 6 of 30"):
        measure_model(simulate_module(net, data, data, BY_CHANNEL, INT8))


def test_weights_with_nan_name_the_layer(net, data):
    with torch.no_grad():
        net.block.weight[1, 0, 0, 0] = float("inf")
    with pytest.raises(UserError, match=r"1 of 288 that are not, first block.weight\[1, 0, 0, 0\]=inf"):
        simulate_module(net, data, data, BY_CHANNEL, INT8)


def test_tensors_of_torchao_are_refused_by_name(net, data):
    quantization = pytest.importorskip("torchao.quantization")
    quantization.quantize_(net, quantization.Int8WeightOnlyConfig())
    with pytest.raises(UserError, match=r"expected plain tensors as weights but got head.weight of type \w+Tensor"):
        simulate_module(net, data, data, BY_CHANNEL, INT8)


def test_a_lazy_layer_without_a_shape_is_refused_by_name(data):
    lazy = nn.Sequential(nn.Conv2d(3, 4, 3), nn.LazyLinear(4)).eval()
    with pytest.raises(UserError, match="expected layers with shapes but got 1: LazyLinear without one"):
        simulate_module(lazy, data, data, BY_CHANNEL, INT8)


@pytest.mark.parametrize("returned", [(1, 2, 3, 4, 5), (), {"data": []}, {"model": 1, "modle": 2}])
def test_other_things_than_a_model_are_refused(returned):
    with pytest.raises(UserError) as caught:
        read_given_model(returned, "net:make")
    assert caught.value.slug == "bad-outputs"


def test_the_four_parts_of_a_training_give_model_and_inputs(net):
    pairs = [(torch.randn(2, 3, 8, 8), torch.zeros(2)) for _ in range(2)]
    given = read_given_model((net, "optimizer", pairs, "loss"), "net:make")
    batches = read_batches(given.data, "data", with_targets=given.with_targets)
    assert [tuple(each.shape) for each in batches.batches] == [(2, 3, 8, 8)] * 2
    assert batches.inputs == 4


def test_blocks_of_activations_run_along_their_channels():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 8)).eval()
    batches = [torch.randn(5, 64)]
    cost = measure_model(simulate_module(net, batches, batches, None, make_quantizer("mxfp8_e4m3")))
    x = batches[0].double().reshape(5, 2, 32)
    scale = 2.0 ** (x.abs().amax(-1, keepdim=True).log2().floor() - 8)
    rounded = ((x / scale).clamp(-448, 448).to(torch.float8_e4m3fn).double() * scale).reshape(5, 64)
    with torch.no_grad():
        exact, found = net(batches[0]).double(), net(rounded.float()).double()
    assert cost.total.relative == pytest.approx(relative(exact, found), rel=1e-5)


@pytest.mark.parametrize("first", ["int8", "mxfp4"])
def test_a_proposal_among_block_formats_has_their_blocks(first):
    """Costs and bits are those of the whole network in one block format; that of integers has one scale a channel."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 5)).eval()
    batches = read_batches([torch.randn(6, 64)], "data")
    names = ("mxfp4", "nvfp4", "int4")
    weights = make_quantizer(first, granularity="channel")
    options = QuantizationOptions(weights, None, budget=BitBudget(max_error=0.3, formats=names))
    given = read_given_model(net, "net:make")
    proposal = quantize_module(given, batches, batches, options, "net:make", "data").proposal
    for uniform in proposal.uniform:
        alone = make_quantizer(uniform.format, granularity="channel")
        cost = measure_model(simulate_module(net, batches.batches, batches.batches, alone, None))
        assert uniform.measured.relative == cost.total.relative
        assert uniform.bits == sum(row.weight.quantizer.bits * row.weight.figures.elements for row in cost.rows) / 552
    # 64 weights of a row have two blocks of 32 or four of 16, and 8 weights one; scales have 8 bits, or 32 with int4.
    expected = {"mxfp4": (16 + 5) * 8, "nvfp4": (32 + 5) * 8, "int4": (8 + 5) * 32}
    assert {each.format: each.bits for each in proposal.uniform} == {
        name: pytest.approx(4 + scales / 552) for name, scales in expected.items()
    }
