"""Each verdict has its reason, and lacking evidence is never a pass."""

import pytest

from precreg.training.divergence.verdict import DivergenceEvidence, judge_divergence
from precreg.types import DirectionBias, DivergenceGrowth

PLAIN = DivergenceEvidence(
    has_same_bits=False,
    has_updates=True,
    initial=0.0,
    batches=None,
    is_reference_finite=True,
    is_other_non_finite=False,
    twins=8,
    twin_batches=(None,) * 8,
    steps=50,
    start_ratio=0.5,
    level_ratio=0.7,
    parameter_start=1.2,
    parameter_early=1.1,
    growth=DivergenceGrowth(p_value=0.4),
    biases=(DirectionBias("toward", 0.02, 0.0, 0.5), DirectionBias("loss", 1e-8, 0.0, 0.5)),
)
FAST = DivergenceGrowth(p_value=1e-6)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("chaos", "none")),
        ({"has_same_bits": True}, ("identical", "none")),
        ({"has_same_bits": True, "has_updates": False}, ("unclear", "no_updates")),
        ({"is_reference_finite": False}, ("unclear", "reference_non_finite")),
        ({"is_reference_finite": False, "has_same_bits": True}, ("unclear", "reference_non_finite")),
        ({"initial": 1.4}, ("unclear", "different_start")),
        ({"batches": "batch_order"}, ("unclear", "batch_order")),
        ({"batches": "different_data"}, ("unclear", "different_data")),
        ({"is_other_non_finite": True}, ("loss", "non_finite")),
        ({"twins": 0, "start_ratio": None, "level_ratio": None}, ("unclear", "no_twins")),
        ({"start_ratio": 4.1}, ("loss", "start")),
        ({"start_ratio": 3.9}, ("chaos", "none")),
        ({"parameter_start": 4.1}, ("loss", "parameter")),
        ({"parameter_start": 3.9}, ("chaos", "none")),
        ({"parameter_start": None, "parameter_early": None}, ("chaos", "none")),
        ({"parameter_start": 4.1, "twins": 2}, ("unclear", "few_twins")),
        ({"parameter_early": 4.1}, ("unclear", "parameter_jump")),
        ({"batches": "batch_order", "twin_batches": ("batch_order",) * 8}, ("unclear", "order_noise")),
        ({"batches": "batch_order", "twin_batches": ("batch_order",) * 8, "start_ratio": 4.1}, ("loss", "start")),
        ({"batches": "batch_order", "twin_batches": (*("batch_order",) * 7, None)}, ("unclear", "batch_order")),
        ({"batches": "batch_order", "twin_batches": ()}, ("unclear", "batch_order")),
        ({"twin_batches": (*(None,) * 7, "batch_order")}, ("unclear", "order_noise")),
        ({"start_ratio": 4.1, "twins": 2}, ("unclear", "few_twins")),
        ({"start_ratio": 4.1, "steps": 1}, ("loss", "start")),
        ({"steps": 7}, ("unclear", "few_steps")),
        ({"level_ratio": 5.0}, ("unclear", "jump")),
        ({"level_ratio": 5.0, "growth": FAST}, ("loss", "growth")),
        ({"growth": FAST}, ("chaos", "none")),
        ({"biases": (DirectionBias("toward", -0.9, 0.0, 1e-6),)}, ("loss", "direction")),
        ({"biases": (DirectionBias("direction", 0.9, 0.0, 1e-6),)}, ("loss", "direction")),
        ({"biases": (DirectionBias("toward", -0.1, 0.0, 1e-6),)}, ("chaos", "none")),
        ({"biases": (DirectionBias("toward", -0.9, 0.0, 0.1),)}, ("chaos", "none")),
        ({"biases": (DirectionBias("loss", 0.01, 0.0, 1e-6),)}, ("loss", "loss_bias")),
        ({"biases": (DirectionBias("loss", 1e-8, 0.0, 1e-6),)}, ("chaos", "none")),
        ({"biases": (DirectionBias("toward", -0.9, None, None),), "twins": 1}, ("chaos", "none")),
    ],
)
def test_evidence_gives_its_verdict(changes, expected):
    assert judge_divergence(PLAIN._replace(**changes)) == expected
