"""Which cases changed the process that they ran in, and what did precreg do about it?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from precreg.types import CaseResult, StateChange, StateKind

_KINDS: dict[StateKind, str] = {
    "floating_point_mode": "floating-point mode",
    "signal_handlers": "signal handlers",
    "blocked_signals": "blocked signals",
    "timers": "interval timers",
    "resource_limits": "resource limits",
    "umask": "file mode mask",
    "locale": "locale",
    "time_zone": "time zone",
    "descriptors": "standard streams",
    "faulthandler": "faulthandler",
    "interpreter": "settings of the interpreter",
    "numpy_settings": "settings of numpy",
    "priority": "priority and processors",
    "search_path": "search path of imports",
    "modules": "modules",
    "functions": "functions of others",
    "registries": "registries of functions",
    "decimal_context": "decimal context",
    "threads": "running threads",
    "processes": "running processes",
}
_REMEDIES = {
    "repaired": "repaired",
    "replaced": "the worker was replaced",
    "remains": "it stays until this process ends; a run in workers (--jobs 1) replaces them",
}


class ProcessNote(NamedTuple):
    """One change of the process, and the ids of the cases that made it."""

    text: str
    ids: list[str]
    change: StateChange


def describe_state_change(change: StateChange) -> str:
    """Write one change of a process: its kind, the changed parts, and the remedy."""
    kind = _KINDS[change.kind]
    others = [f"{change.others} more"] if change.others else []
    named = ", ".join([*(name for name in change.names if name != kind), *others])
    return f"{kind}{f' ({named})' if named else ''}: {_REMEDIES[change.remedy]}"


def describe_process_changes(results: Iterable[CaseResult]) -> list[ProcessNote]:
    """Return each change of a process with its cases; changes without a remedy first, then by the number of cases."""
    found: dict[StateChange, list[str]] = {}
    for result in results:
        for change in result.outcome.execution.left:
            found.setdefault(change, []).append(result.id)
    ordered = sorted(found.items(), key=lambda item: (item[0].remedy != "remains", -len(item[1]), item[0].kind))
    return [ProcessNote(describe_state_change(change), sorted(ids), change) for change, ids in ordered]


def count_process_changes(results: Iterable[CaseResult]) -> str:
    """Write how many cases changed their process; empty if none did."""
    changing = [result for result in results if result.outcome.execution.left]
    if not changing:
        return ""
    number = "1 case changed its process" if len(changing) == 1 else f"{len(changing)} cases changed their process"
    remains = any(change.remedy == "remains" for result in changing for change in result.outcome.execution.left)
    return f"{number}, {'which later cases may have noticed' if remains else 'and no other case noticed'}"


def explain_process_changes(result: CaseResult) -> list[str]:
    """Return a line for each change that a case left in its process."""
    return [f"process   {describe_state_change(change)}" for change in result.outcome.execution.left]
