"""Small entries, results and stores that the tests of this folder share."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

from precreg.baseline.proposal_file import Proposal, replace_proposals
from precreg.baseline.store import lock_baselines
from precreg.types.case import Location
from precreg.types.outcome import Comparison, Execution, Histogram, Outcome
from precreg.types.record import (
    AcceptedValue,
    Baseline,
    BaselineEntry,
    BaselineOutput,
    CaseResult,
    Environment,
    GitState,
)
from precreg.types.verdict import Reason, Status, Verdict

ROAD = Path(__file__).parents[1] / "golden" / "road"
ENVIRONMENT = Environment("cpu-x86_64", ("cpu-x86_64", "cpu", "generic"), "6f2a90c1", {})
GIT = GitState("1a2b3c4d", "main", False, "Ada <ada@example.org>")
KNOWN = [f"{suite}/{name}" for suite in ("unit/a", "model/b", "unit/softmax") for name in ("x", "y", "z", "xy")]
REVIEW = {
    "known": KNOWN,
    "reason": "float32 accumulator",
    "author": "Ada <ada@example.org>",
    "date": "2026-11-02",
    "environ": {},
}


def entry(definition: str = "1:aa", error: float = 0.25, reason: str = "") -> BaselineEntry:
    output = BaselineOutput("float16", (8,), ["d0", "d1"], {"mean_abs_error": [error, error], "bias": [None, -error]})
    sketch = {"out": Histogram(1, [4080, 4084], [7, 8])}
    return BaselineEntry(definition, ["i0", "i1"], reason, "", "", "", "6f2a90c1", 0.5, {"out": output}, sketch)


ENTRY = entry()


def outcome(id: str, error: float = 0.25, definition: str = "1:aa") -> Outcome:
    comparisons = tuple(
        Comparison(
            "out",
            seed,
            "float16",
            (8,),
            "float64",
            (8,),
            {"mean_abs_error": error},
            histogram=Histogram(0, [4080], [8]),
        )
        for seed in (0, 1)
    )
    return Outcome(id, definition, Execution(("i0", "i1"), {"out": ("d0", "d1")}, 0.5), comparisons)


NOTHING_TO_ACCEPT = (Reason.IDENTICAL, Reason.OUT_OF_TOLERANCE, Reason.NON_FINITE_MISMATCH, Reason.CRASHED)


def result(id: str, reason: Reason, *, error: float = 0.25, found: str | None = None, borrowed: str = "") -> CaseResult:
    status = {Reason.CRASHED: Status.ERROR, Reason.UNAVAILABLE: Status.SKIPPED}.get(reason, Status.PASSED)
    tier, suite, name = id.split("/")
    return CaseResult(
        id=id,
        tier=tier,
        suite=suite,
        name=name,
        source=Location("suites/unit/a.yaml", 1),
        role="reference",
        definition="1:aa",
        parameters={},
        tags=(),
        outcome=outcome(id, error),
        verdict=Verdict(status, reason, ""),
        baseline=None if found is None else Baseline(entry(), found, ""),
        baseline_id=borrowed or id,
        acceptable=reason not in NOTHING_TO_ACCEPT,
    )


def store_proposals(project: Path, *ids: str, entry: BaselineEntry | None = None, environment: str = "generic") -> None:
    proposal = Proposal(Reason.NEW, environment, None, entry or ENTRY)
    with lock_baselines(project):
        replace_proposals(project, dict.fromkeys(ids, proposal))


finite = st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(0, 2**40)
texts = st.text(max_size=12)


@st.composite
def histograms(draw: st.DrawFn) -> Histogram:
    bins = sorted(draw(st.sets(st.integers(0, 8187), max_size=6)))
    return Histogram(draw(counts), bins, [draw(counts) for _ in bins])


@st.composite
def entries(draw: st.DrawFn) -> BaselineEntry:
    seeds = draw(st.integers(0, 3))
    per_seed = st.lists(st.none() | finite, min_size=seeds, max_size=seeds)
    digests = st.lists(texts, min_size=seeds, max_size=seeds)
    shape = st.lists(st.integers(0, 9), max_size=3).map(tuple)
    output = st.builds(BaselineOutput, texts, shape, digests, st.dictionaries(texts, per_seed, max_size=3))
    reach = st.dictionaries(texts, st.dictionaries(texts, finite.map(abs), max_size=2), max_size=2)
    means = st.dictionaries(texts, st.dictionaries(texts, per_seed, max_size=2), max_size=2)
    value = st.builds(AcceptedValue, texts, texts, texts, texts, texts, means, reach, st.integers(1, 99), texts)
    return draw(
        st.builds(
            BaselineEntry,
            definition=texts,
            inputs=digests,
            reason=texts,
            author=texts,
            date=texts,
            commit=texts,
            fingerprint=texts,
            duration_s=finite,
            outputs=st.dictionaries(texts, output, max_size=2),
            sketch=st.dictionaries(texts, histograms(), max_size=2),
            reach=reach,
            confirmation=texts,
            accepted=st.lists(value, max_size=3),
            processor=texts,
            seen=st.lists(texts, max_size=2),
        )
    )
