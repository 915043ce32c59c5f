"""Is a version good or bad, beside the good one?

The bits of the good version are good and the bits of the bad version are bad, without a further test. Other bits are
judged on the seeds of the case first, and then on fresh seeds, as in a pair of versions (docs/pairs.md).
"""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import NamedTuple

from msgspec.structs import replace

from precreg.baseline import entry_from
from precreg.diagnose.bisection.process import CodeVersion, SeedRange, VersionRun, read_arrays, run_version
from precreg.measure import METRICS
from precreg.run import (
    PairOfFigures,
    compare_with_oracle,
    is_open,
    judge_outcome,
    pair_figures,
    paired_output,
)
from precreg.types import (
    PAIRED_LOSS,
    Baseline,
    BisectionRule,
    BisectionStatus,
    BisectionStep,
    Budget,
    Case,
    CaseResult,
    Comparison,
    Environment,
    Execution,
    Failure,
    Layer,
    Outcome,
    Reason,
    RepeatDifference,
    Status,
    VersionVerdict,
)
from precreg.verdict import Look, Policy, case_alpha, judge_look
from precreg.verdict.statistics import looks

# Two runs show most differences between repeats.
_REPEATS = 2
_BASELINE_LABEL = "bisection"


class SearchBudget(NamedTuple):
    """The most fresh seeds of one paired test, and the most seconds of one."""

    seeds: int = 640
    seconds: float = 20.0


class Ends(NamedTuple):
    """The judgement of both ends: the status of the search if it ends here, and the rule for versions between."""

    status: BisectionStatus | None
    rule: BisectionRule
    steps: tuple[BisectionStep, ...]


