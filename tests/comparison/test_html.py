"""The page of a comparison as text: one inert file, small whatever is compared. tests/browser opens it."""

import base64
import hashlib
import re
import time

import pytest
from msgspec.structs import replace

from precreg.comparison.html import MAX_DRAWN_PAIRS, render_comparison_html
from precreg.comparison.summary import advise_pair
from precreg.measure.metrics import METRICS
from precreg.types.case import Location
from precreg.types.comparison import ComparisonSettings
from precreg.types.metric import MetricDescription
from precreg.types.pair import AverageRatio, BenchmarkDifference
from precreg.types.verdict import Finding, Reason, Status, Verdict
from precreg.types.warning import StoredText
from tests.comparison.made import (
    everything,
    failed,
    identical,
    missing,
    passed,
    record_of,
    reshaped,
    single,
)
from tests.report.test_html import HOSTILE, Page


def page(*pairs, **changes):
    return Page(render_comparison_html(record_of(*pairs, **changes)))


def rows(written):
    return written.data("data")["rows"]


def test_rows_are_worst_first_with_their_figures():
    found = rows(page(passed(), failed("near", ratio=1.2), failed("far", ratio=9.0), missing(), identical()))
    assert [row[1] for row in found] == ["layer2/out", "far", "near", "layer0/out", "layer4/out"]
    assert [row[0] for row in found] == [0, 1, 2, 3, 4]
    assert found[0][2:] == ["failed", "missing_output", "", "expected an actual but there is none", "", "", "", "", ""]
    assert found[4][2:5] == ["passed", "identical", "3×4"]
    assert found[4][6:] == ["0", "0", "0", "0", "1"]


@pytest.mark.parametrize(
    ("pairs", "sentence"),
    [
        ([passed()], "The pair is within tolerance"),
        ([passed("a"), passed("b")], "All 2 pairs are within tolerance"),
        ([passed(), failed()], "1 of 2 pairs fails: 1 out_of_tolerance"),
        ([missing("a"), failed("b"), failed("c")], "3 of 3 pairs fail: 2 out_of_tolerance, 1 missing_output"),
    ],
)
def test_the_heading_says_what_came_of_it(pairs, sentence):
    assert sentence in page(*pairs).text


def test_nothing_compared_says_why():
    why = Finding(Reason.MISSING_OUTPUT, "no name is on both sides")
    assert "No name is on both sides" in page(findings=(why,), exit_code=1).text
    assert "Nothing was compared" in page(exit_code=2).text


def test_a_failed_pair_has_its_numbers_bounds_and_who_set_them():
    text = " ".join(page(failed()).text.split())
    for part in (
        "0.8958 of the elements match; all have to",
        "match_ratio0.8958333",
        ">= 1",
        "precreg:standards/torch-2.13",
        "rtol0.001--rtol",
        "float16 against float64, shape 4×6×10",
        "actual a/layer1/out.npy, reference r/layer1/out.npy",
        "[3, 5, 9]nan",
        "nan_mismatched1pairs with NaN on one side",
    ):
        assert part in text, part


def test_a_failed_pair_is_given_advice():
    said = advise_pair(failed())
    assert said
    assert all(f"Advice: {text}" in page(failed()).text for text in said)
    assert "Advice" not in page(replace(failed(), verdict=passed().verdict)).text


def test_every_metric_has_its_formula_beside_it():
    written = page(failed())
    measured = failed().comparison.metrics
    titles = [attributes["title"] for tag, attributes in written.elements if tag == "abbr"]
    assert titles == [f"{METRICS[name].formula} ({METRICS[name].source})" for name in METRICS if name in measured]
    assert all(name in written.text for name in measured)


def test_a_maximum_says_where_it_is():
    comparison = failed().comparison
    first = comparison.places["max_abs_error"]
    assert first == comparison.worst.index[0]
    place = f"[{first // 60}, {first // 10 % 6}, {first % 10}]"
    assert re.search(
        rf"max_abs_error</abbr>.*<td class=.id.>{re.escape(place)}</td>", render_comparison_html(record_of(failed()))
    )


def test_metrics_of_an_analyzer_are_described_by_the_record():
    metric = MetricDescription("sings.share", "1", "share of tones", "higher", "ours")
    comparison = replace(passed().comparison, metrics={"sings.share": 0.25}, described=(metric,))
    written = page(replace(passed(), comparison=comparison))
    assert ("abbr", {"title": "share of tones (ours)"}) in written.elements
    assert "sings.share0.25" in written.text.replace("\n", "")


