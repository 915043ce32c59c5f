"""arctan2 as two versions of numpy computed it: what the recorded outputs are off."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from published import Figure

FOLDER = Path(__file__).parents[2] / "suites" / "unit" / "recorded" / "arctan2"


def figures() -> Iterator[Figure]:
    """Give the mean and the maximum ULP of each recorded output."""
    for golden in sorted((FOLDER / "golden").iterdir()):
        exact = np.load(golden)
        for outputs in sorted((FOLDER / "outputs").iterdir()):
            ulp = np.abs(np.load(outputs / golden.name) - exact) / np.spacing(np.abs(exact).astype(np.float32))
            what = f"numpy {outputs.name}, {golden.stem}: mean and maximum ULP"
            yield Figure(what, "", f"{ulp.mean():.4f} {ulp.max():.3f}")
