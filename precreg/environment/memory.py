"""How much memory may this process use?

The memory of a machine is that of its container, where one limits it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

# Version 2 of control groups, and version 1. A process in a container sees its own group at the root.
_LIMITS = ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes")


@cache
def usable_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes that the machine has, or that its container allows; None where the system does not say."""
    return min(_limits(root), default=None)


def _limits(root: Path) -> Iterator[int]:
    names = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" in names and "SC_PAGE_SIZE" in names:
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for name in _LIMITS:
        try:
            text = (root / name).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        # Version 2 writes "max" for no limit.
        if text.isdigit():
            yield int(text)
