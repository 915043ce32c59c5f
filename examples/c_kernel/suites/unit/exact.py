"""The reference of the kernel: exact sums, each rounded once to float64."""

from math import fsum

import numpy as np


def layer_norm(x, eps=1e-5):
    """Return the rows of x with mean 0 and variance 1 in float64."""
    rows = [np.float64(row) for row in x]
    centered = [row - fsum(row) / len(row) for row in rows]
    return {"y": np.array([row / np.sqrt(fsum(row * row) / len(row) + eps) for row in centered])}
