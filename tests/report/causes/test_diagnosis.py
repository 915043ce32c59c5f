"""The sentences of a diagnosis, one for each status, and the place of the cause in every report."""

import json
import re
from itertools import permutations
from typing import get_args
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from precreg.arithmetic.faults import FAULTS, HARMLESS_CHANGES
from precreg.diagnose.bases import hypotheses_of, prepare_base
from precreg.diagnose.change_kind import ChangeKind
from precreg.diagnose.rewrites.edges import param_hypotheses
from precreg.report.case_detail import describe_case
from precreg.report.causes.diagnosis import (
    _SHAPES,
    MAX_CAUSE_LINE,
    cause_line,
    cause_location,
    describe_diagnosis,
    describe_run_diagnoses,
    explanation_lines,
)
from precreg.report.causes.rewrite_words import _FAMILY_PARTS, _REWRITES, _WAYS, cause_phrase
from precreg.report.codequality import render_codequality
from precreg.report.html import render_run_html
from precreg.report.junit import render_run_junit
from precreg.report.record import merge_run_records
from precreg.report.summaries import render_run_markdown
from precreg.report.terminal import render_brief, render_run_terminal
from precreg.types.case import Location
from precreg.types.diagnosis import (
    Cause,
    Diagnosis,
    DiagnosisStatus,
    Evidence,
    Fingerprint,
    FingerprintKind,
    OpaqueSubject,
    RewrittenPlace,
    TriedBase,
    UnitExplanation,
)
from precreg.types.record import RunDiagnoses
from precreg.types.trace import Site
from tests.diagnose.bases import base_of, normal
from tests.report.made import crashed, passed, regressed, run_of

ADAM = Site("ops/adam.py", 47, "step = rate * (m / denominator)")
NOW = Site("ops/adam.py", 49, "step = (rate * m) / denominator")
BITS = Evidence(elements=100, reproduced=100, differing=34, explained=34, correlation=1.0, remaining=0.0)
ERRORS = Evidence(elements=100, reproduced=2, differing=100, explained=2, correlation=0.991, remaining=0.034)
MULTIPLY = RewrittenPlace("operation", "multiply", ADAM, "rate * (m / denominator)")
DIVIDE = RewrittenPlace("operation", "divide", replace(NOW, line=47), "(rate * m) / denominator")
SWAPPED = Cause("swapped_order", {}, MULTIPLY, "accepted", BITS, NOW, True)
CAST = Cause("hop", {"format": "float16"}, RewrittenPlace("input", "x"), "reference", ERRORS)
LEFT = Cause("left_by_earlier_call", {"operand": 1}, MULTIPLY, "subject", ERRORS)
UNDONE = Cause(
    "changed_constant",
    {"before": "beta * 0.9", "now": "beta * 0.99"},
    RewrittenPlace("statement", "step", Site("ops/adam.py", 49, "m = beta * 0.99"), "beta * 0.99"),
    "subject",
    BITS,
    is_changed=True,
)
TRIED = (TriedBase("accepted", "1a2b3c4d5e", 5, 20, 60), TriedBase("golden", problem="recorded"))
CASE = "unit/row_sum/float16-8x256"


def diagnosis(status="found", *causes, **fields):
    return Diagnosis(case=CASE, status=status, **({"causes": causes, "bases": TRIED} | fields))


def diagnosed(found, name="float16-8x256"):
    return regressed(name, diagnosis=found)


@pytest.mark.parametrize(
    ("cause", "line"),
    [
        (
            SWAPPED,
            "multiply before divide at adam.py:49 `(rate * m) / denominator`: reproduces 34 of 34 changed elements",
        ),
        (
            replace(SWAPPED, base="subject", present=None, place=DIVIDE),
            "adam.py:47 `(rate * m) / denomin...`: divide before multiply there restores 34 of 34 differing elements",
        ),
        (CAST, "cast to float16 in input x of the reference: explains 97 % of the errors, correlation 0.99"),
        (
            replace(CAST, base="subject"),
            "input x: cast to float16 there removes 97 % of the errors, correlation 0.99",
        ),
        (
            Cause(
                "other_param", {"value": 0.5}, RewrittenPlace("param", "alpha"), "golden", replace(BITS, reproduced=90)
            ),
            "value 0.5 in param alpha of the golden: reproduces 34 of 34 differing elements, and changes 10 others",
        ),
        (
            Cause("exact", {}, RewrittenPlace("operations", "exp", Site(module="layers.3")), "accepted", BITS),
            "exact operation, rounded once at layers.3, every exp: reproduces 34 of 34 changed elements",
        ),
        (
            UNDONE,
            "other number at ops/adam.py:49 `beta * 0.99`: undone, it restores 34 of 34 changed elements",
        ),
    ],
)
def test_a_cause_is_one_line_with_place_and_evidence(cause, line):
    found = cause_line(diagnosis("found", cause))
    assert found == f"cause: {line}"
    assert len(found) <= MAX_CAUSE_LINE


