import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.errors import UserError
from precreg.storage.yaml_source import Source
from precreg.suite.matrix import reference_names, resolve_params, substitute

SOURCE = Source("s.yaml", None)
NAMES = st.sampled_from("abcd")
VALUES = st.recursive(
    st.integers() | NAMES.map("${}".format) | st.text(alphabet="xyz"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


def test_a_reference_is_replaced_by_the_value_itself_at_any_depth():
    value = {"shape": ["$n", 4], "dtype": "$dtype", "normal": {"std": "$std"}, "text": "cost $n"}
    assert substitute(value, {"n": 3, "dtype": "int8", "std": 1.5}) == {
        "shape": [3, 4],
        "dtype": "int8",
        "normal": {"std": 1.5},
        "text": "cost $n",
    }


@given(VALUES)
def test_nothing_is_left_after_every_name_is_replaced(value):
    filled = substitute(value, dict.fromkeys("abcd", 0))
    assert list(reference_names(filled)) == []
    if not list(reference_names(value)):
        assert filled == value


def test_params_may_name_each_other_in_any_order():
    params = {"a": "$b", "b": ["$c", "$m"], "c": 1}
    assert resolve_params(SOURCE, params, {"m"}) == {"a": [1, "$m"], "b": [1, "$m"], "c": 1}


def test_a_parameter_of_the_matrix_goes_before_a_key_of_its_name():
    assert resolve_params(SOURCE, {"order": "$order"}, {"order"}) == {"order": "$order"}


@given(st.dictionaries(NAMES, NAMES.map("${}".format), min_size=1))
def test_a_circle_is_always_found(edges):
    """With one reference per key, following them from every key ends outside or in a circle."""
    circular = False
    for key in edges:
        seen = set()
        while key in edges and key not in seen:
            seen.add(key)
            key = edges[key][1:]
        circular |= key in seen
    if circular:
        with pytest.raises(UserError) as caught:
            resolve_params(SOURCE, edges, set())
        assert caught.value.slug == "cyclic-reference"
    else:
        assert set(resolve_params(SOURCE, edges, set())) == set(edges)
