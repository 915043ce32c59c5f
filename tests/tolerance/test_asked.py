"""Bounds on metrics of analyzers, in every layer: they hold for the suites that ask, and are checked like others."""

import jsonschema
import pytest

from precreg.errors import UserError
from precreg.measure.metrics import analyzer_of
from precreg.pytest_plugin.test_cases import PrecisionCheck
from precreg.storage.yaml_source import read_yaml
from precreg.suite.expand import load_cases
from precreg.suite.load import load_suites, read_foundation
from precreg.suite.schema import json_schema, tolerances_schema
from precreg.tolerance.layers import THRESHOLDS_VARIABLE, read_layers
from precreg.tolerance.pyramid import explain_tolerance, resolve_tolerance
from precreg.tolerance.warnings import tolerance_warnings
from precreg.types.case import Location
from tests.suite.conftest import SUITE

DECLARED = """\
@analyzer(
    Metric("share", "1", "a share", "lower", "ours"),
    Metric("decibels", "dB", "how much", "higher", "ours"),
)
def it(actual, reference):
    return {}
"""
PLAIN = f"{SUITE.replace('softmax', 'plain')}"


@pytest.fixture
def signs(brought):
    return brought(DECLARED)


def suite_of(name, tolerance="", cases=""):
    return f"{SUITE}analyzers: [{name}]\n{tolerance and f'tolerance: {tolerance}'}\n{cases}\n"


def holding(layers, dtype="float32"):
    """Return what is asked of metrics of analyzers: limits, and allowed growth."""
    found = resolve_tolerance(layers, "out", dtype, ("npu", "generic"))
    limits = {bound.metric.partition(".")[2]: bound.limit for bound in found.bounds if analyzer_of(bound.metric)}
    return limits, {metric.partition(".")[2]: growth for metric, growth in found.regression.items() if "." in metric}


def refused(project, environ=None):
    with pytest.raises(UserError) as caught:
        load_cases(project, environ or {})
    return caught.value


def test_every_layer_may_bound_them_and_the_later_wins(write, signs):
    tolerances = (
        f"default: {{{signs}.share: 0.5}}\n"
        f"tiers: {{unit: {{{signs}.share: 0.4}}}}\n"
        f"environments: {{npu: {{{signs}.share: 0.1}}}}\n"
    )
    own = f"{{{signs}.share: 0.3, float16: {{{signs}.share: 0.2}}, {signs}.decibels: -20}}"
    project = write({"suites/tolerances.yaml": tolerances}, s=suite_of(signs, own), p=PLAIN)
    plain, asking = load_suites(project, {})
    assert holding(asking.layers)[0] == {"share": 0.1, "decibels": -20}
    assert [
        s.value for s in explain_tolerance(asking.layers, "out", "float16", ()) if s.metric == f"{signs}.share"
    ] == [
        0.5,
        0.4,
        0.3,
        0.2,
    ]
    assert holding(plain.layers) == ({}, {})


def test_a_case_may_bound_them(write, signs):
    case = f'cases:\n  - {{match: "*", tolerance: {{{signs}.share: 0.25}}}}'
    (found,) = load_cases(write(s=suite_of(signs, "", case)), {})
    assert (holding(found.layers)[0], found.analyzers) == ({"share": 0.25}, (signs,))


def test_a_standard_takes_their_place_as_that_of_all_bounds(write, signs):
    tolerances = {"suites/tolerances.yaml": f"default: {{{signs}.share: 0.5}}\n"}
    assert holding(load_suites(write(tolerances, s=suite_of(signs, "{standard: torch-2.13}")), {})[0].layers)[0] == {}


def test_thresholds_tighten_them_for_the_suites_that_ask(write, signs):
    project = write(s=suite_of(signs, f"{{{signs}.share: 0.3, {signs}.decibels: 20}}"), p=PLAIN)
    environ = {THRESHOLDS_VARIABLE: f'{{"{signs}.share": 0.2, "{signs}.decibels": 10}}'}
    plain, asking = load_suites(project, environ)
    assert holding(asking.layers)[0] == {"share": 0.2, "decibels": 20}
    assert holding(plain.layers)[0] == {}


def test_growth_is_allowed_by_name_and_switched_off_with_all_others(write, signs):
    tolerances = {"suites/tolerances.yaml": f"default: {{regression: {{{signs}.share: 0.5, {signs}.decibels: 1}}}}\n"}
    own = (f"{{regression: {{{signs}.share: off}}}}", "{regression: off}", "{regression: {max_ulp: off}}")
    left = [holding(load_suites(write(tolerances, s=suite_of(signs, text)), {})[0].layers)[1] for text in own]
    assert left == [{"decibels": 1}, {}, {"share": 0.5, "decibels": 1}]