def test_the_whole_text_has_the_path_and_the_former_source():
    text = describe_diagnosis(
        diagnosis("found", SWAPPED, runners_up=(CAST,), error_kind="rounding", cleared=(MULTIPLY,))
    )
    assert text == [
        "cause: multiply before divide at ops/adam.py:49 `(rate * m) / denominator`, before `rate * (m / denominator)`:"
        " reproduces 34 of 34 changed elements",
        "runner-up: cast to float16 in input x of the reference: explains 97 % of the errors, correlation 0.99",
        "to do: restore the former order of the operations",
        f"to do: or accept the new bits, if they are as accurate: precreg baseline accept {CASE} --reason WHY",
        "errors: most of the error is rounding of the right formula",
        "cleared: ops/adam.py:47 `rate * (m / denominator)` does not affect the errors",
        "tried: the accepted version 1a2b3c4d: 20 of 60 rewrites at 5 places",
        "tried: the golden: could not be rewritten: recorded",
    ]
    assert "`beta * 0.99`, before `beta * 0.9`: undone" in describe_diagnosis(diagnosis("found", UNDONE))[0]
    added = replace(UNDONE, rewrite="changed_added", options={"before": "", "now": "beta * 0.99"})
    assert (
        "added part at ops/adam.py:49 `beta * 0.99`, which is new: undone"
        in describe_diagnosis(diagnosis("found", added))[0]
    )
    gone = describe_diagnosis(diagnosis("found", replace(SWAPPED, present=None)))[0]
    assert "ops/adam.py:47 `rate * (m / denominator)` of the accepted version: " in gone


PROGRAM = OpaqueSubject("program", "c0ffee00deadbeef")
TRAINING = OpaqueSubject("figures", arguments=("training", "a b/train:make", "--advise"))
GRID = Fingerprint("grid", "out", 0.98, {"rounding": "nearest_even", "format": "float16", "precision": 11.0})


@pytest.mark.parametrize(
    ("found", "line", "others"),
    [
        (
            diagnosis("several", SWAPPED, CAST),
            "first of 2 causes: multiply before",
            ["and cause 2: cast to", "note: no single"],
        ),
        (diagnosis("partial", CAST), "cause of a part: cast to float16", ["note: the best cause"]),
        (diagnosis("unknown"), "cause: unknown: none of 20 of 60 rewrites explains the errors", ["to do: see where"]),
        (
            diagnosis("unknown", fingerprints=(GRID,)),
            "cause: unknown: none of 20 of 60 rewrites explains the errors; errors on a grid of powers of two",
            ["shape: out: 98 % of the results lie on the grid of"],
        ),
        (
            diagnosis("unknown", bases=(TriedBase("reference", places=5, tried=90, hypotheses=60),)),
            "cause: unknown: none of 60 rewrites, in 90 runs, explains the errors",
            ["tried: the reference: 60 rewrites, in 90 runs, at 5 places"],
        ),
        (diagnosis("unknown", bases=TRIED[1:]), "cause: unknown: recorded", ["tried: the golden"]),
        (
            diagnosis("unknown", fingerprints=(GRID,), opaque=PROGRAM),
            f"cause: precreg cannot look into a program: precreg bisect {CASE} --good c0ffee00 --bad .",
            [f"to do: find the line of the change: precreg bisect {CASE} --good c0ffee00 --bad ."],
        ),
        (
            diagnosis("failed", out_of_time=True, opaque=PROGRAM),
            f"cause: precreg cannot look into a program: precreg bisect {CASE} --good c0ffee00 --bad .",
            ["to do: find the line"],
        ),
        (
            diagnosis("unknown", fingerprints=(GRID,), opaque=OpaqueSubject("recorded")),
            "cause: precreg cannot look into recorded files; errors on a grid of powers of two",
            [],
        ),
        (
            diagnosis("unknown", bases=(), opaque=TRAINING),
            "cause: not searched, because no rewrite of one operation explains figures of a whole run: "
            "precreg training 'a b/train:make' --advise",
            ["to do: measure the parts of the run: precreg training 'a b/train:make' --advise"],
        ),
        (diagnosis("unknown", bases=()), "cause: unknown: no operation could be rewritten", []),
        (
            diagnosis("unknown", bases=(TriedBase("reference", places=5, problem="ordinary rounding"),)),
            "cause: unknown: the errors are no larger than ordinary rounding",
            ["tried: the reference: rounding of the output explains all errors, so no rewrite ran"],
        ),
        (
            diagnosis("passed", bases=(TriedBase("accepted", "1a2b3c4d5e", 5),)),
            "cause: none: the case has no error to explain",
            ["tried: the accepted version 1a2b3c4d: no rewrite at 5 places"],
        ),
        (diagnosis("nondeterministic"), "cause: unknown: repeats differ", ["note: repeats differ, so no rewrite"]),
        (
            diagnosis("nondeterministic", LEFT),
            "cause: second run differs at ops/adam.py:47 `rate * (m / denominator)`: operand 1 is left",
            ["to do: initialize the buffer before its first use", "note: repeats differ, so no rewrite"],
        ),
        (diagnosis("failed", problem="ValueError: no"), "cause: not found: ValueError: no", []),
        (diagnosis("failed", out_of_time=True), "cause: not found: the time was up", ["to do: the time was up; allow"]),
        (
            diagnosis("unknown", out_of_time=True),
            "cause: unknown",
            [f"to do: the time was up; allow more: precreg diagnose {CASE} --seconds 300"],
        ),
    ],
)
def test_each_status_has_its_sentence(found, line, others):
    assert cause_line(found).startswith(line)
    text = describe_diagnosis(found)
    assert text[0].startswith(line)
    for other in others:
        assert any(each.startswith(other) for each in text), text


