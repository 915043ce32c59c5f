"""Finding analyzers by name, and what they may declare."""

import pytest

from precreg.errors import UserError
from precreg.measure.analyzers import (
    analyzer_target,
    declared_metric,
    load_analyzer,
    metrics_like,
)
from precreg.measure.metrics import METRICS, analyzer_of, baseline_metrics, metric_named, metrics_to_keep
from precreg.types.metric import MetricDescription, described_metric


def mistake(of, *arguments):
    with pytest.raises(UserError) as caught:
        of(*arguments)
    return caught.value.slug, caught.value.message


def test_an_analyzer_is_found_without_being_imported(brought):
    name = brought("1 / 0")
    assert analyzer_target(name) == f"of_{name[1:]}:it"


def test_its_metrics_are_called_after_it_and_known_from_then_on(whole):
    name = whole("return {}")
    assert list(load_analyzer(name).metrics) == [f"{name}.share"] == [*metrics_like(f"{name}.anything")]
    share = MetricDescription(f"{name}.share", "1", "a share", "lower", "ours")
    assert declared_metric(share.name) == described_metric(share)


def test_a_class_is_called_and_an_object_taken_as_it_is(brought):
    methods = "".join(
        f"    def {method}(self, *given): return {{}}\n" for method in ("start", "add", "merge", "finish")
    )
    code = f"class Kind:\n    metrics = [Metric('n', '1', 'a number', 'higher', 'ours')]\n{methods}\n"
    for last in ("it = Kind", "it = Kind()"):
        found = load_analyzer(brought(f"{code}\n{last}\n"))
        assert (found.whole, type(found.chunked).__name__) == (None, "Kind")


def test_a_misspelt_name_is_told_the_nearest(brought):
    brought("it = None", name="sign_flips")
    assert mistake(load_analyzer, "sign_flip") == (
        "unknown-analyzer",
        'expected an installed analyzer (classes, sign_flips) but got analyzer=sign_flip; did you mean "sign_flips"?',
    )


def test_two_packages_with_one_name_are_refused(brought):
    brought("it = None", name="twice")
    brought("it = None", name="twice")
    slug, message = mistake(load_analyzer, "twice")
    assert slug == "unknown-analyzer"
    assert message.count(":it") == 2


def test_what_cannot_be_imported_has_failed(brought):
    assert mistake(load_analyzer, brought("1 / 0"))[0] == "analyzer-failed"
    assert "has no attribute 'it'" in mistake(load_analyzer, brought("its = None"))[1]


@pytest.mark.parametrize(
    ("code", "part"),
    [
        ("it = 5", "expected metrics with names of their own but got none"),
        (
            "class it:\n    metrics = (Metric('n', '1', '', 'lower', ''),)",
            "expected a function or start, add, merge and",
        ),
        ("@analyzer()\ndef it(a, r): ...", "got none"),
        ("@analyzer('share')\ndef it(a, r): ...", "expected metrics of type Metric but got 'share'"),
        ("@analyzer(Metric('share', 1, '', 'lower', ''))\ndef it(a, r): ...", "of type Metric"),
        ("@analyzer(Metric('share', '1', '', 'less', ''))\ndef it(a, r): ...", "better=lower or higher"),
        ("@analyzer(Metric('5_ulp', '1', '', 'lower', ''))\ndef it(a, r): ...", "expected a name of letters"),
        ("@analyzer(Metric('n', '1', '', 'lower', '', kept=True))\ndef it(a, r): ...", "better and source alone"),
        ("@analyzer(*[Metric('n', '1', '', 'lower', '')] * 2)\ndef it(a, r): ...", "one name twice"),
    ],
)
def test_what_is_declared_badly_is_refused(code, part, brought):
    name = brought(code)
    slug, message = mistake(load_analyzer, name)
    assert slug == "bad-analyzer"
    assert part in message
    assert name in message


@pytest.mark.parametrize(
    ("metric", "analyzer"),
    [
        ("signs.flip_share", "signs"),
        ("a-b.c.d", "a-b"),
        *((name, None) for name in METRICS),
        ("rtol", None),
        ("a.5", None),
    ],
)
def test_what_a_metric_is_called_after(metric, analyzer):
    assert analyzer_of(metric) == analyzer


def test_ours_need_no_package():
    assert metrics_like("share_above_0.5_ulp") == ()


def test_a_description_is_that_of_the_argument_and_ours_stay():
    one, other = (MetricDescription("told.twice", "1", formula, "higher", "ours") for formula in ("first", "second"))
    assert metric_named("told.twice", [one]).formula == "first"
    assert metric_named("told.twice", [other]).formula == "second"
    assert metric_named("max_ulp", [METRICS["max_ulp"].description._replace(unit="bit")]).unit == "ULP"
    assert (metric_named("told.never", [one]).better, metrics_to_keep([one])) == (
        "lower",
        (*baseline_metrics(), "told.twice"),
    )