class VersionJudge:
    """Judges versions of one case beside the good one. Its files are in a temporary folder of the caller's."""

    def __init__(
        self,
        case: Case,
        project: Path,
        environment: Environment,
        budget: SearchBudget,
        folder: Path,
        rule: BisectionRule | None,
    ) -> None:
        """Prepare; without a `rule` the ends choose it."""
        repeats = max(case.repeats, _REPEATS) if case.deterministic else case.repeats
        # Versions are compared with each other: a time, a benchmark and a declared failure judge nothing.
        layers = case.layers if case.benchmark is None else tuple(map(_without_benchmark, case.layers))
        self.case = replace(case, repeats=repeats, layers=layers, budget=Budget(), benchmark=None, expect_failure=None)
        self.runs = 0
        self.rule: BisectionRule = rule or "loss"
        self._wanted_rule = rule
        # The present version draws inputs and computes the oracle, or the good one if the present one cannot.
        self._oracle_version = CodeVersion("present", project)
        self._environment, self._budget, self._folder = environment, budget, folder
        self._oracles: dict[SeedRange, VersionRun] = {}
        self._good_runs: dict[SeedRange, VersionRun] = {}
        self._good: VersionRun | None = None
        self._bad: VersionRun | None = None
        self._last = VersionRun()
        self._good_version = self._oracle_version
        self._baseline: Baseline | None = None

    def judge_good(self, good: CodeVersion, *, computes_oracle: bool = False) -> BisectionStep:
        """Run the good version, and keep its result for all others. The verdict is bad if it cannot be their measure.

        With `computes_oracle` it also draws inputs and computes the oracle, as it does if the present version cannot.
        """
        began = monotonic()
        self._good_version = good
        if computes_oracle or self._oracle(SeedRange(0, self.case.seeds)).failure is not None:
            self._oracle_version = good
            self._oracles.clear()
        self._good = run = self._run_own(good)
        return self._good_step(good, run, monotonic() - began)

    def judge_ends(self, good: CodeVersion, bad: CodeVersion) -> Ends:
        """Run both ends, and keep their results for the versions between them."""
        good_step = self.judge_good(good)
        if good_step.verdict != "good":
            is_restless = good_step.reason is Reason.NONDETERMINISTIC
            found: BisectionStatus = "nondeterministic" if is_restless else "good_is_bad"
            return Ends("good_fails" if good_step.verdict == "cannot_run" else found, self.rule, (good_step,))
        bad_step = self.judge(bad)
        steps = (good_step, bad_step)
        if bad_step.verdict == "cannot_run":
            return Ends("bad_fails", self.rule, steps)
        if bad_step.evidence == "good_bits":
            return Ends("no_difference", self.rule, steps)
        if bad_step.verdict != "bad":
            if self._wanted_rule == "loss" or not self.case.deterministic:
                return Ends("no_loss", self.rule, steps)
            self.rule = "bits"
            steps = (good_step, replace(bad_step, verdict="bad", evidence="other_bits"))
        # From here on the bits of the bad version are bad.
        self._bad = self._last
        return Ends(None, self.rule, steps)

    def _good_step(self, good: CodeVersion, run: VersionRun, seconds: float) -> BisectionStep:
        if run.failure is not None:
            return _failed(good, run.failure, seconds)
        outcome = self._outcome(run, self._file(good, 0))
        step = BisectionStep(good.name, "good", "good_bits", seconds=seconds)
        if outcome.execution.failure is not None:
            return _failed(good, outcome.execution.failure, seconds)
        self._baseline = self._baseline_of(outcome)
        if run.unsteady and self.case.deterministic:
            return replace(step, verdict="bad", evidence="own_seeds", reason=Reason.NONDETERMINISTIC)
        verdict = self._result(outcome).verdict
        if verdict.status is Status.FAILED and self.rule == "loss":
            return replace(step, verdict="bad", evidence="own_seeds", reason=verdict.reason)
        return replace(step, reason=verdict.reason)

    def judge(self, version: CodeVersion) -> BisectionStep:
        """Run a version, and judge it."""
        began = monotonic()
        self._last = run = self._run_own(version)
        step = self._judged(version, run)
        self._forget(version)
        return replace(step, seconds=monotonic() - began)

    def _judged(self, version: CodeVersion, run: VersionRun) -> BisectionStep:
        assert self._good is not None
        if run.failure is not None:
            return _failed(version, run.failure)
        if self.case.deterministic and not run.unsteady:
            if run.has_same_bits(self._good):
                return BisectionStep(version.name, "good", "good_bits", Reason.IDENTICAL)
            if self.rule == "bits":
                return BisectionStep(version.name, "bad", "other_bits")
            if self._bad is not None and run.has_same_bits(self._bad):
                return BisectionStep(version.name, "bad", "bad_bits")
        outcome = self._outcome(run, self._file(version, 0))
        if outcome.execution.failure is not None:
            return _failed(version, outcome.execution.failure)
        result = self._result(outcome)
        if is_open(result):
            return self._judged_on_fresh_seeds(version, result)
        verdicts: dict[Status, VersionVerdict] = {Status.FAILED: "bad", Status.PASSED: "good"}
        verdict = verdicts.get(result.verdict.status, "cannot_run")
        return BisectionStep(version.name, verdict, "own_seeds", result.verdict.reason)

    def _judged_on_fresh_seeds(self, version: CodeVersion, result: CaseResult) -> BisectionStep:
        """Draw more and more fresh seeds, until they prove or exclude a loss, or the budget ends."""
        figures: list[dict[str, PairOfFigures]] = []
        deadline, alpha = monotonic() + self._budget.seconds, self._alpha(result)
        for seeds in looks(self._budget.seeds):
            began = monotonic()
            failure = self._draw(version, figures, seeds)
            if failure is not None:
                return replace(_failed(version, failure), seeds=len(figures))
            if self._has_fixed_inputs:
                # The seeds of the case have decided, as in a pair of versions.
                return BisectionStep(version.name, "good", "own_seeds", result.verdict.reason)
            outputs = [
                paired_output(name, result, tolerance, figures)
                for name, tolerance in result.tolerances.items()
                if PAIRED_LOSS in tolerance.regression and any(name in of_seed for of_seed in figures)
            ]
            look = judge_look(outputs, alpha, self._good_version.name)
            if look.end is not None:
                return _step_of_look(version, look, result, seeds)
            # The next look takes about twice as long as this one.
            if monotonic() + 2 * (monotonic() - began) > deadline:
                break
        return BisectionStep(version.name, "unclear", "fresh_seeds", Reason.NOT_CLEAR, seeds=len(figures))

    @property
    def _has_fixed_inputs(self) -> bool:
        digests = [digest for seeds, run in self._oracles.items() if seeds.first >= _FRESH for digest in run.inputs]
        return len(set(digests)) < len(digests)

    def _alpha(self, result: CaseResult) -> float:
        return case_alpha(1) / (len(result.tolerances) * max(1, len(looks(self._budget.seeds))))

    def _draw(self, version: CodeVersion, figures: list[dict[str, PairOfFigures]], seeds: int) -> Failure | None:
        """Add the figures of fresh seeds until there are so many; return the failure of a version."""
        wanted = SeedRange(_FRESH + len(figures), seeds - len(figures))
        oracle = self._oracle(wanted)
        present = self._run(version, wanted)
        for run in (oracle, self._run(self._good_version, wanted), present):
            if run.failure is not None:
                return run.failure
        files = (self._file(self._good_version, wanted.first), self._file(version, wanted.first))
        good, own, exact = (read_arrays(file) for file in (*files, self._oracle_files(wanted)[1]))
        for before, now, truth in zip(good, own, exact, strict=True):
            if unlike := [name for name in now if not _are_alike(before.get(name), now[name], truth.get(name))]:
                return Failure(Reason.SHAPE_MISMATCH, unlike[0])
            figures.append({name: pair_figures(before[name], now[name], truth[name]) for name in now})
        return None

    def _run_own(self, version: CodeVersion) -> VersionRun:
        return self._run(version, SeedRange(0, self.case.seeds, self.case.repeats))

    def _run(self, version: CodeVersion, seeds: SeedRange) -> VersionRun:
        """Run the subject of a version; the oracle's failure is its failure, too."""
        oracle = self._oracle(seeds._replace(repeats=1))
        if oracle.failure is not None:
            return VersionRun(failure=oracle.failure)
        is_good = version is self._good_version
        if is_good and seeds in self._good_runs:
            return self._good_runs[seeds]
        self.runs += 1
        files = (self._oracle_files(seeds)[0], self._file(version, seeds.first))
        run = run_version(self.case, version, seeds, self._environment.chain, files, oracle=False)
        if is_good:
            self._good_runs[seeds] = run
        return run

    def _oracle(self, seeds: SeedRange) -> VersionRun:
        """Draw inputs and compute the oracle at seeds, once for all versions."""
        if seeds not in self._oracles:
            files, chain = self._oracle_files(seeds), self._environment.chain
            self._oracles[seeds] = run_version(self.case, self._oracle_version, seeds, chain, files, oracle=True)
        return self._oracles[seeds]

    def _oracle_files(self, seeds: SeedRange) -> tuple[Path, Path]:
        return self._folder / f"inputs-{seeds.first}", self._folder / f"oracle-{seeds.first}"

    def _file(self, version: CodeVersion, first: int) -> Path:
        return self._folder / f"{'good' if version is self._good_version else 'step'}-{first}"

    def _forget(self, version: CodeVersion) -> None:
        if version is not self._good_version:
            for file in self._folder.glob("step-*"):
                file.unlink()

    def _outcome(self, run: VersionRun, file: Path) -> Outcome:
        """Return the outcome of a version on the case's own seeds."""
        oracle = self._oracle(SeedRange(0, self.case.seeds))
        actual, exact = read_arrays(file), read_arrays(self._oracle_files(SeedRange(0, 0))[1])
        comparisons, missing = list[Comparison](), dict[str, None]()
        for seed, (own, truth) in enumerate(zip(actual, exact, strict=True)):
            if extra := [name for name in own if name not in truth]:
                return _without_result(self.case, Failure(Reason.REFERENCE_ERROR, ", ".join(extra)))
            found, lacking = compare_with_oracle(self.case, seed, own, truth, self._environment.chain)
            comparisons += found
            missing.update(dict.fromkeys(lacking))
        execution = Execution(
            inputs=oracle.inputs,
            outputs=run.outputs,
            unsteady=run.unsteady,
            differences=tuple(RepeatDifference(name, 0, 2) for name in run.unsteady),
            facts=run.facts,
        )
        return Outcome(self.case.id, self.case.definition, execution, tuple(comparisons), tuple(missing))

    def _baseline_of(self, outcome: Outcome) -> Baseline:
        environment = self._environment.of_case(outcome.execution)
        entry = entry_from(outcome, environment.fingerprint, self._good_version.name, environment.facts.get("cpu", ""))
        # One definition for both versions, so the entry is not stale.
        entry = replace(entry, definition=self.case.baseline_definition)
        return Baseline(entry, environment.label, _BASELINE_LABEL)

    def _result(self, outcome: Outcome) -> CaseResult:
        return judge_outcome(self.case, self._baseline, outcome, self._environment, Policy())


