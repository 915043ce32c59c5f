"""Is it certain that a command finds nothing to do, before its options are parsed?

Most pushes touch no case. Importing click costs more than asking git, so the hook's command, and a run of changed cases
without other options, are answered here where the answer is certain. In all other cases the command itself begins, with
the same words, and it repeats the questions.
"""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Mapping, Sequence
from os.path import realpath
from pathlib import Path

from precreg.errors import UserError

# Variables of CI choose shards and bases, which need all suites; the others are options of these commands.
_CI_PREFIX = "CI_"
_OPTIONS = {"_PRECREG_COMPLETE", "PRECREG_DIAGNOSE"}


def has_nothing_to_do(words: Sequence[str], environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether a command is done; it has printed its answer then, and nothing otherwise."""
    if not _OPTIONS.isdisjoint(environ):
        return False
    gc.disable()  # a search for garbage costs 2 ms, as much as a call of git, and finds none
    try:
        answer = _answer(words, environ)
    except (UserError, OSError, ValueError):
        answer = None  # the command meets the same mistake again, and prints it
    except KeyboardInterrupt:
        print("interrupted: nothing is pushed" if words[0] == "hook" else "interrupted", file=sys.stderr)
        sys.exit(130)  # as shells report a process that SIGINT ended: 128 + 2
    if answer is None:
        gc.enable()
        return False
    out, err = answer
    if err:
        print(err, file=sys.stderr, flush=True)
    if out:
        print(out, flush=True)
    gc.freeze()  # Python searches all objects again when it ends, which costs 4 ms
    return True


def _answer(words: Sequence[str], environ: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the lines of stdout and stderr, or None if there may be something to do. Raises UserError, OSError."""
    match words:
        case ["run", "--changed-since", since] if not any(name.startswith(_CI_PREFIX) for name in environ):
            return None if since.startswith("-") else _answer_run(since)
        case ["hook", "run", "--folder", folder, "--", remote, _] | ["hook", "run", "--folder", folder, remote, _]:
            return None if remote.startswith("-") else _answer_hook(folder, remote)
    return None


def _answer_run(since: str) -> tuple[str, str] | None:
    from precreg.storage import find_project
    from precreg.vcs import changed_files, no_case_affected

    project = find_project(Path.cwd())
    changed = changed_files(project, since)
    if not changed:
        return f"nothing changed since {since}: no case to run", ""
    if no_case_affected(project, changed):
        return f"no case depends on what changed since {since}", _unclaimed(changed)
    return None


def _answer_hook(folder: str, remote: str) -> tuple[str, str] | None:
    from precreg.vcs import changes_of_push, no_case_affected, other_files, parse_git_pushes, unset_hook_variables

    if sys.stdin.isatty():
        return None
    unset_hook_variables()
    given = sys.stdin.buffer.read()
    # The command reads the pushed refs once more, if it has to begin.
    sys.stdin = io.TextIOWrapper(io.BytesIO(given))
    root = Path(realpath(Path.cwd()))
    lines = []
    for tip, changed in changes_of_push(root, folder, parse_git_pushes(os.fsdecode(given)), remote):
        project = root / folder
        if changed is None or other_files(project, tip.commit) or not no_case_affected(project, changed):
            return None
        lines += [_unclaimed(changed), f"precreg: no case depends on the pushed files ({tip})"]
    return "", "\n".join(filter(None, lines or ["precreg: no case depends on the pushed files"]))


def _unclaimed(changed: set[str]) -> str:
    """Return the warning about changed files that belong to no case, or an empty text."""
    from precreg.report import describe_unclaimed_files
    from precreg.vcs import MAX_UNCLAIMED, can_be_claimed

    names = sorted(filter(can_be_claimed, changed))
    shown = names[:MAX_UNCLAIMED]
    return f"precreg: warning: {describe_unclaimed_files(shown, len(names) - len(shown))}" if names else ""
