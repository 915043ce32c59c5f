import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.quantization.sensitivity import spearman

stats = pytest.importorskip("scipy.stats")
numbers = st.lists(st.integers(0, 6), min_size=2, max_size=12)


@given(st.data())
def test_the_coefficient_is_scipys_with_and_without_ties(data):
    first = data.draw(numbers)
    second = data.draw(st.lists(st.integers(0, 6), min_size=len(first), max_size=len(first)))
    found = spearman(first, second)
    if len(set(first)) == 1 or len(set(second)) == 1:
        assert found is None
    else:
        assert found == pytest.approx(stats.spearmanr(first, second).statistic, abs=1e-12)


def test_infinite_errors_have_the_last_rank():
    assert spearman([1.0, 2.0, np.inf], [1.0, 2.0, 3.0]) == 1.0


def test_one_layer_has_no_rank_correlation():
    assert spearman([1.0], [2.0]) is None
