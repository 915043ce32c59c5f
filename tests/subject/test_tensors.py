"""Tensors and their names where torch is not imported, or not even installed."""

import subprocess
import sys
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import pytest

from precreg.errors import UserError
from precreg.subject.call import name_outputs
from precreg.subject.tensors import is_tensor


def named(returned):
    return {name: array.tolist() for name, array in name_outputs(returned).items()}


@dataclass
class Result:
    logits: object
    state: object = None


def test_a_dataclass_has_the_names_of_its_fields_and_leaves_none_out():
    assert named(Result(np.ones(2))) == {"logits": [1, 1]}
    assert named(Result(np.ones(1), {"h": np.zeros(1)})) == {"logits": [1], "state.h": [0]}


def test_dicts_inside_have_dotted_names_and_count_by_whole_numbers_too():
    cache = {0: {"key": np.zeros(1), "value": np.ones(1), "none": None}}
    assert named({"y": np.ones(1), "cache": cache}) == {"y": [1], "cache.0.key": [0], "cache.0.value": [1]}
    assert named((np.ones(1), {"loss": 2.0})) == {"0": [1], "1.loss": 2.0}


def test_a_sequence_of_numbers_inside_stays_one_array():
    assert named({"y": [1, 2]}) == {"y": [1, 2]}
    assert named((np.zeros(1), (np.ones(2), np.ones(2)))) == {"0": [0], "1": [[1, 1], [1, 1]]}


def test_two_outputs_of_one_name_are_refused():
    with pytest.raises(UserError, match=r"two of name='a\.b'"):
        name_outputs({"a.b": 1.0, "a": {"b": 2.0}})


def test_a_result_inside_itself_ends():
    endless = {}
    endless["again"] = endless
    with pytest.raises(UserError, match="at most 20 levels"):
        name_outputs(endless)


def test_a_long_dotted_name_is_refused():
    with pytest.raises(UserError, match="at most 200 characters"):
        name_outputs({"a" * 150: {"b" * 100: 1.0}})


def test_no_array_is_a_tensor_and_a_look_imports_no_torch():
    code = "import sys; import precreg; precreg.compare([1.0], [1.0]); print('torch' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "False\n"
    assert not is_tensor(np.zeros(1))


def test_another_module_of_that_name_has_no_tensors(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    assert not is_tensor(np.zeros(1))
    assert named(np.ones(1)) == {"out": [1]}