@pytest.mark.parametrize(
    ("tolerance", "slug", "part"),
    [
        ("{NAME.shaer: 1}", "unknown-metric", 'did you mean "NAME.share"?'),
        ("{regression: {NAME.shaer: 1}}", "unknown-metric", 'did you mean "NAME.share"?'),
        ("{NAME.share: many}", "bad-value", "expected a finite number but got NAME.share=many"),
        ("{NAME.share: .inf}", "bad-value", "expected a finite number"),
        ("{regression: {NAME.share: -1}}", "bad-value", "expected a growth such as 0.1, or off"),
        ("{nobody.share: 1}", "unknown-analyzer", "but got analyzer=nobody"),
        ("{regression: {nobody.share: 1}}", "unknown-analyzer", "analyzer=nobody"),
    ],
)
def test_mistakes_have_their_line(tolerance, slug, part, write, signs):
    error = refused(write(s=suite_of(signs, tolerance.replace("NAME", signs))))
    assert (error.slug, error.file, error.line) == (slug, "suites/unit/s.yaml", 5)
    assert part.replace("NAME", signs) in error.message


@pytest.mark.parametrize("setting", ["{NAME.share: 1}", "{float16: {NAME.share: 1}}", "{regression: {NAME.share: 1}}"])
def test_a_suite_cannot_bound_what_it_does_not_ask_for(setting, write, signs):
    setting = setting.replace("NAME", signs)
    for text, line in ((f"tolerance: {setting}", 4), (f'cases:\n- {{match: "*", tolerance: {setting}}}', 5)):
        error = refused(write(s=f"{SUITE}{text}\n"))
        assert (error.slug, error.line) == ("unknown-analyzer", line)
        assert f"expected {signs} under analyzers but got {signs}.share=1" in error.message


@pytest.mark.parametrize(
    ("asked", "slug", "part"),
    [
        ("[NAME, NAME]", "bad-value", "expected each analyzer once but got analyzer=NAME again"),
        ("[nobody]", "unknown-analyzer", "but got analyzer=nobody"),
        ("NAME", "bad-value", "expected a list"),
        ("[a.b]", "bad-value", "analyzers.0=a.b"),
    ],
)
def test_what_is_asked_for_is_checked(asked, slug, part, write, signs):
    error = refused(write(s=f"{SUITE}analyzers: {asked.replace('NAME', signs)}\n"))
    assert (error.slug, error.line) == (slug, 4)
    assert part.replace("NAME", signs) in error.message


def test_thresholds_on_no_metric_are_refused(write, signs):
    project = write(s=SUITE)
    for name, slug in ((f"{signs}.shaer", "bad-thresholds"), ("nobody.share", "unknown-analyzer")):
        error = refused(project, {THRESHOLDS_VARIABLE: f'{{"{name}": 1}}'})
        assert (error.slug, error.file) == (slug, THRESHOLDS_VARIABLE)


def test_a_bound_of_an_analyzer_may_stop_what_is_wrong_by_100_percent(write, signs):
    wide = "rtol: 2"
    layers = [
        load_suites(write(s=suite_of(signs, f"{{{text}}}")), {})[0].layers
        for text in (wide, f"{wide}, {signs}.share: 1")
    ]
    said = [tolerance_warnings(resolve_tolerance(of, "out", "float32", ()), "float32", 1.0) for of in layers]
    assert len(said[0]) == 1
    assert said[1] == []


def test_a_hand_written_check_asks_for_none(write, signs):
    foundation = read_foundation(write({"suites/tolerances.yaml": f"default: {{{signs}.share: 0.5}}\n"}), {})
    assert holding(foundation.pyramid("unit", None, ()))[0] == {}
    check = PrecisionCheck("test_m", "test", Location("test_m.py", 7), "reference", tolerance={f"{signs}.share": 1})
    own = tuple(read_layers("test", check.settings, ("tolerance",), check.tolerance))
    with pytest.raises(UserError, match="under analyzers") as caught:
        foundation.pyramid("unit", None, own)
    assert (caught.value.file, caught.value.line) == ("test_m.py", 7)


def test_an_editor_takes_them(write, signs):
    tolerances = f"default: {{{signs}.share: 0.5, regression: {{{signs}.share: off}}}}\n"
    project = write({"suites/tolerances.yaml": tolerances}, s=suite_of(signs, f"{{{signs}.share: 0.5}}"))
    jsonschema.validate(read_yaml(project / "suites/unit/s.yaml", "s").data, json_schema())
    jsonschema.validate(read_yaml(project / "suites/tolerances.yaml", "t").data, tolerances_schema())
    for wrong in ("{a.share: many}", "{shaer: 1}"):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(
                read_yaml(write(s=suite_of(signs, wrong)) / "suites/unit/s.yaml", "s").data, json_schema()
            )
