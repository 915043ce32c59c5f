"""The sentences of findings and verdicts: every fact has one, and figures that differ never read the same."""

from math import inf
from typing import get_args

import msgspec
import pytest
from msgspec.structs import replace

from precreg.report.findings import (
    add_finding_message,
    add_messages,
    add_result_messages,
    add_verdict_messages,
    describe_difference,
    describe_environment_difference,
    describe_finding,
)
from precreg.report.two_runs_text import describe_disagreement
from precreg.run.rerun import Disagreement
from precreg.types.case import Bound, Location
from precreg.types.pair import (
    BetterOnFreshInputs,
    ClearOnFreshInputs,
    FailedOnFreshInputs,
    NonFiniteOnFreshInputs,
    UnclearOnFreshInputs,
    WorseOnFreshInputs,
)
from precreg.types.record import Environment
from precreg.types.recorded import AbsentFigures, FigureMoved, NonFiniteFigures
from precreg.types.verdict import (
    AbsentArray,
    AbsentOutput,
    BitsNotExact,
    BoundsHold,
    BrokenBound,
    BrokenLimit,
    ChangedBits,
    ChangedEnvironment,
    DefinitionChanged,
    EnvironmentFact,
    ExactnessGained,
    ExactnessLost,
    Finding,
    FindingFact,
    FirstElement,
    InputsChanged,
    KnownBadFixed,
    LargestRatio,
    MatchesLost,
    MaximaGrew,
    MetricGrew,
    MetricImproved,
    NewOutput,
    NoAlternative,
    NoBaseline,
    NoCommonName,
    NoElement,
    NoFinitePair,
    NonFiniteElements,
    NonFiniteMoved,
    NothingCompared,
    NotRegressed,
    OtherDtype,
    OtherEnvironment,
    OtherShape,
    RatioMoved,
    Reason,
    RepeatDifference,
    RoundingLost,
    SameBits,
    SameDescription,
    SameElements,
    SideContents,
    SmallOutputGrew,
    Status,
    TimeGrew,
    UndeclaredDifference,
    UnjudgedOutputs,
    UnknownEnvironment,
    Verdict,
)
from precreg.verdict.judge import Policy, judge_case
from tests.report.made import passed, run_of
from tests.verdict.drawn import FINGERPRINT, accepted, errors, outcome, tolerance
from tests.verdict.made import case

PLACE = Location("s.yaml", 4)
CLOSENESS = (Bound("rtol", 1e-5, "suite", PLACE), Bound("atol", 0.0, "suite", Location("precreg:standards/x")))
MATCHES = BrokenLimit("match_ratio", 1.0, 0.99, at_least=True)
RMS = BrokenLimit("rms_error", 0.1)
CHANGED = ChangedBits()
LARGEST = LargestRatio("out", "rms_error", 1.0004, 0.99, 1.0312, 1.02)
DIFFERENCE = RepeatDifference("out", 0, 2)
NUMPY = ChangedEnvironment((EnvironmentFact("numpy", "2.3.5", "2.5.1"),))

FIGURES = {"output": "out", "metric": "mean_abs_error", "current": 4.9e-6, "baseline": 1e-6, "ratio": 4.9, "limit": 1.1}
STATISTIC = FIGURES | {"limit": 1.02, "lower": 4.8, "upper": 5.0, "floor": 1.05}
LOG = STATISTIC | {"metric": "mean_log2_ulp"}
BIAS = STATISTIC | {"metric": "bias", "ratio": 1.4, "lower": 1.3, "upper": 1.5}

COMMIT = "1a2b3c4d5e6f"