# The first fresh seed: below 2^31, which every generator of inputs takes, and far above the seeds of suites.
_FRESH = 1 << 30


def _without_benchmark(layer: Layer) -> Layer:
    """Return a layer without the bounds that need a benchmark; a published standard may need one, too."""
    bounds = {
        name: limit
        for name, limit in layer.bounds.items()
        if name != "standard" and not (name in METRICS and METRICS[name].needs_benchmark)
    }
    return replace(layer, bounds=bounds)


def _failed(version: CodeVersion, failure: Failure, seconds: float = 0.0) -> BisectionStep:
    return BisectionStep(version.name, "cannot_run", "failure", failure.reason, failure.message, seconds=seconds)


def _without_result(case: Case, failure: Failure) -> Outcome:
    return Outcome(case.id, case.definition, Execution(failure=failure))


def _step_of_look(version: CodeVersion, look: Look, result: CaseResult, seeds: int) -> BisectionStep:
    is_worse = look.end == "worse"
    reason = Reason.REGRESSED if is_worse else result.verdict.reason
    return BisectionStep(version.name, "bad" if is_worse else "good", "fresh_seeds", reason, seeds=seeds)


def _are_alike(*arrays: object) -> bool:
    """Return whether outputs exist, and the versions' have one shape and dtype."""
    before, now, truth = arrays
    if before is None or truth is None:
        return False
    return (before.shape, before.dtype) == (now.shape, now.dtype)  # type: ignore[attr-defined]