def test_every_status_and_every_shape_has_words():
    shown = {status: cause_line(diagnosis(status)) for status in get_args(DiagnosisStatus)}
    assert all(line.startswith("cause: ") for line in shown.values())
    assert set(_SHAPES) == set(get_args(FingerprintKind))


def many_operations(x, w):
    """Compute with an operation of every group that has rewrites of its own."""
    x = np.maximum(np.rint(x * 2.0), x)
    y = (x.astype(np.float16) - np.float16(0.5)).astype(np.float32) @ w
    y = np.exp(y / np.sqrt(np.sum(y * y, axis=-1, keepdims=True) + np.float32(1e-5)))
    return y / (y - 3.0) + np.cumsum(y, axis=0)


def test_every_rewrite_has_words():
    inputs = {"x": normal(33, 33), "w": normal(33, 33, seed=1)}
    wrong = many_operations(**inputs)
    wrong[3] = 0
    prepared = prepare_base(base_of(many_operations, inputs), {"out": wrong})
    hypotheses = [*hypotheses_of(prepared), *param_hypotheses({"steps": 3})]
    made = {each.rewrite for each in hypotheses}
    assert {"hop", "hop_operand", "other_constant", "other_param", "tail", "one_index", "narrow_accumulator"} <= made
    statements = {f"changed_{kind}" for kind in get_args(ChangeKind)}
    assert made | set(FAULTS) | set(HARMLESS_CHANGES) | statements <= set(_REWRITES)
    for each in hypotheses:
        words = cause_phrase(Cause(each.rewrite, each.options, RewrittenPlace(each.target, each.name), "golden", BITS))
        assert not set("{}_") & set(re.sub(r"float8_\w+", "", words)), words


def test_a_rewrite_without_words_is_named_by_its_slug_and_a_family_is_guessed():
    cause = replace(SWAPPED, rewrite="shuffled_channel", options={"by": 3, "way": "left"})
    assert cause_phrase(cause) == "shuffled channel (by 3, way left)"
    text = describe_diagnosis(diagnosis("found", cause))
    assert "to do: check the offset, the stride and the length of the last block" in text
    strange = describe_diagnosis(diagnosis("found", replace(cause, rewrite="zzz")))
    assert "to do: compare this place with the accepted version" in strange


def test_a_lost_conversion_is_put_back_and_one_too_many_is_removed():
    lost = replace(SWAPPED, rewrite="cast_removed")
    assert any(
        line.startswith("to do: put the conversion back") for line in describe_diagnosis(diagnosis("found", lost))
    )
    extra = describe_diagnosis(diagnosis("found", replace(lost, base="subject", present=None)))
    assert any(line.startswith("to do: remove the conversion") for line in extra)


def test_an_option_that_an_older_record_lacks_leaves_the_plain_words():
    assert cause_phrase(replace(CAST, options={})) == "cast to another format"
    assert cause_phrase(replace(CAST, options={"format": "float16", "rounding": "toward_zero"})) == (
        "cast to float16, toward zero"
    )
    tail = replace(CAST, rewrite="tail", options={"block": 16, "way": "stale", "axis": -1})
    assert cause_phrase(tail) == "elements of the block before, beyond the last full block of 16"


