import pytest

from precreg.errors import UserError
from precreg.report.sections import describe_tolerance_fact
from precreg.storage.yaml_source import read_yaml
from precreg.suite.expand import load_cases
from precreg.suite.load import load_suites
from precreg.tolerance.layers import read_layers
from precreg.tolerance.pyramid import SHIPPED_LAYERS, explain_tolerance, resolve_tolerance
from precreg.tolerance.warnings import tolerance_warnings, unmatched_outputs
from tests.suite.conftest import SUITE

CHAIN = ("ascend-910b", "ascend", "generic")

TOLERANCES = """\
default: {max_ulp: 8, float32: {rtol: 1e-5}}
tiers: {unit: {max_ulp: 7}, model: {max_ulp: 99}}
categories:
  normalization: {max_ulp: 6, bias: 1}
environments:
  ascend: {max_ulp: 1}
"""
TOLERANCE = """\
category: normalization
tolerance:
  max_ulp: 5
  float16: {rtol: 2e-3, max_ulp: 4}
  outputs:
    loss: {max_ulp: 3, float16: {max_ulp: 2.5}}
  environments:
    ascend-910b: {rtol: 0.5}
    generic: {rtol: 0.25, atol: 0.125}
  regression: {mean_abs_error: 0.2, max_abs_error: off, bias: 1}
"""


@pytest.fixture
def layers(write):
    return load_suites(write({"suites/tolerances.yaml": TOLERANCES}, s=SUITE + TOLERANCE))[0].layers


@pytest.fixture
def of(tmp_path):
    """Return the function from a tolerance mapping in YAML to layers upon the shipped one."""

    def of(*texts):
        layers = [*SHIPPED_LAYERS]
        for number, text in enumerate(texts):
            path = tmp_path / f"{number}.yaml"
            path.write_text(text)
            source = read_yaml(path, path.name)
            layers += read_layers(f"layer {number}", source, (), source.data)
        return tuple(layers)

    return of


def told(tolerance, dtype, magnitude=None, role="reference"):
    """Return the sentences of what is wrong with a tolerance."""
    return [*map(describe_tolerance_fact, tolerance_warnings(tolerance, dtype, magnitude, role))]


def limits(tolerance):
    bounds = {bound.metric: bound.limit for bound in tolerance.bounds}
    return {"rtol": tolerance.rtol.limit, "atol": tolerance.atol.limit, **bounds}


@pytest.mark.parametrize(
    ("output", "dtype", "chain", "max_ulp"),
    [
        ("out", "float32", (), 5),
        ("out", "float16", (), 4),
        ("loss", "float32", (), 3),
        ("loss", "float16", (), 2.5),
        ("loss", "float16", CHAIN, 1),
    ],
)
def test_the_later_layer_wins(layers, output, dtype, chain, max_ulp):
    assert limits(resolve_tolerance(layers, output, dtype, chain))["max_ulp"] == max_ulp


def test_what_no_later_layer_names_stays(layers):
    assert limits(resolve_tolerance(layers, "out", "float32", ())) == {
        "rtol": 1e-5,
        "atol": 1e-5,
        "match_ratio": 1.0,
        "max_ulp": 5,
        "bias": 1,
    }


def test_the_exact_environment_comes_after_its_family(layers):
    assert limits(resolve_tolerance(layers, "out", "float32", ("generic",)))["rtol"] == 0.25
    on_device = limits(resolve_tolerance(layers, "out", "float32", CHAIN))
    assert (on_device["rtol"], on_device["atol"], on_device["max_ulp"]) == (0.5, 0.125, 1)


def test_growth_wins_per_metric_and_off_is_not_judged(layers):
    assert resolve_tolerance(layers, "out", "float32", ()).regression == {
        "statistic": 0.02,
        "creep": 0.25,
        "pair": 0.05,
        "mean_abs_error": 0.2,
        "bias": 1.0,
    }


def test_averages_are_judged_by_their_noise_in_every_dtype_and_maxima_guarded():
    for dtype in ("float16", "float8_e5m2", "float32", "float64", "int8"):
        assert resolve_tolerance(SHIPPED_LAYERS, "out", dtype, ()).regression == {
            "statistic": 0.02,
            "creep": 0.25,
            "pair": 0.05,
            "max_abs_error": 3.0,
        }


def test_regression_off_judges_no_growth(of):
    assert resolve_tolerance(of("regression: off"), "out", "float32", ()).regression == {}
    again = resolve_tolerance(of("regression: off", "regression: {bias: 0.5}"), "out", "float32", ())
    assert again.regression == {"bias": 0.5}


