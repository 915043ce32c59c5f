import pytest
from msgspec.structs import replace

from precreg.errors import UserError
from precreg.report import report_describe as describe
from precreg.report import report_terminal as terminal
from precreg.report.detail import detail
from precreg.report.record import merge, read, write
from precreg.report.report_markdown import render
from precreg.report.side_by_side import judge_of, summary
from precreg.types.records import Paired
from tests.report.made import accepted, passed, regressed, run_of, skipped

OTHER = replace(accepted([0.5, 0.5], [0.6, 0.6]), environment="cpu", file="pair main")
COMMIT = "0c1d2e3f4a5b"
WORSE = regressed(paired=Paired(24, True), baseline=OTHER, accepted=accepted([0.1, 0.1], [0.2, 0.2]))
UNCLEAR = passed("unclear", paired=Paired(1, False), baseline=OTHER)
ALONE = passed("alone", paired=Paired(3, False, "crashed there: killed by SIGKILL"))
CLEAR = passed("clear", paired=Paired(3, True), baseline=OTHER)
RUN = run_of(WORSE, UNCLEAR, ALONE, CLEAR, pair=COMMIT)


def test_the_version_that_judged_is_named_with_its_seeds():
    assert judge_of(WORSE) == "pair main at 0c1d2e3f, side by side, after 24 seeds of both"
    assert judge_of(UNCLEAR).endswith("after 1 seed of both")
    assert judge_of(ALONE) == "what was accepted: crashed there: killed by SIGKILL"
    assert judge_of(passed()) == ""


def test_the_summary_tells_what_is_not_clear_and_what_could_not_be_paired():
    assert list(summary(RUN)) == [
        "3 of 4 cases judged by 0c1d2e3f, run side by side",
        f"not clear after 1 seed: {UNCLEAR.id}: {UNCLEAR.verdict.message}",
        f"judged by what was accepted: {ALONE.id}: crashed there: killed by SIGKILL",
    ]
    assert list(summary(run_of(passed(), skipped()))) == []


def test_every_report_tells_of_the_pair():
    text = terminal.render(RUN, colour=False)
    assert ", paired with 0c1d2e3f\n" in text
    assert "baseline  pair main at 0c1d2e3f, side by side, after 24 seeds of both\n" in text
    assert "pair      3 of 4 cases judged by 0c1d2e3f" in text
    assert "1 case is worse than what 0c1d2e3f gives here" in text
    assert "paired with `0c1d2e3f`" in render(RUN)
    assert ["judged by", judge_of(WORSE)] in detail(WORSE)["baseline"]
    assert "accepted" not in dict(detail(WORSE)["baseline"]), "the other version was never accepted"


def test_a_case_without_pair_tells_what_was_accepted_and_why_that_judged():
    lines = describe.provenance(replace(ALONE, baseline=accepted([0.5], [0.6])))
    assert lines[0].startswith("baseline  baselines/generic/unit/row_sum.json, accepted ")
    assert lines[1] == f"judged by {judge_of(ALONE)}"


def test_many_lines_are_cut_short():
    several = [
        replace(ALONE, id=f"unit/row_sum/{number}", paired=Paired(3, False, f"problem {number // 5}"))
        for number in range(60)
    ]
    text = terminal.render(run_of(*several, pair=COMMIT), colour=False)
    first = "judged by what was accepted: unit/row_sum/0, unit/row_sum/1, unit/row_sum/2 and 2 more: problem 0"
    assert first in text
    assert text.count("pair      ") == terminal.MOST_OF_PAIR + 1


def test_what_was_accepted_is_known_whatever_judged(tmp_path):
    write(RUN, tmp_path / "record.json")
    results = {result.id: result for result in read(tmp_path / "record.json").results}
    assert results[WORSE.id].stored == WORSE.accepted
    assert results[UNCLEAR.id].stored is None
    assert results[ALONE.id].stored is results[ALONE.id].baseline


def test_shards_of_different_pairs_are_no_one_run():
    with pytest.raises(UserError, match="expected records with one commit of the pair"):
        merge([RUN, replace(RUN, pair="ffff")])
