"""Does the reference of a case give the same bits as the base's, so that it is the same however its code reads?

Workers of the base's version and of the working tree run the oracle on the seeds of the case and on fresh ones, in this
environment, and compare the bits. Text and opened files only name the candidates; results decide.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, msgpack
from msgspec.structs import replace

from precreg.baseline.integrity import IntegritySides, ProjectCode
from precreg.errors import UserError
from precreg.run.journal import sources_digest
from precreg.run.pairs import OtherVersion, PackedArray, checked_out_version, pack_array, unpack_array
from precreg.run.workers import RunPlace
from precreg.storage import temporary_folder
from precreg.subject import CaseFailed, TreePair, blame_failures, redirect_imports, touches
from precreg.types import (
    Case,
    CaseResult,
    ComparedOracleFact,
    Environment,
    Failure,
    OracleBesideSubject,
    OracleDifference,
    OracleFact,
    OracleFilesChanged,
    OracleFollowsSubject,
    OracleResults,
    OracleResultsChanged,
    OracleUncompared,
    Reason,
)

if TYPE_CHECKING:
    from precreg.run.computation import Arrays

# Further seeds: code that knows the seeds of its suite cannot know these, which follow from all of the project's code.
FRESH_SEEDS = 3

# Seconds for all oracles of a run, as many as for its pairs (run/pair.py).
ORACLE_SECONDS = 300.0

# Seeds of each worker between two looks at the clock: their outputs wait in files.
SEEDS_PER_WORKER = 4


class Candidate(NamedTuple):
    """A case of the base and of HEAD whose oracle may be another one, and the reason to suppose so.

    `digests` are those of the run of the case, if there was one, and `environment` has its fingerprint: another
    environment may give other bits. It is empty for the workers' own.
    """

    before: Case
    now: Case
    fact: ComparedOracleFact
    digests: tuple[str, ...] = ()
    environment: str = ""


class OracleSeed(NamedTuple):
    """One seed of the oracle of a case, and the file in which the base's version leaves its outputs."""

    case: Case
    seed: int
    file: Path
    environment: str = ""

    @property
    def key(self) -> str:
        """The name of the seed in a pool."""
        return f"{self.case.id} at seed {self.seed}"


class OracleAnswer(Struct, frozen=True):
    """The answer to a seed: digests of inputs and outputs, the files that the oracle opened, and the difference.

    `files` are relative to the project. `foreign` lie in the working tree, and the base's version opened them. An
    `unsteady` oracle gives other bits when it runs again. `failure` says why there is nothing to compare.
    """

    key: str
    inputs: str = ""
    outputs: str = ""
    files: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    difference: OracleDifference | None = None
    unsteady: bool = False
    failure: Failure | None = None


class OracleTask(NamedTuple):
    """The oracles of one version, as the task of workers: `compute` is `leave_oracle` or `compare_oracle`."""

    project: Path
    compute: Callable[[OracleSeed, Path, TreePair | None], OracleAnswer]
    trees: TreePair | None = None

    def prepare(self) -> None:
        """Lead imports to the base's version, if this is its worker, and start the process of the oracles."""
        if self.trees is not None:
            redirect_imports(self.trees)
        from precreg.run.oracle import start_oracle_process

        start_oracle_process()

    def run(self, item: OracleSeed, printed: Callable[[], str]) -> OracleAnswer:
        """Return the answer to a seed; a failure of user code is a part of it."""
        try:
            return self.compute(item, self.project, self.trees)
        except CaseFailed as failed:
            return OracleAnswer(item.key, failure=failed.failure)

    def decoder(self) -> msgpack.Decoder[OracleAnswer]:
        """Return the decoder of answers."""
        return msgpack.Decoder(OracleAnswer)

    def item_key(self, item: OracleSeed) -> str:
        """Return the key of a seed."""
        return item.key

    def answer_key(self, answer: OracleAnswer) -> str:
        """Return the key of an answer's seed."""
        return answer.key

    def timeout_s(self, item: OracleSeed) -> float:
        """Return the timeout of the case."""
        return item.case.timeout_s

    def give_up(self, item: OracleSeed, failure: Failure) -> OracleAnswer:
        """Return the answer to a seed that has only a failure."""
        return OracleAnswer(item.key, failure=failure)