SENTENCES = [
    (AbsentOutput("golden"), {"output": "out"}, "the subject gave no output 'out', which the golden has"),
    (AbsentOutput("baseline"), {"output": "out"}, "the baseline has an output 'out' that is gone"),
    (NothingCompared(), {}, "nothing was compared: neither side gave an output"),
    (AbsentArray("actual", "w"), {}, "the actual side has no array 'w'"),
    (
        NoCommonName(SideContents("a", ("x", "y"), 2), SideContents("b", ())),
        {},
        "nothing was compared: no name is on both sides (a has x, y and 2 more, b has no array)",
    ),
    (OtherShape((2, 3), (), "oracle"), {}, "expected shape 2x3 but got shape=scalar"),
    (OtherShape((2, 3), (6,), "baseline"), {}, "expected the baseline's shape 2x3 but got 6"),
    (OtherDtype("float32", "float16", "golden"), {}, "expected the golden's dtype float32 but got dtype=float16"),
    (OtherDtype("float32", "float16", "benchmark"), {}, "expected the benchmark's dtype float32 but got dtype=float16"),
    (OtherDtype("float32", "float16", "baseline"), {}, "expected the baseline's dtype float32 but got dtype=float16"),
    (NonFiniteElements(3, 100), {}, "3 of 100 elements differ in NaN or infinity"),
    (
        NonFiniteElements(1, 100, FirstElement(7, "nan", 1.5)),
        {},
        "1 of 100 elements differ in NaN or infinity, first at 7: actual nan, reference 1.5",
    ),
    (NoElement((0, 3)), {}, "shape 0x3 has no element"),
    (NoFinitePair(), {}, "not one pair of elements is finite, so nothing was measured"),
    (
        BrokenBound(MATCHES, "suite", CLOSENESS),
        {"source": PLACE},
        "match_ratio is 0.99, and must be at least 1 (suite, s.yaml:4) "
        "at rtol=1e-05 (s.yaml:4), atol=0 (precreg:standards/x)",
    ),
    (
        BrokenBound(BrokenLimit("mare_ratio", 10.0, lacks_benchmark=True), "suite"),
        {"source": PLACE},
        "mare_ratio needs a benchmark, and must be at most 10 (suite, s.yaml:4)",
    ),
    (
        BrokenBound(BrokenLimit("mare_ratio", 1.1, 1.58, error=1.58e-7, benchmark_error=1e-7), "suite"),
        {"source": PLACE},
        "mare_ratio is 1.58 (1.58e-07, the benchmark's 1e-07), and must be at most 1.1 (suite, s.yaml:4)",
    ),
    (
        BrokenBound(BrokenLimit("floored_mare_ratio", 2, 2.5, error=2e-4, benchmark_error=1e-7, floor=8e-5), "suite"),
        {"source": PLACE},
        "floored_mare_ratio is 2.5 (0.0002, the benchmark's 1e-07, which counts as 8e-05), and must be at most 2 "
        "(suite, s.yaml:4)",
    ),
    (
        BrokenBound(BrokenLimit("mare_ratio", 1.1, error=1.58e-7, benchmark_error=0.0), "suite"),
        {"source": PLACE},
        "mare_ratio is infinite (1.58e-07, the benchmark's 0), and must be at most 1.1 (suite, s.yaml:4)",
    ),
    (
        NoAlternative(((BrokenLimit("mean_ulp", 64, 70.5),), (RMS, BrokenLimit("max_ulp", 1e6, 2e6))), "standard x"),
        {"source": PLACE},
        "none of 2 alternatives holds: mean_ulp is 70.5, and must be at most 64; or rms_error is not defined on this "
        "data, and must be at most 0.1, and max_ulp is 2000000, and must be at most 1000000 (standard x, s.yaml:4)",
    ),
    (NoBaseline(("cpu-x86_64", "generic")), {}, "no baseline in cpu-x86_64, generic"),
    (NewOutput("b.json"), {"output": "m"}, "output 'm' has no baseline in b.json"),
    (
        DefinitionChanged("b.json"),
        {},
        "the definition of the case changed since b.json was accepted (subject, reference, params or inputs)",
    ),
    (InputsChanged("b.json"), {}, "the inputs changed since b.json was accepted, with the same definition"),
    (BitsNotExact(), {}, "the case is declared exact, and its bits are not the baseline's"),
    (
        ExactnessLost(),
        FIGURES | {"baseline": 0.0},
        "the output was exact at every seed, and is not: mean_abs_error was 0 and is 4.9e-06",
    ),
    (
        ExactnessGained(),
        FIGURES | {"current": 0.0},
        "the output is exact at every seed, and was not: mean_abs_error is 0 and was 1e-06",
    ),
    (
        MatchesLost(),
        {"metric": "match_ratio", "current": 0.99993, "baseline": 1.0},
        "match_ratio against the golden fell from 1 to 0.99993; any loss counts",
    ),
    (
        MatchesLost(tested=True),
        {"metric": "match_ratio", "current": 0.5, "baseline": 1.0},
        "match_ratio against the golden fell from 1 to 0.5; more than runs differ by",
    ),
    (
        RatioMoved(),
        STATISTIC,
        "mean_abs_error grew 4.9x over the baseline (1e-06 -> 4.9e-06, between 4.8 and 5; noise alone: up to 1.05x)",
    ),
    (
        RatioMoved(0.0, 2.0),
        STATISTIC | {"floor": inf},
        "mean_abs_error grew 4.9x over the baseline (1e-06 -> 4.9e-06, between 4.8 and 5; noise alone: unbounded)"
        "; its maximum rose from 0 to 2",
    ),
    (
        RatioMoved(1.0, 2.0),
        LOG | {"current": None},
        "mean_log2_ulp grew 4.9x over the baseline in the scale of each element (between 4.8 and 5; "
        "noise alone: up to 1.05x); its maximum rose from 1 to 2, 2 times",
    ),
    (RatioMoved(), BIAS, "bias grew by 0.4 of the mean |d| (1e-06 -> 4.9e-06, between 0.3 and 0.5)"),
    (
        MetricGrew("benchmark"),
        FIGURES,
        "mean_abs_error grew 4.9x over the benchmark (1e-06 -> 4.9e-06, allowed 1.1x)",
    ),
    (
        RatioMoved(judge="benchmark"),
        STATISTIC | {"current": 2e-06, "baseline": 4e-06, "ratio": 0.5, "lower": 0.4, "upper": 0.6},
        "mean_abs_error fell to 0.5x of the benchmark (4e-06 -> 2e-06, between 0.4 and 0.6; noise alone: up to 1.05x)",
    ),
    (
        ExactnessLost("benchmark"),
        FIGURES | {"baseline": 0.0},
        "the benchmark is exact, and the output is not: its mean_abs_error is 4.9e-06",
    ),
    (
        RatioMoved(typical=True),
        STATISTIC | {"metric": "rms_ulp"},
        "rms_ulp grew 4.9x over the baseline in the scale of each element in a typical group of elements "
        "(1e-06 -> 4.9e-06, between 4.8 and 5; noise alone: up to 1.05x)",
    ),
    (
        RatioMoved(),
        BIAS | {"ratio": 0.6, "lower": 0.5, "upper": 0.7},
        "bias fell by 0.4 of the mean |d| (1e-06 -> 4.9e-06, between 0.3 and 0.5)",
    ),
    (
        SmallOutputGrew(1, 3),
        FIGURES,
        "mean_abs_error grew 4.9x over the baseline (1e-06 -> 4.9e-06, allowed 1.1x), of 1 element at 3 seeds",
    ),
    (
        SmallOutputGrew(1, 1, judge="benchmark"),
        FIGURES,
        "mean_abs_error grew 4.9x over the benchmark (1e-06 -> 4.9e-06, allowed 1.1x), of 1 element at 1 seed",
    ),
    (
        MetricImproved("benchmark"),
        FIGURES | {"ratio": 0.5, "limit": 0.8},
        "mean_abs_error fell to 0.5x of the benchmark (1e-06 -> 4.9e-06, an improvement from 0.8x)",
    ),
    (
        ExactnessGained("benchmark"),
        FIGURES,
        "the output is exact, and the benchmark is not: its mean_abs_error is 1e-06",
    ),
    (
        MaximaGrew(18, 24),
        FIGURES,
        "mean_abs_error grew 4.9x over the baseline (1e-06 -> 4.9e-06, allowed 1.1x): "
        "at 18 of 24 seeds above every maximum of the baseline",
    ),
    (MetricGrew(), FIGURES, "mean_abs_error grew 4.9x over the baseline (1e-06 -> 4.9e-06, allowed 1.1x)"),
    (
        MetricGrew(),
        {"metric": "match_ratio", "current": 0.5, "baseline": 1.0, "ratio": 0.5, "limit": 0.9},
        "match_ratio fell to 0.5x of the baseline (1 -> 0.5, allowed 0.9x)",
    ),
    (
        RatioMoved(),
        STATISTIC | {"current": 2e-06, "baseline": 4e-06, "ratio": 0.5, "lower": 0.4, "upper": 0.6},
        "mean_abs_error fell to 0.5x of the baseline (4e-06 -> 2e-06, between 0.4 and 0.6; noise alone: up to 1.05x)",
    ),
    (
        MetricImproved(),
        {"metric": "mean_ulp", "current": 1.0, "baseline": 2.0, "ratio": 0.5, "limit": 0.8},
        "mean_ulp fell to 0.5x of the baseline (2 -> 1, an improvement from 0.8x)",
    ),
    (
        NonFiniteMoved(3, 5, 0, 1),
        {"output": "out"},
        "5 elements differ in NaN and 1 in infinity; 3 and 0 did in the baseline that is known to be bad",
    ),
    (
        KnownBadFixed("bug 4711"),
        {},
        "every bound holds; the baseline was accepted as known bad (bug 4711), so accept an ordinary one",
    ),
    (MetricGrew(), FIGURES | {"baseline": 0.0, "ratio": None}, "mean_abs_error was 0 and is 4.9e-06"),
    (
        TimeGrew(),
        {"metric": "duration_s", "current": 0.9, "baseline": 0.5},
        "the subject took 0.9 s, 1.8 times the baseline's 0.5 s",
    ),
    (UndeclaredDifference(first=True), {"output": "out"}, "starts in output 'out'"),
    (
        UndeclaredDifference(first=False, difference=DIFFERENCE),
        {"output": "m"},
        "differs too: missing in one of them, or of another shape or dtype, between run 1 and 2 of seed 0",
    ),
    (SameBits(), {}, "every output has the baseline's bits"),
    (
        SameBits(seeds=1, runs=3),
        {},
        "every output has the baseline's bits; seeds from 1 on have no baseline; "
        "all 3 runs of each seed agree, so `deterministic: false` may not be needed",
    ),
    (
        NotRegressed(CHANGED, LARGEST),
        {},
        "bits changed, and no judged metric is worse: out: rms_error is 1.0004 times the baseline's, "
        "between 0.99 and 1.03",
    ),
    (
        NotRegressed(CHANGED, LARGEST, rounding=(RoundingLost("out", 0.99, 0.9, 3, 0.125),)),
        {},
        "bits changed, and no judged metric is worse: out: rms_error is 1.0004 times the baseline's, "
        "between 0.99 and 1.03; out: 99 % -> 90 % of the elements are correctly rounded, fewer at each of 3 seeds "
        "(p = 0.12 by the sign test)",
    ),
    (
        NotRegressed(
            ChangedBits("undecided"),
            unjudged=(UnjudgedOutputs("few_samples", ("a", "b")), UnjudgedOutputs("statistic_off", ("c",))),
        ),
        {},
        "bits may change from run to run, as declared, and a, b: fewer than 5 samples; c: statistic is off, "
        "so only bounds apply",
    ),
    (
        NotRegressed(
            ChangedBits("repeats", "out"),
            unjudged=(UnjudgedOutputs("few_samples", ("out",)),),
            has_thresholds=True,
            runs=2,
        ),
        {},
        "repeats differ as declared, starting in output 'out', and out: fewer than 5 samples, so only bounds and "
        "thresholds apply; all 2 runs of each seed agree, so `deterministic: false` may not be needed",
    ),
    (SameElements(), {}, "every element is the reference's, to the bit, in the actual's dtype"),
    (BoundsHold(), {}, "every bound holds"),
    (
        WorseOnFreshInputs(COMMIT, 20),
        {"metric": "mean_ulp", "current": 0.33, "baseline": 0.3, "ratio": 1.1, "lower": 1.06, "upper": 1.14},
        "mean_ulp grew 1.1x over 1a2b3c4d on 20 fresh seeds (0.3 -> 0.33, 95 % CI 1.06 to 1.14)",
    ),
    (
        WorseOnFreshInputs(COMMIT, 40),
        {"metric": "outward_bias", "current": 0.2, "baseline": 0.0, "ratio": 1.2, "lower": 1.15, "upper": 1.25},
        "outward_bias grew by 0.2 of the mean |error| over 1a2b3c4d on 40 fresh seeds (95 % CI 0.15 to 0.25)",
    ),
    (
        BetterOnFreshInputs(COMMIT, 20),
        {"metric": "mean_ulp", "current": 0.24, "baseline": 0.3, "ratio": 0.8, "lower": 0.78, "upper": 0.82},
        "mean_ulp shrank to 0.8x against 1a2b3c4d on 20 fresh seeds (0.3 -> 0.24, 95 % CI 0.78 to 0.82)",
    ),
    (
        NonFiniteOnFreshInputs(COMMIT, 3, 0, 2),
        {},
        "2 elements differ in NaN or infinity on fresh seed 3, where 1a2b3c4d has 0",
    ),
    (
        FailedOnFreshInputs(COMMIT, "ValueError: no such length"),
        {},
        "ValueError: no such length, on a fresh input that 1a2b3c4d computes",
    ),
    (
        ClearOnFreshInputs(COMMIT, 20, same_bits=True),
        {},
        "bits changed against the baseline, and on 20 fresh seeds they equal the bits of 1a2b3c4d",
    ),
    (
        ClearOnFreshInputs(COMMIT, 40, False, "y", "max_ulp", 1.083),
        {},
        "bits changed, and no relevant loss on 40 fresh seeds beside 1a2b3c4d: y: max_ulp grew at most 1.083x (95 %)",
    ),
    (
        UnclearOnFreshInputs(COMMIT, 80, "max_seeds", "y", "max_ulp", 1.19, 1.03, 1.2, 160),
        {},
        "bits changed, and 80 fresh seeds beside 1a2b3c4d neither prove nor exclude a relevant loss: max_ulp grew "
        "at most 1.19x, averages at most 1.03x (95 %); about 160 seeds would find a loss of 1.2x; --max-seeds "
        "allows more",
    ),
    (
        UnclearOnFreshInputs(COMMIT, 80, "case_seconds", "y", "bias", 1.12, 1.03),
        {},
        "bits changed, and 80 fresh seeds beside 1a2b3c4d neither prove nor exclude a relevant loss: bias grew by at "
        "most 0.12 of the mean |error|, averages at most 1.03x (95 %); --pair-seconds allows more",
    ),
    (
        UnclearOnFreshInputs(COMMIT, 20, "run_seconds", "y", "rms_ulp", 1.12, 1.12),
        {},
        "bits changed, and 20 fresh seeds beside 1a2b3c4d neither prove nor exclude a relevant loss: rms_ulp grew "
        "at most 1.12x (95 %); --pair-run-seconds allows more",
    ),
    (
        UnclearOnFreshInputs(COMMIT, 0, "run_seconds"),
        {},
        "bits changed, and the budget allowed no seed beside 1a2b3c4d; --pair-run-seconds allows more",
    ),
    (
        AbsentFigures(("max_ulp", "mean_ulp"), Location("sweep.csv", 7)),
        {},
        "the row has no figure of max_ulp, mean_ulp (sweep.csv:7): its cell is empty",
    ),
    (
        AbsentFigures((), Location("sweep.csv", 0)),
        {},
        "sweep.csv has no row of this case, and its baseline has one "
        "(the sweep ended early, or the row was removed: precreg baseline prune)",
    ),
    (
        NonFiniteFigures({"max_ulp": "nan"}, Location("sweep.csv", 7)),
        {},
        "the row has figures that are not finite: max_ulp is nan (sweep.csv:7)",
    ),
    (
        FigureMoved(),
        {"metric": "max_ulp", "current": 3.0, "baseline": 2.0, "ratio": 1.5, "limit": 1.1},
        "the error max_ulp grew to 1.5 times the baseline's (2 -> 3; allowed 1.1 times), by figures alone",
    ),
    (
        UnclearOnFreshInputs(COMMIT, 2, "case_seconds"),
        {},
        "bits changed, and the budget allowed only 2 fresh seeds beside 1a2b3c4d; --pair-seconds allows more",
    ),
]