@given(
    st.integers(1, 10**7).flatmap(
        lambda n: st.tuples(st.just(n), st.integers(1, n)).flatmap(
            lambda pair: st.tuples(st.just(pair[0]), st.just(pair[1]), st.integers(0, pair[1]))
        )
    ),
    st.floats(0, 1.5),
    st.floats(-1, 1),
)
def test_different_numbers_never_read_the_same(counts, remaining, correlation):
    """What is not all of the elements or errors is not written as all of them."""
    elements, differing, explained = counts
    reproduced = elements - differing + explained
    evidence = Evidence(elements, reproduced, differing, explained, correlation=correlation, remaining=remaining)
    line = describe_diagnosis(diagnosis("found", replace(CAST, evidence=evidence)))[0]
    text = line.rpartition("reference: ")[2]
    if 2 * explained >= differing:
        shown = re.fullmatch(r"reproduces ([0-9,]+) of ([0-9,]+) differing elements?", text)
        assert [int(each.replace(",", "")) for each in shown.groups()] == [explained, differing]
        return
    if remaining < 1:
        percent = re.match(r"explains ([0-9.e+-]+) % of the errors", text)[1]
        assert (float(percent) == 100) == (1 - remaining == 1)
    shown = float(re.search(r"correlation ([0-9.e+-]+)", text)[1])
    assert (shown == 1) == (correlation == 1)
    assert shown == pytest.approx(correlation, rel=0.06)


def test_a_long_place_is_shortened_and_never_the_evidence():
    source = "np.concatenate([left_hand_side_of_the_equation, right_hand_side_of_the_equation], axis=-1) * weight"
    for file in ("k.py", "suites/unit/a/very/deep/folder/of/kernels/that/has/a/long/name/kernels_of_attention.py"):
        place = replace(MULTIPLY, site=replace(ADAM, file=file), expression=source)
        line = cause_line(diagnosis("found", replace(SWAPPED, place=place, present=None)))
        assert line.endswith(": reproduces 34 of 34 changed elements")
        assert f"{file.rpartition('/')[2]}:47" in line
        assert source in describe_diagnosis(diagnosis("found", replace(SWAPPED, place=place, present=None)))[0]


def test_the_location_is_a_line_of_the_present_code():
    assert cause_location(diagnosis("found", SWAPPED)) == Location("ops/adam.py", 49)
    assert cause_location(diagnosis("found", replace(SWAPPED, base="subject"))) == Location("ops/adam.py", 47)
    assert cause_location(diagnosis("found", replace(SWAPPED, present=None))) is None
    assert cause_location(diagnosis("found", replace(SWAPPED, base="reference", present=None))) is None
    assert cause_location(diagnosis("found", CAST)) is None
    assert cause_location(None) is None
    outside = replace(SWAPPED, present=replace(NOW, file="/usr/lib/python3/numpy/core.py"))
    assert cause_location(diagnosis("found", outside)) is None


EXPLAINED = replace(
    diagnosis("unknown", explained_by=(UnitExplanation("unit/row_sum/x", ("ops/adam.py:step",), 0.97),)),
    case="model/adam_training/default",
)


def test_a_model_names_the_unit_case_that_explains_it():
    known = {"unit/row_sum/x": diagnosis("found", SWAPPED)}
    line = "model/adam_training/default: explained by unit/row_sum/x (order of operations), 97 % of the loss"
    assert explanation_lines(EXPLAINED, known) == [line]
    assert explanation_lines(EXPLAINED, {}) == [line.replace(" (order of operations)", "")]
    unknown = replace(EXPLAINED, explained_by=(UnitExplanation("unit/row_sum/x"),))
    assert explanation_lines(unknown, {}) == ["model/adam_training/default: explained by unit/row_sum/x"]
    model = regressed("default", id="model/adam_training/default", tier="model", diagnosis=EXPLAINED)
    record = run_of(model, diagnosed(diagnosis("found", SWAPPED), "x"), diagnosed=RunDiagnoses(30.0, 2.0, 2, 0))
    assert line in render_run_terminal(record, colour=False)
    assert line in render_codequality(record)
    short = "unit/row_sum/x (order of operations), 97 % of the loss"
    # Lists name the case once.
    assert f"\nmodel/adam_training/default   explained by {short}\n" in render_brief(record, reports=())
    assert f"\n- `model/adam_training/default`: explained by {short}\n" in render_run_markdown(record)
    assert f"explained by: {short}" in render_run_junit(record, "gitlab")
    assert f'["explained by","{short}"]' in render_run_html(record)


