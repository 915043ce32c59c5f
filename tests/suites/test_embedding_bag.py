"""Embedding bags and their gradients against a loop over indices."""

import numpy as np
import pytest

from tests.suites.kernel_files import load

bag = load("integration/kernels/embedding_bag")

LENGTHS = [0, 1, 4, 0, 2, 0]


def bags(dtype):
    random = np.random.default_rng(4)
    weights, dout = random.uniform(0.5, 1.5, 7).astype(dtype), random.normal(size=(6, 3)).astype(dtype)
    return random.normal(size=(5, 3)).astype(dtype), np.array([3, 1, 1, 1, 0, 4, 4]), weights, dout


def by_loop(table, indices, weights, dout, mode):
    outputs = {"out": np.zeros_like(dout), "dtable": np.zeros_like(table), "dweights": np.zeros_like(weights)}
    position = 0
    for number, length in enumerate(LENGTHS):
        for _ in range(length):
            factor = {"sum": 1, "mean": 1 / length, "weighted": weights[position]}[mode]
            outputs["out"][number] += factor * table[indices[position]]
            outputs["dtable"][indices[position]] += factor * dout[number]
            outputs["dweights"][position] = table[indices[position]] @ dout[number]
            position += 1
    return outputs if mode == "weighted" else {name: outputs[name] for name in ("out", "dtable")}


@pytest.mark.parametrize("mode", ["sum", "mean", "weighted"])
@pytest.mark.parametrize("function", [bag.embedding_bag, bag.embedding_bag_exact], ids=["kernel", "oracle"])
def test_agrees_with_a_loop(function, mode):
    inputs = bags(np.float64)
    with np.errstate(divide="ignore"):
        outputs = function(*inputs, lengths=LENGTHS, mode=mode, accumulator="wide")
    expected = by_loop(*inputs, mode)
    assert list(outputs) == list(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(outputs[name], values, rtol=1e-13, atol=1e-15)
    assert not outputs["out"][[0, 3, 5]].any(), "empty bags"


def test_rows_are_added_in_the_order_of_their_indices():
    rows = np.array([[2**24], [1], [-(2**24)], [1]], np.float32)
    assert bag.added_in_order(rows, np.zeros(4, int), 2).tolist() == [[1], [0]]


@pytest.mark.parametrize(("accumulator", "expected"), [("wide", 4096), ("storage", 2048)])
def test_a_storage_accumulator_stands_still(accumulator, expected):
    one = np.ones((1, 1), np.float16)
    outputs = bag.embedding_bag(
        one, np.zeros(4096, int), np.ones(4096, np.float16), one, lengths=[4096], mode="sum", accumulator=accumulator
    )
    assert outputs["out"] == outputs["dtable"] == expected
