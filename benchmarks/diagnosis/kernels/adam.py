"""Adam: one step of the optimizer in float32."""

import math

import numpy as np

f32 = np.float32


def adam(w, m, v, g, lr, beta1, beta2, eps, step):
    """Return the weights and both moments after one step."""
    m = f32(beta1) * m + f32(1 - beta1) * g
    v = f32(beta2) * v + f32(1 - beta2) * g * g
    rate = f32(lr * math.sqrt(1 - beta2**step) / (1 - beta1**step))
    w = w - rate * (m / (np.sqrt(v) + f32(eps)))
    return {"w": w, "m": m, "v": v}


def exact(w, m, v, g, lr, beta1, beta2, eps, step):
    """Return the same by the formulas of the paper, with corrected moments."""
    first = beta1 * m + (1 - beta1) * g
    second = beta2 * v + (1 - beta2) * g**2
    corrected = first / (1 - beta1**step)
    root = np.sqrt(second / (1 - beta2**step))
    return {"w": w - lr * corrected / (root + eps / math.sqrt(1 - beta2**step)), "m": first, "v": second}
