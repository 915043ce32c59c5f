"""codequality.json: valid as GitLab documents it, one entry per case that needs a person, at the line to look at."""

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from precreg.report import codequality
from precreg.report.codequality import SEVERITIES, render_codequality
from precreg.types.case import Bound, Location
from precreg.types.verdict import Finding, Reason, Status, Verdict
from precreg.types.warning import Orphan, RtolBelowUlp, StoredText, ToleranceWarning, UnlistedDtype, UnmetThreshold
from precreg.verdict.judge import STATUS
from tests.report.made import (
    CHANGED,
    LOOSENED,
    REMOVED,
    TOLERANCE,
    UNUSED,
    crashed,
    improved,
    passed,
    proposed,
    regressed,
    road,
    run_of,
    skipped,
    verdict,
)

SCHEMA = json.loads(Path(__file__).with_name("codequality.schema.json").read_text())
SUITE = "suites/unit/row_sum.yaml"


def entries(record):
    found = json.loads(render_codequality(record))
    jsonschema.validate(found, SCHEMA)
    fingerprints = [entry["fingerprint"] for entry in found]
    assert len(set(fingerprints)) == len(fingerprints)
    return found


def places(record):
    return [(entry["location"]["path"], entry["location"]["lines"]["begin"]) for entry in entries(record)]


def broken(metric, source, tolerance=TOLERANCE):
    finding = Finding(Reason.OUT_OF_TOLERANCE, "too far", "out", metric, 0, 9.0, limit=1.0, source=source)
    verdict = Verdict(Status.FAILED, Reason.OUT_OF_TOLERANCE, "out: too far", (finding,))
    return run_of(regressed(verdict=verdict, tolerances={"out": tolerance}))


def test_a_case_that_needs_a_person_is_listed_worst_first():
    record = run_of(passed(), improved(), skipped(), proposed(), crashed(), regressed())
    assert [(entry["check_name"], entry["severity"]) for entry in entries(record)] == [
        ("precreg.regressed", "critical"),
        ("precreg.subject_error", "major"),
        ("precreg.new", "minor"),
    ]
    assert entries(record)[0]["description"] == (
        "unit/row_sum/float16-8x256: regressed: out: mean_abs_error grew 4.9x over the baseline "
        "(0.024 -> 0.1175, allowed 1.1x)"
    )


