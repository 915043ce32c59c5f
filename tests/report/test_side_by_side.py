import pytest
from msgspec.structs import replace

from precreg.errors import UserError
from precreg.report import describe, terminal
from precreg.report.case_detail import describe_case
from precreg.report.findings import add_result_messages
from precreg.report.pairs import describe_judge, describe_paired_run
from precreg.report.record import merge_run_records, read_run_record
from precreg.report.summaries import render_run_markdown
from precreg.storage import write_json_record
from precreg.types.pair import RoundingShare
from precreg.types.record import KnownBadCase, OtherVersionFailed, OtherVersionInputs, OtherVersionOutputs, PairedRun
from precreg.types.verdict import Reason
from tests.report.made import accepted, passed, regressed, run_of, skipped

OTHER = replace(accepted([0.5, 0.5], [0.6, 0.6]), environment="cpu", file="pair main")
COMMIT = "0c1d2e3f4a5b"
WORSE = regressed(paired=PairedRun(24, True), baseline=OTHER, accepted=accepted([0.1, 0.1], [0.2, 0.2]))
UNCLEAR = passed("unclear", paired=PairedRun(1, False), baseline=OTHER)
ALONE = passed("alone", paired=PairedRun(3, False, "crashed there: killed by SIGKILL"))
CLEAR = passed("clear", paired=PairedRun(3, True), baseline=OTHER)
RUN = run_of(WORSE, UNCLEAR, ALONE, CLEAR, pair=COMMIT)


def test_the_version_that_judged_is_named_with_its_seeds():
    assert describe_judge(WORSE) == "main at 0c1d2e3f, run side by side on 24 seeds"
    assert describe_judge(UNCLEAR).endswith("on 1 seed")
    assert describe_judge(ALONE) == "the stored baseline: crashed there: killed by SIGKILL"
    assert describe_judge(passed()) == ""
    by_commit = replace(OTHER, file=f"pair {OTHER.entry.commit}")
    assert describe_judge(replace(WORSE, baseline=by_commit)) == "commit 0c1d2e3f, run side by side on 24 seeds"


def test_the_summary_tells_what_is_not_clear_and_what_could_not_be_paired():
    assert list(describe_paired_run(RUN)) == [
        "3 of 4 cases judged by 0c1d2e3f, run side by side",
        f"not clear: {UNCLEAR.id}: {UNCLEAR.verdict.message}",
        f"judged by the stored baseline: {ALONE.id}: crashed there: killed by SIGKILL",
    ]
    assert list(describe_paired_run(run_of(passed(), skipped()))) == []


def test_a_loss_of_correct_rounding_is_reported_with_its_test():
    shares = (
        RoundingShare("out", 0.8125, 0.6, 20, 0, 2.0**-20),
        RoundingShare("few", 0.8, 0.795, 20, 0, 2.0**-20),
        RoundingShare("chance", 0.8, 0.6, 12, 8, 0.25),
    )
    run = run_of(replace(CLEAR, paired=PairedRun(20, True, judged=True, commit=COMMIT, end="clear", shares=shares)))
    assert list(describe_paired_run(run)) == [
        "1 of 1 cases judged by 0c1d2e3f, run side by side",
        f"fewer correctly rounded elements: {CLEAR.id}: out: 81.25 % -> 60 % "
        "(p = 9.5e-07 by the sign test over 20 fresh seeds)",
    ]


def test_every_report_tells_of_the_pair():
    text = terminal.render_run_terminal(RUN, colour=False)
    assert ", paired with 0c1d2e3f\n" in text
    assert "baseline  main at 0c1d2e3f, run side by side on 24 seeds\n" in text
    assert "pair      3 of 4 cases judged by 0c1d2e3f" in text
    assert "1 case regressed against 0c1d2e3f" in text
    assert "paired with `0c1d2e3f`" in render_run_markdown(RUN)
    assert ["judged by", describe_judge(WORSE)] in describe_case(WORSE)["baseline"]
    assert "accepted" not in dict(describe_case(WORSE)["baseline"]), "the other version was never accepted"


def test_a_case_without_pair_tells_what_was_accepted_and_why_that_judged():
    lines = describe.describe_provenance(replace(ALONE, baseline=accepted([0.5], [0.6])))
    assert lines[0].startswith("baseline  baselines/generic/unit/row_sum.json, accepted ")
    assert lines[1] == f"judged by {describe_judge(ALONE)}"


def test_many_lines_are_cut_short():
    several = [
        replace(ALONE, id=f"unit/row_sum/{number}", paired=PairedRun(3, False, f"problem {number // 5}"))
        for number in range(60)
    ]
    text = terminal.render_run_terminal(run_of(*several, pair=COMMIT), colour=False)
    first = "judged by the stored baseline: unit/row_sum/0, unit/row_sum/1, unit/row_sum/2 and 2 more: problem 0"
    assert first in text
    assert text.count("pair      ") == terminal.MAX_PAIRED_LINES + 1


def test_what_was_accepted_is_known_whatever_judged(tmp_path):
    write_json_record(RUN, tmp_path / "record.json")
    results = {result.id: result for result in read_run_record(tmp_path / "record.json").results}
    assert results[WORSE.id].stored == WORSE.accepted
    assert results[UNCLEAR.id].stored is None
    assert results[ALONE.id].stored is results[ALONE.id].baseline


def test_shards_of_different_pairs_are_no_one_run():
    with pytest.raises(UserError, match="expected records with one commit of the pair"):
        merge_run_records([RUN, replace(RUN, pair="ffff")])


@pytest.mark.parametrize(
    ("cause", "text"),
    [
        (OtherVersionFailed(Reason.CRASHED, "exited with code 3"), "crashed there: exited with code 3"),
        (OtherVersionInputs(), "it gets other inputs there, which it reads from files"),
        (OtherVersionOutputs(("a", "b")), "it gives no a, b there, or another shape or dtype"),
        (KnownBadCase(), "declared to be known-bad"),
    ],
)
def test_the_cause_of_a_fallback_has_its_sentence(cause, text):
    fact = replace(ALONE, paired=PairedRun(3, False, cause=cause))
    assert fact.paired.fell_back
    told = add_result_messages(fact)
    assert told.paired == PairedRun(3, False, text, cause)
    assert add_result_messages(told) == told
    assert told.stored is told.baseline
    assert text in "\n".join(describe_paired_run(run_of(told, pair="0c1d2e3f4a5b")))
