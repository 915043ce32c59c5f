"""The rotary embedding of positions: float16 storage, float32 angles."""

import numpy as np

f32 = np.float32


def rotary(x, base):
    """Return the turned pairs in float16, for positions x heads x depth."""
    half = x.shape[-1] // 2
    positions = np.arange(len(x)).astype(f32)
    frequencies = f32(base) ** (-np.arange(half).astype(f32) / f32(half))
    angles = (positions[:, None] * frequencies)[:, None, :]
    cos = np.cos(angles)
    sin = np.sin(angles)
    first = x[..., :half].astype(f32)
    second = x[..., half:].astype(f32)
    real = first * cos - second * sin
    imaginary = first * sin + second * cos
    return np.concatenate((real, imaginary), axis=-1).astype(np.float16)


def exact(x, base):
    """Return the same by complex numbers."""
    half = x.shape[-1] // 2
    angles = np.outer(np.arange(len(x)), base ** (-np.arange(half) / half))
    turned = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)[:, None, :]
    return np.concatenate((turned.real, turned.imag), axis=-1)
