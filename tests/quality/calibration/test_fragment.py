"""Fragments of suites: what is printed is read back as the limits that were proposed."""

import yaml
from msgspec.structs import replace

from precreg.quality.bounds import OWN_KIND, BoundReading, CalibratedBound, Margins, calibrate_bound
from precreg.quality.calibration import CaseCalibration
from precreg.report.calibration import calibration_yaml
from tests.quality.calibration.made import HERE, bound


def of_metric(metric, limit, proposal, output="out", dtype="float32"):
    found = calibrate_bound(
        CalibratedBound(metric, (bound(metric, limit),), 1.0, 0.0),
        (output, dtype),
        {OWN_KIND: [BoundReading(0.5, True)]},
        "",
        Margins(),
    )
    return replace(found, proposal={metric: proposal} if proposal is not None else {})


def case(name, *bounds, suite="s"):
    return CaseCalibration(f"unit/{suite}/{name}", "unit", suite, name, HERE, 1, {}, bounds, (), (), "", ())


def read(*cases):
    return yaml.safe_load(calibration_yaml(cases))


def test_cases_of_one_dtype_with_the_same_limits_share_the_widest_proposals():
    first = case("a", of_metric("max_ulp", 4, 1.5), of_metric("match_ratio", 0.9, 0.99))
    second = case("b", of_metric("max_ulp", 4, 2.5), of_metric("match_ratio", 0.9, 0.98))
    narrow = case("c", of_metric("max_ulp", 2, 1.0, dtype="float16"))
    assert read(first, second, narrow) == {
        "tolerance": {"float32": {"max_ulp": 2.5, "match_ratio": 0.98}, "float16": {"max_ulp": 1.0}}
    }


def test_cases_with_limits_of_their_own_are_entries():
    first, second = case("a*[b]?", of_metric("max_ulp", 4, 1.5)), case("it's", of_metric("max_ulp", 2, 2.5))
    assert read(first, second) == {
        "cases": [
            {"match": "a[*][[]b][?]", "tolerance": {"max_ulp": 1.5}},
            {"match": "it's", "tolerance": {"max_ulp": 2.5}},
        ]
    }


def test_outputs_with_limits_of_their_own_are_told_apart():
    both = case("a", of_metric("max_ulp", 4, 1.5, "x"), of_metric("max_ulp", 2, 1.0, "on"))
    assert read(both) == {
        "cases": [{"match": "a", "tolerance": {"outputs": {"x": {"max_ulp": 1.5}, "on": {"max_ulp": 1.0}}}}]
    }


def test_what_stood_before_is_a_comment_and_numbers_are_read_back_as_they_are():
    text = calibration_yaml([case("a", of_metric("max_abs_error", 1e-30, 0.1 + 0.2))])
    assert text.splitlines()[0] == "# unit/s (suites/unit/s.yaml:7)"
    assert text.count("# was max_abs_error: 1e-30") == 1
    assert yaml.safe_load(text)["tolerance"]["float32"] == {"max_abs_error": 0.1 + 0.2}


def test_each_suite_has_its_own_and_one_without_proposals_says_so():
    text = calibration_yaml(
        [case("a", of_metric("max_ulp", 4, None)), case("a", of_metric("max_ulp", 4, 2.0), suite="t")]
    )
    first, second = text.split("\n\n")
    assert first.splitlines() == ["# unit/s (suites/unit/s.yaml:7)", "# nothing to propose"]
    assert yaml.safe_load(second) == {"tolerance": {"float32": {"max_ulp": 2.0}}}
