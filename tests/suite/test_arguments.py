import pytest

from precreg.suite.expand import load_cases
from tests.suite.conftest import SUITE

TEXT = """\
matrix: {n: [1, 2], order: [a, b]}
inputs: {x: {shape: [$size], dtype: float32, normal: {}}}
params: {size: $n, order: $order}
"""


@pytest.fixture
def cases(write):
    return {case.name: case for case in load_cases(write(s=SUITE + TEXT))}


def test_inputs_name_parameters_by_way_of_params(cases):
    assert [case.inputs["x"]["shape"] for case in cases.values()] == [[1], [1], [2], [2]]
    assert [case.params for case in cases.values()] == [
        {"size": 1, "order": "a"},
        {"size": 1, "order": "b"},
        {"size": 2, "order": "a"},
        {"size": 2, "order": "b"},
    ]


def test_cases_whose_inputs_are_equal_share_them(cases):
    assert cases["n=1-a"].inputs is cases["n=1-b"].inputs
    assert cases["n=1-a"].inputs is not cases["n=2-a"].inputs
