"""The mistakes that the suites of error growth and of optimisations catch."""

from tests.suites.plants import Plant

PLANTS = (
    Plant(
        "unit/error_growth",
        "unit/kernels/error_growth.py",
        "        x = x * factor if",
        "        x = x * factor.astype(np.float16) if",
        "factors rest in float16 on their way into the chain",
        ("*/cpu-multiply-*",),
    ),
    Plant(
        "unit/optimisations",
        "unit/kernels/optimisations.py",
        "block = x[:, first : first + BLOCK].copy()",
        "block = x[:, first : first + BLOCK].astype(np.float16)",
        "the merged transfer converts a block to float16 on the way",
    ),
)
