"""Is a changed case worse than the accepted version, by as many fresh seeds as that takes?

All changed cases take their first look before any takes a second one. Each case has a budget of seeds and seconds, and
the run has one of seconds. Seeds are derived from both versions of the code, so that a rerun gives the same verdict.
The project's working folder keeps their figures for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from precreg.arithmetic import FORMATS
from precreg.run.pairs.cache import DrawnSeeds, PairCache
from precreg.run.pairs.seeds import (
    BatchAnswer,
    PairOfFigures,
    SeedBatch,
    SeedTask,
    has_inputs,
    leave_outputs,
    measure_versions,
)
from precreg.storage import temporary_folder
from precreg.types import (
    PAIRED_LOSS,
    Case,
    CaseResult,
    EndedBy,
    FixedInputs,
    OtherVersionFailed,
    OtherVersionInputs,
    OtherVersionOutputs,
    PairedRun,
    PairProblem,
    PresentVersionFailed,
    Reason,
    Tolerance,
    UnsteadyVersion,
)
from precreg.verdict import Look, PairedOutput, SeedPair, conclude_pair, failed_verdict, judge_look, unclear_verdict
from precreg.verdict.statistics import FIRST_LOOK, looks

if TYPE_CHECKING:
    from precreg.run.pairs.other_version import OtherVersion
    from precreg.run.pipeline import Plan

# Seeds that show the cost of a case, whether its inputs are fresh, and whether both versions run at all.
PROBE_SEEDS = 2

# One batch holds the outputs of its seeds in a file, and a worker between two deadlines.
BATCH_BYTES = 1 << 25
BATCH_SECONDS = 1.0
# Batches for each worker between two looks at the clock.
BATCHES_PER_WORKER = 4


class PairBudget(NamedTuple):
    """The most seeds of a case, the most seconds of both versions for a case, and the most seconds for the run."""

    seeds: int
    case_seconds: float
    run_seconds: float


class Announcement(NamedTuple):
    """The cases that run by another version, its commit, and the budget, before they run."""

    cases: int
    commit: str
    budget: PairBudget


class PairProgress(NamedTuple):
    """The state of a pair while it runs: the cases that ended, of how many, and the look that the others go to.

    `look` is 0 while the other version runs on the own seeds of the cases. `seconds` of the run's budget are spent.
    """

    done: int
    cases: int
    look: int
    seconds: float
    budget_seconds: float


class OracleAnnouncement(NamedTuple):
    """The cases whose oracle runs by another version, too, its commit, and the most seconds for all of them."""

    cases: int
    commit: str
    seconds: float


class DiagnosisAnnouncement(NamedTuple):
    """The failed cases that are diagnosed, and the most seconds for all of them."""

    cases: int
    seconds: float


Announce = Callable[[Announcement | PairProgress | OracleAnnouncement | DiagnosisAnnouncement], None]


class OpenCase(NamedTuple):
    """A case whose bits differ between the versions and that passed on its own seeds; `key` names its fresh seeds."""

    case: Case
    result: CaseResult
    key: str


def judges_pairs(result: CaseResult) -> bool:
    """Return whether fresh inputs judge any output of a case; `regression: off` leaves all of them out."""
    return any(PAIRED_LOSS in tolerance.regression for tolerance in result.tolerances.values())


class CaseTest:
    """The test of one case: the seeds drawn so far, and the problem that ended it, if any."""

    def __init__(self, open_case: OpenCase, drawn: DrawnSeeds | None) -> None:
        """Begin with the seeds of the cache, if it has any."""
        self.case, self.result, self.key = open_case
        # Below 2^31, which every generator of inputs takes, and far above the seeds of suites.
        self.first_seed = (1 << 30) + int(self.key[:7], 16)
        self.cached = drawn is not None
        self.figures: list[dict[str, PairOfFigures]] = [] if drawn is None else list(drawn.figures)
        self.inputs: list[str] = [] if drawn is None else list(drawn.inputs)
        # Of both versions and the reference, for one seed.
        self.seconds = 0.0 if drawn is None else drawn.seconds
        self.problem: PairProblem | None = None
        # The last look that the seeds and the seconds of the case allow; the time of the first look fixes it.
        self.planned = 0

    def take(self, accepted: BatchAnswer, present: BatchAnswer) -> None:
        """Add the seeds of one batch, or its problem."""
        self.problem = self.problem or _problem(accepted, present)
        self.inputs += present.inputs
        self.figures += present.figures
        self.cached = False

    def outputs(self, seeds: int) -> list[PairedOutput]:
        """Return the judged outputs with their first seeds."""
        of_first = self.figures[:seeds]
        return [
            paired_output(name, self.result, tolerance, of_first)
            for name, tolerance in self.result.tolerances.items()
            if PAIRED_LOSS in tolerance.regression and any(name in of_seed for of_seed in of_first)
        ]

    def plan(self, budget: PairBudget) -> None:
        """Fix the last look that the budget of the case allows; 0 if it allows none."""
        affordable = min(budget.seeds, budget.case_seconds / self.seconds if self.seconds else budget.seeds)
        self.planned = max(looks(int(affordable)), default=0)


def paired_output(
    name: str, result: CaseResult, tolerance: Tolerance, figures: Sequence[Mapping[str, PairOfFigures]]
) -> PairedOutput:
    """Return one output with the figures of each seed; `result` has the case's own seeds."""
    dtype = next(each.dtype for each in result.outcome.comparisons if each.output == name)
    # A subject may give an output for some inputs only.
    found = [of_seed[name] for of_seed in figures if name in of_seed]
    pairs = [SeedPair(each.accepted, each.present, each.same_bits) for each in found]
    is_integer = dtype not in FORMATS and not dtype.startswith(("complex", "longdouble"))
    return PairedOutput(name, dtype, is_integer, tolerance.regression[PAIRED_LOSS], pairs)


