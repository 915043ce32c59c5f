from hashlib import sha256

import pytest

from precreg.suite.expand import definition_digest
from precreg.types.case import Computation

SUBJECT, ORACLE = Computation("python", "k:naive"), Computation("python", "k:exact")
INPUTS = {"x": {"shape": [4], "dtype": "float32", "normal": {"mean": 0, "std": 1}}}


def digest(subject=SUBJECT, oracle=ORACLE, role="reference", inputs=INPUTS, params=None):
    return definition_digest(subject, oracle, role, inputs, {} if params is None else params)


CANONICAL = (
    '{"inputs":{"x":{"dtype":"float32","normal":{"mean":0,"std":1},"shape":[4]}},"params":{},'
    '"reference":["python","k:exact"],"subject":["python","k:naive"]}'
)


def test_the_digest_is_over_this_text_which_baselines_on_disk_rely_on():
    assert digest() == f"1:{sha256(CANONICAL.encode()).hexdigest()[:32]}"


def test_the_order_of_keys_does_not_matter():
    assert digest(params={"a": 1, "b": 2}) == digest(params={"b": 2, "a": 1})


def test_one_and_one_point_nought_are_one_number_in_inputs_and_two_in_params():
    as_float = {"x": {"shape": [4], "dtype": "float32", "normal": {"mean": 0.0, "std": 1.0}}}
    assert digest(inputs=as_float) == digest()
    assert digest(params={"n": 1}) != digest(params={"n": 1.0})


@pytest.mark.parametrize(
    "changed",
    [
        {"subject": Computation("python", "k:other")},
        {"subject": Computation("torch", "k:naive")},
        {"oracle": Computation("python", "k:other")},
        {"role": "golden"},
        {"inputs": {"y": INPUTS["x"]}},
        {"inputs": {"x": {**INPUTS["x"], "shape": [5]}}},
        {"inputs": {"x": {**INPUTS["x"], "dtype": "float16"}}},
        {"inputs": {"x": {**INPUTS["x"], "normal": {"mean": 0, "std": 1.5}}}},
        {"params": {"eps": 1e-5}},
        {"params": {"eps": float("inf")}},
    ],
)
def test_whatever_is_computed_differently_has_another_digest(changed):
    assert digest(**changed) != digest()


def test_a_device_counts_by_its_name_where_there_is_one():
    on_device = definition_digest(SUBJECT, ORACLE, "reference", INPUTS, {}, "ascend")
    assert on_device != definition_digest(SUBJECT, ORACLE, "reference", INPUTS, {}, "cpu") != digest()
    assert definition_digest(SUBJECT, ORACLE, "reference", INPUTS, {}, None) == digest()
