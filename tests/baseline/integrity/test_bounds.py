"""Whether one pyramid admits more than another, held against what the pyramids themselves admit."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precreg.baseline.integrity.criteria import find_loosened_bounds
from precreg.measure.metrics import METRICS
from precreg.tolerance.pyramid import SHIPPED_LAYERS, resolve_tolerance
from precreg.types.case import Layer, Location
from precreg.types.warning import FindingKind, LooserLimit, LooserScope

CHAIN = ("npu-1", "npu", "generic")


def layer(bounds=None, regression=None, line=1, **restriction):
    return Layer("suite", Location("suites/unit/s.yaml", line), bounds or {}, regression or {}, **restriction)


def found(before, now):
    return [
        change.fact for change in find_loosened_bounds((*SHIPPED_LAYERS, *before), (*SHIPPED_LAYERS, *now), "unit/s/a")
    ]


def test_the_same_is_not_looser_wherever_it_stands():
    assert found([layer({"max_ulp": 4}, line=3)], [layer({"max_ulp": 4}, line=9)]) == []


@pytest.mark.parametrize(
    ("before", "now", "fact", "factor"),
    [
        ({"max_ulp": 4}, {"max_ulp": 8}, LooserLimit("max_ulp", "bound", 4, 8), 2),
        (
            {"rms_error": 0.1},
            {"rms_error": 0.1000001},
            LooserLimit("rms_error", "bound", 0.1, 0.1000001),
            0.1000001 / 0.1,
        ),
        ({"max_ulp": 4}, {}, LooserLimit("max_ulp", "bound", 4), None),
        ({"snr": 60}, {"snr": 20}, LooserLimit("snr", "bound", 60, 20, at_least=True), None),
        (
            {"match_ratio": 0.99},
            {"match_ratio": 0.9},
            LooserLimit("match_ratio", "bound", 0.99, 0.9, at_least=True),
            10,
        ),
        (
            {"max_abs_error": 0},
            {"max_abs_error": 1},
            LooserLimit("max_abs_error", "bound", 0, 1),
            None,
        ),
    ],
)
def test_a_looser_bound_is_told_with_both_figures_and_how_many_times_it_is(before, now, fact, factor):
    (change,) = find_loosened_bounds(
        (*SHIPPED_LAYERS, layer(before)), (*SHIPPED_LAYERS, layer(now, line=7)), "unit/s/a"
    )
    assert (change.kind, change.about, change.fact) == (FindingKind.BOUND_LOOSENED, "unit/s/a", fact)
    assert change.factor is None if factor is None else change.factor == pytest.approx(factor)


def test_a_tighter_bound_is_none():
    assert found([layer({"max_ulp": 8})], [layer({"max_ulp": 4, "mean_ulp": 1})]) == []
    assert found([layer({"match_ratio": 0.9})], [layer({"match_ratio": 0.99})]) == []


def test_closeness_binds_only_where_elements_have_to_match():
    exact = layer({"standard": "msprobe-binary-26.2.0"})
    assert found([exact], [exact, layer({}, dtype="float16")]) == []
    before, now = layer({"rtol": 1e-3, "atol": 0}), layer({"rtol": 1e-2, "atol": 0})
    assert found([before], [now]) == [LooserLimit("rtol", "bound", 1e-3, 1e-2)]


def test_where_a_bound_is_looser_is_named():
    everywhere = layer({"max_ulp": 4})
    assert found([everywhere], [everywhere, layer({"max_ulp": 8}, dtype="float16", output="y", environment="npu")]) == [
        LooserLimit("max_ulp", "bound", 4, 8, scopes=tuple(LooserScope((name,)) for name in ("float16", "y", "npu")))
    ]
    tight = [everywhere, layer({"max_ulp": 1}, environment="npu")]
    assert found(tight, [layer({"max_ulp": 8}), tight[1]]) == [
        LooserLimit("max_ulp", "bound", 4, 8, scopes=(LooserScope(("generic",)),))
    ]


def test_an_alternative_that_asks_for_less_is_looser_and_one_that_asks_for_more_is_not():
    several = layer({"standard": "msprobe-ulp-26.2.0"}, dtype="float32")
    more = layer({"mean_ulp": 1}, dtype="float32")
    assert found([several], [several, more]) == []
    facts = found([several], [layer({"standard": "torch-2.13"})])
    assert any(fact.sort == "alternatives" and fact.now is None for fact in facts)


def test_growth_is_looser_where_more_is_allowed_or_it_is_off():
    before = [layer(regression={"mean_abs_error": 0.1})]
    assert found(before, [layer(regression={"mean_abs_error": 0.05})]) == []
    assert found(before, [layer(regression={"mean_abs_error": 0.2})]) == [
        LooserLimit("regression.mean_abs_error", "growth", 0.1, 0.2)
    ]
    assert found(before, [layer(regression={"mean_abs_error": None})]) == [
        LooserLimit("regression.mean_abs_error", "growth", 0.1)
    ]


LIMITS = {"max_ulp": st.floats(0, 1e6), "cosine": st.floats(-1, 1), "match_ratio": st.floats(0, 1)}
BOUNDS = st.fixed_dictionaries({}, optional={**LIMITS, "rtol": st.floats(0, 1), "atol": st.floats(0, 1)})
LAYERS = st.lists(
    st.builds(
        layer,
        BOUNDS,
        dtype=st.sampled_from([None, "float16"]),
        output=st.sampled_from([None, "y"]),
        environment=st.sampled_from([None, "npu", "generic"]),
    ),
    max_size=4,
)


@pytest.mark.parametrize(
    ("before", "now", "looser"),
    [
        ({"bias": 0.1}, {"bias up": 0.1, "bias down": 0.1}, set()),
        ({"bias": 0.1}, {"bias up": 0.1, "bias down": 0.5}, {"regression.bias down"}),
        ({"bias": 0.1}, {"bias up": 0.1, "bias down": None}, {"regression.bias down"}),
        ({"bias up": 0.1, "bias down": 0.5}, {"bias": 0.1}, set()),
        ({"bias up": 0.1, "bias down": 0.5}, {"bias": 0.3}, {"regression.bias up"}),
        ({"mean_ulp better": 0.1}, {"mean_ulp better": 0.9}, set()),
        ({"mean_ulp better": 0.1}, {}, set()),
    ],
)
def test_growth_by_direction_is_compared_in_each(before, now, looser):
    facts = found([layer(regression=before)], [layer(regression=now)])
    assert {fact.key for fact in facts} == looser


def admits(tolerance, share, figures):
    """Tell whether an output passes of which that share of elements is within the tolerance, with those figures."""
    values = {"match_ratio": share, **figures}
    return all(
        values[bound.metric] >= bound.limit
        if METRICS[bound.metric].better == "higher"
        else values[bound.metric] <= bound.limit
        for bound in tolerance.bounds
        if bound.metric in values
    )


@settings(max_examples=60, deadline=None)
@given(LAYERS, LAYERS, st.floats(0, 1), st.floats(0, 1e6), st.floats(-1, 1), st.sampled_from(["float16", "int8"]))
def test_what_is_not_found_looser_passes_nothing_that_failed(before, now, share, ulp, cosine, dtype):
    """Whatever passes under the new pyramid, and failed under the old one, is found; figures are free."""
    if found(before, now):
        return
    figures = {"max_ulp": ulp, "cosine": cosine}
    for output in ("y", "x"):
        for chain in (CHAIN, ("generic",), ("cpu-1", "cpu", "generic")):
            old, new = (resolve_tolerance((*SHIPPED_LAYERS, *layers), output, dtype, chain) for layers in (before, now))
            asks = any(bound.metric == "match_ratio" for bound in old.bounds)
            closer = new.rtol.limit <= old.rtol.limit and new.atol.limit <= old.atol.limit
            assert closer or not asks
            assert admits(old, share, figures) or not admits(new, share, figures)
