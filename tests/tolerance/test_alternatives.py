"""What standards ask beyond bounds that all hold: alternatives, regions, parameters, and where each is read."""

import pytest
from jsonschema import Draft202012Validator

from precreg.errors import UserError
from precreg.measure.metrics import REGIONS
from precreg.report.sections import describe_tolerance_fact
from precreg.storage.yaml_source import read_yaml
from precreg.suite.load import load_suites
from precreg.suite.schema import json_schema
from precreg.tolerance.layers import read_layers, read_thresholds, unmet_thresholds
from precreg.tolerance.pyramid import SHIPPED_LAYERS, explain_tolerance, limit_problem, resolve_tolerance
from precreg.tolerance.warnings import tolerance_warnings
from tests.suite.conftest import SUITE


@pytest.fixture
def of(tmp_path):
    """Return the function from tolerance mappings in YAML to layers upon the shipped ones."""

    def of(*texts):
        layers = [*SHIPPED_LAYERS]
        for number, text in enumerate(texts):
            path = tmp_path / f"{number}.yaml"
            path.write_text(text)
            source = read_yaml(path, path.name)
            layers += read_layers(f"layer {number}", source, (), source.data)
        return tuple(layers)

    return of


def told(tolerance):
    """Return bounds and alternatives as mappings."""
    branches = [{bound.metric: bound.limit for bound in branch} for branch in tolerance.alternatives]
    return {bound.metric: bound.limit for bound in tolerance.bounds}, branches


def test_alternatives_know_their_layer_and_take_the_place_of_bounds(of):
    tolerance = resolve_tolerance(of("max_ulp: 3", "standard: msprobe-ulp-26.2.0"), "out", "float32", ())
    assert told(tolerance) == ({}, [{"mean_ulp": pytest.approx(64)}, {"share_above_32_ulp": pytest.approx(0.05)}])
    (bound,) = tolerance.alternatives[1]
    assert (bound.layer, str(bound.source)) == ("layer 1, standard msprobe-ulp-26.2.0", "1.yaml:1")


def test_a_later_bound_is_asked_for_besides_and_a_later_standard_instead(of):
    besides = resolve_tolerance(of("standard: msprobe-ulp-26.2.0", "mean_ulp: 8"), "out", "float32", ())
    assert told(besides) == ({"mean_ulp": 8}, told(besides)[1])
    assert len(besides.alternatives) == 2
    instead = resolve_tolerance(of("standard: msprobe-ulp-26.2.0", "standard: jax-1"), "out", "float32", ())
    assert told(instead) == ({"match_ratio": 1.0}, [])


def test_regions_go_with_their_standard(of):
    accumulated = resolve_tolerance(of("standard: msprobe-accumulated-26.2.0"), "out", "float32", ()).regions
    assert accumulated == {"threshold_bound": pytest.approx(1), "threshold_rtol": 2**-11, "threshold_atol": 2**-11}
    assert (
        resolve_tolerance(of("standard: msprobe-accumulated-26.2.0", "standard: jax-1"), "out", "float32", ()).regions
        == {}
    )


def test_the_regions_of_msprobe_are_those_that_hold_without_a_standard():
    assert {dtype: regions.threshold_rtol for dtype, regions in REGIONS.items() if regions.threshold_rtol} == {
        "float16": 2**-10,
        "bfloat16": 2**-8,
        "float32": 2**-20,
    }


def test_naming_rtol_beside_an_alternative_that_matches_elements_asks_for_no_other_match(of):
    tolerance = resolve_tolerance(of("{standard: torch-dynamo-2.13, rtol: 1e-2}"), "out", "float32", ())
    assert tolerance.rtol.limit == 1e-2
    assert told(tolerance) == ({}, [{"match_ratio": 1.0}, {"rms_excess": pytest.approx(1e-5)}])


def test_thresholds_tighten_the_closeness_of_an_alternative(of):
    layers = (*of("standard: torch-dynamo-2.13"), *read_thresholds('{"rtol": 1e-6}', looser=False)["unit"])
    tolerance = resolve_tolerance(layers, "out", "float32", ())
    assert tolerance.rtol.limit == 1e-6
    assert list(unmet_thresholds(layers, tolerance, "float32")) == []


def test_explain_shows_alternatives_and_regions_and_which_hold(of):
    layers = of("standard: msprobe-ulp-26.2.0", "standard: msprobe-accumulated-26.2.0")
    rows = {row.metric: (row.value, row.holds) for row in explain_tolerance(layers, "out", "float32", ())}
    assert rows["either.1.mean_ulp"] == (pytest.approx(64), False)
    assert rows["either.2.share_above_32_ulp"] == (pytest.approx(0.05), False)
    assert rows["regions.threshold_rtol"] == (2**-11, True)


