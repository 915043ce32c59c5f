"""Which parts of the program can user code change: its search path, modules, functions, registries and threads?

Nothing but a new process undoes such a change for certain: another module may have copied a patched function, and a
thread runs on. In the process of the command, precreg restores the parts that it can.
"""

from __future__ import annotations

import builtins
import copy
import copyreg
import decimal
import gc
import hashlib
import json
import math
import operator
import random
import struct
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy  # loaded before the first state is taken

from precreg.arithmetic import identities, same_values
from precreg.subject.module_space import path_of_others, set_path_of_others
from precreg.types import StateKind

# Packages whose modules no user code may replace or remove.
_GUARDED = sys.stdlib_module_names | {"ml_dtypes", "msgspec", "numpy", "precreg", "xxhash"}

# Modules whose functions most results go through; the imports above load Python's before any user code runs.
# Each value costs some 10 ns a case, so modules of many constants, such as os, are left out.
_WATCHED_MODULES = frozenset(
    {
        *(module.__name__ for module in (builtins, copy, copyreg, hashlib, json, math, numpy, random)),
        *(module.__name__ for module in (struct, time, warnings)),
        *("cmath", "fractions", "functools", "itertools", "json.decoder", "json.encoder", "statistics"),
        *("ml_dtypes", "msgspec", "msgspec.json", "msgspec.msgpack", "msgspec.structs", "xxhash"),
        *("numpy.fft", "numpy.linalg", "numpy.ma", "numpy.random"),
        *("precreg.measure.comparison", "precreg.run.case_run", "precreg.storage.array_file"),
    }
)
# The functions of numpy call each other by the names in these modules of numpy._core (before version 2, numpy.core).
_WATCHED_CORE = frozenset({"_methods", "fromnumeric"})
_WATCHED_CLASSES = (json.JSONDecoder, json.JSONEncoder, random.Random)
# In these every value counts, as math.pi does. Elsewhere modules set their own variables.
_CONSTANT = frozenset({"builtins", "cmath", "math", "numpy"})
_ABSENT = object()

# Tables of functions by type. Libraries add their own types; a change of a known type is user code's.
_REGISTRIES: dict[str, dict[Any, Any]] = {
    "copyreg.dispatch_table": copyreg.dispatch_table,
    "copy.copy": copy._copy_dispatch,  # type: ignore[attr-defined]
    "copy.deepcopy": copy._deepcopy_dispatch,  # type: ignore[attr-defined]
}

# A thread that ends by itself soon, such as one of a pool that was just shut down, changes nothing later.
_THREAD_PATIENCE_S = 0.05

# The threads that Python started and that run; threading.active_count leaves out those of other modules.
_count_threads: Callable[[], int] = import_module("_thread")._count

Changes = dict[StateKind, tuple[str, ...]]


class _Namespace:
    """The values of a module or class by name, as they were."""

    def __init__(self, name: str, owner: Any) -> None:
        self.name, self._owner = name, owner
        values = vars(owner)
        # The dictionary of a class is behind a proxy.
        self._now: dict[str, Any] = values if isinstance(values, dict) else gc.get_referents(values)[0]
        self._keeps_all = name in _CONSTANT
        self.update()

    def update(self) -> None:
        """Take the present values as the former ones."""
        self._names, self._values = tuple(self._now), tuple(self._now.values())
        self.pair = (self._now, identities(self._now))

    def changed(self) -> dict[str, Any]:
        """Return the former values of the changed names; a name that is new has none."""
        found = {
            name: value
            for name, value in zip(self._names, self._values, strict=True)
            if self._now.get(name, _ABSENT) is not value and (self._keeps_all or _is_code(value))
        }
        if self.name == builtins.__name__ or isinstance(self._owner, type):
            # Every module sees a new name of builtins, and in a class it hides the inherited one. An interactive
            # session keeps its last value in "_".
            found |= dict.fromkeys(self._now.keys() - {*self._names, "_"}, _ABSENT)
        return found

    def restore(self, former: dict[str, Any]) -> None:
        for name, value in former.items():
            if value is _ABSENT:
                delattr(self._owner, name)
            else:
                setattr(self._owner, name, value)
        self.update()