def record_with(*results, **counts):
    return run_of(*results, diagnosed=RunDiagnoses(30.0, 2.5, **({"diagnosed": 1, "not_reached": 0} | counts)))


def test_every_report_shows_the_cause():
    found = diagnosis("found", SWAPPED)
    record = record_with(diagnosed(found), passed(), crashed())
    line = cause_line(found)
    terminal = render_run_terminal(record, colour=False)
    lines = terminal.splitlines()
    assert lines[lines.index(next(each for each in lines if CASE in each)) + 2] == f"         {line}"
    assert "causes    1 failed case diagnosed in 2.5 s" in lines
    assert line in render_brief(record, reports=())
    assert "## Causes" in render_run_markdown(record)
    (failure,) = ElementTree.fromstring(render_run_junit(record, "strict")).iter("failure")
    assert all(each in failure.text.splitlines() for each in describe_diagnosis(found))
    first = json.loads(render_codequality(record))[0]
    assert first["location"] == {"path": "ops/adam.py", "lines": {"begin": 49}}
    assert line in first["description"]
    assert describe_case(diagnosed(found))["diagnosis"][0][0] == "cause"
    assert ">1 failed case diagnosed in 2.5 s</span></dd>" in render_run_html(record)


def test_a_cause_changes_no_identity_in_code_quality():
    without, having = (
        json.loads(render_codequality(run_of(case))) for case in (regressed(), diagnosed(diagnosis("found", SWAPPED)))
    )
    assert [each["fingerprint"] for each in without] == [each["fingerprint"] for each in having]


def test_reports_without_a_diagnosis_say_nothing_about_causes():
    record = run_of(regressed(), passed())
    for text in (
        render_run_terminal(record, colour=False),
        render_run_markdown(record),
        render_run_junit(record, "gitlab"),
    ):
        assert "cause" not in text.lower()
    assert describe_case(regressed())["diagnosis"] == []


@pytest.mark.parametrize("hostile", ["<script>alert(1)</script>", "\x1b[31mred\x1b[0m", "a|b`c`", "line\nbreak"])
def test_names_of_a_project_stay_text(hostile):
    place = replace(MULTIPLY, site=Site(f"{hostile}.py", 3), expression=hostile)
    found = diagnosis("found", replace(SWAPPED, place=place, present=None, rewrite=hostile))
    record = record_with(diagnosed(found))
    assert "\x1b" not in render_run_terminal(record, colour=False)
    assert "<script>alert" not in render_run_html(record)
    assert "<script>" not in render_run_markdown(record)
    assert "\n" not in json.loads(render_codequality(record))[0]["description"]
    ElementTree.fromstring(render_run_junit(record, "gitlab"))


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (RunDiagnoses(30.0, 2.0, 1, 0), "1 failed case diagnosed in 2 s"),
        (RunDiagnoses(30.0, 30.2, 3, 4), "3 failed cases diagnosed in 30.2 s, 4 not reached: allow more than 30 s"),
        (RunDiagnoses(30.0, 0.1, 0, 4, "no fork"), "0 failed cases diagnosed in 0.1 s, 4 not reached: no fork"),
    ],
)
def test_the_counts_of_a_run(counts, words):
    assert describe_run_diagnoses(counts).startswith(words)


def test_merged_shards_keep_every_cause_in_any_order():
    cause, other = diagnosis("found", SWAPPED), diagnosis("unknown")
    shards = [
        record_with(diagnosed(cause, "a"), passed("p")),
        record_with(regressed("b"), diagnosed=0, not_reached=1),
        # The same case again, from a run that searched for no causes.
        run_of(regressed("a"), diagnosed(other, "c")),
    ]
    shards[1] = replace(shards[1], diagnosed=replace(shards[1].diagnosed, used=9.0, seconds=60.0))
    for order in permutations(shards):
        merged = merge_run_records(order)
        assert merged == merge_run_records([merge_run_records(order[:2]), order[2]])
        assert merged.diagnosed == RunDiagnoses(60.0, 9.0, 2, 1)
        assert {result.name: result.diagnosis for result in merged.results} == {
            "a": cause,
            "b": None,
            "c": other,
            "p": None,
        }
    assert merge_run_records([run_of(regressed("a")), run_of(regressed("b"))]).diagnosed is None


def test_tables_have_no_entry_in_vain():
    assert {rewrite for rewrite, _ in _WAYS} <= set(_REWRITES)
    assert len({family.name for family in _FAMILY_PARTS.values()}) == len(set(_FAMILY_PARTS.values()))