@pytest.mark.parametrize("given", ["{name: flaggems-1, reduced: 768}", '"flaggems-1:reduced=768"'])
def test_a_parameter_scales_its_limits(of, given):
    tolerance = resolve_tolerance(of(f"standard: {given}"), "out", "float16", ())
    assert (tolerance.rtol.limit, tolerance.atol.limit) == (1e-3, 1e-4 * 768)
    assert tolerance.standard == "flaggems-1:reduced=768"
    assert tolerance_warnings(tolerance, "float16") == []


@pytest.mark.parametrize(
    ("given", "slug", "says"),
    [
        ("{reduced: 768}", "bad-value", "the name of a standard but got standard="),
        ("{name: flaggems-1, rduced: 768}", "bad-value", 'got rduced=768; did you mean "reduced"?'),
        ("{name: flaggems, reduced: 768}", "unknown-standard", "standard=flaggems"),
        ("{name: flaggems-1, reduced: [1]}", "bad-value", "got reduced=[1]"),
        ("{name: flaggems-1, reduced: -1}", "bad-value", "at least 1 but got reduced=-1"),
    ],
)
def test_parameters_that_cannot_be_are_refused_with_their_line(write, given, slug, says):
    project = write(s=SUITE + f"tolerance:\n  rtol: 1\n  standard: {given}\n")
    with pytest.raises(UserError) as caught:
        load_suites(project)
    assert (caught.value.slug, caught.value.line) == (slug, SUITE.count("\n") + 3)
    assert says in caught.value.message


@pytest.mark.parametrize(
    ("standard", "accepted"),
    [
        ("jax-1", True),
        ("jax", False),
        ({"name": "flaggems-1", "reduced": 3}, True),
        ({"name": "flaggems-1", "tol": 3}, False),
        ({"name": "jax-1"}, False),
        ("flaggems-1:reduced=3", True),
        ("jax-1:reduced=3", False),
    ],
)
def test_an_editor_knows_standards_and_their_parameters(standard, accepted):
    suite = {"suite": "s", "subject": "k:f", "reference": "k:r", "tolerance": {"standard": standard}}
    assert Draft202012Validator(json_schema()).is_valid(suite) == accepted


@pytest.mark.parametrize(
    ("metric", "good", "bad", "expected"),
    [
        ("match_ratio", [0, 0.5, 1], [-0.1, 1.1], "a share from 0 to 1"),
        ("cosine", [-1, 0.997, 1], [-1.1, 1.1], "a cosine from -1 to 1"),
        ("snr", [20, -3, 9999], [float("inf"), float("nan"), "20", True], "a finite number of decibels"),
        ("psnr", [30], [float("inf")], "a finite number of decibels"),
        ("effective_bits", [10, 53, -1], [54], "a number of bits up to 53"),
        ("error_magnitude_correlation", [-1, 0.3], [2], "a correlation from -1 to 1"),
        ("mean_log2_ulp", [-2, 3], [-3], "a finite number that is at least -2"),
        ("mare_ratio", [0, 10], [-1], "a finite number that is not negative"),
    ],
)
def test_what_a_limit_may_be(metric, good, bad, expected):
    assert [limit_problem(metric, value) for value in good] == [None] * len(good)
    assert [limit_problem(metric, value) for value in bad] == [expected] * len(bad)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("standard: polygraphy-cosine-0.53", ["cosine=0.997 (0.yaml:1)"]),
        ("standard: cambricon-diff4-1", ["one_sidedness=1 (0.yaml:1)"]),
        ("{standard: polygraphy-snr-0.53, snr: -6.1}", ["snr=-6.1 (0.yaml:1)"]),
        ("{standard: polygraphy-0.53, relative_violation_share: 1}", ["relative_violation_share=1"]),
        ("{standard: msprobe-ulp-26.2.0, max_rel_error: 0.5}", []),
        ("standard: msprobe-benchmark-l0-26.2.0", []),
        ("standard: polygraphy-snr-0.53", []),
        ("standard: polygraphy-0.53", []),
        ("standard: cambricon-accumulation-1", []),
        ("standard: ascend-experimental-1", []),
    ],
)
def test_what_lets_a_result_that_is_wrong_by_100_percent_pass_is_told(of, text, says):
    warned = tolerance_warnings(resolve_tolerance(of(text), "out", "float32", ()), "float32")
    warned = [*map(describe_tolerance_fact, warned)]
    assert len(warned) == len(says)
    assert all(words in warning for words, warning in zip(says, warned, strict=True))