def _problem(accepted: BatchAnswer, present: BatchAnswer) -> PairProblem | None:
    if accepted.failure is not None:
        return OtherVersionFailed(accepted.failure.reason, accepted.failure.message)
    if present.failure is not None:
        return PresentVersionFailed(present.failure.reason, present.failure.message)
    if present.missing:
        return OtherVersionOutputs((present.missing,))
    if accepted.inputs != present.inputs:
        return OtherVersionInputs()
    if len(set(present.inputs)) < len(present.inputs):
        return FixedInputs()
    return UnsteadyVersion(present.unsteady) if present.unsteady else None


class Escalation:
    """The tests of all open cases of a run by one other version."""

    def __init__(self, plan: Plan, version: OtherVersion, budget: PairBudget, alpha: float, announce: Announce) -> None:
        """Prepare the workers of both versions; `alpha` is the error level of a case over all looks."""
        self._announce = announce
        self._cases = self._done = 0
        self._plan, self._version, self._budget, self._alpha = plan, version, budget, alpha
        self._jobs = max(1, plan.place.jobs)
        self._cache = PairCache(plan.project, is_used=plan.use_caches)
        self._closed_last = ExitStack()
        self._folder = self._closed_last.enter_context(temporary_folder())
        accepted = SeedTask(version.project, leave_outputs, version.trees)
        present = SeedTask(plan.project, measure_versions)
        self._pools = plan.place.open_pools(accepted, present, has_inputs, self._folder)
        self._deadline = monotonic() + budget.run_seconds

    def close(self) -> None:
        """Kill all workers."""
        self._pools.close()
        self._closed_last.close()

    def run(self, cases: Sequence[OpenCase]) -> Iterator[CaseResult]:
        """Yield the result of each case as soon as its test ends. Raises UserError (no-workers)."""
        tests = [CaseTest(each, self._cache.load(each.key)) for each in cases]
        self._cases = len(tests)
        for result in self._run(tests, self._folder):
            self._done += 1
            yield result

    def _run(self, tests: list[CaseTest], folder: Path) -> Iterator[CaseResult]:
        self._probe(tests, folder)
        yield from (self._without_test(test) for test in tests if test.problem is not None)
        tests = [test for test in tests if test.problem is None]
        for test in tests:
            test.plan(self._budget)
        for seeds in looks(self._budget.seeds):
            going = [test for test in tests if seeds <= test.planned]
            yield from (self._unclear(test) for test in tests if test not in going)
            self._draw(going, seeds, folder)
            if seeds == FIRST_LOOK:
                # The first look knows the time of a seed better than the probe, which imports the user's modules.
                self._plan_again(going)
            tests = []
            for test in going:
                result = self._look(test, seeds)
                if result is None:
                    tests.append(test)
                else:
                    yield result
        yield from (self._unclear(test) for test in tests)

    def _probe(self, tests: Sequence[CaseTest], folder: Path) -> None:
        """Draw a few seeds of each case, which show the time of a seed."""
        kept = [test for test in tests if test.cached]
        self._draw(tests, PROBE_SEEDS, folder)
        # The first seed of each worker also imports the user's modules, and torch takes seconds. With seeds of an
        # earlier run the workers have run none yet.
        self._draw_more([test for test in kept if self._seems_slow(test)], folder)
        self._draw_more([test for test in tests if self._seems_slow(test)], folder)

    def _seems_slow(self, test: CaseTest) -> bool:
        """Return whether the seconds of a case allow one seed of it, and no look."""
        test.plan(self._budget)
        allows_seed = test.seconds <= self._budget.case_seconds and self._budget.seeds >= FIRST_LOOK
        return test.problem is None and not test.planned and allows_seed

    def _draw_more(self, tests: Sequence[CaseTest], folder: Path) -> None:
        for test in tests:
            self._draw([test], len(test.figures) + PROBE_SEEDS, folder)

    def _plan_again(self, tests: Sequence[CaseTest]) -> None:
        for test in tests:
            test.plan(self._budget)
            test.planned = max(test.planned, FIRST_LOOK)

    def _look(self, test: CaseTest, seeds: int) -> CaseResult | None:
        """Return the result of a case whose test ends with so many seeds; None if it goes on."""
        if test.problem is not None:
            return self._without_test(test)
        if len(test.figures) < seeds:
            return self._unclear(test)
        outputs = test.outputs(seeds)
        look = judge_look(outputs, self._look_alpha(test), self._version.commit)
        if look.end is None:
            return None
        self._keep(test)
        verdict = conclude_pair(test.result.verdict, look, outputs, self._version.commit)
        return replace(test.result, verdict=verdict, paired=self._paired(test, seeds, look))

    def _look_alpha(self, test: CaseTest) -> float:
        """Return the error level of one output at one look: all outputs and possible looks share the case's."""
        # Of all looks that the seeds allow, even if time ends earlier: findings do not depend on the machine's speed.
        return self._alpha / (len(test.result.tolerances) * max(1, len(looks(self._budget.seeds))))

    def _unclear(self, test: CaseTest) -> CaseResult:
        """Return the result of a case whose budget ended."""
        self._keep(test)
        planned, drawn = test.planned, len(test.figures)
        seeds = max(looks(min(planned, drawn)), default=min(drawn, FIRST_LOOK - 1))
        ended_by: EndedBy = "run_seconds" if drawn < planned else "case_seconds"
        if planned == max(looks(self._budget.seeds), default=0) and drawn >= planned:
            ended_by = "max_seeds"
        outputs = test.outputs(seeds)
        alpha, commit = self._look_alpha(test), self._version.commit
        # This look was taken before, and found no loss at this level; it may have found gains.
        look = judge_look(outputs, alpha, commit) if seeds >= FIRST_LOOK else Look(None, (), (), ())
        verdict = unclear_verdict(test.result.verdict, outputs, commit, ended_by, alpha, look.findings)
        return replace(test.result, verdict=verdict, paired=self._paired(test, seeds, look._replace(end="not_clear")))

    def _paired(self, test: CaseTest, seeds: int, look: Look) -> PairedRun:
        return PairedRun(
            seeds,
            look.end != "not_clear",
            judged=True,
            commit=self._version.commit,
            end=look.end,
            max_seeds=test.planned,
            figures=look.figures,
            shares=look.shares,
            cached=test.cached,
        )

    def _without_test(self, test: CaseTest) -> CaseResult:
        """Return the result on the case's own seeds, with the problem that fresh seeds have.

        An exception or a crash of the present version alone is a defect of the change, and no passing problem.
        """
        problem, commit = test.problem, self._version.commit
        paired = PairedRun(test.case.seeds, False, cause=problem, judged=True, commit=commit)
        if isinstance(problem, PresentVersionFailed) and problem.reason in (Reason.SUBJECT_ERROR, Reason.CRASHED):
            verdict = failed_verdict(problem.reason, problem.message, commit)
            return replace(test.result, verdict=verdict, paired=paired, acceptable=False)
        return replace(test.result, paired=paired)

    def _keep(self, test: CaseTest) -> None:
        if not test.cached:
            self._cache.store(test.key, DrawnSeeds(test.seconds, tuple(test.inputs), tuple(test.figures)))

    def _draw(self, tests: Sequence[CaseTest], seeds: int, folder: Path) -> None:
        """Draw seeds of all tests until each has so many, or the run's seconds are spent."""
        batches = [batch for test in tests for batch in self._batches(test, seeds, folder)]
        by_id = {test.case.id: test for test in tests}
        size = BATCHES_PER_WORKER * self._jobs
        for start in range(0, len(batches), size):
            left = self._deadline - monotonic()
            if left <= 0:
                return
            limit = self._budget.run_seconds
            self._announce(PairProgress(self._done, self._cases, seeds, limit - left, limit))
            # A version that fails on one batch of a case would fail, or hang, on the others, too.
            wave = [batch for batch in batches[start : start + size] if by_id[batch.case.id].problem is None]
            self._run_batches(wave, by_id)

    def _batches(self, test: CaseTest, seeds: int, folder: Path) -> Iterator[SeedBatch]:
        """Yield the batches that are missing, each small enough to end soon and to fit into memory."""
        drawn = len(test.figures)
        missing = seeds - drawn
        of_bytes = BATCH_BYTES // max(1, _bytes_of_seed(test.result))
        of_time = int(BATCH_SECONDS / test.seconds) if test.seconds else PROBE_SEEDS
        # At least one batch for each worker, so that one changed case keeps all of them busy.
        size = max(1, min(of_bytes, of_time, -(-missing // self._jobs)))
        for start in range(drawn, seeds, size):
            first, count = test.first_seed + start, min(size, seeds - start)
            yield SeedBatch(test.case, first, count, folder / f"{test.key}-{start}")

    def _run_batches(self, batches: Sequence[SeedBatch], tests: Mapping[str, CaseTest]) -> None:
        answers = {pair[0].key: pair for pair in self._pools.run([(batch, batch) for batch in batches])}
        # In order of seeds, because answers come in any order and figures must not.
        for batch in batches:
            test, (accepted, present) = tests[batch.case.id], answers[batch.key]
            test.take(accepted, accepted if present is None else present)
            seconds = self._pools.seconds.get(batch.key, 0.0)
            # The fastest batch, because the first ones also import the user's modules.
            of_seed = seconds / batch.number
            test.seconds = min(test.seconds, of_seed) if test.seconds else of_seed


def _bytes_of_seed(result: CaseResult) -> int:
    """Return a bound on the bytes of all outputs at one seed."""
    first = [each for each in result.outcome.comparisons if each.seed == 0]
    size = 0
    for each in first:
        elements = 1
        for length in each.shape:
            elements *= length
        # The widest dtype, a complex long double, has 32 bytes an element.
        size += elements * (32 if "complex" in each.dtype or "long" in each.dtype else 8)
    return size
