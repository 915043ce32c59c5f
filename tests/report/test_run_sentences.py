"""The sentences of findings on a run: every fact has one, and a record keeps the fact."""

from typing import get_args

import msgspec
import pytest
from msgspec.structs import replace

from precreg.report.run_findings import add_run_finding_message, describe_loss, describe_run_finding
from precreg.types.case import Location
from precreg.types.oracle import (
    BenchmarkReplaced,
    OracleBesideSubject,
    OracleCodeChanged,
    OracleDifference,
    OracleFilesChanged,
    OracleFollowsSubject,
    OraclePatched,
    OracleResultsChanged,
    OracleUncompared,
)
from precreg.types.warning import (
    AnalyzerDropped,
    BaselineChanged,
    BaselineRemoved,
    BorrowedBaseline,
    CaseIntroduced,
    CaseRedefined,
    CaseRemoved,
    CaseRenamed,
    CloserBaseline,
    CombinedLoss,
    CumulativeLoss,
    DeclarationDropped,
    ExpectFailureAdded,
    FindingKind,
    FirstBaseline,
    HistoryRemoved,
    KnownBadAccepted,
    LooserLimit,
    LooserScope,
    LooserTime,
    LoweredCount,
    PooledLoss,
    RunFinding,
    RunFindingFact,
    SkipAdded,
    ThresholdsFreed,
    UnreadableBase,
    UnusedAllowance,
)

LOSS = CumulativeLoss("out", "mean_ulp", 1.2534, 1.2512, 1.2534e-6, 1e-6, "2026-11-01", "why", 12, 1.25)
EVERYWHERE = LooserLimit("max_ulp", "bound", 4, 8)
SCOPES = (LooserScope(("float16", "float32", "int8"), 4), LooserScope(("", "y")), LooserScope(("generic",)))

