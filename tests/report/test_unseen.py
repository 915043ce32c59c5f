"""How reports say in which cases a run could not see every loss."""

from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from precreg.report import describe
from precreg.report.html import render_run_html
from precreg.report.junit import render_run_junit
from precreg.report.summaries import render_run_markdown
from precreg.report.terminal import render_brief, render_run_terminal
from precreg.types.pair import UnclearOnFreshInputs
from precreg.types.record import TEST_DEFINED_PREFIX, NoAcceptedVersion, PairedRun
from precreg.types.verdict import Finding, Reason, Status, Verdict
from precreg.verdict import UnseenKind
from tests.report.made import LOOSENED, crashed, passed, regressed, run_of, skipped
from tests.verdict.test_unseen import FEW, OFF, changed


def unclear(name, ended_by="max_seeds"):
    found = Finding(Reason.NOT_CLEAR, fact=UnclearOnFreshInputs("c0ffee", 20, ended_by))
    return passed(name, verdict=Verdict(Status.PASSED, Reason.NOT_CLEAR, "open", (found,)))


def wide(name, **changes):
    return replace(changed(elsewhere=True), id=f"unit/row_sum/{name}", name=name, **changes)


def small(name="small", **changes):
    return replace(changed(FEW), id=f"unit/row_sum/{name}", name=name, **changes)


MIXED = (unclear("a"), wide("b"), wide("c"), small(), passed())
COUNTS = "1 case judged by a ratio alone, 2 judged with the wider limits of another environment, 1 not clear"


@pytest.mark.parametrize(
    ("results", "sentence"),
    [
        (MIXED, f"no loss found against the baselines; {COUNTS}"),
        ((*MIXED, skipped()), f"no loss found against the baselines; 1 case skipped; {COUNTS}"),
        ((*MIXED, regressed()), f"1 case regressed against its baseline; {COUNTS}"),
        ((*MIXED, crashed()), f"1 case could not be judged: 1 subject error; {COUNTS}"),
        ((passed(), changed()), "nothing regressed against the baselines"),
        (
            (wide("b"), wide("c")),
            "no loss found against the baselines; 2 cases judged with the wider limits of another environment",
        ),
    ],
)
def test_the_exit_line_counts_what_was_not_seen(results, sentence):
    assert describe.run_exit_sentence(run_of(*results)) == sentence


def test_findings_and_strict_runs_count_too():
    found = describe.run_exit_sentence(run_of(wide("b"), findings=(LOOSENED,)))
    assert found == (
        "1 finding on the run: 1 bound_loosened; 1 case judged with the wider limits of another environment"
    )
    strict = run_of(unclear("a"), wide("b"), strict=True)
    assert describe.run_exit_sentence(strict) == (
        "1 case could not be judged: 1 not clear; 1 case judged with the wider limits of another environment"
    )
    failed = run_of(unclear("a"), regressed(), strict=True)
    assert describe.run_exit_sentence(failed) == "1 case regressed against its baseline; 1 case not clear"


def test_the_last_lines_name_cases_and_the_command_that_helps():
    text = render_run_terminal(run_of(*MIXED, exit_code=0), colour=False)
    assert text.splitlines()[-10:] == [
        "not seen  1 case judged by a ratio alone: an output whose bits changed is too small for a statistic",
        "          unit/row_sum/small",
        "          compare with the accepted version here: precreg run --pair auto; or set more seeds in the suite and"
        " accept again (limits: precreg power unit/row_sum/small)",
        "not seen  2 cases judged with the wider limits of another environment: bits changed, and no other version of"
        " the code ran here",
        "          unit/row_sum/b, unit/row_sum/c",
        "          compare with the accepted version here: precreg run --pair auto",
        "not seen  1 case not clear: fresh inputs neither proved nor excluded a loss",
        "          unit/row_sum/a",
        "          allow more: precreg run --max-seeds 40960 --pair-seconds 120 unit/row_sum/a",
        f"exit 0: no loss found against the baselines; {COUNTS}",
    ]
    # pytest prints no exit line, and the same before it.
    assert render_brief(run_of(*MIXED), reports=()).splitlines()[-9:] == text.splitlines()[-10:-1]
    many = render_run_terminal(run_of(*(wide(f"case-{i}") for i in range(9))), colour=False)
    assert "          unit/row_sum/case-0, unit/row_sum/case-1, unit/row_sum/case-2, " in many
    assert "unit/row_sum/case-4 and 4 more\n" in many


