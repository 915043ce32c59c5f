import pytest

from precreg.errors import UserError
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


PICKED = """\
matrix: {{values: [small, large], dtype: [float16, float32]}}
inputs:
  x: {{shape: [2], dtype: $dtype, pick: $values, from: {{small: {{normal: {{}}}}, large: {{constant: {{value: 7}}}}}}}}
"""


def test_each_case_picks_its_distribution_by_name(write):
    cases = {case.name: case for case in load_cases(write(s=SUITE + PICKED.format()))}
    assert cases["float16-small"].inputs == {"x": {"shape": [2], "dtype": "float16", "normal": {}}}
    assert cases["float32-large"].inputs == {"x": {"shape": [2], "dtype": "float32", "constant": {"value": 7}}}


def test_a_picked_distribution_is_defined_like_one_written_plainly(write):
    (plain,) = load_cases(write(s=SUITE + "inputs: {x: {shape: [2], dtype: float32, normal: {}}}\n"))
    text = "inputs: {x: {shape: [2], dtype: float32, pick: a, from: {a: {normal: {}}}}}\n"
    (case,) = load_cases(write(s=SUITE + text))
    assert case.definition == plain.definition


@pytest.mark.parametrize(
    ("rest", "slug", "said"),
    [
        ("pick: smal, from: {small: {normal: {}}}", "bad-value", 'did you mean "small"?'),
        ("pick: a, from: {a: normal}", "bad-value", "expected one of a"),
        ("pick: a, from: a", "bad-value", "distributions by name"),
        ("pick: a", "missing-key", "expected from beside pick"),
        ("from: {a: {normal: {}}}", "missing-key", "expected pick beside from"),
        ("normal: {}, pick: a, from: {a: {uniform: {}}}", "bad-value", "expected one distribution"),
        ("pick: a, from: {a: {shape: [3], normal: {}}}", "bad-value", "expected shape once"),
        ("pick: a, from: {a: {}}", "missing-key", "expected a distribution"),
    ],
)
def test_a_pick_that_cannot_be_made(write, rest, slug, said):
    text = f"inputs:\n  x: {{shape: [2], dtype: float32, {rest}}}\n"
    with pytest.raises(UserError) as caught:
        load_cases(write(s=SUITE + text))
    assert (caught.value.slug, caught.value.file, caught.value.line) == (slug, "suites/unit/s.yaml", 5)
    assert said in caught.value.message
