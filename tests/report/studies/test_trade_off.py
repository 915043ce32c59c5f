"""Precision against speed, in round figures."""

import pytest
from msgspec.structs import replace

from precreg.report.studies import trade_off_rows
from precreg.types.case import Note, TradeOff
from tests.report.studies.made import TRADE_OFF, case, form, forms, measured

STUDY = TRADE_OFF.trade_off


def by_value(results, study=STUDY):
    return {row.value: row for row in trade_off_rows(study, "unit/forms", results)}


def test_each_form_is_held_against_the_plain_one_of_its_run():
    found = by_value(forms())
    assert list(found) == ["none", "broken", "fp16", "unrolled"]
    plain, slower, faster = found["none"], found["fp16"], found["unrolled"]
    assert (plain.plain, plain.time_ratio, plain.error_ratio, plain.same_bits) == (True, 1.0, 1.0, True)
    assert slower.time_ratio == pytest.approx(4)
    assert slower.error_ratio == pytest.approx(4000)
    assert (slower.same_bits, slower.mean_ulp, slower.match_ratio, slower.rtol) == (False, 8000.0, 0.9375, 1e-2)
    assert (faster.time_ratio, faster.same_bits) == (0.5, True)
    assert (faster.note, slower.note) == (Note("long sums", "the number of lanes"), Note())


def test_what_was_not_measured_says_why():
    broken = by_value(forms())["broken"]
    assert broken.failure == "ValueError: no"
    assert (broken.duration_s, broken.error, broken.time_ratio) == (None, None, None)


def test_without_the_plain_form_nothing_is_a_ratio():
    found = by_value([result for result in forms() if result.name != "none"])
    assert found["fp16"].error == 4e-3
    assert (found["fp16"].time_ratio, found["fp16"].error_ratio, found["fp16"].same_bits) == (None, None, False)


def test_a_plain_form_without_error_has_no_multiple():
    found = by_value([form("none", 0.01, 0.0, "d1"), form("fp16", 0.01, 1e-3, "d2")])
    assert (found["fp16"].error, found["fp16"].error_ratio) == (1e-3, None)


def test_a_time_that_was_not_taken_is_none():
    found = by_value([form("none", 0.0, 1e-6, "d1"), form("fp16", 0.01, 1e-3, "d2")])
    assert (found["none"].duration_s, found["fp16"].time_ratio) == (None, None)


def test_forms_are_compared_where_the_other_parameters_are_equal():
    def of(name, size, seconds):
        parameters = {"form": name, "size": size}
        return case("forms", f"{name}-{size}", parameters, [measured({"mean_abs_error": 1e-6})], seconds)

    results = [of("none", 8, 1.0), of("none", 16, 4.0), of("unrolled", 16, 1.0), of("unrolled", 8, 0.5)]
    found = [(row.of, row.value, row.time_ratio) for row in trade_off_rows(STUDY, "unit/forms", results)]
    assert found == [
        ("size=16", "none", 1.0),
        ("size=16", "unrolled", 0.25),
        ("size=8", "none", 1.0),
        ("size=8", "unrolled", 0.5),
    ]


def test_every_output_has_a_row_and_other_suites_none():
    outputs = [measured({"mean_abs_error": 1e-6}, output=name) for name in ("m", "v")]
    result = case("forms", "none", {"form": "none"}, outputs)
    assert [row.of for row in trade_off_rows(TradeOff("form", "none"), "unit/forms", [result])] == ["m", "v"]
    assert trade_off_rows(STUDY, "unit/forms", [replace(result, suite="other")]) == []