@pytest.mark.parametrize(("fact", "fields", "text"), SENTENCES)
def test_a_fact_has_its_sentence(fact, fields, text):
    found = Finding(Reason.REGRESSED, fact=fact, **fields)
    assert describe_finding(found) == text
    assert add_finding_message(found) == replace(found, message=text)


@pytest.mark.parametrize("fact", [fact for fact, _, _ in SENTENCES])
def test_a_record_keeps_a_fact(fact):
    found = Finding(Reason.REGRESSED, fact=fact)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Finding) == found


def test_every_fact_is_among_them():
    assert {type(fact) for fact, _, _ in SENTENCES} == set(get_args(FindingFact))


def test_a_message_that_is_there_stays():
    quoted = Finding(Reason.CRASHED, "killed by SIGKILL")
    assert add_finding_message(quoted) == quoted
    old = Verdict(
        Status.FAILED, Reason.REGRESSED, "worse, as an old record has it", (replace(quoted, fact=BoundsHold()),)
    )
    assert add_verdict_messages(old) == old


def verdict_of(reason, *findings, **fields):
    return add_verdict_messages(Verdict(Status.FAILED, reason, findings=findings, **fields)).message


def test_a_verdict_has_the_sentence_of_its_worst_finding_and_its_output():
    grown, second = Finding(Reason.REGRESSED, fact=MetricGrew(), **FIGURES), Finding(Reason.REGRESSED, "more", "out")
    text = "out: mean_abs_error grew 4.9x over the baseline (1e-06 -> 4.9e-06, allowed 1.1x)"
    assert verdict_of(Reason.REGRESSED, grown, second) == f"{text}, though within tolerance"
    differing = Finding(Reason.NONDETERMINISTIC, output="out", fact=UndeclaredDifference(first=True))
    assert verdict_of(Reason.NONDETERMINISTIC, differing) == "starts in output 'out'"
    assert verdict_of(Reason.SUBJECT_ERROR, Finding(Reason.SUBJECT_ERROR, "ValueError: no")) == "ValueError: no"


