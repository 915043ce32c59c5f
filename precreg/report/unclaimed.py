"""Which words name changed files that belong to no case?

A run before a push that has nothing to judge prints them, too, so this module imports nothing.
"""

from __future__ import annotations

from collections.abc import Sequence


def describe_unclaimed_files(files: Sequence[str], others: int = 0) -> str:
    """Count the files and name the first ones: `2 changed files belong to no case: op.c, op.h`."""
    number = len(files) + others
    counted = "1 changed file belongs" if number == 1 else f"{number} changed files belong"
    # Names of files may have any character, and terminals obey some.
    named = ", ".join(file if file.isprintable() else ascii(file) for file in files)
    more = f" and {others} more" if others else ""
    return f"{counted} to no case: {named}{more}; a suite claims its files with depends:"
