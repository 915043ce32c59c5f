"""Kernels that tests break, so that a diagnosis finds the cause."""

KERNELS = """\
import numpy as np


def adam(w, m, v):
    denominator = np.sqrt(v) + np.float32(1e-8)
    step = np.float32(0.001) * (m / denominator)
    return w - step


def golden_adam(w, m, v):
    return w - np.float32(0.001) * (m / (np.sqrt(v) + np.float32(1e-8)))


def scaled(x):
    return np.exp(x * np.float32(0.5)).sum(axis=-1)


def exact_scaled(x):
    return np.exp(x * 0.5).sum(axis=-1)


def twice(x):
    return x + x


def exact_twice(x):
    return 2 * x
"""
