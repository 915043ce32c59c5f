"""What did a case leave in its process, and may the process run another case?

precreg checks the process after each case. It puts settings back. A worker whose program changed runs no further case,
and another worker takes its place. A change by the import of a subject's module stays for the cases that use this
module: alone they would import it, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from signal import SIG_UNBLOCK, SIGINT, default_int_handler, pthread_sigmask, signal
from typing import Literal

from precreg.arithmetic import ORDINARY_MODE, floating_point_mode, ordinary_mode, set_ordinary_mode
from precreg.subject.child_processes import ChildProcesses, name_processes
from precreg.subject.process_settings import (
    ONE_THREAD,
    SETTINGS,
    ProcessSetting,
    SystemThreads,
    descriptor_setting,
    event_loop_policy,
    restore_event_loop_policy,
)
from precreg.subject.program_state import ProgramState
from precreg.subject.surroundings import (
    escape_surrogates,
    interrupts_noted,
    mode_change,
    note_every_interrupt,
    take_left_modes,
)
from precreg.types import StateChange, StateKind

# A folder that has modules of its own, and the name of a module that a computation of a case names. In place of the
# folder, a word for the contents of an installed package.
ImportKey = tuple[str, str]
KIND_IMPORT, ANALYZER_IMPORT = "kind of subject", "analyzer"

# A change may concern every function of numpy, and a reader needs a few.
_MAX_NAMES = 5
_MAX_NAME = 80


class WorkerRetires(Exception):  # noqa: N818  (an event, not an error of ours)
    """End a worker before a case that its program would change."""


class ProcessWatch:
    """The state of this process before a case, and the changes that cases left.

    `is_spoiled` is True if the process should run no further case. `in_worker` is False in the command's own process.
    """

    def __init__(self, *, in_worker: bool) -> None:
        """Take the state. A worker, in contrast to the command, can be replaced, and owns its descriptors."""
        self.is_spoiled = False
        self.in_worker = in_worker
        self._settings: tuple[ProcessSetting, ...] = (*SETTINGS, descriptor_setting()) if in_worker else SETTINGS
        self._reads = [setting.read for setting in self._settings]
        self._program, self._system_threads, self._children = ProgramState(), SystemThreads(), ChildProcesses()
        self._noted: dict[StateChange, None] = {}
        # The changes by imports, and the modules whose imports changed the program.
        self._by_import: dict[ImportKey, tuple[StateChange, ...]] = {}
        self._kept: set[ImportKey] = set()
        self.refresh()

    def refresh(self) -> None:
        """Take the present state as the one before a case: other code than cases may have changed it."""
        self._values = [read() for read in self._reads]
        self._threads, self._event_loops = self._system_threads.count(), event_loop_policy()
        self._program.refresh()
        self._children.accept()

    def accept_threads(self) -> None:
        """Take the present threads as others': between two cases a display of the progress may start one."""
        self._program.accept_threads()

    def begin_case(self, modules: Iterable[ImportKey]) -> None:
        """Prepare for a case that uses these modules. Raises WorkerRetires if imports of others changed the program."""
        if self.in_worker and self._kept and not self._kept.issubset(modules):
            raise WorkerRetires
        take_left_modes()
        self._noted.clear()

    @contextmanager
    def watch_import(self, key: ImportKey) -> Iterator[None]:
        """Attribute the changes inside to the import of a module, and those before to the present case."""
        self._note_changes()
        yield
        found = [*self._repair_settings()]
        if changes := self._program.changes():
            found += (self._change(kind, names, self._remedy()) for kind, names in changes.items())
            self._kept.add(key)
            self._program.absorb()
        if found:
            self._by_import[key] = tuple(dict.fromkeys((*self._by_import.get(key, ()), *found)))

    @contextmanager
    def watch_client(self) -> Iterator[None]:
        """Attribute the changes inside to precreg, and those before to the present case."""
        self._note_changes()
        try:
            yield
        finally:
            self._threads = self._system_threads.count()
            self._program.absorb()

    def note_use(self, key: ImportKey) -> None:
        """Attribute the changes by the import of a module to the present case, which uses it."""
        if key in self._by_import:
            self._noted |= dict.fromkeys(self._by_import[key])

    def note_changes(self, changes: Iterable[StateChange]) -> None:
        """Attribute changes of another process, which computed for the present case, to it."""
        self._noted |= dict.fromkeys(changes)

    def end_case(self) -> tuple[StateChange, ...]:
        """Check the process, put back what can be put back, and return the changes that the case left."""
        self._note_changes()
        self._note_processes()
        restore_event_loop_policy(self._event_loops)
        return tuple(self._noted)

    def _note_processes(self) -> None:
        # They are not ended here: with a worker all that its cases started ends, and a later case of the command's
        # process may count on one that an earlier case started.
        left = self._children.left(has_threads=self._system_threads.links() > ONE_THREAD)
        if left:
            names = name_processes(left)
            self._noted[self._change("processes", names, self._remedy())] = None
            self.is_spoiled = True
            self._children.accept()

    def _note_changes(self) -> None:
        self._noted |= dict.fromkeys(self._repair_settings())
        if changes := self._program.changes():
            self._noted |= dict.fromkeys(self._restore_program(changes))

    def _repair_settings(self) -> Iterator[StateChange]:
        if (mode := floating_point_mode()) != ORDINARY_MODE:
            yield from mode_change(mode)
            set_ordinary_mode()
        # Modes that calls left, and that were repaired after them.
        for mode in take_left_modes():
            yield from mode_change(mode)
        if [read() for read in self._reads] != self._values:
            yield from self._repair_each()
        threads = self._system_threads.count()
        if threads > self._threads and self._system_threads.cancel_traceback_timer(self._threads):
            yield self._change("faulthandler", ("dump_traceback_later",), "repaired")
        if threads != self._threads:
            self._threads = self._system_threads.count()

    def _repair_each(self) -> Iterator[StateChange]:
        for number, setting in enumerate(self._settings):
            before = self._values[number]
            if places := setting.changes(before):
                is_repaired = setting.repair(before, places)
                names = tuple(setting.names[place] for place in places)
                yield self._change(setting.kind, names, "repaired" if is_repaired else self._remedy())
                self.is_spoiled |= not is_repaired
                self._values[number] = setting.read()

    def _restore_program(self, changes: dict[StateKind, tuple[str, ...]]) -> Iterator[StateChange]:
        self.is_spoiled = True
        if not self.in_worker:
            self._program.restore(changes)
        left = {} if self.in_worker else self._program.changes()
        for kind, names in changes.items():
            is_restored = not self.in_worker and kind not in left
            yield self._change(kind, names, "repaired" if is_restored else self._remedy())
        self._program.absorb()

    def _remedy(self) -> Literal["replaced", "remains"]:
        return "replaced" if self.in_worker else "remains"

    def _change(
        self, kind: StateKind, names: tuple[str, ...], remedy: Literal["repaired", "replaced", "remains"]
    ) -> StateChange:
        # A thread may have any name.
        named = tuple(escape_surrogates(name)[:_MAX_NAME] for name in names[:_MAX_NAMES])
        return StateChange(kind, named, remedy, max(0, len(names) - _MAX_NAMES))