def test_the_environment_of_a_baseline_from_another_one_is_named():
    accepted_in = OtherEnvironment("generic", NUMPY)
    told = "; by the baseline of generic, accepted in another environment: numpy 2.3.5 -> 2.5.1"
    bits = Finding(Reason.REGRESSED, fact=BitsNotExact())
    text = "the case is declared exact, and its bits are not the baseline's, though within tolerance"
    assert verdict_of(Reason.REGRESSED, bits, accepted_in=accepted_in) == text + told


def test_a_declaration_as_known_bad_is_named_with_its_reason():
    fields = {"declared": "overflows int32", "underlying": Reason.OUT_OF_TOLERANCE}
    broken = Finding(Reason.OUT_OF_TOLERANCE, "too far", "out")
    assert verdict_of(Reason.EXPECTED_FAILURE, broken, **fields) == (
        "failed as declared (overflows int32): out_of_tolerance: out: too far"
    )
    fine = Finding(Reason.WITHIN_TOLERANCE, fact=BoundsHold())
    assert verdict_of(Reason.UNEXPECTED_PASS, fine, **fields) == (
        "declared known-bad (overflows int32), yet it passed: every bound holds; remove expect: fail"
    )


def test_a_record_gets_the_words_of_its_verdicts_and_baselines():
    found = Verdict(Status.PASSED, Reason.IDENTICAL, findings=(Finding(Reason.IDENTICAL, fact=SameBits()),))
    plain = passed(verdict=found)
    moved = replace(plain, baseline=replace(plain.baseline, difference=NUMPY))
    (result,) = add_messages(run_of(moved)).results
    assert result == add_result_messages(moved) == add_result_messages(result)
    assert (result.verdict.message, result.baseline.change) == (
        "every output has the baseline's bits",
        "numpy 2.3.5 -> 2.5.1",
    )
    assert result.stored is result.baseline


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ((EnvironmentFact("torch", None, "2.13"),), "torch 2.13 new"),
        ((EnvironmentFact("torch", "2.13"), EnvironmentFact("cpu", "a", "b")), "torch 2.13 gone, cpu a -> b"),
        ((EnvironmentFact("cpu_features", "A B", "B C"),), "cpu_features without A and with C"),
        ((EnvironmentFact("cpu_features", "A B", "B A"),), "cpu_features in another order"),
    ],
)
def test_environments_differ_by_their_facts(facts, text):
    assert describe_environment_difference(ChangedEnvironment(facts)) == text


