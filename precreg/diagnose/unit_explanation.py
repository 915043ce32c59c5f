"""Which unit cases explain the failure of a larger case?

Both cases run a function that changed. The larger case runs again with that function as the accepted version has it:
the part of the loss that goes is the share of the function. If several functions carry the loss, the share of each is
the mean of two figures: the part that goes if it alone is replaced, and the part that stays if only the others are. So
the shares of two functions add up to the whole loss, even where errors grow so fast that one function keeps all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import NamedTuple

from precreg.diagnose.bisection import SourcePart, snapshot
from precreg.diagnose.evidence import error_to_explain, removed_share
from precreg.diagnose.tasks import OutputsTask
from precreg.diagnose.undone import EditedTree, changed_functions
from precreg.run import Arrays, OtherVersion, checked_out_version, run_in_workers
from precreg.storage import read_npz
from precreg.types import Case, UnitExplanation
from precreg.vcs import case_dependencies, unset_hook_variables

# Below this share a function explains nothing: rounding that reaches an output by another way removes as much.
MIN_SHARE = 0.05
# Statements outside of functions, as Python calls their code.
_MODULE = "<module>"
# The least time in which a worker can start and answer.
_MIN_SECONDS = 1.0
# Unit cases draw their inputs at the first seed.
_UNIT_SEED = 0


class _TimeIsUp(Exception):  # noqa: N818
    """End a search whose time is up."""


class _Kernel(NamedTuple):
    """A changed function, or the changed statements of a module, with the parts that undo it."""

    name: str
    parts: tuple[SourcePart, ...]

    @property
    def file(self) -> str:
        return self.parts[0].change.file


class _Carrier(NamedTuple):
    """Kernels that can only be replaced together, mostly one, and the share of the loss that they carry.

    `callers` change no bit by themselves, and the kernels need their accepted version to run.
    """

    kernels: tuple[_Kernel, ...]
    share: float
    callers: tuple[_Kernel, ...] = ()

    @property
    def replaced(self) -> tuple[_Kernel, ...]:
        return self.kernels + self.callers


def explain_by_units(
    case: Case, units: Sequence[Case], project: Path, *, seed: int, accepted: str, seconds: float
) -> tuple[UnitExplanation, ...]:
    """Return the unit cases that run the changed functions behind a case's loss, the largest share first.

    Of the cases that run a function, the first of `units` whose bits it changes is named. `accepted` is the commit of
    the accepted version. The case must repeat. Returns the explanations found within about `seconds`. Raises UserError
    (no-checkout).
    """
    unset_hook_variables()
    deadline = monotonic() + seconds
    present = snapshot(project)
    with TemporaryDirectory(prefix="precreg-units-") as folder, checked_out_version(project, present, present) as there:
        kernels = _kernels(changed_functions(there, accepted, present))
        if not kernels:
            return ()
        version = _Version(there, Path(folder), deadline, kernels)
        with suppress(_TimeIsUp):
            outputs = _accepted_outputs(case, seed, project, accepted, version)
            if outputs is not None:
                return _Explaining(case, seed, version, outputs).run(units)
    return ()


def _kernels(parts: Sequence[SourcePart]) -> list[_Kernel]:
    """Group the parts of a change by function; the statements of a module are one kernel."""
    found: dict[str, list[SourcePart]] = {}
    for part in parts:
        change = part.change
        name = change.function if change.level == "function" else _MODULE
        found.setdefault(f"{change.file}:{name}", []).append(part)
    return [_Kernel(name, tuple(own)) for name, own in found.items()]


def _accepted_outputs(case: Case, seed: int, project: Path, accepted: str, present: _Version) -> Arrays | None:
    with checked_out_version(project, accepted, accepted) as version:
        return _Version(version, present.folder, present.deadline).outputs(case, seed)


class _Version:
    """A checkout in which cases run, each in a process of its own."""

    def __init__(self, version: OtherVersion, folder: Path, deadline: float, kernels: Sequence[_Kernel] = ()) -> None:
        self.folder, self.deadline, self.kernels = folder, deadline, kernels
        self._version = version
        self._tree = EditedTree(version.trees.other)
        self._executed: dict[str, frozenset[str]] = {}

    def outputs(self, case: Case, seed: int, undone: Sequence[SourcePart] = ()) -> Arrays | None:
        """Return the outputs of a case with parts undone; None if it fails. Raises _TimeIsUp."""
        left = self.deadline - monotonic()
        if left < _MIN_SECONDS:
            raise _TimeIsUp
        try:
            self._tree.undo(undone)
        except ValueError:
            return None
        made = self.folder / "outputs.npz"
        watched = tuple({each.file for each in self.kernels}) if case.id not in self._executed else ()
        task = OutputsTask(self._version.project, seed, made, self._version.trees, watched, left)
        (answer,) = run_in_workers([case], task, 1)
        if watched:
            self._executed[case.id] = frozenset(answer.executed)
        return None if answer.problem else read_npz(made, made.name)

    def runs(self, case: Case, kernel: _Kernel) -> bool:
        """Return whether a case that has run here runs a kernel."""
        if not kernel.name.endswith(f":{_MODULE}"):
            return kernel.name in self._executed.get(case.id, ())
        return self.depends_on(case, [kernel])

    def depends_on(self, case: Case, kernels: Sequence[_Kernel]) -> bool:
        """Return whether a case imports a file of the kernels, by what its sources say."""
        project, root = self._version.project, self._version.trees.other
        files = {(project / name).resolve() for name in case_dependencies(case, project)}
        return any((root / each.file).resolve() in files for each in kernels)


class _Explaining:
    """Replace changed kernels in the present version, and measure the remaining loss of a case."""

    def __init__(self, case: Case, seed: int, version: _Version, accepted: Arrays) -> None:
        self._case, self._seed, self._version = case, seed, version
        self._actual = version.outputs(case, seed) or {}
        self._error = error_to_explain(accepted, self._actual)
        self._found: list[_Carrier] = []
        self._failing: list[_Kernel] = []
        self._harmless: list[_Kernel] = []
        # The outputs of the present version of unit cases.
        self._units: dict[str, Arrays | None] = {}

    def run(self, units: Sequence[Case]) -> tuple[UnitExplanation, ...]:
        """Return the explanations that are found in time, the largest share first."""
        own = [each for each in self._version.kernels if self._version.runs(self._case, each)]
        near = [unit for unit in units if self._version.depends_on(unit, own)]
        if not self._error.differing or not near:
            return ()
        named: dict[str, list[_Carrier]] = {}
        with suppress(_TimeIsUp):
            for carrier in self._carriers(own):
                unit = self._unit_of(carrier, near)
                if unit is not None:
                    named.setdefault(unit.id, []).append(carrier)
        found = [self._explanation(unit, named[unit.id]) for unit in near if unit.id in named]
        return tuple(sorted(found, key=lambda each: -(each.share or 0.0)))

    def _carriers(self, kernels: Sequence[_Kernel]) -> list[_Carrier]:
        """Return the kernels that carry a share of the loss, the largest first."""
        with suppress(_TimeIsUp):
            self._measure(kernels)
            self._found += self._replaced_together()
            if len(self._found) > 1:
                self._found = self._with_shares(self._found)
        return sorted((each for each in self._found if each.share >= MIN_SHARE), key=lambda each: -each.share)

    def _replaced_together(self) -> list[_Carrier]:
        """Return the kernels that fail alone, such as a function that its caller gives other arguments."""
        failing, callers = tuple(self._failing), tuple(self._harmless)
        for kernels, more in ((failing, ()), (failing, callers)):
            if len(kernels) + len(more) > 1 and failing:
                made = self._replaced(self._case, self._seed, (*kernels, *more))
                if made is not None:
                    return [_Carrier(kernels, removed_share(self._error, made), more)]
        return []

    def _measure(self, kernels: Sequence[_Kernel]) -> None:
        """Note the kernels whose replacement changes bits. The others are left out in halves."""
        made = self._replaced(self._case, self._seed, kernels)
        if made is not None and _same_bits(made, self._actual):
            self._harmless += kernels
            return
        if len(kernels) > 1:
            middle = len(kernels) // 2
            self._measure(kernels[:middle])
            self._measure(kernels[middle:])
        elif made is None:
            self._failing += kernels
        else:
            self._found.append(_Carrier(tuple(kernels), removed_share(self._error, made)))

    def _with_shares(self, found: Sequence[_Carrier]) -> list[_Carrier]:
        """Return carriers whose shares count their effect when removed first, and when removed last."""
        whole = self._removed(found)
        rests = [self._removed([each for each in found if each is not one]) for one in found]
        return [
            one._replace(share=min(1.0, max(0.0, (one.share + whole - rest) / 2)))
            for one, rest in zip(found, rests, strict=True)
        ]

    def _removed(self, carriers: Sequence[_Carrier]) -> float:
        """Return the part of the loss that goes with the accepted version of all kernels of carriers."""
        if len(carriers) == 1:
            return carriers[0].share
        made = self._replaced(self._case, self._seed, [kernel for each in carriers for kernel in each.replaced])
        return 0.0 if made is None else removed_share(self._error, made)

    def _replaced(self, case: Case, seed: int, kernels: Sequence[_Kernel]) -> Arrays | None:
        """Return the outputs of a case with the accepted version of kernels; None if no replacement runs."""
        names = {each.name for each in kernels}
        parts = [part for each in kernels for part in each.parts]
        others = [part for each in self._version.kernels if each.name not in names for part in each.parts]
        # An accepted function may call one that is gone, or need a constant or an import of its module.
        gone = [part for part in others if part.change.level == "function" and not part.change.line]
        modules = [part for part in others if part.change.level != "function"]
        for added in (gone, gone + modules) if modules else (gone,):
            made = self._version.outputs(case, seed, parts + added)
            if made is not None:
                return made
        return None

    def _unit_of(self, carrier: _Carrier, units: Sequence[Case]) -> Case | None:
        """Return the first unit case that runs a kernel and has other bits with the accepted one."""
        for unit in units:
            if unit.id not in self._units:
                self._units[unit.id] = self._version.outputs(unit, _UNIT_SEED)
            present = self._units[unit.id]
            if present is None or not self._shared(unit, carrier):
                continue
            made = self._replaced(unit, _UNIT_SEED, carrier.replaced)
            if made is not None and not _same_bits(made, present):
                return unit
        return None

    def _explanation(self, unit: Case, found: Sequence[_Carrier]) -> UnitExplanation:
        shared = tuple(name for each in found for name in self._shared(unit, each))
        return UnitExplanation(unit.id, shared, min(1.0, sum(each.share for each in found)))

    def _shared(self, unit: Case, carrier: _Carrier) -> list[str]:
        return [each.name for each in carrier.kernels if self._version.runs(unit, each)]


def _same_bits(one: Arrays, other: Arrays) -> bool:
    return {name: (array.dtype, array.shape, array.tobytes()) for name, array in one.items()} == {
        name: (array.dtype, array.shape, array.tobytes()) for name, array in other.items()
    }
