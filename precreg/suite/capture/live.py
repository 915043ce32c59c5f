"""How does a running program give its calls: as a context manager, as a decorator, or from an import hook?

`capture` is all of them. It imports numpy with the first call that it records.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections import Counter
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from tempfile import gettempdir
from threading import RLock, local
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast
from weakref import ref

from precreg.errors import UserError
from precreg.suite.capture.writing import CaptureReport, find_home, suite_path, write_suite

if TYPE_CHECKING:
    from precreg.suite.capture.calls import CallStore

_F = TypeVar("_F", bound=Callable[..., Any])

DEFAULT_LIMIT = 20
DEFAULT_MAX_BYTES = 64 << 20
# The files of a test, of a decorator and of a command are written later than the calls.
_MAX_PROBLEMS = 5
_local = local()


class Capture:
    """Record the calls of a function, and write them as a suite.

    `what` is a function, `module:function`, or the name of the suite. As a context manager a capture records the calls
    inside the block, through every module that has the function. A name alone selects the function of that name in
    loaded modules of the project, and functions that the block gives to the capture. As a decorator a capture records
    until the program ends.
    """

    def __init__(
        self,
        what: str | Callable[..., Any],
        *,
        name: str | None = None,
        limit: int = DEFAULT_LIMIT,
        max_bytes: int = DEFAULT_MAX_BYTES,
        project: str | Path | None = None,
        oracle: Literal["reference", "golden"] = "reference",
        force: bool = False,
    ) -> None:
        """Check the arguments. Raises UserError: bad-value."""
        for word, value in (("limit", limit), ("max_bytes", max_bytes)):
            if type(value) is not int or value < 1:
                raise UserError(
                    "bad-value",
                    f"expected a whole number >= 1 but got {word}={value!r}",
                    hint=f"write such a number: precreg.capture(f, {word}=100)",
                )
        if oracle not in ("reference", "golden"):
            raise UserError(
                "bad-value",
                f"expected reference or golden but got oracle={oracle!r}",
                hint="write one of them: precreg.capture(f, oracle='golden')",
            )
        self.what, self.oracle, self.force = what, oracle, force
        given = what if isinstance(what, str) else getattr(what, "__name__", "captured")
        self.name = name or given.rpartition(":")[2].rpartition(".")[2]
        self.project = find_home(Path(project) if project is not None else Path.cwd())
        self.limit, self.max_bytes = limit, max_bytes
        self.problems: Counter[str] = Counter()
        self.target: str | None = what if isinstance(what, str) and ":" in what else None
        self.is_torch = False
        self._store: CallStore | None = None
        self._lock = RLock()
        self._patches: list[tuple[Any, str, Any]] = []
        self._owner = os.getpid()
        # A folder that a process with calls makes. Forked processes know its name, too.
        self.spool = Path(gettempdir(), f"precreg-capture-{token_hex(8)}")
        self._is_written = self._leaves_calls = self._is_inside = self._ends = False
        self.file: str | None = None
        itself = ref(self)
        os.register_at_fork(after_in_child=lambda: _forget_parent(itself()))

    def __call__(self, function: _F) -> _F:
        """Return the function with its calls recorded; outside a block they are written when the program ends."""
        return cast(_F, self.wrap(function))

    def __enter__(self) -> Capture:
        """Record the function in every module that has it."""
        self._is_inside = True
        functions = self._chosen_functions()
        if len(functions) > 1:
            names = ", ".join(sorted({str(_target_of(each)) for each in functions}))
            self.problems[f"several functions are named {self.what}, so name one of {names}"] += 1
            functions = []
        for function in functions:
            self._patch(function)
        return self

    def __exit__(self, *_exception: object) -> None:
        """Put the function back, and write the suite, whatever ended the block."""
        self.stop()
        self.finish()

    def stop(self) -> None:
        """Put the function back in every module."""
        while self._patches:
            owner, name, function = self._patches.pop()
            setattr(owner, name, function)
        self._is_inside = False

    def finish(self) -> CaptureReport | None:
        """Write the suite and print the result once; another process than the one that began leaves it its calls."""
        if self._is_written or os.getpid() != self._owner:
            return None
        self._is_written = True
        return finish_capture(self)

    def wrap(self, function: Any) -> Any:
        """Return a function that records each call, and otherwise does what the given one does."""
        self.target = self.target or _target_of(function)
        self.name = self.name or "captured"
        self.file = getattr(sys.modules.get(getattr(function, "__module__", None) or ""), "__file__", None)

        @wraps(function)
        def recorded(*positional: Any, **named: Any) -> Any:
            if getattr(_local, "is_busy", False) or (_computes_a_case() and not self._is_inside):
                return function(*positional, **named)
            return self._record(function, positional, named)

        return recorded

    @property
    def store(self) -> CallStore:
        """Return the kept calls; numpy comes with them."""
        from precreg.suite.capture.calls import CallStore

        with self._lock:
            if self._store is None:
                self._store = CallStore(self.limit, self.max_bytes)
                if self._leaves_calls or os.getpid() != self._owner:
                    self.spool.mkdir(mode=0o700, exist_ok=True)
                    self._store.spool, self._store.spool_prefix = self.spool, f"{os.getpid()}"
            return self._store

    def leave_to(self, spool: Path) -> None:
        """Leave kept calls and counts in a folder, from which another process makes the suite."""
        self.spool, self._leaves_calls = spool, True

    def forget_parent(self) -> None:
        """Begin without calls in a forked process, whose parent has those before the fork."""
        # Another thread of the parent may have held the lock.
        self._lock, self._store, self._ends = RLock(), None, False
        self.problems.clear()

    def _end_with_process(self) -> None:
        """Leave the counts, or write the suite, when the process ends; a block writes its suite itself."""
        if self._ends or (self._is_inside and os.getpid() == self._owner):
            return
        self._ends = True
        # A module that is imported while the interpreter ends may fail to register its own end.
        import precreg.suite.computations  # noqa: F401

        # Not when a function is decorated: a worker of precreg that imports it would not be as it was before.
        atexit.register(self._leave_counts if self._leaves_calls or os.getpid() != self._owner else self.finish)

    def _leave_counts(self) -> None:
        """Write the counts of this process, for the process that makes the suite."""
        self.store.leave_counts(self.spool, dict(self.problems), self.file, is_torch=self.is_torch)

    def _record(self, function: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
        _local.is_busy = True
        call = place = None
        try:
            # Before the call, because the function may write into its arguments.
            call, place = self._begin(function, positional, named)
        except Exception as problem:
            self._count(problem)
        finally:
            _local.is_busy = False
        returned = function(*positional, **named)
        if place is not None and call is not None:
            _local.is_busy = True
            try:
                self._end(place, call, returned)
            except Exception as problem:
                self._count(problem)
            finally:
                _local.is_busy = False
        return returned

    def _begin(self, function: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
        from precreg.suite.capture.arguments import has_tensors, read_call

        self.is_torch |= has_tensors(positional, named)
        call = read_call(function, positional, named)
        with self._lock:
            self._end_with_process()
            return call, self.store.place_for(call)

    def _end(self, place: Any, call: Any, returned: Any) -> None:
        from precreg.suite.capture.arguments import recorded_outputs

        call.outputs = recorded_outputs(returned)
        with self._lock:
            self.store.keep(place, call)
            if self.store.spool is not None:
                self._leave_counts()

    def _count(self, problem: Exception) -> None:
        with self._lock:
            text = " ".join(str(problem).split()) or type(problem).__name__
            if text in self.problems or len(self.problems) < _MAX_PROBLEMS:
                self.problems[text] += 1
            else:
                self.problems["further problems"] += 1
            self._end_with_process()

    def _chosen_functions(self) -> list[Any]:
        if not isinstance(self.what, str):
            return [self.what]
        if ":" in self.what:
            try:
                return [_import_target(self.what)]
            except Exception as problem:
                self.problems[f"{self.what} cannot be imported: {problem}"] += 1
                return []
        loaded = [module for module in _modules() if _is_inside(module, self.project)]
        named = (vars(module).get(self.what) for module in loaded)
        return [*{id(each): each for each in named if callable(each) and not isinstance(each, type)}.values()]

    def _patch(self, function: Any) -> None:
        recorded = self.wrap(function)
        for module in _modules():
            for name, value in list(vars(module).items()):
                if value is function:
                    self._patches.append((module, name, function))
                    setattr(module, name, recorded)
        if not self._patches:
            self.problems["no module has the function under a name, so calls inside the block pass by"] += 1


def capture(
    what: str | Callable[..., Any],
    *,
    name: str | None = None,
    limit: int = DEFAULT_LIMIT,
    max_bytes: int = DEFAULT_MAX_BYTES,
    project: str | Path | None = None,
    oracle: Literal["reference", "golden"] = "reference",
    force: bool = False,
) -> Capture:
    """Record the calls of a function, and write them as a suite that runs at once: suites/unit/NAME.yaml.

    Use it as a context manager, or as a decorator. `what` is a function, `module:function`, or the name of the suite.
    At most `limit` calls and `max_bytes` bytes are kept, no two alike. `oracle` compares with the function in higher
    precision, or with the recorded outputs. An existing suite stays, unless `force` is True. docs/capture.md has
    examples.

    Raises:
        UserError: bad-value, for a limit below 1 and another oracle. The program itself never fails.
    """
    return Capture(what, name=name, limit=limit, max_bytes=max_bytes, project=project, oracle=oracle, force=force)


def finish_capture(capture: Capture) -> CaptureReport | None:
    """Write the suite of all kept calls, print what happened to standard error, and return it.

    A problem is printed, and never raised: the program that was captured goes on.
    """
    report = None
    try:
        _take_from_other_processes(capture)
        report = write_suite(
            capture.name,
            capture.target,
            capture.store,
            capture.project,
            file=capture.file,
            oracle=capture.oracle,
            is_torch=capture.is_torch,
            force=capture.force,
        )
    # Whatever is wrong here, the program has done its work.
    except Exception as problem:
        text = problem.message if isinstance(problem, UserError) else str(problem)
        print(f"precreg: {capture.name} was not written: {text}", file=sys.stderr)
    else:
        print(f"precreg: {report.text}", file=sys.stderr)
    finally:
        rmtree(capture.spool, ignore_errors=True)
    for text, count in capture.problems.items():
        print(f"precreg: {count} x not recorded: {text}", file=sys.stderr)
    return report


def _forget_parent(capture: Capture | None) -> None:
    if capture is not None:
        capture.forget_parent()


def _take_from_other_processes(capture: Capture) -> None:
    if not capture.spool.is_dir():
        return
    for counts in capture.store.take_spooled(capture.spool):
        capture.problems.update(counts.problems)
        capture.is_torch |= counts.is_torch
        capture.file = capture.file or counts.file


def _computes_a_case() -> bool:
    """Return whether precreg itself calls the function: the calls of a suite are no calls of a program."""
    stage = sys.modules.get("precreg.subject.stage")
    return stage is not None and stage.present_stage() is not None


def require_free_suite(project: Path, name: str, *, force: bool) -> None:
    """Refuse the name of a suite that exists. Raises UserError: bad-value."""
    path = suite_path(project, name)
    if path.exists() and not force:
        shown = path.relative_to(project).as_posix()
        raise UserError(
            "bad-value",
            f"expected a name that is free but {shown} exists",
            hint=f"replace it with --force, or write another name: --name {name}_2",
        )


def _modules() -> list[ModuleType]:
    return [module for module in list(sys.modules.values()) if isinstance(module, ModuleType)]


def _is_inside(module: ModuleType, project: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve().is_relative_to(project) and "site-packages" not in file


def _import_target(target: str) -> Any:
    from importlib import import_module

    module, _, dotted = target.partition(":")
    found: Any = import_module(module)
    for name in dotted.split("."):
        found = getattr(found, name)
    return found


def _target_of(function: Any) -> str | None:
    """Return module:function of a function; None for one without a place in a module."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    # A ufunc has a name and no module before numpy 2.
    name = name or getattr(function, "__name__", None)
    if name is None or "<" in name:
        return None
    if module is None:
        return f"numpy:{name}" if type(function).__name__ == "ufunc" else None
    return f"{module}:{name}"
