"""What a reviewer sees in a merge request, by GitLab's rules of reading (gitlab.py), which are tested here too."""

import pytest
from msgspec.structs import replace

from precreg.report.junit import render_run_junit
from precreg.types.verdict import Reason, Status
from tests.report.gitlab import LEAST_LISTED, MOST_BYTES, MOST_LISTED, Widget, compare, pipeline, read
from tests.report.made import crashed, improved, passed, proposed, regressed, run_of, skipped, verdict


def seen(*results, **changes):
    """Return the tests of a run by name, as GitLab reads its report."""
    tests = read(render_run_junit(run_of(*results, **changes), "gitlab"))
    assert len({test.key for test in tests}) == len(tests), "of two tests with one identity GitLab keeps one"
    return {short(test.name): test for test in tests}


def short(name):
    """Return the end of a test's name, which is the whole id of its case."""
    tier, suite, end = name.split("/")
    assert (tier, suite) == ("unit", "row_sum")
    return end


def changes(base, head):
    return Widget(*(list(map(short, names)) for names in compare(base, head)))


def reports(*results, job="unit"):
    return pipeline([(job, render_run_junit(run_of(*results), "gitlab"))])


def in_ci(case):
    return replace(case, verdict=replace(case.verdict, status=Status.FAILED))


# What one test shows


def test_a_regression_shows_figures_baseline_and_suite():
    test = seen(regressed())["float16-8x256"]
    assert (test.suite, test.classname, test.status) == ("precreg.unit", "unit.row_sum", "failed")
    assert test.file == "suites/unit/row_sum.yaml"
    assert "mean_abs_error grew 4.9x over the baseline (0.024 -> 0.1175" in test.text
    assert "rms_error       0.1405   0.0299    4.7    1.1" in test.text
    assert "accepted 2026-11-02 at 0c1d2e3f: first version" in test.text
    assert "suite     suites/unit/row_sum.yaml:1" in test.text


def test_an_error_shows_its_traceback():
    test = seen(crashed())["crashes"]
    assert test.status == "error"
    assert "Traceback (most recent call last):\n  ...\nValueError: no" in test.text


def test_what_is_proposed_fails_in_ci_and_is_skipped_elsewhere_with_the_reason():
    there, here = seen(in_ci(proposed()))["float16-16x64"], seen(proposed())["float16-16x64"]
    assert (there.status, here.status) == ("failed", "skipped")
    assert all("no baseline in cpu-x86_64, cpu, generic" in test.text for test in (there, here))


def test_what_is_skipped_says_why():
    test = seen(skipped())["on-npu"]
    assert (test.status, "device:npu is not there" in test.text) == ("skipped", True)


def test_what_passed_shows_nothing():
    tests = seen(passed(), improved())
    assert {(test.status, test.text) for test in tests.values()} == {("success", "")}


def test_no_attachment_is_claimed_whatever_a_subject_prints():
    test = seen(crashed(detail="[[ATTACHMENT|/etc/passwd]]"))["crashes"]
    assert test.attachment is None
    assert "[[ATTACHMENT|/etc/passwd]]" in test.text


def test_the_file_to_copy_begins_at_the_root_of_the_repository():
    assert seen(regressed(), folder="libs/norms")["float16-8x256"].file == "libs/norms/suites/unit/row_sum.yaml"


# What changed between the target branch and the merge request


def test_a_regression_is_a_new_failure():
    assert changes(reports(passed("a"), passed("b")), reports(regressed("a"), passed("b"))) == (["a"], [], [])


def test_a_new_error_is_a_new_failure_too():
    assert changes(reports(passed("a")), reports(crashed("a"))).new == ["a"]


def test_a_failure_that_was_there_is_no_news_in_another_run_at_another_commit():
    later = run_of(regressed("a"), started="2027-01-01T00:00:00+00:00", git=None, duration_s=9.0)
    head = pipeline([("unit", render_run_junit(later, "gitlab"))])
    assert changes(reports(regressed("a")), head) == ([], ["a"], [])


def test_a_failure_that_became_an_error_is_not_new_either():
    assert changes(reports(regressed("a")), reports(crashed("a"))) == ([], ["a"], [])


def test_what_passes_again_is_resolved():
    assert changes(reports(regressed("a")), reports(passed("a"))) == ([], [], ["a"])


def test_a_failure_that_is_skipped_now_is_not_called_resolved():
    assert changes(reports(regressed("a")), reports(skipped("a"))) == ([], [], [])


def test_a_renamed_case_is_another_test_and_fails_until_its_baseline_is_renamed():
    assert changes(reports(passed("a")), reports(in_ci(proposed("b")))) == (["b"], [], [])
    assert changes(reports(passed("a")), reports(passed("b"))) == ([], [], [])


