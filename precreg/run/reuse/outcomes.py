"""Which outcomes of earlier runs does a run reuse, and which of its own does it keep?

An outcome is reused if the case, its files, the libraries and the conditions of the run are as they were when it was
computed. Verdicts are not kept: a bound or a baseline may have changed.
"""

from __future__ import annotations

import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from time import monotonic, monotonic_ns, time_ns
from typing import NamedTuple

from msgspec import UNSET, Raw, msgpack
from msgspec.structs import replace

from precreg.run.reuse.conditions import never_reused, run_conditions, unkept_outcome
from precreg.run.reuse.file_state import MISSING, FileStates, changed_since, digest_of
from precreg.run.reuse.observation import MODULE_MARK, PROGRAM_MARK, REASON_MARK, CaseUses
from precreg.run.reuse.sources import CaseSources
from precreg.run.reuse.store import EncodedOutcome, KeptOutcome, OutcomeStore, PathSet
from precreg.run.reuse.task import ObservedOutcome
from precreg.storage import WORKING_FOLDER, make_scratch_folder
from precreg.tolerance import resolve_tolerance
from precreg.types import (
    Budget,
    Case,
    Environment,
    Layer,
    Location,
    Outcome,
    ReusedFrom,
    ReusedOutcomes,
    UnkeptReason,
    case_chain,
)
from precreg.vcs import forget_searches

# Cases whose files are checked, and whose outcomes are written, together; more of them where cases take milliseconds.
# A check reads the states of some 300 files, so a check for every 256 of 100,000 tiny cases took a tenth of their run
# (benchmarks/many_cases.py). A kill loses the outcomes of the last batch for later runs, and the journal has them.
BATCH = 256
_PATIENCE_S = 2.0
# Outcomes wait as msgpack. One with five seeds takes 15 kB.
_MAX_PENDING_BYTES = 1 << 24
# The clock was set, if it and a clock that nobody sets differ by more since the begin of a run.
_CLOCK_TOLERANCE_NS = 1_000_000_000
# Stands for all files of a project that are neither modules nor suites.
_ALL_DATA = "all data"
# Native code opens files that no hook of Python sees. These libraries only compute.
_ONLY_COMPUTES = ("numpy", "ml_dtypes", "msgspec", "yaml", "_yaml", "xxhash", "scipy", "precreg")
_SYSTEM = ("/usr/", "/bin/", "/lib/", "/lib64/", "/sbin/")


class _Process:
    """The observations of one worker so far, from the first case on."""

    def __init__(self) -> None:
        self._opened: set[tuple[str, str]] = set()
        self.by_code: defaultdict[str, set[str]] = defaultdict(set)
        self.shared: set[str] = set()
        # Some hundred paths, the same for nearly all cases of a worker: one object for all of these.
        self.loaded: frozenset[str] = frozenset()
        self.tops: frozenset[str] = frozenset()
        self.modules: set[str] = set()
        self.opens_files = False
        # All that a case used, by its named files, its directory and its own observations. Most cases have the same.
        self.used: dict[tuple[frozenset[str], str, frozenset[tuple[str, str]]], frozenset[str]] = {}

    def add(self, observed: CaseUses) -> None:
        new = [pair for pair in observed.opened if pair not in self._opened]
        if new or not self.shared.issuperset(observed.shared):
            self.used.clear()
        self._opened.update(new)
        for code, item in new:
            if code:
                self.by_code[code].add(item)
            if item.endswith((".py", ".so")):
                self.modules.add(item)
        self.shared.update(observed.shared)
        if not self.loaded.issuperset(observed.loaded):
            self.loaded = self.loaded.union(observed.loaded)
            self.opens_files = any(map(_may_open_files, self.loaded))
            self.used.clear()
        if not self.tops.issuperset(observed.tops):
            self.tops = self.tops.union(observed.tops)


class _Pending(NamedTuple):
    """An outcome before its files are checked once more: the case, its key, the digest of its files, and the rest."""

    case: Case
    key: str
    files: str
    items: frozenset[str]
    loaded: frozenset[str]
    tops: frozenset[str]
    constants: str
    outcome: Raw


