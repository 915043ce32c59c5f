"""PRECISION_THRESHOLDS: bounds from the environment, which tighten and never loosen unless the project says so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.errors import UserError
from precreg.measure.metrics import METRICS
from precreg.report.sections import describe_warning
from precreg.suite.expand import load_cases
from precreg.tolerance.layers import read_thresholds, unmet_thresholds
from precreg.tolerance.pyramid import SHIPPED_LAYERS, explain_tolerance, is_tighter, resolve_tolerance
from precreg.types.case import Layer, Location
from tests.suite.conftest import SUITE

CHAIN = ("npu", "generic")


def layers(text, *below, looser=False, tier="unit"):
    return (*SHIPPED_LAYERS, *below, *read_thresholds(text, looser=looser).get(tier, ()))


def project_layer(environment=None, **bounds):
    return Layer("suite", Location("suites/unit/s.yaml", 7), bounds, environment=environment)


def limits(layers, dtype="float32"):
    tolerance = resolve_tolerance(layers, "out", dtype, CHAIN)
    bounds = {bound.metric: bound.limit for bound in tolerance.bounds}
    return {"rtol": tolerance.rtol.limit, "atol": tolerance.atol.limit, **bounds}


@pytest.mark.parametrize(
    ("text", "limit"),
    [('{"max_ulp": 4}', 4), ('{"max_ulp": 8}', 8), ('{"max_ulp": 16}', 8), ('{"rtol": 1}', 8), ("{}", 8), (" ", 8)],
)
def test_a_bound_takes_hold_where_it_is_tighter(text, limit):
    assert limits(layers(text, project_layer(max_ulp=8)))["max_ulp"] == limit


@pytest.mark.parametrize(("text", "limit"), [('{"match_ratio": 0.9}', 0.95), ('{"match_ratio": 0.99}', 0.99)])
def test_of_a_metric_where_more_is_better_the_larger_bound_is_tighter(text, limit):
    assert limits(layers(text, project_layer(match_ratio=0.95)))["match_ratio"] == limit


def test_a_bound_where_there_was_none_tightens():
    assert limits(layers('{"bias": 0.5}'))["bias"] == 0.5


def test_rtol_and_atol_tighten_each_by_itself():
    found = limits(layers('{"rtol": 1e-9, "atol": 1}'))
    assert (found["rtol"], found["atol"], found["match_ratio"]) == (1e-9, 1e-5, 1.0)


def test_thresholds_come_after_the_environment_too():
    on_device = project_layer(environment="npu", max_ulp=16)
    assert limits(layers('{"max_ulp": 12}', project_layer(max_ulp=4), on_device))["max_ulp"] == 12
    assert limits(layers('{"max_ulp": 20}', project_layer(max_ulp=4), on_device))["max_ulp"] == 16


def test_with_leave_of_the_project_they_replace():
    found = limits(layers('{"max_ulp": 16, "match_ratio": 0.5}', project_layer(max_ulp=8), looser=True))
    assert (found["max_ulp"], found["match_ratio"]) == (16, 0.5)


def test_among_thresholds_the_later_wins_before_any_is_held_against_the_project():
    text = '{"unit": {"float16": {"max_ulp": 6}, "max_ulp": 5}, "float16": {"max_ulp": 9}, "max_ulp": 2}'
    for dtype, tier, limit in [
        ("float32", "unit", 5),
        ("float16", "unit", 6),
        ("float32", "model", 2),
        ("float16", "model", 8),
    ]:
        found = limits(layers(text, project_layer(max_ulp=8), tier=tier), dtype)
        assert found["max_ulp"] == limit, (dtype, tier)


def test_naming_rtol_asks_for_no_match_where_none_is_asked_for():
    standard = project_layer(standard="double-thousandth-1")
    without = limits((*SHIPPED_LAYERS, standard))
    assert "match_ratio" not in without
    assert limits(layers('{"rtol": 1e-9}', standard)) == without


def test_a_match_that_the_thresholds_ask_for_is_as_near_as_they_say():
    """The shipped rtol of 1.3e-6 bound nothing, so a wider one does not loosen anything."""
    standard = project_layer(standard="double-thousandth-1")
    found = limits(layers('{"match_ratio": 1, "rtol": 1e-3}', standard))
    assert (found["rtol"], found["match_ratio"], found["share_rel_above_1e-3"]) == (1e-3, 1.0, pytest.approx(1e-3))


@given(
    st.dictionaries(st.sampled_from(["rtol", "atol", *METRICS]), st.floats(0, 1e3)),
    st.dictionaries(st.sampled_from(["rtol", "atol", *METRICS]), st.floats(0, 1e3)),
)
def test_no_bound_is_ever_looser_than_without_thresholds(own, asked):
    below = (*SHIPPED_LAYERS, project_layer(**own))
    override = Layer("thresholds", Location("PRECISION_THRESHOLDS"), asked, override="tighter")
    before, after = limits(below), limits((*below, override))
    assert set(before) <= set(after)
    for metric, limit in before.items():
        assert not is_tighter(metric, limit, after[metric])
        if metric in asked:
            assert not is_tighter(metric, asked[metric], after[metric])


def test_explain_and_resolve_agree_on_what_holds():
    stack = layers('{"max_ulp": 16, "rtol": 1e-9, "float32": {"bias": 1}}', project_layer(max_ulp=8))
    rows = explain_tolerance(stack, "out", "float32", CHAIN)
    holding = {row.metric: row.value for row in rows if row.holds and not row.metric.startswith("regression.")}
    assert holding == limits(stack)
    shown = [
        (row.layer, row.metric, row.value, row.holds) for row in rows if row.source == Location("PRECISION_THRESHOLDS")
    ]
    assert shown == [
        ("thresholds", "max_ulp", 16, False),
        ("thresholds", "rtol", 1e-9, True),
        ("thresholds, float32", "bias", 1, True),
    ]


def test_a_bound_that_holds_says_that_it_came_from_the_environment():
    tolerance = resolve_tolerance(layers('{"model": {"rtol": 0}}', tier="model"), "out", "float32", CHAIN)
    assert (tolerance.rtol.layer, str(tolerance.rtol.source)) == ("thresholds, model", "PRECISION_THRESHOLDS")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"max_ulp": 16}', ["max_ulp=16 (thresholds) is looser than some bounds"]),
        ('{"max_ulp": 8}', []),
        ('{"max_ulp": 4}', []),
        ('{"float16": {"max_ulp": 16}}', []),
        ('{"match_ratio": 0.9, "rtol": 1}', ["match_ratio=0.9", "rtol=1"]),
    ],
)
def test_what_does_not_hold_is_said(text, said):
    stack = layers(text, project_layer(max_ulp=8))
    unmet = unmet_thresholds(stack, resolve_tolerance(stack, "out", "float32", CHAIN), "float32")
    found = [*map(describe_warning, unmet)]
    assert len(found) == len(said)
    assert all(
        words in line and line.startswith("PRECISION_THRESHOLDS: ") for words, line in zip(said, found, strict=True)
    )


def test_an_rtol_that_binds_nothing_is_said():
    stack = layers('{"rtol": 1e-3}', project_layer(standard="double-thousandth-1"))
    (found,) = unmet_thresholds(stack, resolve_tolerance(stack, "out", "float32", CHAIN), "float32")
    assert "rtol=0.001 (thresholds) has no effect in some cases" in describe_warning(found)


def test_what_replaces_a_bound_is_no_matter_for_a_warning():
    stack = layers('{"max_ulp": 16}', project_layer(max_ulp=8), looser=True)
    assert list(unmet_thresholds(stack, resolve_tolerance(stack, "out", "float32", CHAIN), "float32")) == []


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("{", 1, "Expecting property name"),
        ('{"rtol": 1,\n"atol": }', 2, "at column 9"),
        ("[]", None, "a mapping from metric"),
        ("1e-3", None, "PRECISION_THRESHOLDS=0.001"),
        ('{"unit": 1}', None, "got unit=1"),
        ('{"max_upl": 1}', None, 'got max_upl=1; did you mean "max_ulp"?'),
        ('{"flaot16": {"rtol": 1}}', None, 'did you mean "float16"?'),
        ('{"uint": {"rtol": 1}}', None, 'did you mean "uint8"?'),
        ('{"unit": {"model": {"rtol": 1}}}', None, "got unit.model="),
        ('{"float16": {"unit": {"rtol": 1}}}', None, "got float16.unit="),
        ('{"regression": {"bias": 1}}', None, "got regression="),
        ('{"standard": "jax-1"}', None, 'got standard="jax-1"'),
        ('{"outputs": {"w": {"rtol": 1}}}', None, "got outputs="),
        ('{"rtol": 1, "rtol": 2}', None, "each key once but got rtol=2"),
        ('{"unit": {"rtol": 1, "rtol": 2}}', None, "got unit.rtol=2"),
        ('{"model": {"rtol": NaN}}', None, "finite number that is not negative but got model.rtol=NaN"),
        ('{"rtol": Infinity}', None, "finite"),
        ('{"rtol": 1e999}', None, "finite"),
        ('{"rtol": ' + "9" * 400 + "}", None, "finite"),
        ('{"rtol": ' + "9" * 5000 + "}", None, "4300"),
        ('{"rtol": -1}', None, "rtol=-1"),
        ('{"rtol": "1e-3"}', None, 'rtol="1e-3"'),
        (r'{"\u0000x\n": 1}', None, r"got \u0000x\n=1"),
        ('{"match_ratio": 1.5}', None, "expected a share from 0 to 1 but got match_ratio=1.5"),
        ('{"rtol": true}', None, "rtol=true"),
        ('{"rtol": null}', None, "rtol=null"),
        ("[" * 100_000, None, "recursion"),
    ],
)
def test_what_is_no_set_of_bounds_is_refused_with_its_place(text, line, says):
    with pytest.raises(UserError) as caught:
        read_thresholds(text, looser=False)
    problem = caught.value
    assert (problem.slug, problem.file, problem.line) == ("bad-thresholds", "PRECISION_THRESHOLDS", line)
    assert says in problem.message


def test_the_least_mean_log2_ulp_is_that_of_exact_elements():
    assert limits(layers('{"mean_log2_ulp": -2}'))["mean_log2_ulp"] == -2
    with pytest.raises(UserError):
        read_thresholds('{"mean_log2_ulp": -2.5}', looser=False)


def test_a_project_takes_them_from_the_environment_it_is_given(write):
    project = write(s=SUITE + "tolerance: {max_ulp: 8}\ncases: [{match: default, tolerance: {rtol: 1e-2}}]\n")
    (plain,) = load_cases(project, {})
    (case,) = load_cases(project, {"PRECISION_THRESHOLDS": '{"max_ulp": 16, "rtol": 1e-4}'})
    assert limits(plain.layers)["rtol"] == 1e-2
    assert (limits(case.layers)["rtol"], limits(case.layers)["max_ulp"]) == (1e-4, 8)
    assert case.definition == plain.definition


def test_the_projects_file_says_whether_they_may_loosen(write):
    project = write(
        {"suites/tolerances.yaml": "allow_looser_thresholds: true\n"}, s=SUITE + "tolerance: {max_ulp: 8}\n"
    )
    (case,) = load_cases(project, {"PRECISION_THRESHOLDS": '{"max_ulp": 16}'})
    assert limits(case.layers)["max_ulp"] == 16