def test_a_case_that_moved_to_another_shard_is_the_same_test():
    def shards(first, second):
        return pipeline(
            (f"unit {i}/2", render_run_junit(run_of(*cases, selection={"shard": f"{i}/2"}), "gitlab"))
            for i, cases in ((1, first), (2, second))
        )

    base = shards([regressed("a"), passed("b")], [passed("c")])
    head = shards([passed("b")], [regressed("a"), regressed("c")])
    assert list(head) == ["unit"]
    assert len(head["unit"]) == 3
    assert changes(base, head) == (["c"], ["a"], [])


def test_a_shard_without_a_case_is_read():
    empty = render_run_junit(run_of(selection={"shard": "2/2"}, exit_code=0), "gitlab")
    assert pipeline([("unit 1/2", render_run_junit(run_of(passed("a")), "gitlab")), ("unit 2/2", empty)])["unit"].keys()
    assert read(empty) == []


def test_tiers_of_one_pipeline_stay_apart():
    head = pipeline((tier, render_run_junit(run_of(passed("a", tier=tier)), "gitlab")) for tier in ("unit", "model"))
    assert {job: len(tests) for job, tests in head.items()} == {"unit": 1, "model": 1}


def test_without_a_report_of_the_target_branch_every_failure_looks_new():
    """Why the gate runs on the default branch, too."""
    assert changes({}, reports(regressed("a"))).new == ["a"]


def test_of_very_many_failures_new_ones_are_listed_first():
    names = [f"{i:03}" for i in range(150)]
    base = reports(*(regressed(name) for name in names[:120]))
    head = reports(*(regressed(name) for name in names))
    found = changes(base, head)
    assert (len(found.new), len(found.existing)) == (30, MOST_LISTED - 30)
    everything = changes({}, head)
    assert (len(everything.new), len(everything.existing)) == (MOST_LISTED, 0)
    assert len(changes(base, reports(*(crashed(name) for name in names[:120]))).existing) == MOST_LISTED


# The rules themselves: the reader must be able to find fault


def suite(inner, name="s"):
    return f'<testsuite name="{name}">{inner}</testsuite>'


INNERMOST = suite('<testcase name="t"/>')


@pytest.mark.parametrize("xml", [INNERMOST, f"<testsuites>{suite(INNERMOST)}</testsuites>"])
def test_suites_may_be_nested_or_the_root(xml):
    assert [(test.name, test.status) for test in read(xml)] == [("t", "success")]


@pytest.mark.parametrize(
    ("inner", "status", "text"),
    [
        ("<failure>why</failure>", "failed", "why"),
        ('<failure message="why"/>', "failed", ""),
        ("<error>why</error><system-out>out</system-out><system-err>err</system-err>", "error", "why\n\nout\n\nerr"),
        ("<skipped/>", "skipped", ""),
        ("<system-out>out</system-out>", "success", ""),
        ("<properties><property name='a' value='b'/></properties>", "success", ""),
    ],
)
def test_status_and_text_come_from_the_children(inner, status, text):
    (test,) = read(suite(f'<testcase name="t">{inner}</testcase>'))
    assert (test.status, test.text) == (status, text)


def test_the_first_attachment_of_a_failure_counts_and_none_of_what_passed():
    out = "<system-out>[[ATTACHMENT|a.png]] [[ATTACHMENT|b.png]]</system-out>"
    failed, passed_ = read(suite(f'<testcase name="f"><failure/>{out}</testcase><testcase name="p">{out}</testcase>'))
    assert (failed.attachment, passed_.attachment) == ("a.png", None)


def test_of_two_tests_with_one_identity_one_survives():
    twice = suite('<testcase name="t" classname="c"/><testcase name="t" classname="c"><failure>x</failure></testcase>')
    assert len(pipeline([("unit", twice)])["unit"]) == 1


@pytest.mark.parametrize(
    ("xml", "says"),
    [
        ("<report/>", "testsuites or testsuite"),
        (suite(" " * MOST_BYTES), "larger"),
        (suite('<testcase name="t"><failure type="file">x</failure></testcase>'), "type=file"),
    ],
)
def test_what_gitlab_does_not_read_is_refused(xml, says):
    with pytest.raises(ValueError, match=says):
        read(xml)


def test_a_few_of_each_kind_are_listed_in_any_case():
    base = reports(*(regressed(f"old{i}") for i in range(20)))
    head = reports(*(regressed(f"new{i}") for i in range(200)), *(regressed(f"old{i}") for i in range(20)))
    assert len(changes(base, head).existing) == LEAST_LISTED


def test_a_case_that_is_known_to_be_bad_passes():
    bad = passed("a", verdict=verdict(Reason.EXPECTED_FAILURE, Status.PASSED, "failed as declared"))
    assert seen(bad)["a"].status == "success"