class OutcomeCache:
    """The outcomes that a run reuses and keeps; counts say how many cases did what."""

    def __init__(self, project: Path, environment: Environment, *, started: str, commit: str) -> None:
        """Begin a run. Raises OSError where the project cannot be written."""
        self._project, self._environment = project, environment
        self._started, self._commit = started, commit
        self._began_ns = _time_of_files(project)
        self._clocks = time_ns() - monotonic_ns()
        forget_searches()
        self._store = OutcomeStore(project)
        self._sources = CaseSources(project, FileStates(project))
        self._conditions = run_conditions(project, environment)
        self._checked: dict[str, bool] = {}
        self._sets: dict[str, PathSet | None] = {}
        self._names: dict[str, frozenset[str]] = {}
        self._of_layers: dict[tuple[int, tuple[str, ...], tuple[tuple[str, str], ...]], str] = {}
        self._programs: dict[frozenset[str], bool] = {}
        self._origins: dict[tuple[str, str], ReusedFrom] = {}
        self._processes: defaultdict[int, _Process] = defaultdict(_Process)
        self._files: dict[str, tuple[str, str]] = {}
        self._pending: list[_Pending] = []
        self._pending_bytes, self._written = 0, monotonic()
        self._oldest = ""
        self._reused = 0
        self.fates: dict[str, UnkeptReason] = {}

    def find(self, case: Case, accepted: Sequence[str] | None) -> Outcome | None:
        """Return the outcome of an earlier run for a case; None if the case has to run.

        `accepted` are the accepted digests of its outputs. With None comparisons have no maps of errors.
        """
        if (reason := never_reused(case, self._project)) is not None:
            self.fates[case.id] = reason
            return None
        key, files = self._key(case), self._sources.digest(case)
        self._files[case.id] = key, files
        self.fates[case.id] = "new"
        for kept in self._store.find(key):
            self.fates[case.id] = "changed"
            if kept.files == files and self._holds(case, kept):
                outcome = _with_maps_of(kept.outcome, accepted)
                if outcome is not None:
                    return self._mark(outcome, kept)
        return None

    def keep_all(self, cases: Iterable[Case], answers: Iterable[ObservedOutcome]) -> Iterator[Outcome]:
        """Keep the outcomes of cases that ran, and yield them as they come."""
        by_id = {case.id: case for case in cases}
        for answer in answers:
            yield self.keep(by_id[answer.outcome.case], answer)

    def keep(self, case: Case, answer: ObservedOutcome) -> Outcome:
        """Keep the outcome of a case that ran, if nothing speaks against it, and return it."""
        outcome, observed = answer.outcome, answer.observed
        if observed is None or case.id not in self._files:
            if observed is not None:
                self._processes[observed.process].add(observed)
            else:
                self.fates[case.id] = "failed"
            return outcome
        process = self._processes[observed.process]
        process.add(observed)
        items = self._items(case, observed, process)
        reason = unkept_outcome(outcome, (each[1:] for each in items if each.startswith(REASON_MARK)))
        if items not in self._programs:
            self._programs[items] = self._are_known_programs(items)
        if reason is None and not self._programs[items]:
            reason = "programs"
        if reason is not None:
            self.fates[case.id] = reason
            return outcome
        key, files = self._files.pop(case.id)
        constants, encoded = self._constants(case, outcome), msgpack.encode(outcome)
        self._pending.append(_Pending(case, key, files, items, process.loaded, process.tops, constants, Raw(encoded)))
        self._pending_bytes += len(encoded)
        is_due = self._pending_bytes >= _MAX_PENDING_BYTES or monotonic() - self._written >= _PATIENCE_S
        if len(self._pending) >= BATCH and is_due:
            self._write()
        return outcome

    def close(self) -> None:
        """Write what is left, and make room."""
        self._write()
        self._store.close()

    def counts(self) -> ReusedOutcomes | None:
        """Return how many cases reused an outcome, and why the others ran; None if none did."""
        if not self._reused:
            return None
        ran = Counter(self.fates.values())
        return ReusedOutcomes(self._reused, self._oldest, tuple(sorted(ran.items())))

    def _key(self, case: Case) -> str:
        # Verdicts need the other fields, and the measurement only constants of the layers, which `_constants` has.
        computed = replace(
            case,
            source=Location(case.source.file),
            baseline_id="",
            baseline_definition="",
            layers=(),
            tags=(),
            category=None,
            budget=Budget(),
            expect_failure=None,
            study=None,
        )
        return digest_of(self._conditions, msgpack.encode(computed))

    def _mark(self, outcome: Outcome, kept: KeptOutcome) -> Outcome:
        del self.fates[outcome.case]
        self._reused += 1
        self._oldest = min(self._oldest or kept.started, kept.started)
        # One object for all outcomes of one run.
        origin = self._origins.setdefault((kept.started, kept.commit), ReusedFrom(kept.started, kept.commit))
        return replace(outcome, reused=origin)

    def _holds(self, case: Case, kept: KeptOutcome) -> bool:
        """Return whether all that an outcome depended on is as it was."""
        loaded = self._set(kept.loaded)
        return (
            loaded is not None
            and self._is_unchanged(kept.seen)
            and self._is_unchanged(kept.loaded)
            and kept.shadows == self._sources.shadows(self._tops(kept.loaded), case.directory)
            and kept.constants == self._constants(case, kept.outcome)
        )

    def _set(self, name: str) -> PathSet | None:
        if name not in self._sets:
            self._sets[name] = self._store.find_set(name)
        return self._sets[name]

    def _tops(self, name: str) -> frozenset[str]:
        if name not in self._names:
            found = self._set(name)
            self._names[name] = frozenset() if found is None else frozenset(found.tops)
        return self._names[name]

    def _is_unchanged(self, name: str) -> bool:
        if name not in self._checked:
            found = self._set(name)
            self._checked[name] = found is not None and all(
                _state(self._sources, path) == state for path, state in found.states.items()
            )
        return self._checked[name]

    def _constants(self, case: Case, outcome: Outcome) -> str:
        """Return a digest of the constants of tolerances that the measurement of an outcome used."""
        chain = case_chain(self._environment.chain, outcome.execution.facts)
        outputs = tuple(dict.fromkeys((comparison.output, comparison.dtype) for comparison in outcome.comparisons))
        # The cases of a suite share their layers, which live as long as the run.
        key = id(case.layers), chain, outputs
        if key not in self._of_layers:
            self._of_layers[key] = self._find_constants(case.layers, chain, outputs)
        return self._of_layers[key]

    def _find_constants(
        self, layers: tuple[Layer, ...], chain: tuple[str, ...], outputs: tuple[tuple[str, str], ...]
    ) -> str:
        resolved = (resolve_tolerance(layers, name, dtype, chain) for name, dtype in outputs)
        used = ((each.rtol.limit, each.atol.limit, sorted(each.regions.items())) for each in resolved)
        return digest_of(repr([*outputs]), repr([*used]))

    def _items(self, case: Case, observed: CaseUses, process: _Process) -> frozenset[str]:
        """Return all that a case used: its own observations, and those of earlier cases through the same code."""
        key = self._sources.paths(case), case.directory, frozenset(observed.opened)
        if key not in process.used:
            process.used[key] = self._find_items(*key, process)
        return process.used[key]

    def _find_items(
        self, named: frozenset[str], directory: str, opened: frozenset[tuple[str, str]], process: _Process
    ) -> frozenset[str]:
        found = {*process.shared, *(item for _, item in opened)}
        found.update(code for code, _ in opened if code)
        waiting, done = [*named, *found], set[str]()
        while waiting:
            item = waiting.pop()
            if item in done:
                continue
            done.add(item)
            more: frozenset[str] = frozenset(process.by_code.get(item, ()))
            if item.startswith(MODULE_MARK):
                more = self._sources.tried(item[1:], directory)
            elif item.endswith(".py") and item not in named:
                more = more | self._sources.imports_of(item, directory)
            found |= more
            waiting += more
            if item.endswith(".py") and self._sources.states.is_dynamic(item) and not process.modules <= found:
                # Any module in memory may be in use.
                found |= process.modules
                waiting += process.modules
        libraries = (item for item in done if ".so" in item and self._sources.states.state(item) != MISSING)
        if process.opens_files or any(map(_may_open_files, libraries)):
            found.add(_ALL_DATA)
        return frozenset(item for item in found if not item.startswith(MODULE_MARK))

    def _are_known_programs(self, items: Iterable[str]) -> bool:
        own = (f"{self._project}/", f"{os.path.realpath(self._project)}/", f"{sys.base_prefix}/", f"{sys.prefix}/")
        programs = (os.path.realpath(item[1:]) for item in items if item.startswith(PROGRAM_MARK))
        return all(each.startswith((*own, *_SYSTEM)) for each in programs)

    def _write(self) -> None:
        """Check once more that no file changed while the cases ran, and keep the outcomes."""
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        if not pending or abs(time_ns() - monotonic_ns() - self._clocks) > _CLOCK_TOLERANCE_NS:
            return
        check = _Check(self._project, self._began_ns)
        # One object for equal sets, and most cases of a batch have the same ones.
        names: dict[int, str] = {}
        sets: dict[str, PathSet] = {}
        rows = []
        for each in pending:
            seen, loaded = check.path_set(each.items), check.path_set(each.loaded, each.tops)
            if seen is None or loaded is None or not check.is_settled(each.case, each.files):
                self.fates[each.case.id] = "changed_meanwhile"
                continue
            for found in (seen, loaded):
                if id(found) not in names:
                    names[id(found)] = self._store.set_name(found)
                    sets[names[id(found)]] = found
            shadows = check.sources.shadows(each.tops, each.case.directory)
            of_sets, of_run = (names[id(seen)], names[id(loaded)]), (self._started, self._commit)
            kept = EncodedOutcome(each.files, *of_sets, shadows, each.constants, *of_run, each.outcome)
            rows.append((each.key, kept))
        self._store.add(rows, [*sets.values()])
        self._written = monotonic()