class ProgramState:
    """The state of the program at one time, and its changes since."""

    def __init__(self) -> None:
        self._namespaces: dict[str, _Namespace] = {}
        self._restless: dict[str, _Namespace] = {}
        self._seen: set[str] = set()
        self._names: list[str] = []
        self._identities = identities({})
        self._former: dict[str, dict[str, Any]] = {}
        self._thread_count = -1
        for kind in _WATCHED_CLASSES:
            name = f"{kind.__module__}.{kind.__qualname__}"
            self._namespaces[name] = _Namespace(name, kind)
        self.absorb()

    def absorb(self) -> None:
        """Take the present state as the one to compare with."""
        self._path, self._path_list = path_of_others(), sys.path
        self._meta_path, self._path_hooks = [*sys.meta_path], [*sys.path_hooks]
        self._modules_dict = sys.modules
        self._decimal = decimal.getcontext().copy()
        self._registries = {name: dict(registry) for name, registry in _REGISTRIES.items()}
        self.accept_threads()
        for name, namespace in self._namespaces.items():
            if not same_values([namespace.pair]):
                namespace.update()
                self._restless[name] = namespace
        self._absorb_modules()

    def refresh(self) -> None:
        """Take the present state as `absorb` does; between two cases it hardly changes."""
        self._take_restless()
        # Comparing takes three quarters of the time of copying (profile of benchmarks/pytest_overhead.py, 1,000 cases).
        if self._is_same() and [*self._modules_dict] == self._names:
            # The comparison leaves out the flags of the decimal context.
            self._decimal = decimal.getcontext().copy()
            self.accept_threads()
        else:
            self.absorb()

    def _take_restless(self) -> None:
        """Take the present values of the modules that changed between two cases before."""
        # pytest catches the warnings of each test, and sets two values of the module warnings. Without this step, each
        # refresh would compare the values of all modules twice.
        changed = [each for each in self._restless.values() if not same_values([each.pair])]
        for namespace in changed:
            namespace.update()
        if changed:
            self._list_pairs()

    def accept_threads(self) -> None:
        """Take the present threads as the ones that no case started."""
        if _count_threads() != self._thread_count:
            self._threads, self._thread_count = {*sys._current_frames()}, _count_threads()

    def _absorb_modules(self) -> None:
        modules = self._modules_dict
        names = [*modules]
        # Most cases import nothing, and a program has a thousand modules.
        if names != self._names or not same_values([(modules, self._identities)]):
            self._take_modules(names)
        self._list_pairs()

    def _take_modules(self, names: list[str]) -> None:
        modules, self._names = self._modules_dict, names
        self._loaded, self._identities = tuple(modules.values()), identities(modules)
        self._modules = {name: module for name, module in modules.items() if name.partition(".")[0] in _GUARDED}
        for name in self._modules.keys() - self._seen:
            module = modules[name]
            if _is_watched(name) and isinstance(module, ModuleType):
                self._namespaces[name] = _Namespace(name, module)
        self._seen.update(self._modules)

    def _list_pairs(self) -> None:
        """List the state that a check of most cases compares."""
        namespaces = [namespace.pair for namespace in self._namespaces.values()]
        self._pairs = [(self._modules_dict, self._identities), *namespaces]

    def changes(self) -> Changes:
        """Return the names of the changed parts by kind; normal imports are no change."""
        return {} if self._is_same() else self._find_changes()

    def _is_same(self) -> bool:
        """Return True if nothing changed, not even by an import; most cases end so."""
        return (
            sys.path is self._path_list
            and sys.modules is self._modules_dict
            and _count_threads() <= self._thread_count
            and path_of_others() == self._path
            and sys.meta_path == self._meta_path
            and sys.path_hooks == self._path_hooks
            and _computes_alike(decimal.getcontext(), self._decimal)
            and self._registries == _REGISTRIES
            and same_values(self._pairs)
        )

    def _find_changes(self) -> Changes:
        found: Changes = {}
        if path_of_others() != self._path or not _same(sys.path_hooks, self._path_hooks):
            found["search_path"] = ("sys.path",) if path_of_others() != self._path else ("sys.path_hooks",)
        elif not _same(sys.meta_path, self._meta_path) and not self._only_installed_finders():
            found["search_path"] = ("sys.meta_path",)
        patched = tuple(self._patched())
        if replaced := self._replaced_modules():
            found["modules"] = replaced
        if patched:
            found["functions"] = patched
        if registries := tuple(name for name in _REGISTRIES if self._registry_changed(name)):
            found["registries"] = registries
        if not _computes_alike(decimal.getcontext(), self._decimal):
            found["decimal_context"] = ("decimal context",)
        if threads := self._new_threads():
            found["threads"] = threads
        return found

    def restore(self, kinds: Changes) -> None:
        """Put back what can be put back: everything apart from threads, and from copies that other modules made."""
        if "search_path" in kinds:
            sys.path, sys.path_hooks[:], sys.meta_path[:] = self._path_list, self._path_hooks, self._meta_path
            set_path_of_others(self._path)
        if "modules" in kinds:
            sys.modules = self._modules_dict
            sys.modules.update(self._modules)
        for name, former in self._former.items():
            if name in self._namespaces:
                self._namespaces[name].restore(former)
        if "registries" in kinds:
            for name, registry in _REGISTRIES.items():
                registry.update(self._registries[name])
        if "decimal_context" in kinds:
            decimal.setcontext(self._decimal.copy())

    def _only_installed_finders(self) -> bool:
        """Return True if all that is new are finders of installed packages at the end: they find nothing of others."""
        known = len(self._meta_path)
        new = sys.meta_path[known:]
        return _same(sys.meta_path[:known], self._meta_path) and not any(
            _is_of_project((finder if isinstance(finder, type) else type(finder)).__module__) for finder in new
        )

    def _patched(self) -> Iterator[str]:
        """Yield the patched names of the watched modules, and keep their former values."""
        self._former = {}
        for namespace in self._namespaces.values():
            if same_values([namespace.pair]):
                continue
            if former := namespace.changed():
                self._former[namespace.name] = former
                yield from (f"{namespace.name}.{name}" for name in former)
            else:
                namespace.update()
        self._list_pairs()

    def _replaced_modules(self) -> tuple[str, ...]:
        if sys.modules is self._modules_dict and same_values([(sys.modules, self._identities)]):
            return ()
        found = [name for name, module in self._modules.items() if sys.modules.get(name) is not module]
        if sys.modules is not self._modules_dict:
            found.append("sys.modules")
        # A module that was loaded and patched in the same case has no former values.
        new = {name for name in sys.modules if name.partition(".")[0] in _GUARDED} - self._seen
        found += (name for name in new if _has_functions_of_project(sys.modules[name]))
        if not found:
            self._absorb_modules()
        return tuple(found)

    def _registry_changed(self, name: str) -> bool:
        before, now = self._registries[name], _REGISTRIES[name]
        if len(now) == len(before) and now == before:
            return False
        if any(now.get(key) is not value for key, value in before.items()):
            return True
        new = {key: now[key] for key in now.keys() - before.keys()}
        if any(not _is_of_project(key.__module__) and _is_of_project(value.__module__) for key, value in new.items()):
            return True
        self._registries[name] = dict(now)
        return False

    def _new_threads(self) -> tuple[str, ...]:
        """Return the names of the threads that were not there before and do not end within moments."""
        if sys._current_frames().keys() <= self._threads:
            return ()
        names = {thread.ident: thread for thread in threading.enumerate()}
        new = [names.get(ident) for ident in sys._current_frames() if ident not in self._threads]
        for thread in new:
            if thread is not None and thread is not threading.current_thread():
                thread.join(_THREAD_PATIENCE_S)
        running = sys._current_frames().keys() - self._threads
        return tuple(names[ident].name if ident in names else "unnamed thread" for ident in running)