def test_a_report_without_room_keeps_the_most_severe_and_counts_the_rest(monkeypatch):
    record = run_of(*(proposed(f"a{i}") for i in range(50)), *(regressed(f"b{i}") for i in range(20)))
    record = replace(record, findings=(LOOSENED,))
    whole = entries(record)
    monkeypatch.setattr(codequality, "MAX_FILE_BYTES", limit := len(render_codequality(record)) * 2 // 3)
    *kept, last = entries(record)
    assert len(render_codequality(record)) <= limit + 700
    assert [each for each in whole if each in kept] == kept
    assert [each for each in kept if each["severity"] != "minor"] == [e for e in whole if e["severity"] != "minor"]
    assert 21 < len(kept) < 71 == len(whole)
    assert last["description"].startswith(f"left out: {71 - len(kept)} minor of 71 entries.")
    monkeypatch.setattr(codequality, "MAX_FILE_BYTES", limit // 2)
    assert entries(record)[-1]["fingerprint"] == last["fingerprint"]


def test_nothing_to_list_is_an_empty_list():
    assert entries(run_of(passed(), improved(), skipped())) == entries(run_of()) == []


def test_every_reason_to_list_a_case_has_a_severity():
    unlisted = {reason for reason, status in STATUS.items() if status is Status.PASSED}
    assert set(SEVERITIES) == set(Reason) - unlisted


def test_a_record_that_contradicts_itself_is_listed_all_the_same():
    assert [
        entry["severity"] for entry in entries(run_of(regressed(verdict=verdict(Reason.IDENTICAL, Status.FAILED))))
    ] == ["major"]


def test_a_case_without_a_baseline_weighs_more_where_it_fails():
    failed = replace(proposed(), verdict=replace(proposed().verdict, status=Status.FAILED))
    assert [entries(run_of(case))[0]["severity"] for case in (proposed(), failed)] == ["minor", "major"]


def test_a_regression_is_shown_at_the_suites_line():
    assert places(run_of(regressed())) == [(SUITE, 1)]


def test_a_broken_bound_is_shown_where_the_project_wrote_it():
    assert places(broken("max_ulp", Location("suites/tolerances.yaml", 3))) == [("suites/tolerances.yaml", 3)]


def test_a_missed_match_is_shown_where_rtol_was_written():
    assert places(broken("match_ratio", TOLERANCE.bounds[0].source)) == [(SUITE, 14)]


@pytest.mark.parametrize("source", [Location("precreg's defaults"), Location("PRECISION_THRESHOLDS"), None])
def test_a_bound_that_no_file_of_the_project_sets_is_shown_at_the_suite(source):
    assert places(broken("max_ulp", source)) == [(SUITE, 1)]
    shipped = replace(TOLERANCE, rtol=Bound("rtol", 1e-2, "shipped", Location("standard torch-2.13")))
    assert places(broken("match_ratio", source, shipped)) == [(SUITE, 1)]


def test_paths_start_at_the_root_of_the_repository():
    record = replace(road(), folder="libs/norms", orphans=(Orphan("unit/x/y", "baselines/generic/unit/x.json"),))
    assert {path for path, _ in places(record)} == {f"libs/norms/{SUITE}", "libs/norms/baselines/generic/unit/x.json"}


def test_warnings_of_a_case_and_orphans_are_listed_below():
    below = RtolBelowUlp(1e-9, Location(SUITE, 4), "float32", 1.2e-7)
    facts = (
        ToleranceWarning("unit/row_sum/float32-8x256", below),
        ToleranceWarning("x", below),
        UnmetThreshold("rtol", 1.0, "thresholds", "looser"),
        StoredText("unit/row_sum/float32-8x256: y"),
    )
    orphans = (
        Orphan("unit/a/b", "baselines/npu/unit/a.json", "unit/a/c"),
        Orphan("unit/a/d", "baselines/npu/unit/a.json"),
        StoredText("unit/a/e in baselines/npu/unit/a.json"),
    )
    found = entries(run_of(passed(), warnings=facts, orphans=orphans))
    assert [(entry["check_name"], entry["severity"], entry["location"]["path"]) for entry in found] == [
        ("precreg.tolerance", "minor", SUITE),
        ("precreg.orphan", "info", "baselines/npu/unit/a.json"),
        ("precreg.orphan", "info", "baselines/npu/unit/a.json"),
    ]


def fingerprints(record):
    return [entry["fingerprint"] for entry in entries(record)]


def test_a_fingerprint_holds_no_time_commit_shard_figure_or_line():
    moved = replace(regressed(), source=Location(SUITE, 99), verdict=replace(regressed().verdict, message="5 times"))
    later = run_of(moved, started="2027", duration_s=9.0, git=None, selection={"shard": "1/2"}, exit_code=0)
    assert fingerprints(later) == fingerprints(run_of(regressed()))


def test_another_case_and_another_reason_are_other_findings():
    changed = Verdict(Status.FAILED, Reason.NONDETERMINISTIC, "x")
    found = {*fingerprints(run_of(regressed("a"))), *fingerprints(run_of(regressed("b")))}
    assert len(found | {*fingerprints(run_of(regressed("a", verdict=changed)))}) == 3


@given(st.text(), st.text())
def test_any_text_is_a_valid_entry(name, message):
    failed = regressed(name, verdict=Verdict(Status.FAILED, Reason.REGRESSED, message))
    warned = run_of(failed, warnings=(ToleranceWarning(failed.id, UnlistedDtype(message, "float32")),))
    assert len(entries(warned)) >= 1


def test_findings_on_the_run_are_listed_below_the_cases_where_they_are_mended_or_allowed():
    found = entries(run_of(regressed(), passed(), findings=(UNUSED, CHANGED, LOOSENED, REMOVED)))
    places = [
        (entry["check_name"], entry["severity"], entry["location"]["path"], entry["location"]["lines"]["begin"])
        for entry in found
    ]
    assert places == [
        ("precreg.regressed", "critical", SUITE, 1),
        ("precreg.case_removed", "critical", "baselines/allow.yaml", 1),
        ("precreg.bound_loosened", "critical", SUITE, 14),
        ("precreg.baseline_changed", "info", SUITE, 1),
        ("precreg.allowance_unused", "info", "baselines/allow.yaml", 1),
    ]
    assert found[3]["description"].endswith("(allowed: float16 sums from now on, see the decision of October)")


def test_several_findings_of_one_kind_about_one_case_are_one_entry_that_has_all():
    other = replace(LOOSENED, message="rtol may be 0.1 and could be 0.01", factor=10.0)
    (entry,) = entries(run_of(findings=(LOOSENED, other)))
    assert entry["description"] == f"{LOOSENED.about}: bound_loosened: {other.message}; {LOOSENED.message}"


def test_a_finding_is_known_by_its_kind_and_what_it_is_about():
    again = replace(LOOSENED, message="twice", factor=8.0, source=None, allowed="why")
    assert fingerprints(run_of(findings=(LOOSENED,))) == fingerprints(run_of(findings=(again,)))
    others = [replace(LOOSENED, about="unit/x/y"), replace(LOOSENED, kind=REMOVED.kind)]
    assert len(fingerprints(run_of(findings=(LOOSENED, *others)))) == 3


@given(st.text(), st.text())
def test_any_text_of_a_finding_is_a_valid_entry(about, message):
    assert len(entries(run_of(findings=(replace(LOOSENED, about=about, message=message, source=None),)))) == 1
