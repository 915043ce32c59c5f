"""Rewrites: each one against the source that a person would write for it, bit by bit."""

import ml_dtypes
import numpy as np
import pytest

from tests.diagnose.bases import normal, search

f32 = np.float32
X, Y, Z = normal(30, 40), normal(30, 40, seed=1), normal(30, 40, seed=2)
POSITIVE = np.abs(X) + f32(0.5)


def product(x, y, z):
    return x * y * z


def total(x, y):
    out = np.zeros((30, 1), np.float32)
    for start in range(0, 40, 8):
        out += (x[:, start : start + 8] * y[:, start : start + 8]).sum(axis=-1, keepdims=True)
    return out


def total_in_half(x, y):
    out = np.zeros((30, 1), np.float16)
    for start in range(0, 40, 8):
        out += (x[:, start : start + 8] * y[:, start : start + 8]).sum(axis=-1, keepdims=True)
    return out.astype(f32)


def without_last_block(x, y):
    out = np.zeros((30, 1), np.float32)
    for start in range(0, 32, 8):
        out += (x[:, start : start + 8] * y[:, start : start + 8]).sum(axis=-1, keepdims=True)
    return out


def scaled(x):
    scale = np.abs(x).max(axis=-1, keepdims=True) / f32(127)
    return np.rint(x / scale)


def scaled_by_all(x):
    scale = np.full((len(x), 1), np.abs(x).max()) / f32(127)
    return np.rint(x / scale)


def scaled_by_power(x):
    scale = np.exp2(np.ceil(np.log2(np.abs(x).max(axis=-1, keepdims=True) / f32(127))))
    return np.rint(x / scale)


def scaled_by_neighbour(x):
    scale = np.abs(x).max(axis=-1, keepdims=True) / f32(127)
    scale[7] = scale[6]
    return np.rint(x / scale)


def mixed(x):
    ramp = np.arange(40).astype(f32) / f32(40)
    return x * ramp


def mixed_in_half(x):
    ramp = np.arange(40).astype(f32) / f32(40)
    return x * ramp.astype(np.float16).astype(f32)


def mean(x):
    return x.mean(axis=-1)


def mean_in_half(x):
    return x.mean(axis=-1, dtype=np.float16).astype(f32)


def rows_in_bfloat16(x, y, z):
    out = x * y * z
    out[::2] = out[::2].astype(ml_dtypes.bfloat16).astype(f32)
    return out


def counted(x):
    totals = np.zeros(5, np.float32)
    np.add.at(totals, np.arange(30) % 5, x[:, 0])
    return totals / f32(6)


def counted_in_half(x):
    totals = np.zeros(5, np.float16)
    np.add.at(totals, np.arange(30) % 5, x[:, 0])
    return totals.astype(f32) / f32(6)


CASES = {
    "reassociated product": (product, lambda x, y, z: x * (y * z), "xyz", "reassociated"),
    "divided twice": (lambda x, y, z: z / (x * y), lambda x, y, z: z / x / y, "xyz", "reassociated"),
    "divided once": (lambda x, y, z: z / x / y, lambda x, y, z: z / (x * y), "xyz", "reassociated"),
    "narrow running sum": (total, total_in_half, "xy", "narrow_accumulator"),
    # Without two versions of the source, an input that ends early says the same.
    "missing block": (total, without_last_block, "xy", "tail"),
    "scale of all rows": (scaled, scaled_by_all, "x", "all_axes"),
    "scale of a power of two": (scaled, scaled_by_power, "x", "power_of_two"),
    "scale of the neighbour": (scaled, scaled_by_neighbour, "x", "one_index"),
    "ramp in float16": (mixed, mixed_in_half, "x", "hop_result"),
    "mean in float16": (mean, mean_in_half, "x", "computed_in"),
    "even rows in bfloat16": (product, rows_in_bfloat16, "xyz", "hop_of_part"),
    "sums at indices in float16": (counted, counted_in_half, "x", "narrow_accumulator"),
    "another operand": (lambda x, y: x * x + y, lambda x, y: y * y + y, "xy", "other_operand"),
    "dropped exponential of a sign": (lambda x: np.exp(-x), lambda x: np.exp(x), "x", "only_operand"),
    "weights of eight bits": (mixed, lambda x: x * (np.rint(np.arange(40) / 40 * 256) / 256).astype(f32), "x", None),
}


@pytest.mark.parametrize("name", CASES)
def test_a_change_of_the_source_has_its_rewrite(name):
    good, bad, letters, rewrite = CASES[name]
    inputs = {letter: {"x": X, "y": Y, "z": Z}[letter] for letter in letters}
    found = search(good, bad, inputs)
    cause = found.causes[0]
    assert cause.evidence.reproduced == cause.evidence.elements, found
    assert rewrite in (cause.rewrite, None)


def test_a_kernel_without_an_error_has_nothing_to_explain():
    found = search(product, product, {"x": X, "y": Y, "z": Z})
    assert found.causes == ()