def test_a_run_that_passed_and_could_not_see_everything_is_not_green():
    assert "\x1b[33m\x1b[1mexit 0" in render_run_terminal(run_of(*MIXED, exit_code=0), colour=True)
    assert "\x1b[32m\x1b[1mexit 0" in render_run_terminal(run_of(passed(), exit_code=0), colour=True)


def advice(*results, **changes):
    return [note.advice for note in describe.describe_unseen(run_of(*results, **changes))]


def fell_back(cause):
    return PairedRun(0, False, cause=NoAcceptedVersion(cause))


def test_the_advice_fits_the_reason_why_no_version_judged():
    assert advice(wide("a", paired=fell_back("shallow"))) == [
        "fetch the whole history (GIT_DEPTH: 0, or git fetch --unshallow), so that runs can pair"
    ]
    assert advice(wide("a", paired=fell_back("no_workers"))) == [
        "compare with the accepted version here: precreg run --pair auto --jobs 1"
    ]
    accepting = (
        "run the accepted version here, then: precreg baseline accept --seen, "
        "or accept '*' --environment cpu-x86_64 --reason WHY"
    )
    of_test = f"{TEST_DEFINED_PREFIX}1:0"
    assert advice(wide("a", paired=fell_back("no_git"))) == advice(wide("a", definition=of_test)) == [accepting]
    assert advice(small(definition=of_test)) == [
        "draw more inputs in the test, or return more elements, and accept again"
    ]
    assert advice(changed(OFF)) == [
        "their suites switch the statistic off; a threshold sees losses, such as regression: {rms_error: 0.1}"
    ]
    (of_run,) = advice(unclear("a", "run_seconds"), pair="c0ffee123456")
    assert of_run == (
        "allow more: precreg run --pair c0ffee12 --max-seeds 40960 --pair-seconds 120 --pair-run-seconds 1800"
        " unit/row_sum/a"
    )


def test_markdown_and_the_page_have_the_same():
    record = run_of(*MIXED, regressed())
    text = render_run_markdown(record)
    for note in describe.describe_unseen(record):
        assert f"- **{note.text}**: `{note.ids[0]}`" in text
    assert text.index("- **1 case judged by a ratio alone") < text.index("| status |")
    page = render_run_html(record)
    assert page.count('<details class="limits">') == 3
    assert "Allow more: precreg run" in page
    assert 'class="limits"' not in render_run_html(run_of(passed()))


def test_tests_of_junit_have_an_output_and_their_suite_has_counts():
    suites = ElementTree.fromstring(render_run_junit(run_of(*MIXED), "gitlab").partition("\n")[2])
    counts = {each.get("name"): each.get("value") for each in suites.iter("property")}
    assert counts == {"precreg.small_outputs": "1", "precreg.wider_limits": "2", "precreg.not_clear": "1"}
    outputs = {test.get("name"): test.findtext("system-out") for test in suites.iter("testcase")}
    assert outputs["unit/row_sum/a"].splitlines() == [
        "open",
        describe.describe_unseen_kind(UnseenKind.NOT_CLEAR),
        "allow more: precreg run --max-seeds 40960 --pair-seconds 120 unit/row_sum/a",
    ]
    assert outputs["unit/row_sum/float32-8x256"] is None
    strict = render_run_junit(run_of(*MIXED), "strict")
    assert ("<property" in strict, "not clear" in strict) == (False, True)