class _Check:
    """The states of files after cases ran; a file that changed since the run began settles nothing."""

    def __init__(self, project: Path, began_ns: int) -> None:
        self.sources = CaseSources(project, FileStates(project))
        self._began_ns = began_ns
        # Builds are made while a run goes on, and have a digest of their sources in their names.
        self._builds = f"{project / WORKING_FOLDER}/builds/"
        self._changed: dict[str, bool] = {}
        self._settled: dict[tuple[frozenset[str], str], bool] = {}
        self._sets: dict[tuple[frozenset[str], frozenset[str]], PathSet | None] = {}

    def path_set(self, items: frozenset[str], tops: frozenset[str] = frozenset()) -> PathSet | None:
        """Return paths with their states; None if one of them changed since the run began."""
        if (items, tops) not in self._sets:
            changed = any(self._has_changed(item) for item in items)
            states = None if changed else {item: _state(self.sources, item) for item in sorted(items)}
            self._sets[items, tops] = None if states is None else PathSet(states, sorted(tops))
        return self._sets[items, tops]

    def is_settled(self, case: Case, files: str) -> bool:
        """Return whether the named files of a case are as they were when the run began."""
        paths = self.sources.paths(case)
        if (paths, files) not in self._settled:
            present = (path for path in paths if self.sources.states.state(path) != MISSING)
            is_same = self.sources.digest(case) == files
            self._settled[paths, files] = is_same and not any(map(self._has_changed, present))
        return self._settled[paths, files]

    def _has_changed(self, item: str) -> bool:
        if item == _ALL_DATA:
            return any(self._has_changed(path) for path in self.sources.every_file())
        path = item.removeprefix(PROGRAM_MARK)
        if path not in self._changed:
            self._changed[path] = not path.startswith(self._builds) and changed_since(path, self._began_ns)
        return self._changed[path]


