"""Layers of real modules whose formats follow their errors."""

import copy

import msgspec
import numpy as np
import pytest
import torch
from torch import nn

from precreg import UserError
from precreg.quantization import adapt, make_quantizer
from precreg.quantization.arrays import quantize_values
from precreg.types import AdaptiveRecord


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))


def inputs(step):
    return torch.randn(128, 32, generator=torch.Generator().manual_seed(step))


def test_the_narrowest_format_has_the_bits_of_a_direct_computation():
    model = nn.Linear(32, 64)
    x = inputs(0)
    weight = quantize_values(model.weight.detach().numpy(), make_quantizer("int8", granularity="channel")).values
    values = quantize_values(x.numpy(), make_quantizer("int8")).values
    with adapt(model, budget=1.0), torch.no_grad():
        found = model(x)
    weight, values = (torch.from_numpy(np.float32(each)) for each in (weight, values))
    assert torch.equal(found, nn.functional.linear(values, weight, model.bias))


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_a_cast_is_that_of_torch(name):
    model = nn.Linear(32, 64)
    x, dtype = inputs(0), getattr(torch, name)
    with adapt(model, budget=1.0, formats=(name, "float32")), torch.no_grad():
        found = model(x)
    exact = nn.functional.linear(x.to(dtype).float(), model.weight.to(dtype).float(), model.bias)
    assert torch.equal(found, exact)


def test_a_layer_goes_up_with_an_outlier_and_down_when_it_is_gone():
    model = network()
    with torch.no_grad(), adapt(model, budget=0.05, every=1, patience=3) as adaptive:
        for step in range(5):
            model(inputs(step))
        assert adaptive.formats["0"] == "int8"
        for step in range(5, 10):
            x = inputs(step)
            x[0, 3] = 300.0
            model(x)
        assert adaptive.formats["0"] == "bfloat16"
        for step in range(10, 20):
            model(inputs(step))
        assert adaptive.formats["0"] == "int8"
    record = adaptive.record
    reasons = [(each.after, each.reason) for each in record.changes if each.layer == "0"]
    assert reasons == [("bfloat16", "over_budget"), ("int8", "calm")]
    assert record.samples == record.steps == 20
    assert 8 < record.mean_bits < 16


def test_sampled_errors_stay_within_the_budget_or_are_counted():
    model = network()
    budget = {"*": 0.05, "2": 0.004}
    with torch.no_grad(), adapt(model, budget=budget, every=1, formats=("int4", "int8", "float16")) as adaptive:
        for step in range(8):
            model(inputs(step))
    layers = {each.layer: each for each in adaptive.record.layers}
    assert layers["2"].format == "float16"
    assert layers["2"].budget == 0.004
    assert layers["0"].format == "int8"
    assert all(each.unmet == 0 for each in layers.values())
    assert all(each.over_budget >= 1 and each.worst_error > each.budget for each in layers.values())


def test_no_format_within_the_budget_is_counted():
    model = network()
    with torch.no_grad(), adapt(model, budget=1e-9, every=1, formats=("int8", "bfloat16")) as adaptive:
        model(inputs(0))
        model(inputs(1))
    assert [each.unmet for each in adaptive.record.layers] == [2, 2, 2]
    assert set(adaptive.formats.values()) == {"bfloat16"}


def test_overflow_goes_up():
    model = nn.Linear(32, 64)
    with torch.no_grad(), adapt(model, budget=0.1, formats=("float16", "float32")) as adaptive:
        model(inputs(0) * 1e6)
    (change,) = adaptive.record.changes
    assert (change.reason, change.after) == ("non_finite", "float32")


def test_training_goes_through_rounded_weights_and_updates_the_exact_ones():
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), 0.003)
    before = copy.deepcopy(model.state_dict())
    losses = []
    with adapt(model, budget=0.05, every=5):
        for step in range(60):
            x = inputs(step)
            optimizer.zero_grad()
            loss = (model(x) - x[:, :4]).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert np.mean(losses[-5:]) < 0.6 * np.mean(losses[:5])
    assert all(not torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(isinstance(each, nn.Parameter) for each in model.parameters())


def test_the_module_is_as_it_was_after_stop():
    model = network()
    x = inputs(0)
    exact = model(x)
    adaptive = adapt(model, budget=0.5)
    assert torch.equal(model(x), exact)
    with adaptive:
        assert not torch.equal(model(x), exact)
    assert torch.equal(model(x), exact)
    assert not any("forward" in vars(each) for each in model.modules())
    with pytest.raises(ZeroDivisionError), adaptive:
        raise ZeroDivisionError
    assert torch.equal(model(x), exact)


@pytest.mark.parametrize("change", ["data", "in place", "other parameter"])
def test_changed_weights_are_rounded_anew(change):
    model, x = nn.Linear(32, 64), inputs(0)
    with torch.no_grad(), adapt(model, budget=1.0):
        first = model(x)
        if change == "data":
            model.weight.data.mul_(2)
        elif change == "in place":
            model.weight.mul_(2)
        else:
            model.weight = nn.Parameter(model.weight * 2)
        torch.testing.assert_close(model(x) - model.bias, 2 * (first - model.bias))


def test_random_numbers_of_the_module_are_the_same():
    model = nn.Sequential(nn.Linear(32, 64), nn.Dropout(0.5))
    torch.manual_seed(1)
    mask = model(inputs(0)) == 0
    with adapt(model, budget=0.5, every=1):
        torch.manual_seed(1)
        assert torch.equal(model(inputs(0)) == 0, mask)


def test_the_record_can_be_read_again(tmp_path):
    model = network()
    with torch.no_grad(), adapt(model, budget=0.01) as adaptive:
        model(inputs(0))
    adaptive.write_json(tmp_path / "adaptive.json")
    assert msgspec.json.decode((tmp_path / "adaptive.json").read_bytes(), type=AdaptiveRecord) == adaptive.record


@pytest.mark.parametrize(
    ("options", "slug", "words"),
    [
        ({"budget": 0}, "bad-value", "budget=0"),
        ({"budget": {"0": 0.1}}, "bad-value", "2 has none"),
        ({"budget": {"*": 0.1, "9": 0.1}}, "unknown-node", "budget=9"),
        ({"budget": 0.1, "formats": ("int8",)}, "bad-value", "two formats"),
        ({"budget": 0.1, "formats": ("bfloat16", "int8")}, "bad-value", "bfloat16 before int8"),
        ({"budget": 0.1, "formats": ("int8", "float31")}, "unknown-format", "float31"),
        ({"budget": 0.1, "every": 0}, "bad-value", "every=0"),
        ({"budget": 0.1, "patience": 1.5}, "bad-value", "patience=1.5"),
        ({"budget": 0.1, "margin": 0}, "bad-value", "margin=0"),
        ({"budget": 0.1, "layers": ["head"]}, "unknown-node", "head"),
    ],
)
def test_mistakes_are_named(options, slug, words):
    with pytest.raises(UserError) as caught:
        adapt(network(), **options)
    assert caught.value.slug == slug
    assert words in caught.value.message


def test_only_modules_are_adapted():
    with pytest.raises(UserError, match="Module but got"):
        adapt([1, 2], budget=0.1)