def leave_oracle(item: OracleSeed, project: Path, trees: TreePair | None) -> OracleAnswer:
    """Run the base's oracle on a seed, and write its outputs into the file of the seed."""
    answer, (outputs,) = _run(item, project, trees, times=1)
    item.file.write_bytes(msgpack.encode([pack_array(name, array) for name, array in outputs.items()]))
    return answer


def compare_oracle(item: OracleSeed, project: Path, trees: TreePair | None) -> OracleAnswer:
    """Run the oracle of the working tree on a seed, and compare its outputs with the base's."""
    from precreg.run.case_run import array_digests

    left = msgpack.decode(item.file.read_bytes(), type=list[PackedArray])
    former = dict(map(unpack_array, left))
    # An oracle of random order gives other bits in each run, whichever version it is.
    answer, (outputs, again) = _run(item, project, trees, times=2)
    # Last, because a seed whose worker is lost runs again.
    item.file.unlink()
    unsteady = array_digests(outputs) != array_digests(again)
    return replace(answer, difference=_largest_difference(former, outputs, item.seed), unsteady=unsteady)


def _run(item: OracleSeed, project: Path, trees: TreePair | None, times: int) -> tuple[OracleAnswer, list[Arrays]]:
    """Run an oracle several times on the inputs of a seed."""
    from precreg.run.case_run import array_digests, combine_digests, suite_folder
    from precreg.run.computation import draw_inputs
    from precreg.run.oracle import run_oracle

    directory = suite_folder(project, item.case.directory)
    with blame_failures(Reason.REFERENCE_ERROR):
        inputs = draw_inputs(item.case, item.seed, directory, project)
        run = run_oracle(item.case, [item.seed] * times, [inputs] * times, directory, project)
    outputs = combine_digests(array_digests(run.outputs[0]))
    foreign = () if trees is None else tuple(sorted(filter(trees.counterpart, run.opened)))
    digest = combine_digests(array_digests(inputs))
    return OracleAnswer(item.key, digest, outputs, run.files, foreign), run.outputs


def _largest_difference(former: Arrays, present: Arrays, seed: int) -> OracleDifference | None:
    """Return the largest difference between the outputs of both versions; None if all bits are the same."""
    from precreg.storage import array_digest

    found = []
    for name in dict.fromkeys((*present, *former)):
        before, now = former.get(name), present.get(name)
        # By digests, because the padding of long doubles has any bits.
        if before is None or now is None or array_digest(before) != array_digest(now):
            found.append(_difference(name, seed, before, now))
    return max(found, key=_size, default=None)


def _difference(name: str, seed: int, before: Any, now: Any) -> OracleDifference:
    from precreg.measure import compare_arrays
    from precreg.run.case_run import array_difference

    place = array_difference(name, seed, 1, before, now)
    if place.place is None:
        return OracleDifference(name, seed, 0, 0)
    compared = compare_arrays(now, before, output=name, seed=seed, rtol=0.0, atol=0.0)
    ulp = compared.metrics.get("max_ulp")
    return OracleDifference(name, seed, 0, 0, place.differing, place.size, place.place, ulp)


def _size(difference: OracleDifference) -> float:
    return inf if difference.ulp is None else difference.ulp


class Decisions(NamedTuple):
    """The decision for each candidate by the id of its case: a fact of a finding, or None for the same bits."""

    facts: dict[str, OracleFact | None]
    fresh: int = FRESH_SEEDS

    @property
    def same(self) -> int:
        """Return the number of oracles that were compared and are the same."""
        return sum(fact is None for fact in self.facts.values())


def has_outputs(answer: OracleAnswer) -> bool:
    """Return whether the base's version left outputs to compare with."""
    return answer.failure is None


# Errors of a place in which items run: no process starts, or a cluster is lost or has no worker left.
_NO_PLACE = ("no-workers", "no-cluster", "no-cluster-workers", "refused-workers", "bad-upload")


