"""A gated linear unit with the swish activation: bfloat16 storage, float32 arithmetic."""

import numpy as np
from ml_dtypes import bfloat16

f32 = np.float32


def swiglu(x, gate_weight, up_weight):
    """Return swish(x gate) times (x up) in bfloat16."""
    wide = x.astype(f32)
    gate = wide @ gate_weight.astype(f32)
    up = wide @ up_weight.astype(f32)
    activated = gate / (f32(1) + np.exp(-gate))
    return (activated * up).astype(bfloat16)


def exact(x, gate_weight, up_weight):
    """Return the same by the textbook."""
    gate = x @ gate_weight
    return gate * (1 / (1 + np.exp(-gate))) * (x @ up_weight)