def test_every_bound_knows_its_layer_and_line(layers):
    bounds = {
        bound.metric: f"{bound.layer}: {bound.source}"
        for bound in resolve_tolerance(layers, "out", "float16", CHAIN).bounds
    }
    assert bounds == {
        "match_ratio": "shipped: standard torch-2.13",
        "max_ulp": "default, environment ascend: suites/tolerances.yaml:6",
        "bias": "category normalization: suites/tolerances.yaml:4",
    }
    assert str(resolve_tolerance(layers, "out", "float16", ()).rtol.source) == "suites/unit/s.yaml:7"


def test_explain_shows_the_chain_and_what_holds(layers):
    rows = [row for row in explain_tolerance(layers, "loss", "float16", ()) if row.metric == "max_ulp"]
    assert [(row.layer, row.value, row.holds) for row in rows] == [
        ("default", 8, False),
        ("tier unit", 7, False),
        ("category normalization", 6, False),
        ("suite", 5, False),
        ("suite, float16", 4, False),
        ("suite, output loss", 3, False),
        ("suite, float16, output loss", 2.5, True),
    ]


def test_explain_and_resolve_agree(layers):
    for dtype in ("float16", "float32", "int8"):
        holding = {row.metric: row.value for row in explain_tolerance(layers, "loss", dtype, CHAIN) if row.holds}
        tolerance = resolve_tolerance(layers, "loss", dtype, CHAIN)
        growths = {f"regression.{metric}": growth for metric, growth in tolerance.regression.items()}
        assert holding == {**limits(tolerance), **growths, "regression.max_abs_error": None}


def test_a_standard_takes_the_place_of_all_bounds_before_it(of):
    layers = of("max_ulp: 3", "standard: double-thousandth-1", "bias: 2")
    assert list(limits(resolve_tolerance(layers, "out", "float32", ()))) == [
        "rtol",
        "atol",
        "share_rel_above_1e-3",
        "bias",
    ]
    row = next(row for row in explain_tolerance(layers, "out", "float32", ()) if row.metric == "share_rel_above_1e-3")
    assert (row.layer, str(row.source)) == ("layer 1, standard double-thousandth-1", "1.yaml:1")


def test_single_metrics_beside_a_standard_change_it_whatever_their_order(of):
    assert limits(resolve_tolerance(of("rtol: 0.5\nstandard: jax-1"), "out", "float32", ())) == {
        "rtol": 0.5,
        "atol": 1e-6,
        "match_ratio": 1.0,
    }


def test_naming_rtol_asks_for_every_element_unless_a_match_ratio_is_asked_for(of):
    judged = resolve_tolerance(of("standard: msprobe-binary-26.2.0", "rtol: 0.5"), "out", "float32", ())
    assert limits(judged)["match_ratio"] == 1.0
    assert limits(resolve_tolerance(of("match_ratio: 0.9", "rtol: 0.5"), "out", "float32", ()))["match_ratio"] == 0.9
    assert "match_ratio" not in limits(resolve_tolerance(of("standard: msprobe-binary-26.2.0"), "out", "float32", ()))


def test_a_standard_that_does_not_list_the_dtype_changes_nothing_and_warns(of):
    layers = of("standard: ascend-mere-mare-1")
    assert limits(resolve_tolerance(layers, "out", "float64", ())) == limits(
        resolve_tolerance(SHIPPED_LAYERS, "out", "float64", ())
    )
    warned = told(resolve_tolerance(layers, "out", "float64", ()), "float64")
    assert warned == [
        "standard ascend-mere-mare-1 has no limits for float64, so the bounds of the layers below it apply"
    ]


def test_the_same_layers_give_the_same_tolerance(layers):
    assert resolve_tolerance(layers, "out", "float16", CHAIN) is resolve_tolerance(layers, "out", "float16", CHAIN)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "bool", "complex64"])
def test_the_shipped_tolerances_do_not_warn(dtype):
    assert tolerance_warnings(resolve_tolerance(SHIPPED_LAYERS, "out", dtype, ()), dtype) == []


