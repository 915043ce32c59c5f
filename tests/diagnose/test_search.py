"""Searches: one cause and two causes at once, fitted numbers, runners-up, and errors that no rewrite has."""

import numpy as np
import pytest

from tests.diagnose.bases import normal, search

X = normal(40, 60)
POSITIVE = np.abs(X) + np.float32(0.1)


def named(found):
    return [(cause.rewrite, cause.options, cause.place.expression or cause.place.name) for cause in found.causes]


def scaled_softmax(x, scale=0.125):
    z = x * np.float32(scale)
    z = z - z.max(axis=-1, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=-1, keepdims=True)


def test_a_cast_of_an_input_is_named_at_the_input():
    found = search(scaled_softmax, lambda x: scaled_softmax(x.astype(np.float16).astype(np.float32)), {"x": X})
    assert named(found) == [("hop", {"format": "float16"}, "x")]
    assert found.causes[0].evidence.remaining == 0


def test_a_wrong_param_is_named_with_its_value():
    found = search(scaled_softmax, lambda x, scale: scaled_softmax(x, 0.25), {"x": X}, {"scale": 0.125})
    assert named(found) == [("other_param", {"value": 0.25}, "scale")]


def test_a_constant_of_any_value_is_fitted():
    found = search(scaled_softmax, lambda x: scaled_softmax(x, 0.1377), {"x": X})
    (cause,) = found.causes
    assert cause.rewrite == "other_constant"
    assert cause.options["value"] == pytest.approx(0.1377, rel=1e-6)
    assert cause.evidence.reproduced == cause.evidence.elements


def both_wrong(x):
    z = x * np.float32(0.125)
    z = z - z.max(axis=-1, keepdims=True)
    e = np.exp(z).astype(np.float16).astype(np.float32)
    return e * (np.float32(1) / e.sum(axis=-1, keepdims=True))


def test_two_causes_at_once_are_named_the_largest_first():
    found = search(scaled_softmax, both_wrong, {"x": X})
    assert [rewrite for rewrite, _, _ in named(found)] == ["hop_result", "by_reciprocal"]
    first, both = (cause.evidence for cause in found.causes)
    assert first.reproduced < both.reproduced == both.elements


def test_errors_without_a_rewrite_have_no_cause():
    noise = np.float32(1e-3) * normal(40, 60, seed=7)
    found = search(scaled_softmax, lambda x: scaled_softmax(x) + noise, {"x": X})
    assert all(cause.evidence.remaining > 0.5 for cause in found.causes)


def root(x):
    return np.sqrt(x) / (x + np.float32(1))


def by_inverse(x):
    return np.sqrt(x) * (np.float32(1) / (x + np.float32(1)))


def test_a_suspect_root_is_cleared_once_the_cause_is_known():
    found = search(root, by_inverse, {"x": POSITIVE})
    assert named(found) == [("by_reciprocal", {}, "np.sqrt(x) / (x + np.float32(1))")]
    assert [place.expression for place in found.cleared] == ["np.sqrt(x)"]


def test_a_time_that_is_up_is_reported():
    found = search(scaled_softmax, both_wrong, {"x": X}, seconds=0)
    assert found.out_of_time
    assert found.tried < found.hypotheses