def decide_oracles(project: Path, commit: str, candidates: Sequence[Candidate], place: RunPlace) -> Decisions:
    """Run the oracles of both versions, and decide each candidate; without both versions all of them remain."""
    if not candidates:
        return Decisions({})
    try:
        with checked_out_version(project, commit, commit) as version, temporary_folder() as folder:
            return Decisions(dict(_decide(project, version, candidates, place, folder)))
    except UserError as problem:
        # The cases ran already, and their reports must not be lost.
        if problem.slug not in ("no-checkout", *_NO_PLACE):
            raise
        cause = OracleUncompared("not_started", problem.message)
        return Decisions({each.now.id: replace(each.fact, results=cause) for each in candidates})


def _decide(
    project: Path, version: OtherVersion, candidates: Sequence[Candidate], place: RunPlace, folder: Path
) -> Iterator[tuple[str, OracleFact | None]]:
    comparison = _Comparison(project, version, place, folder)
    code = ProjectCode(project)
    try:
        answers = comparison.run(candidates)
    finally:
        comparison.close()
    for candidate in candidates:
        yield candidate.now.id, _decision(candidate, answers[candidate.now.id], code)


# The answers of both versions to one seed; None without time for it.
_Both = tuple[OracleAnswer, OracleAnswer] | None


def _decision(candidate: Candidate, answers: Sequence[_Both], code: ProjectCode) -> OracleFact | None:
    """Return the fact of a finding about one oracle; None if it gives the same bits."""
    results = _results(answers, candidate.now.seeds)
    if results is None:
        return _hidden_change(candidate, [each for each in answers if each is not None], code)
    # Other bits in each run are no sign of a change where nothing else is.
    if isinstance(results, OracleUncompared) and results.cause == "unsteady":
        return None if isinstance(candidate.fact, OracleResultsChanged) else replace(candidate.fact, results=results)
    return replace(candidate.fact, results=results)


def _results(answers: Sequence[_Both], seeds: int) -> OracleResults | None:
    """Return why results cannot be compared, or their largest difference; None for the same bits at all seeds."""
    found = []
    for both in answers:
        if both is None:
            return OracleUncompared("no_time")
        if problem := _problem(*both):
            return problem
        found.append(both[1].difference)
    largest = max((each for each in found if each is not None), key=_size, default=None)
    return None if largest is None else replace(largest, seeds=seeds, fresh=FRESH_SEEDS)


def _problem(base: OracleAnswer, head: OracleAnswer) -> OracleUncompared | None:
    if base.failure is not None:
        return OracleUncompared("base_failed", base.failure.message)
    if base.foreign:
        return OracleUncompared("foreign_files", base.foreign[0])
    if head.failure is not None:
        return OracleUncompared("failed", head.failure.message)
    if base.inputs != head.inputs:
        return OracleUncompared("other_inputs")
    return OracleUncompared("unsteady") if head.unsteady else None


def _hidden_change(
    candidate: Candidate, answers: Sequence[tuple[OracleAnswer, OracleAnswer]], code: ProjectCode
) -> OracleFact | None:
    """Return how an oracle with the same bits depends on its subject, unseen in its text; None if it does not."""
    case = candidate.now
    for seed, (digest, (_, head)) in enumerate(zip(candidate.digests, answers, strict=False)):
        if digest != head.outputs:
            return OracleBesideSubject(case.role, seed)
    if case.oracle.kind != "python" or case.subject.kind != "python":
        return None
    opened = ({file for pair in answers for file in pair[side].files} for side in (0, 1))
    former, now = opened
    shown = code.modules(case.oracle.spec, case.directory) | code.files(case.oracle.spec, case.directory)
    of_subject = code.modules(case.subject.spec, case.directory)
    hidden = touches(now - former - shown, of_subject)
    return OracleFollowsSubject(case.role, hidden) if hidden else None


