import pytest

from precreg.comparison.session import comparison_layers
from precreg.errors import UserError
from precreg.tolerance.pyramid import resolve_tolerance


def tolerance(project=None, dtype="float32", chain=(), **limits):
    return resolve_tolerance(comparison_layers(project, limits), "y", dtype, chain)


def bounds(tolerance):
    return {bound.metric: bound.limit for bound in tolerance.bounds}


@pytest.fixture
def project(tmp_path):
    (tmp_path / "suites").mkdir()
    text = "default: {float32: {rtol: 0.1}}\nenvironments: {npu: {atol: 0.5}}\ntiers: {unit: {atol: 0.7}}\n"
    (tmp_path / "suites/tolerances.yaml").write_text(text)
    return tmp_path


def test_the_shipped_defaults_hold_where_nothing_is_said():
    found = tolerance()
    assert (found.standard, found.rtol.limit, found.atol.limit) == ("torch-2.13", 1.3e-6, 1e-5)
    assert bounds(found) == {"match_ratio": 1.0}


def test_options_stand_above_the_defaults_and_say_where_they_are_from():
    found = tolerance(rtol=1e-3, max_ulp=4.0)
    assert (found.rtol.limit, found.atol.limit) == (1e-3, 1e-5)
    assert bounds(found) == {"match_ratio": 1.0, "max_ulp": 4.0}
    assert str(found.rtol.source) == "command line"


def test_a_standard_takes_the_place_of_the_defaults():
    found = tolerance(standard="msprobe-binary-26.2.0", max_ulp=4.0)
    assert found.standard == "msprobe-binary-26.2.0"
    assert bounds(found) == {"equal_share": 1.0, "max_ulp": 4.0}


def test_a_project_stands_between(project):
    assert tolerance(project).rtol.limit == 0.1
    assert tolerance(project).atol.limit == 1e-5, "no array belongs to a tier"
    assert tolerance(project, dtype="float16").rtol.limit == 1e-3
    assert tolerance(project, rtol=0.2).rtol.limit == 0.2
    assert tolerance(project, chain=("npu-910b", "npu", "generic")).atol.limit == 0.5


def test_a_project_without_the_file_says_nothing(tmp_path):
    assert tolerance(tmp_path) == tolerance()


def test_thresholds_of_runs_are_not_asked(project, monkeypatch):
    monkeypatch.setenv("PRECISION_THRESHOLDS", '{"max_ulp": 1}')
    assert "max_ulp" not in bounds(tolerance(project))


@pytest.mark.parametrize(
    ("limits", "slug", "says"),
    [
        ({"standard": "none"}, "bad-value", "no baseline judges stored arrays"),
        ({"standard": "torch-2.31"}, "unknown-standard", 'did you mean "torch-2.13"?'),
        ({"max_upl": 4.0}, "unknown-metric", 'did you mean "max_ulp"?'),
        ({"max_ulp": -1.0}, "bad-value", "not negative"),
        ({"match_ratio": 1.5}, "bad-value", "share from 0 to 1"),
        ({"rtol": float("nan")}, "bad-value", "finite"),
        ({"atol": float("inf")}, "bad-value", "finite"),
    ],
)
def test_mistakes_are_told(limits, slug, says):
    with pytest.raises(UserError) as caught:
        tolerance(**limits)
    assert caught.value.slug == slug
    assert says in caught.value.message
    assert caught.value.file == "command line"