def _is_watched(name: str) -> bool:
    package, _, module = name.rpartition(".")
    is_core = package in ("numpy._core", "numpy.core") and module in _WATCHED_CORE
    return name in _WATCHED_MODULES or is_core


def _is_code(value: Any) -> bool:
    return callable(value) or isinstance(value, ModuleType)


def _same(now: list[Any], before: list[Any]) -> bool:
    return len(now) == len(before) and all(map(operator.is_, now, before))


def _computes_alike(context: decimal.Context, other: decimal.Context) -> bool:
    """Return True if two contexts of decimal give the same results and errors."""
    # Without the flags, which every inexact operation sets. The traps compare as a whole: a walk over them takes 4 us.
    return (
        (context.prec, context.Emin, context.Emax) == (other.prec, other.Emin, other.Emax)
        and (context.capitals, context.clamp, context.rounding) == (other.capitals, other.clamp, other.rounding)
        and context.traps == other.traps
    )


def _has_functions_of_project(module: ModuleType) -> bool:
    values = [*getattr(module, "__dict__", {}).values()]
    return any(callable(value) and _is_of_project(getattr(value, "__module__", None)) for value in values)


def _is_of_project(name: Any) -> bool:
    """Return True if a module belongs neither to Python nor to an installed package."""
    if not isinstance(name, str) or name.partition(".")[0] in _GUARDED:
        return False
    file = getattr(sys.modules.get(name.partition(".")[0]), "__file__", None)
    if not isinstance(file, str):
        return False
    return not {"site-packages", "dist-packages"} & {*Path(file).parts}
