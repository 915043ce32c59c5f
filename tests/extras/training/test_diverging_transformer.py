"""The pairs of benchmarks/training/diverging_transformer.py part as benchmarks/divergence_study.py says."""

import pytest
import torch

from benchmarks.divergence_study import FAMILIES, verdict
from benchmarks.training.diverging_transformer import train

TRANSFORMER = FAMILIES["transformer"]


def gradients_of(**settings):
    """Return the gradients of the first batch, before any update."""
    made = train(seed=3, **settings)
    model, (x, target) = made["model"], made["data"][0]
    made["step"](Recipe(made), (x, target))
    return {name: weight.grad for name, weight in model.named_parameters()}


class Recipe:
    def __init__(self, made):
        self.model, self.loss, self.autocast = made["model"], made["loss"], made["autocast"]
        self.optimizer = made["optimizer"]


@pytest.mark.parametrize("setting", ["reverse", "fused", "halves"])
def test_another_order_gives_the_same_gradients_but_for_rounding(setting):
    plain, other = gradients_of(), gradients_of(**{setting: True})
    assert any(not torch.equal(plain[name], other[name]) for name in plain)
    largest = max(float(gradient.abs().max()) for gradient in plain.values())
    for name, gradient in plain.items():
        assert float((gradient - other[name]).abs().max()) < 1e-6 * largest, name


@pytest.mark.parametrize("settings", [{"scale": 1.0}, {"bfloat16_norms": True}, {"autocast": "bfloat16"}])
def test_a_loss_of_precision_changes_gradients_by_more_than_rounding(settings):
    plain, other = gradients_of(), gradients_of(**settings)
    changes = [float((plain[name] - other[name]).norm() / plain[name].norm()) for name in plain if "norm" in name]
    assert max(changes) > 1e-4


def test_the_swapped_order_is_the_same_update_but_for_rounding():
    weights = []
    for swapped in (False, True):
        made = train(seed=1, swapped=swapped)
        for x, target in made["data"][:1]:
            made["step"](Recipe(made), (x, target))
        weights.append([weight.detach().clone() for weight in made["model"].parameters()])
    assert any(not torch.equal(a, b) for a, b in zip(*weights, strict=True))
    assert all(
        torch.allclose(a, b, rtol=0, atol=1e-8 + 2e-7 * float(a.abs().max())) for a, b in zip(*weights, strict=True)
    )


def test_a_bias_of_keys_has_a_gradient_of_rounding_noise():
    bias = gradients_of()["blocks.0.into.bias"].view(3, -1)
    query, key, value = (float(part.norm()) for part in bias)
    assert key < 1e-6 * max(query, value)
    assert key > 0


def test_without_biases_of_attention_no_gradient_is_noise():
    assert all(float(gradient.norm()) > 1e-4 for gradient in gradients_of(attention_bias=False).values())


def test_an_unknown_setting_is_refused():
    with pytest.raises(ValueError, match=r"got \['revers'\]"):
        train(revers=True)


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        ("the same run", "identical"),
        ("bfloat16 weights", "loss"),
        ("float16 gradients, scale too low", "loss"),
        ("0.1 % fault at step 20", "loss"),
    ],
)
def test_a_pair_is_judged(pair, expected):
    assert verdict(TRANSFORMER, TRANSFORMER.pairs[pair], 0)[0] == expected