def test_a_benchmark_stands_beside_the_values():
    pair = replace(passed(), benchmark=identical().comparison, benchmark_path="b/layer0/out.npy")
    text = page(pair).text
    assert "benchmark b/layer0/out.npy" in text
    assert "benchmark" not in page(passed()).text


def test_the_page_says_which_of_the_two_is_nearer():
    ratio = AverageRatio("mean_abs_error", 1e-7, 2e-7, 0.5, 0.4, 0.6)
    difference = BenchmarkDifference("actual", (ratio,))
    pair = replace(passed(), benchmark=identical().comparison, benchmark_path="b.npy", difference=difference)
    settings = ComparisonSettings("a", "r", benchmark="b", regression=True)
    text = page(pair, settings=settings).text
    assert "Better than the benchmark: mean_abs_error is 0.5 times the benchmark's (1e-07 against 2e-07," in text
    assert "1 better" in text
    assert "judged by the benchmark" in text


def test_worst_positions_are_indices_of_the_arrays_with_both_values():
    comparison = failed().comparison
    written = render_comparison_html(record_of(failed()))
    index, actual = comparison.worst.index[0], comparison.worst.actual[0]
    place = f"[{index // 60}, {index // 10 % 6}, {index % 10}]"
    assert re.search(rf">{re.escape(place)}</td><td[^>]*>{actual:.6g}</td>", written)


@pytest.mark.parametrize("pair", [passed(), failed(), identical(), single()])
def test_what_was_measured_is_drawn(pair):
    figures = {attributes["class"] for tag, attributes in page(pair).elements if tag == "figure"}
    expected = {"picture histogram", "picture cumulative", "picture bars"}
    assert expected <= figures <= expected | {"picture strips"}


@pytest.mark.parametrize("pair", [missing(), reshaped()])
def test_what_could_not_be_measured_has_no_charts(pair):
    assert not [tag for tag, _ in page(pair).elements if tag in ("figure", "svg")]


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_a_record_is_neither_markup_nor_code(text):
    def written(word):
        finding = Finding(Reason.OUT_OF_TOLERANCE, word, metric=word, source=Location(word))
        verdict = Verdict(Status.FAILED, Reason.OUT_OF_TOLERANCE, word, (finding, Finding(Reason.CRASHED, word + word)))
        comparison = replace(
            failed().comparison,
            dtype=word,
            reference_dtype=word,
            described=(MetricDescription(f"x.{word}", word, word, "lower", word),),
            metrics={f"x.{word}": 1.0},
            counts={word: 1},
        )
        pair = replace(failed(word), actual=word, reference=word, verdict=verdict, comparison=comparison)
        settings = replace(everything().settings, actual=word, reference=word, limits={word: word}, mapping=word)
        return page(pair, missing(word), settings=settings, warnings=(StoredText(word),), started=word, precreg=word)

    hostile, tame = written(text), written("tame")
    assert [tag for tag, _ in hostile.elements] == [tag for tag, _ in tame.elements]
    assert rows(hostile)[0][1] == text
    assert text in hostile.text


def test_nothing_is_fetched():
    written = render_comparison_html(everything())
    assert not re.search(r"https?://|\bsrc=|@import|url\(", written)
    assert not [tag for tag, _ in Page(written).elements if tag in ("link", "img", "iframe", "object")]


def test_the_policy_lets_only_the_pages_own_script_run():
    written = Page(render_comparison_html(everything()))
    policy = next(attributes["content"] for _, attributes in written.elements if "http-equiv" in attributes)
    digest = base64.b64encode(hashlib.sha256(written.scripts["code"].encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}';" in policy


def test_ten_thousand_pairs_stay_small_and_the_worst_are_drawn():
    good, bad = passed(), failed()
    pairs = [replace(bad if number % 50 == 0 else good, name=f"layer{number:05}/out") for number in range(10_000)]
    began = time.process_time()
    text = render_comparison_html(record_of(*pairs))
    assert time.process_time() - began < 20
    assert len(text.encode()) < 12e6
    written = Page(text)
    found = rows(written)
    assert len(found) == 10_000
    assert [row[0] for row in found[: MAX_DRAWN_PAIRS + 1]] == [*range(MAX_DRAWN_PAIRS), None]
    assert {row[2] for row in found[:200]} == {"failed"}
    assert sum(tag == "article" for tag, _ in written.elements) == MAX_DRAWN_PAIRS
    assert "9,900 more pairs are in the table alone, to keep the page small: 9,800 passed, 100 failed" in written.text


def test_the_same_record_gives_the_same_page():
    assert render_comparison_html(everything()) == render_comparison_html(everything())