def _state(sources: CaseSources, item: str) -> str:
    if item == _ALL_DATA:
        return sources.data_digest()
    return sources.states.state(item.removeprefix(PROGRAM_MARK))


@cache
def _may_open_files(path: str) -> bool:
    """Return whether a loaded file is native code that may read files unseen."""
    if ".so" not in os.path.basename(path) or (path.startswith(_SYSTEM) and "-packages/" not in path):
        return False
    top = path.rpartition("-packages/")[2].partition("/")[0].partition(".")[0] if "-packages/" in path else ""
    return top not in _ONLY_COMPUTES and "/lib-dynload/" not in path and not path.startswith(f"{sys.base_prefix}/lib/")


def _with_maps_of(outcome: Outcome, accepted: Sequence[str] | None) -> Outcome | None:
    """Return an outcome with the maps of errors that a run adds beside these accepted outputs.

    None if one is missing, because only arrays give it.
    """
    # Late, because it brings numpy, and a run begins without it.
    from precreg.measure import needs_error_map

    places = Counter[str]()
    comparisons = []
    for comparison in outcome.comparisons:
        digests = outcome.execution.outputs.get(comparison.output, ())
        place = places[comparison.output]
        places[comparison.output] += 1
        if place >= len(digests):
            return None
        needed = accepted is not None and needs_error_map(comparison, digests[place], accepted)
        if needed and comparison.error_map is UNSET:
            return None
        comparisons.append(comparison if needed else replace(comparison, error_map=UNSET))
    return replace(outcome, comparisons=tuple(comparisons))


def _time_of_files(project: Path) -> int:
    """Return the present time by the clock of the project's file system, as files get it. Raises OSError."""
    folder = project / WORKING_FOLDER
    make_scratch_folder(folder)
    # The name of a temporary file of `open_replacement`: a later run removes it after a kill.
    path = folder / f".clock.{os.getpid()}.tmp"
    path.unlink(missing_ok=True)
    try:
        path.write_bytes(b"")
        return path.stat().st_ctime_ns
    finally:
        path.unlink(missing_ok=True)