SENTENCES = [
    (BaselineRemoved("b.json", "2026-11-02"), "the baseline accepted on 2026-11-02 was removed from b.json"),
    (BaselineRemoved("b.json", ""), "the baseline accepted on an unknown day was removed from b.json"),
    (
        BaselineChanged("b.json", ("inputs", "analyzers")),
        "the baseline in b.json changed: inputs, metrics of analyzers",
    ),
    (HistoryRemoved("b.json"), "accepted values were removed from b.json: small losses could add up unseen"),
    (KnownBadAccepted("b.json", "bug 4711"), "b.json newly accepts a wrong result as known bad: bug 4711"),
    (FirstBaseline("npu"), "has a first baseline in npu, and HEAD's judges there"),
    (CloserBaseline("b.json", "generic"), "b.json is new, and comes before the baseline of generic, which judged"),
    (BorrowedBaseline("unit/s/b", "unit/s/a"), "judged by the baseline of unit/s/b, formerly of unit/s/a"),
    (BorrowedBaseline("unit/s/b"), "judged by the baseline of unit/s/b, formerly by its own"),
    (CaseRemoved(Location("s.yaml", 3)), "was removed from s.yaml:3"),
    (CaseRenamed("unit/s/a"), "is unit/s/a under another name, and its baseline judges"),
    (CaseIntroduced(), "is new: HEAD's baseline judges"),
    (
        CaseRedefined(("subject", "inputs")),
        "computes something else under the same name: subject, inputs changed; HEAD's baseline judges",
    ),
    (
        OracleFilesChanged("golden", ("a.npy",), OracleDifference("out", 3, 5, 3, 2, 9, (1, 0), 12.5)),
        "files of its golden changed: a.npy; 2 of 9 elements of out at seed 3 differ from the base's "
        "by up to 12.5 ULP, first at [1, 0]",
    ),
    (
        OracleCodeChanged("reference", "k:f", OracleDifference("out", 3, 5, 3, 1, 9, (0,))),
        "the code of its reference k:f changed; 1 of 9 elements of out at seed 3 differ from the base's "
        "in NaN or infinity, first at [0]",
    ),
    (
        OracleCodeChanged("reference", "k:f", OracleDifference("out", 0, 5, 3)),
        "the code of its reference k:f changed; out at seed 0 is missing in one version, or has another shape or dtype",
    ),
    *(
        (
            OracleCodeChanged("reference", "k:f", OracleUncompared(cause, "MESSAGE")),
            f"the code of its reference k:f changed; the results of both versions could not be compared: {why}",
        )
        for cause, why in {
            "base_failed": "the base's fails: MESSAGE",
            "failed": "the present one fails: MESSAGE",
            "not_started": "MESSAGE",
            "other_inputs": "the inputs differ",
            "foreign_files": "the base's opens MESSAGE of the working tree",
            "unsteady": "it gives other bits when it runs again",
            "no_time": "the time for all references of a run was spent",
        }.items()
    ),
    (
        OracleResultsChanged("golden", OracleUncompared("other_inputs")),
        "its golden gives other bits than in the baseline of this environment, and no file shows why; "
        "the results of both versions could not be compared: the inputs differ",
    ),
    (
        OracleFollowsSubject("reference", ("k.py", "l.py")),
        "its reference newly opens files of its subject, which its code does not show: k.py, l.py",
    ),
    (
        OracleBesideSubject("reference", 2),
        "its reference gives other bits beside the subject than in a process of its own, at seed 2",
    ),
    (OracleFilesChanged("golden", ("a.npy", "b.npy")), "files of its golden changed: a.npy, b.npy"),
    (OracleCodeChanged("reference", "k:f"), "the code of its reference k:f changed"),
    (OracleCodeChanged("benchmark", "k:f"), "the code of its benchmark k:f changed"),
    (BenchmarkReplaced("python k:f", "python k:g"), "its benchmark is python k:g, and was python k:f"),
    (OraclePatched("reference", ("np.sum",)), "its subject alters what its reference may use: np.sum"),
    (LoweredCount("seeds", 2, 3), "seeds: 2, and had 3"),
    (AnalyzerDropped("spectrum"), "analyzer spectrum no longer measures it"),
    (ExpectFailureAdded("overflows"), "expect: fail is new: overflows"),
    (DeclarationDropped("exact"), "exact: true was removed: other bits no longer count as a regression"),
    (DeclarationDropped("deterministic"), "deterministic: false is new: repeats may differ"),
    (LooserTime("time_ratio", 1.5), "no time_ratio, and had 1.5"),
    (LooserTime("time_ratio", 1.5, 3.0), "time_ratio: 3, and had 1.5"),
    (LooserTime("timeout", 30.0, 60.0), "timeout: 60 s, and had 30 s"),
    (SkipAdded("requires", "torch"), "requires torch now, and is skipped without it"),
    (SkipAdded("tags", "gate"), "lost the tag gate: a selection by this tag leaves the case out"),
    (EVERYWHERE, "max_ulp has to be at most 8, and had to be at most 4"),
    (
        replace(EVERYWHERE, scopes=SCOPES),
        "max_ulp has to be at most 8, and had to be at most 4 "
        "(float16, float32, int8 and 4 more; other outputs, y; other environments)",
    ),
    (
        LooserLimit("rms_error", "bound", 0.1, 0.1000001),
        "rms_error has to be at most 0.1000001, and had to be at most 0.1",
    ),
    (LooserLimit("max_ulp", "bound", 4), "max_ulp is not bound, and had to be at most 4"),
    (
        LooserLimit("snr", "bound", 60, 20, at_least=True),
        "snr has to be at least 20, and had to be at least 60",
    ),
    (LooserLimit("regression.rms_error", "growth", 0.1, 0.2), "regression.rms_error allows 0.2, and allowed 0.1"),
    (LooserLimit("regression.rms_error", "growth", 0.1), "regression.rms_error is off, and allowed 0.1"),
    (
        LooserLimit("region.low", "region", None, 0.5),
        "region.low is 0.5, and was the shipped one: other elements count",
    ),
    (LooserLimit("alternatives", "alternatives", 2), "no alternative has to hold, and one of 2 had to"),
    (
        LooserLimit("alternatives", "alternatives", now=2),
        "alternative 2 suffices now, and is weaker than every former one",
    ),
    (ThresholdsFreed(), "allow_looser_thresholds is new: PRECISION_THRESHOLDS may replace any bound"),
    (UnreadableBase("line 1: no"), "cannot be read as the base has it, so HEAD's own criteria apply: line 1: no"),
    (
        UnreadableBase("old", 2),
        "2 files cannot be read as the base has it, so HEAD's own criteria apply: old",
    ),
    (
        UnusedAllowance(FindingKind.CASE_REMOVED, "unit/s", merged=True),
        "case_removed of unit/s is merged: the entry permits nothing further, remove it",
    ),
    (
        UnusedAllowance(FindingKind.CASE_REMOVED, "unit/s"),
        "case_removed of unit/s is allowed, and nothing uses that: remove the entry",
    ),
    (
        LOSS,
        "mean_ulp of out is 1.253 times (at least 1.251) the value accepted on 2026-11-01 (why), in 12 steps: "
        "1.253e-06 against 1e-06; 1.25 times are allowed",
    ),
    (
        CombinedLoss(24, "mean_abs_error", 1.06, 1.04, 1e-9),
        "24 cases together: mean_abs_error is 1.06 times the baseline's, and at least 1.04 (p-value 1e-09)",
    ),
    (
        PooledLoss(24, "float16", "max_ulp", 1.06, 1.04, 1e-9),
        "24 cases of float16 together, on fresh inputs: max_ulp is 1.06 times the accepted version's, and at least "
        "1.04 (p-value 1e-09)",
    ),
]


def finding(fact, **fields):
    return RunFinding(FindingKind.BOUND_LOOSENED, "unit/s/a", fact=fact, **fields)


@pytest.mark.parametrize(("fact", "text"), SENTENCES)
def test_a_fact_has_its_sentence(fact, text):
    assert describe_run_finding(finding(fact)) == text
    assert add_run_finding_message(finding(fact)) == finding(fact, message=text)


@pytest.mark.parametrize("fact", [fact for fact, _ in SENTENCES])
def test_a_record_keeps_a_fact(fact):
    assert msgspec.json.decode(msgspec.json.encode(finding(fact)), type=RunFinding) == finding(fact)


def test_every_fact_is_among_them():
    assert {type(fact) for fact, _ in SENTENCES} == set(get_args(RunFindingFact))


def test_a_message_that_is_there_stays():
    old = RunFinding(FindingKind.CREEP, "unit/s/a", "1.3 times, as an old record has it")
    assert add_run_finding_message(old) == old


def test_a_changed_baseline_names_the_average_that_grew_most():
    changed = finding(BaselineChanged("b.json", ("figures",), "rms_error", "out"), factor=1.2345)
    text = "the baseline in b.json changed: figures; rms_error of out is 1.23 times the accepted value"
    assert describe_run_finding(changed) == text


def test_a_cumulative_loss_without_bound_budget_or_reason_is_said_without_them():
    loss = replace(LOSS, lower=0.0, allowed=None, reason="", steps=1)
    assert describe_loss(loss) == (
        "mean_ulp of out is 1.253 times (too few samples to separate from noise) the value accepted on 2026-11-01, "
        "in 1 step: 1.253e-06 against 1e-06"
    )