def test_environments_of_one_description_are_named():
    same = SameDescription("beef", "f00d")
    assert describe_environment_difference(same) == "environments beef and f00d have the same description"


def test_an_environment_of_which_nothing_is_known_is_named():
    assert describe_environment_difference(UnknownEnvironment("beef")) == "nothing is kept of the environment beef"


def test_a_rerun_that_disagrees_says_how():
    worse = Verdict(Status.FAILED, Reason.REGRESSED, findings=(Finding(Reason.REGRESSED, "grew", "out"),))
    told = [describe_disagreement(Disagreement(cause, worse, 1, 2)) for cause in ("changed", "bits", "verdict")]
    assert told == [
        "rerun 1 of 2 differs: regressed: the case changed since the proposal",
        "rerun 1 of 2 differs: its bits are not the proposal's",
        "rerun 1 of 2 differs: regressed against the proposal: out: grew, though within tolerance",
    ]
    assert "only pytest can run it again" in describe_disagreement(Disagreement("untested"))


@pytest.mark.parametrize(
    ("difference", "text"),
    [
        (None, ""),
        (
            RepeatDifference("out", 0, 2, (0, 37), 12, 512, 1.1920929e-07),
            " at [0, 37]: 12 of 512 elements differ, by at most 1.19e-07, between run 1 and 2 of seed 0",
        ),
        (
            RepeatDifference("out", 1, 3, (5,), 1, 9, 0.5, 0),
            " at [5]: 1 of 9 elements differs, by at most 0.5, between run 1 and 3 of seed 1",
        ),
        (
            RepeatDifference("out", 0, 2, (), 1, 1, None, 1),
            ": 1 of 1 elements differs, 1 of them NaN or infinite, between run 1 and 2 of seed 0",
        ),
        (
            RepeatDifference("out", 0, 2, (0,), 3, 4, 2.0, 1),
            " at [0]: 3 of 4 elements differ, 1 of them NaN or infinite, by at most 2, between run 1 and 2 of seed 0",
        ),
        (
            RepeatDifference("out", 0, 2, (0,), 1, 4, 0.0),
            " at [0]: 1 of 4 elements differs, in their bits alone, between run 1 and 2 of seed 0",
        ),
        (
            RepeatDifference("out", 0, 2, (0,), 2, 4, None),
            " at [0]: 2 of 4 elements differ, by more than float64 holds, between run 1 and 2 of seed 0",
        ),
        (
            RepeatDifference("out", 0, 2),
            ": missing in one of them, or of another shape or dtype, between run 1 and 2 of seed 0",
        ),
    ],
)
def test_a_difference_says_where_and_by_how_much(difference, text):
    assert describe_difference(difference) == text