# The state is the process's, so the watch is global, too. None where nobody watches: a test that calls run_case.
_watch: ProcessWatch | None = None
# The watch of the command's process, which rests between cases.
_resting: ProcessWatch | None = None


@contextmanager
def watch_store_client() -> Iterator[None]:
    """Attribute the changes inside to precreg: a client of a store starts threads, which stay for its next object."""
    with nullcontext() if _watch is None else _watch.watch_client():
        yield


def watch_worker() -> ProcessWatch:
    """Begin to watch this worker, which computes in the ordinary floating-point mode from here on."""
    global _watch
    set_ordinary_mode()
    # The worker has a process group of its own, so an interrupt is a signal that its subject sends to itself.
    signal(SIGINT, default_int_handler)
    pthread_sigmask(SIG_UNBLOCK, {SIGINT})
    note_every_interrupt()
    _watch = ProcessWatch(in_worker=True)
    return _watch


@contextmanager
def watch_case_in_process(*, is_first: bool) -> Iterator[None]:
    """Watch one case in the process of the command or of pytest, in the ordinary floating-point mode.

    `is_first` says that other code ran in this process since the last case.
    """
    global _watch, _resting
    with ordinary_mode(), interrupts_noted():
        if _resting is None:
            _resting = ProcessWatch(in_worker=False)
        elif is_first:
            _resting.refresh()
        else:
            _resting.accept_threads()
        _watch = _resting
        try:
            yield
        finally:
            _watch = None


def current_watch() -> ProcessWatch | None:
    """Return the watch of this process; None without one."""
    return _watch


@contextmanager
def watch_import(key: ImportKey) -> Iterator[None]:
    """Watch the import of a module for a computation, as `ProcessWatch.watch_import` does."""
    with nullcontext() if _watch is None else _watch.watch_import(key):
        yield


def note_changes(changes: Iterable[StateChange]) -> None:
    """Note changes of another process, which computed for the present case."""
    if _watch is not None:
        _watch.note_changes(changes)


def note_use(key: ImportKey) -> None:
    """Note that the present case uses a module."""
    if _watch is not None:
        _watch.note_use(key)
