"""The mistakes that the suites of DOMAIN.md's systems catch: Adam in training, LayerNorm, hops, buffers, tails."""

from tests.suites.plants import Plant

SWAPPED = ("    return rate * (m / denominator)", "    return rate * m / denominator")

PLANTS = (
    Plant(
        "integration/adam_step",
        "networks/adam.py",
        *SWAPPED,
        "the multiplication moves before the division",
        ("*/standard",),
    ),
    Plant(
        "integration/adam_step_reference",
        "networks/adam_training.py",
        "np.where(hidden > 0, product(slope, transposed(w2)), w1.dtype.type(0))",
        "product(slope, transposed(w2))",
        "the gradient passes where the relu is off",
        ("*/standard",),
    ),
    Plant(
        "model/adam_training",
        "networks/adam.py",
        *SWAPPED,
        "the multiplication moves before the division",
        ("*/standard",),
    ),
    Plant(
        "model/adam_training_reference",
        "networks/adam.py",
        "math.sqrt(1 - beta2**step) / (1 - beta1**step)",
        "math.sqrt(1 - beta2**step)",
        "the bias of the first moment is no longer corrected",
        ("*/standard",),
    ),
)