HERE = Environment("cpu-x86_64", ("cpu-x86_64", "cpu", "generic"), FINGERPRINT, {})


def verdict(now, limits=None):
    found = accepted(outcome(errors, 3))
    on = outcome(now, 3, name="b")
    return judge_case(case(), on, {"out": limits or tolerance()}, found, HERE, Policy(baselines=600))


def test_what_differs_never_looks_alike():
    """A loss below a thousandth is told as one, and a lower bound above the material ratio reads so."""
    given = verdict(lambda seed: 1.0004 * errors(seed), limits=tolerance(statistic=1e-5))
    (found,) = (finding for finding in given.findings if finding.metric == "mean_abs_error")
    told = describe_finding(found)
    assert "grew 1.0004x over the baseline" in told
    assert " 1 and" not in told
    assert " and 1;" not in told
    given = verdict(lambda seed: 1.0204 * errors(seed))
    (found,) = (finding for finding in given.findings if finding.metric == "mean_abs_error")
    assert ", between 1.0203 and 1.0205; noise" in describe_finding(found)


@pytest.mark.parametrize("factor", [1.0203, 1.1])
def test_a_ratio_that_is_worse_reads_as_more_than_noise_alone(factor):
    given = verdict(lambda seed: factor * errors(seed))
    assert given.reason is Reason.REGRESSED
    for words in map(describe_finding, given.findings):
        told = words.partition("x over")[0].rpartition(" ")[2], words.rpartition("up to ")[2].removesuffix("x)")
        ratio, noise = map(float, told)
        assert ratio > noise > 1
