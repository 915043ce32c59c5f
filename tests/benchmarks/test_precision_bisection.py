"""The strategies of benchmarks/precision_bisection.py on decisions that are made up."""

import pytest

from benchmarks.precision_bisection import delta_debugging, greedy, polygraphy_bisect, polygraphy_linear

LAYERS = [f"l{number}" for number in range(16)]


def needs(*members):
    return lambda marked: set(members) <= set(marked)


@pytest.mark.parametrize(("needed", "bisect", "linear"), [("l4", 6, 6), ("l15", 5, 17), ("l0", 5, 2)])
def test_polygraphy_marks_the_first_layers(needed, bisect, linear):
    count = LAYERS.index(needed) + 1
    assert polygraphy_linear(LAYERS, needs(needed)) == (tuple(LAYERS[:count]), linear)
    found = polygraphy_bisect(LAYERS, needs(needed))
    assert found.chosen == tuple(LAYERS[:count])
    assert found.runs <= bisect


@pytest.mark.parametrize("strategy", [polygraphy_bisect, polygraphy_linear, delta_debugging])
def test_no_set_is_enough(strategy):
    assert strategy(LAYERS, needs("absent")).chosen is None


@pytest.mark.parametrize("needed", [("l3",), ("l3", "l11"), ("l0", "l7", "l15")])
def test_delta_debugging_and_greedy_find_the_needed_layers(needed):
    assert delta_debugging(LAYERS, needs(*needed)).chosen == needed

    def error(marked):
        return float(len(set(needed) - set(marked)))

    found = greedy(LAYERS, error, 0.5)
    assert (sorted(found.chosen), found.runs) == (sorted(needed), 1 + sum(16 - step for step in range(len(needed))))