class _Comparison:
    """The workers of both versions, and the seeds that wait."""

    def __init__(self, project: Path, version: OtherVersion, place: RunPlace, folder: Path) -> None:
        """Prepare the workers."""
        self._key = f"{version.commit} {sources_digest(project)}"
        base = OracleTask(version.project, leave_oracle, version.trees)
        self._pools = place.open_pools(base, OracleTask(project, compare_oracle), has_outputs, folder)
        self._wave, self._folder = SEEDS_PER_WORKER * max(1, place.jobs), folder
        self._deadline = monotonic() + ORACLE_SECONDS

    def close(self) -> None:
        """Kill all workers."""
        self._pools.close()

    def run(self, candidates: Sequence[Candidate]) -> Mapping[str, Sequence[_Both]]:
        """Return the answers of both versions, seed by seed, by the id of the case at HEAD."""
        found: defaultdict[str, list[_Both]] = defaultdict(list)
        seeds = [(each, seed) for each in candidates for seed in self._seeds(each.now)]
        for start in range(0, len(seeds), self._wave):
            wave = seeds[start : start + self._wave]
            # A version that fails on one seed of a case would fail, or hang, on the others, too.
            going = [each for each in wave if not _has_ended(found[each[0].now.id])]
            late = monotonic() > self._deadline
            answers = [None] * len(going) if late else self._run_wave(going)
            for (candidate, _), both in zip(going, answers, strict=True):
                found[candidate.now.id].append(both)
        return found

    def _run_wave(self, wave: Sequence[tuple[Candidate, int]]) -> Sequence[_Both]:
        files = [self._folder / str(number) for number in range(len(wave))]
        items = [
            tuple(OracleSeed(case, seed, file, each.environment) for case in (each.before, each.now))
            for (each, seed), file in zip(wave, files, strict=True)
        ]
        found = {base.key: (base, head or base) for base, head in self._pools.run([(one, two) for one, two in items])}
        return [found[base.key] for base, _ in items]

    def _seeds(self, case: Case) -> Iterator[int]:
        """Yield the seeds of a case, and fresh ones that its code cannot know."""
        yield from range(case.seeds)
        # Below 2^31, which every generator of inputs takes, and far above the seeds of suites.
        first = (1 << 30) + int(hashlib.sha256(f"{self._key} {case.id}".encode()).hexdigest()[:7], 16)
        yield from range(first, first + FRESH_SEEDS)


def _has_ended(answers: Sequence[_Both]) -> bool:
    return bool(answers) and (answers[-1] is None or _problem(*answers[-1]) is not None)


def find_candidates(
    sides: IntegritySides, results: Sequence[CaseResult], environment: Environment, place: RunPlace, *, whole: bool
) -> list[Candidate]:
    """Return the oracles that may be others than the base's, in the order of their cases.

    `whole` says that no other shard runs cases: then this run also decides cases that it does not run.
    """
    ran = {result.id: result for result in results if result.outcome.execution.oracle}
    found = []
    for before, case in sides.pairs.judged:
        if before.definition == case.definition:
            fact = _suspicion(case, sides, ran.get(case.id), environment, whole=whole)
            if fact is not None:
                outcome = ran[case.id].outcome if case.id in ran else None
                digests = () if outcome is None else outcome.execution.oracle
                fingerprint = "" if outcome is None else place.fingerprint_of(outcome)
                found.append(Candidate(before, case, fact, digests, fingerprint))
    return found


def _suspicion(
    case: Case, sides: IntegritySides, result: CaseResult | None, environment: Environment, *, whole: bool
) -> ComparedOracleFact | None:
    """Return the reason to compare an oracle with the base's; None without one."""
    changes = sides.references
    if (visible := changes.visible.get(case.id)) is not None:
        return visible
    opened = changes.recorded.get(case.id)
    if result is None:
        return opened if whole else None
    same = _same_as_accepted(result, environment)
    # Bits that are the accepted ones say more than the name of a file.
    if same:
        return None
    files = touches(result.outcome.execution.oracle_files, changes.changed)
    if opened is None and files:
        opened = OracleFilesChanged(case.role, files)
    return opened or (OracleResultsChanged(case.role) if same is False else None)


def _same_as_accepted(result: CaseResult, environment: Environment) -> bool | None:
    """Return whether an oracle gives the bits that its baseline has; None if that says nothing."""
    stored, execution = result.stored, result.outcome.execution
    here = environment.of_case(execution)
    if stored is None or not stored.entry.oracle or not here.has_accepted(stored.entry):
        return None
    entry = stored.entry
    seeds = min(len(entry.inputs), len(execution.inputs))
    if entry.definition != result.definition or tuple(entry.inputs[:seeds]) != execution.inputs[:seeds]:
        return None
    return tuple(entry.oracle[:seeds]) == execution.oracle[:seeds]
