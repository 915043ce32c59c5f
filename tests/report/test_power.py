"""What `precreg power` prints."""

import json

import pytest
from msgspec.structs import replace

from precreg.report.detection import (
    NOT_COVERED,
    POWER_SCHEMA,
    describe_powerless,
    power_json,
    render_power,
    sort_powers,
)
from precreg.verdict.power import CasePower, DetectableLoss, LossReason, PowerGap

KNOWN = DetectableLoss(
    "out", 1.03412, None, "rms_error", "statistic", 48, 0, 0.004, ("match_ratio", "max_ulp"), {"max_abs_error": 4.0}
)
EXACT = DetectableLoss("out", 1.0, LossReason.EXACT, rule="hard", bounds=("match_ratio",))
ANY = replace(KNOWN, ratio=1234.5, metric="mean_abs_error")
FEW = DetectableLoss("loss", None, LossReason.FEW_SAMPLES, bounds=("max_rel_error",))
GOLDEN = replace(KNOWN, output="w", ratio=1.5, rule="guard", bounds=(), thresholds={"match_ratio": 1.0})
POWERS = (
    CasePower("unit/s/a", (KNOWN,)),
    CasePower("unit/s/exact", (EXACT,)),
    CasePower("unit/s/few", (KNOWN, FEW)),
    CasePower("unit/s/new", gap=PowerGap("no_baseline", "cpu, generic")),
    CasePower("unit/s/two", (KNOWN, GOLDEN), same_environment=False),
)


def test_the_least_caught_is_first():
    ids = [power.case.rpartition("/")[2] for power in sort_powers(POWERS)]
    assert ids == ["new", "few", "two", "a", "exact"]
    assert [power.case for power in sort_powers(POWERS[::-1])] == [power.case for power in sort_powers(POWERS)]


def test_the_table_and_the_summary():
    assert render_power(POWERS, 0.05 / 32, 4).splitlines() == [
        "case          output  detected by             samples  smallest loss  and by",
        "unit/s/few    out     statistic on rms_error  48       1.034 times    "
        "bounds on match_ratio, max_ulp; max_abs_error beyond 4 times",
        "unit/s/few    loss    -                       -        -              "
        "fewer than 5 samples; bounds on max_rel_error",
        "unit/s/two    out     statistic on rms_error  48       1.034 times    "
        "bounds on match_ratio, max_ulp; max_abs_error beyond 4 times",
        "unit/s/two    w       guard on rms_error      48       1.5 times      any lost match_ratio",
        "unit/s/a      out     statistic on rms_error  48       1.034 times    "
        "bounds on match_ratio, max_ulp; max_abs_error beyond 4 times",
        "unit/s/exact  out     hard                    -        any            "
        "exact: any error is detected; bounds on match_ratio",
        "",
        "2 cases: the smallest loss that is detected with a power of 90 %, at the worst output:",
        "  10 % of them detect 1.034 times, 50 % 1.034 times, 90 % 1.5 times, the worst 1.5 times",
        "1 case: exact, so any error is detected",
        "1 case: accepted in another environment, so a loss must exceed the effect of the environment",
        "1 case: no figure: fewer than 5 samples",
        "1 case: no figure: no baseline: unit/s/new",
        "significance level of a case: 0.00156, from 4 baselines",
        "",
        "not covered by the figures, which assume that every error grows by one ratio:",
        *(f"  {why}" for why in NOT_COVERED.values()),
    ]


def test_cases_without_a_row_are_named_and_counted():
    without = [CasePower(f"unit/s/{number}", gap=PowerGap("no_baseline", f"cpu{number}")) for number in range(7)]
    lines = render_power(without, 0.1, 1).splitlines()
    assert lines[0] == "7 cases: no figure: no baseline: unit/s/0, unit/s/1, unit/s/2, unit/s/3, unit/s/4 and 2 more"
    assert len(lines) == 2


def test_the_shares_of_many_cases():
    powers = [CasePower(f"unit/s/{number:02}", (replace(KNOWN, ratio=1 + number / 10),)) for number in range(1, 11)]
    assert "10 % of them detect 1.1 times, 50 % 1.5 times, 90 % 1.9 times, the worst 2 times" in render_power(
        powers, 0.1, 1
    )
    assert render_power((), 0.1, 1) == "significance level of a case: 0.1, from 1 baseline\n"


def test_what_is_beyond_any_use_is_no_figure():
    assert "  over 100 times  " in render_power([CasePower("a", (ANY,))], 0.1, 1)


@pytest.mark.parametrize("ratio", [1.00004, 99.99996])
def test_a_loss_is_never_written_as_none(ratio):
    (row,) = [
        line
        for line in render_power([CasePower("a", (replace(KNOWN, ratio=ratio),))], 0.1, 1).splitlines()
        if "48" in line
    ]
    assert " 1 times" not in row


def test_the_document_has_everything_in_the_same_order():
    found = json.loads(power_json(POWERS, 0.01, 4, "cpu"))
    assert (found["schema"], found["environment"], found["level"]) == (POWER_SCHEMA, "cpu", 0.01)
    assert (found["baselines"], found["power"]) == (4, 0.9)
    assert [case["case"] for case in found["cases"]] == [power.case for power in sort_powers(POWERS)]
    assert [case["worst"] for case in found["cases"]] == [None, None, 1.5, 1.03412, 1.0]
    assert found["cases"][3]["losses"][0]["guards"] == {"max_abs_error": 4.0}


def test_names_cannot_steer_the_terminal():
    assert "\x1b" not in render_power([CasePower("unit/s/\x1b[2Ja", (KNOWN,))], 0.1, 1)


def test_what_the_figures_do_not_cover_is_in_json_and_needs_a_figure():
    assert json.loads(power_json(POWERS, 0.1, 1, "cpu"))["not_covered"] == NOT_COVERED
    assert "not covered" not in render_power([CasePower("unit/s/few", (FEW,))], 0.1, 1)


def test_accepted_cases_without_power_are_counted_and_some_are_named():
    lines = describe_powerless([f"unit/s/{number}" for number in range(7)], 9).splitlines()
    assert lines == [
        "warning: 7 of 9 cases without power: no statistic sees a loss in an output",
        "  unit/s/0, unit/s/1, unit/s/2, unit/s/3, unit/s/4 and 2 more",
        "  set more seeds (5 or more) and accept again, or let runs pair (--pair auto); limits: precreg power unit/s/0",
    ]


def test_rows_of_a_table_need_other_advice():
    lines = describe_powerless(["unit/s/a, b"], 9, figures_alone=True).splitlines()
    assert lines == [
        "warning: 1 of 9 cases judged by figures alone: no statistic knows their noise",
        "  unit/s/a, b",
        "  a ratio judges; to see small losses, keep the arrays, or watch the history: precreg drift; "
        "limits: precreg power 'unit/s/a, b'",
    ]


def test_a_narrow_terminal_leaves_columns_out_and_wraps_no_row():
    wide = render_power(POWERS, 0.003, 5).splitlines()
    narrow = render_power(POWERS, 0.003, 5, 70).splitlines()
    assert max(map(len, wide[: wide.index("")])) > 70
    assert max(map(len, narrow[: narrow.index("")])) <= 70
    assert narrow[narrow.index("") - 1] == "not shown at this width: samples, and by"
    assert len(narrow) == len(wide) + 1
