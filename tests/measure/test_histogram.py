from hypothesis import given
from hypothesis import strategies as st

from precreg.measure.tally import merge_histograms
from precreg.types.outcome import Histogram


@st.composite
def histograms(draw):
    counts = draw(st.dictionaries(st.integers(0, 8191), st.integers(1, 10**9), max_size=8))
    bins = sorted(counts)
    return Histogram(draw(st.integers(0, 10**9)), bins, [counts[bin] for bin in bins])


def test_counts_of_one_bin_are_added():
    merged = merge_histograms([Histogram(2, [3, 7], [1, 5]), Histogram(1, [4, 7], [2, 1])])
    assert merged == Histogram(3, [3, 4, 7], [1, 2, 6])


@given(histograms(), histograms(), histograms())
def test_the_order_of_merging_changes_nothing(first, second, third):
    assert merge_histograms([first, second]) == merge_histograms([second, first])
    assert (
        merge_histograms([merge_histograms([first, second]), third])
        == merge_histograms([first, merge_histograms([second, third])])
        == merge_histograms([first, second, third])
    )


def test_nothing_merges_to_nothing():
    assert merge_histograms([]) == Histogram(0, [], [])