@pytest.mark.parametrize(
    ("text", "dtype", "says"),
    [
        ("rtol: 9e-4", "float16", "rtol=0.0009 (0.yaml:1) is below 1 ULP of float16 (0.000976562)"),
        ("rtol: 7e-3", "bfloat16", "below 1 ULP of bfloat16 (0.0078125)"),
        ("rtol: 1e-7", "float32", "below 1 ULP of float32 (1.19209e-07)"),
        ("rtol: 1", "float32", "wrong by 100 % passes: rtol=1, match_ratio=1 (0.yaml:1)"),
        ("match_ratio: 0", "float32", "wrong by 100 % passes"),
        ("standard: double-thousandth-1\nshare_rel_above_1e-3: 1", "float32", "share_rel_above_1e-3=1"),
    ],
)
def test_bounds_that_are_flaky_or_vacuous_are_named_with_the_numbers(of, text, dtype, says):
    warned = told(resolve_tolerance(of(text), "out", dtype, ()), dtype)
    assert len(warned) == 1
    assert says in warned[0]


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("rtol: 1e-3", "float16"),
        ("{rtol: 0, atol: 0}", "float32"),
        ("{rtol: 1, max_ulp: 4}", "float32"),
        ("{rtol: 1, mean_rel_error: 0.5}", "float32"),
        ("standard: msprobe-binary-26.2.0", "float16"),
    ],
)
def test_bounds_that_can_hold_and_can_fail_do_not_warn(of, text, dtype):
    assert tolerance_warnings(resolve_tolerance(of(text), "out", dtype, ()), dtype) == []


@pytest.mark.parametrize(
    ("text", "magnitude", "says"),
    [
        ("{rtol: 1e-6, atol: 1000}", 0.798, ["atol=1000, match_ratio=1 (0.yaml:1) where |r| is 0.798 on average"]),
        ("{rtol: 1e-6, atol: 1000}", 1000.0, ["atol=1000"]),
        ("{rtol: 1e-6, atol: 1000}", 1001.0, []),
        ("{rtol: 1e-6, atol: 1000}", 0.0, []),
        ("{rtol: 1e-6, atol: 1000}", None, []),
        ("{rtol: 1e-6, atol: 1000, max_ulp: 4}", 0.798, []),
        ("{rtol: 1e-6}", 1e-7, ["atol=1e-05, match_ratio=1 (standard torch-2.13) where |r| is 1e-07"]),
    ],
)
def test_an_atol_as_large_as_the_output_lets_everything_pass(of, text, magnitude, says):
    warned = told(resolve_tolerance(of(text), "out", "float32", ()), "float32", magnitude)
    assert len(warned) == len(says)
    assert all(f"wrong by 100 % passes: {words}" in warning for words, warning in zip(says, warned, strict=True))


@pytest.mark.parametrize(
    ("text", "dtype", "magnitude", "role", "warned"),
    [
        ("{rtol: 0, atol: 0}", "float8_e4m3fn", 1.5, "reference", True),
        ("{rtol: 0, atol: 0.0624}", "float8_e4m3fn", 1.5, "reference", True),
        ("{rtol: 0, atol: 0.0625}", "float8_e4m3fn", 1.5, "reference", False),
        ("{rtol: 0, atol: 0, match_ratio: 0.99}", "float8_e4m3fn", 1.5, "reference", False),
        ("{rtol: 0, atol: 0}", "float8_e4m3fn", 1.5, "golden", False),
        ("{rtol: 0, atol: 0}", "float8_e4m3fn", 0.0, "reference", False),
        ("{rtol: 0, atol: 0}", "complex64", 1.5, "reference", True),
        ("{rtol: 0, atol: 0}", "int32", 1.5, "reference", False),
        ("{rtol: 0, atol: 0}", "bool", 1.0, "reference", False),
        ("{bias: 1}", "float8_e5m2", 1.5, "reference", True),
    ],
)
def test_a_reference_that_is_not_rounded_cannot_be_met_to_the_bit(of, text, dtype, magnitude, role, warned):
    found = told(resolve_tolerance(of(text), "out", dtype, ()), dtype, magnitude, role)
    assert len(found) == warned
    assert all("below half an ULP" in warning for warning in found)


def test_an_output_that_a_case_does_not_have_is_named(write):
    tolerances = "default: {outputs: {elsewhere: {rtol: 1}}}\n"
    text = """\
tolerance:
  outputs:
    loss: {rtol: 1e-2}
    grads: {rtol: 1e-2}
cases:
- {match: default, tolerance: {float16: {outputs: {nosuch: {rtol: 1}}}}}
"""
    layers = load_cases(write({"suites/tolerances.yaml": tolerances}, s=SUITE + text))[0].layers
    assert [*map(describe_tolerance_fact, unmatched_outputs(layers, ("loss", "grad")))] == [
        'no output is called grads (suite, output grads: suites/unit/s.yaml:7); did you mean "grad"?',
        "no output is called nosuch (case, float16, output nosuch: suites/unit/s.yaml:9)",
    ]
    assert unmatched_outputs(layers, ("loss", "grads", "nosuch")) == []


