"""The text of the hook: a script of the POSIX shell that calls the Pythons that installed it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import NamedTuple

VERSION = 1

CHAINED = "pre-push.before-precreg"
"""The name that somebody else's hook gets, beside ours, which calls it first."""


_OURS = re.compile(r"^# precreg pre-push hook, version \d+\.", re.MULTILINE)

_CHECKS = "# The projects: the Python that installed the hook, and the folder in the repository.\n"


_HEAD = f"""\
#!/bin/sh
# precreg pre-push hook, version {VERSION}. Made by `precreg hook install`, removed by `precreg hook uninstall`.
# It stops a push that makes results less precise. `git push --no-verify` goes around it.

remote=$1
url=$2
hook=$0
chained=${{0%/*}}/{CHAINED}
pushed=$(cat && echo .)
pushed=${{pushed%.}}
code=0

if [ -x "$chained" ]; then
    printf '%s' "$pushed" | "$chained" "$@" || exit
fi

check() {{
    printf '%s' "$pushed" | "$1" -P -m precreg hook run --folder "$2" -- "$remote" "$url" && return
    code=$?
    "$1" -P -c 'import precreg.cli.hook' 2>/dev/null || cat >&2 <<MESSAGE
precreg: the push is stopped, because it cannot be checked: precreg is not where it was when the hook was installed.
  expected: $1 -m precreg
  what to do: precreg hook install, once more, with a Python that has precreg
  or: git push --no-verify, which pushes unchecked; or remove the check with: rm '$hook'
MESSAGE
}}

{_CHECKS}"""

_TAIL = "exit $code\n"


class Check(NamedTuple):
    """One project that the hook checks: a Python's absolute path, and the project's folder in the repository."""

    python: str
    folder: str


def is_ours(text: str) -> bool:
    """Tell whether a hook was made by precreg, whatever its version."""
    return _OURS.search(text) is not None


def render(checks: Iterable[Check]) -> str:
    """Return the hook that checks these projects, one after another."""
    lines = (f"check {shlex.quote(check.python)} {shlex.quote(check.folder)}\n" for check in checks)
    return f"{_HEAD}{''.join(lines)}{_TAIL}"


def parse(text: str) -> list[Check]:
    """Return the projects that a hook of precreg's checks. Raises ValueError where somebody has changed their list."""
    words = shlex.split(text.partition(_CHECKS)[2].removesuffix(_TAIL))
    if words[::3] != ["check"] * (len(words) // 3):
        raise ValueError("expected nothing but checks")
    return [Check(*pair) for pair in zip(words[1::3], words[2::3], strict=True)]
