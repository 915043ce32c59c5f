"""Choices of widths against all choices, for small models."""

from itertools import pairwise, product

from hypothesis import given
from hypothesis import strategies as st

from precreg.quantization.proposal import Width, choose_widths, convex_hull

FORMATS = ("int2", "int4", "int8", "float32")
BITS = {"int2": 2, "int4": 4, "int8": 8, "float32": 32}


@st.composite
def choices(draw):
    found = {}
    for number in range(draw(st.integers(1, 5))):
        elements = draw(st.integers(1, 50))
        costs = sorted(draw(st.lists(st.integers(0, 100), min_size=3, max_size=3)), reverse=True)
        widths = zip(FORMATS, (*costs, 0), strict=True)
        found[f"layer{number}"] = [Width(name, BITS[name] * elements, cost / 100) for name, cost in widths]
    return found


def size_of(chosen):
    return sum(each.size for each in chosen)


def loss_of(chosen):
    return sum(each.loss for each in chosen)


@given(choices(), st.floats(2.0, 33.0))
def test_a_choice_keeps_its_size_and_loses_little_more_than_the_best(widths, bits):
    elements = sum(each[0].size / 2 for each in widths.values())
    chosen = choose_widths(widths, max_size=bits * elements).values()
    best = min(loss_of(each) for each in product(*widths.values()) if size_of(each) <= bits * elements)
    most = max(each[0].loss for each in map(convex_hull, widths.values()))
    assert size_of(chosen) <= bits * elements
    assert best <= loss_of(chosen) <= best + most + 1e-12


@given(choices(), st.floats(0.0, 2.0))
def test_a_choice_keeps_its_loss_with_little_more_size_than_the_best(widths, loss):
    chosen = choose_widths(widths, max_loss=loss).values()
    best = min(size_of(each) for each in product(*widths.values()) if loss_of(each) <= loss)
    most = max(each[-1].size - each[0].size for each in widths.values())
    assert loss_of(chosen) <= loss
    assert best <= size_of(chosen) <= best + most


@given(choices())
def test_a_hull_is_convex(widths):
    for each in widths.values():
        hull = convex_hull(each)
        slopes = [(a.loss - b.loss) / (b.size - a.size) for a, b in pairwise(hull)]
        assert slopes == sorted(slopes, reverse=True)
        assert all(slope > 0 for slope in slopes)
        assert min(width.loss for width in each) == hull[-1].loss


def test_a_sensitive_layer_gets_the_bits():
    widths = {
        "head": [Width("int4", 400, 0.5), Width("int8", 800, 0.01)],
        "body": [Width("int4", 400, 0.02), Width("int8", 800, 0.001)],
    }
    chosen = choose_widths(widths, max_size=1200)
    assert {name: each.format for name, each in chosen.items()} == {"head": "int8", "body": "int4"}