@pytest.mark.parametrize(
    "text", ["none", "{standard: none}", "{float32: none}", "{outputs: {out: none}}", "{environments: {generic: none}}"]
)
def test_none_takes_every_bound_away_and_leaves_the_growths(of, text):
    found = resolve_tolerance(of("{rtol: 1e-3, max_ulp: 4}", text), "out", "float32", CHAIN)
    assert (found.bounds, found.alternatives, found.standard) == ((), (), "none")
    assert found.regression == resolve_tolerance(of(), "out", "float32", CHAIN).regression
    assert (found.rtol.limit, told(found, "float32")) == (1e-3, [])


def test_bounds_beside_and_after_none_apply(of):
    beside = resolve_tolerance(of("{standard: none, max_ulp: 4}"), "out", "float32", CHAIN)
    assert {bound.metric: bound.limit for bound in beside.bounds} == {"max_ulp": 4.0}
    later = resolve_tolerance(of("none", "{rtol: 1e-3}"), "out", "float32", CHAIN)
    assert {bound.metric: bound.limit for bound in later.bounds} == {"match_ratio": 1.0}


def test_none_without_a_baseline_that_judges_admits_everything(of):
    found = resolve_tolerance(of("{standard: none, regression: off}"), "out", "float32", CHAIN)
    assert len(told(found, "float32")) == 1


def test_a_zero_match_ratio_still_leaves_the_judgement_to_the_baseline(of):
    found = resolve_tolerance(of("{match_ratio: 0}"), "out", "float32", CHAIN)
    assert {bound.metric: bound.limit for bound in found.bounds} == {"match_ratio": 0.0}
    assert len(told(found, "float32")) == 1


@pytest.mark.parametrize(
    ("texts", "regression", "directions"),
    [
        (["bias: {up: 0.1, down: 0.5}"], {}, {"bias up": 0.1, "bias down": 0.5}),
        (["bias: {up: 0.1, down: off}"], {}, {"bias up": 0.1}),
        (["bias: 0.3", "bias: {up: 0.1, down: off}"], {}, {"bias up": 0.1}),
        (["bias: {up: 0.1, down: 0.5}", "bias: 0.3"], {"bias": 0.3}, {}),
        (["bias: {up: 0.1, down: 0.5}", "off"], None, {}),
        (["mean_ulp: {worse: 0.1, better: 0.2}"], {"mean_ulp": 0.1}, {"mean_ulp better": 0.2}),
        (["mean_ulp: {better: 0.2}", "mean_ulp: 0.3"], {"mean_ulp": 0.3}, {"mean_ulp better": 0.2}),
        (["mean_ulp: {better: 0.2}", "mean_ulp: {better: off}"], {}, {}),
        (["statistic: {worse: 0.03, better: 0.2}"], {"statistic": 0.03}, {"statistic better": 0.2}),
    ],
)
def test_thresholds_of_one_direction(of, texts, regression, directions):
    layers = of(*(f"regression: {text if text == 'off' else '{' + text + '}'}" for text in texts))
    found = resolve_tolerance(layers, "out", "float32", CHAIN)
    shipped = resolve_tolerance(of(), "out", "float32", CHAIN).regression
    assert found.regression == ({} if regression is None else shipped | regression)
    assert found.directions == directions
    held = {
        setting.metric: setting.value for setting in explain_tolerance(layers, "out", "float32", CHAIN) if setting.holds
    }
    assert {f"regression.{key}": value for key, value in directions.items()}.items() <= held.items()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("bias: {up: 0.1}", "the keys worse and better, or up and down but got bias="),
        ("bias: {up: 0.1, worse: 0.2, down: 1}", "the keys worse and better, or up and down"),
        ("mean_ulp: {up: 0.1, down: 0.1}", "the keys worse and better but got mean_ulp="),
        ("mean_ulp: {}", "the keys worse and better"),
        ("mean_ulp: {better: -1}", "a growth such as 0.1, or off, but got mean_ulp.better=-1"),
        ("mean_ulp: {better: yes}", "a growth such as 0.1, or off"),
        ("creep: {worse: 0.1}", "a growth such as 0.1, or off but got creep="),
    ],
)
def test_a_mistake_in_a_threshold_of_one_direction_has_its_line(of, text, says):
    with pytest.raises(UserError) as caught:
        of(f"rtol: 1\nregression:\n  {text}\n")
    assert (caught.value.slug, caught.value.file, caught.value.line) == ("bad-value", "0.yaml", 3)
    assert says in caught.value.message


def test_a_word_that_is_no_tolerance_is_refused(of):
    with pytest.raises(UserError, match="expected a mapping"):
        of("nothing")
