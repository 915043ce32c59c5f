"""Which conditions does every outcome of a run depend on, and which cases are never reused?

The conditions are the machine, the interpreter, the installed packages, the environment variables and precreg itself.
A change of one of them makes every case run again. A case is never reused if precreg cannot see all that its outcome
depends on, or if the outcome is a measurement of time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import precreg
from precreg import __version__
from precreg.environment import count_processors
from precreg.run.reuse.file_state import digest_of, file_signature_text
from precreg.subject import has_recorded_objects
from precreg.types import Case, Environment, Outcome, Reason, UnkeptReason
from precreg.vcs import has_unknown_dependencies

# Variables that a terminal, a session or a call of git has for itself. All others count: precreg cannot see which of
# them a subject reads.
_OF_SESSION = (
    *("_", "PWD", "OLDPWD", "SHLVL", "TERM", "TERM_*", "COLUMNS", "LINES", "COLORTERM", "COLORFGBG", "LS_COLORS"),
    *("PS1", "PS2", "PS4", "PROMPT_COMMAND", "HIST*", "EDITOR", "VISUAL", "PAGER", "LESS*", "MAIL", "GPG_TTY"),
    *("SSH_*", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "WINDOWID", "DBUS_SESSION_BUS_ADDRESS", "XDG_SESSION_*"),
    *("XDG_VTNR", "XDG_SEAT*", "TMUX*", "STY", "VTE_VERSION", "KONSOLE_*", "ITERM_*", "GNOME_TERMINAL_*", "VSCODE_*"),
    *("INVOCATION_ID", "JOURNAL_STREAM", "NO_COLOR", "FORCE_COLOR", "CLICOLOR*", "GIT_*", "PYTEST_CURRENT_TEST"),
    *("PRECREG_DIAGNOSE", "PRECREG_HISTORY", "PRECREG_SOURCE_URL", "PRECREG_COMMIT_URL"),
)
# The databases of systems' packages. A new compiler, shell or C library changes one of them.
_SYSTEM_PACKAGES = (
    *("/var/lib/dpkg/status", "/var/lib/rpm/rpmdb.sqlite", "/var/lib/rpm/Packages", "/lib/apk/db/installed"),
    *("/var/lib/pacman/local", "/etc/ld.so.cache", "/etc/ld.so.preload"),
)
_SITE = ("site-packages", "dist-packages")
_METADATA = (".dist-info", ".egg-info", ".egg-link")
_CACHE_FOLDER = "__pycache__"


def run_conditions(project: Path, environment: Environment) -> str:
    """Return a digest of all that every outcome of a run depends on."""
    limits = (os.getcwd(), project, os.getuid(), os.geteuid(), os.getgid(), _umask(), count_processors())
    python = (sys.version, sys.executable, os.path.realpath(sys.executable), sys.prefix, sys.flags, sys.warnoptions)
    parts = (
        f"{__version__} {environment.chain} {sorted(environment.facts.items())}",
        repr(tuple(map(str, (*limits, os.cpu_count(), *python, sorted(sys._xoptions.items()))))),
        repr(sys.path),
        repr(sorted(relevant_variables(os.environ).items())),
        *_installed(project),
        *(f"{path} {file_signature_text(path)}" for path in _SYSTEM_PACKAGES),
        *_own_files(),
    )
    return digest_of(*parts)


def relevant_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that a subject may depend on."""
    return {
        name: value for name, value in environ.items() if not any(fnmatchcase(name, pattern) for pattern in _OF_SESSION)
    }


def _umask() -> int:
    # The system has no call that only reads it.
    present = os.umask(0o077)
    os.umask(present)
    return present


def _own_files() -> Iterator[str]:
    """Yield a text for each file of precreg: a checkout changes without its version."""
    for folder, folders, files in os.walk(os.path.dirname(os.path.abspath(precreg.__file__))):
        folders[:] = sorted(name for name in folders if name != _CACHE_FOLDER)
        yield from (f"{folder}/{name} {file_signature_text(f'{folder}/{name}')}" for name in sorted(files))


def _installed(project: Path) -> Iterator[str]:
    """Yield a text for each name in the folders of installed packages, with the state of their metadata."""
    for folder in dict.fromkeys(os.path.abspath(each) for each in sys.path):
        is_site = not set(_SITE).isdisjoint(folder.split(os.sep))
        outside = is_site or not Path(folder).is_relative_to(project)
        # The files of Python itself count by their version, and by their states where a case loads them.
        for name in sorted(_names(folder)):
            if outside or name.endswith(_METADATA):
                yield f"{folder}/{name}"
            if name.endswith(_METADATA):
                yield from (f"{name}/{each} {file_signature_text(f'{folder}/{name}/{each}')}" for each in _DESCRIBING)
            elif name.endswith(".pth") or name in ("sitecustomize.py", "usercustomize.py"):
                yield file_signature_text(f"{folder}/{name}")


_DESCRIBING = ("METADATA", "RECORD", "entry_points.txt", "PKG-INFO")


def _names(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name != _CACHE_FOLDER]
    except OSError:
        return []


def never_reused(case: Case, project: Path) -> UnkeptReason | None:
    """Return the reason why no outcome of a case is reused, as far as its definition shows; None without one."""
    if not case.deterministic:
        return "nondeterministic"
    is_timed = case.budget.time_ratio is not None or (case.study is not None and case.study.trade_off is not None)
    if is_timed:
        return "timed"
    # An object changes without a change of a file, so that each run reads it.
    computations = filter(None, (case.subject, case.oracle, case.benchmark))
    if any(map(has_recorded_objects, computations)):
        return "network"
    return "undeclared" if has_unknown_dependencies(case, project) else None


def unkept_outcome(outcome: Outcome, reasons: Iterable[str]) -> UnkeptReason | None:
    """Return the reason why an outcome is not kept; `reasons` are those that its process observed."""
    if (failure := outcome.execution.failure) is not None:
        return "unavailable" if failure.reason is Reason.UNAVAILABLE else "failed"
    if outcome.execution.left:
        return "left_changes"
    found = set(reasons)
    return next((reason for reason in _OBSERVED if reason in found), None)


_OBSERVED: tuple[UnkeptReason, ...] = ("network", "programs", "deleted_library", "unreadable")
