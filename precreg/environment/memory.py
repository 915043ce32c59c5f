"""How much memory does a requirement name, and how much may this process use?

A suite writes `requires: [memory:8GB]`. The memory of a machine is that of its container, where one limits it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

MEMORY_PREFIX = "memory:"

_UNITS = {
    **{name: 1000**power for power, name in enumerate(("B", "kB", "MB", "GB", "TB"))},
    **{name: 1024**power for power, name in enumerate(("KiB", "MiB", "GiB", "TiB"), start=1)},
}
_AMOUNT = re.compile(rf"(\d{{1,9}}(?:\.\d{{1,9}})?) ?({'|'.join(_UNITS)})")
# Version 2 of control groups, and version 1. A process in a container sees its own group at the root.
_LIMITS = ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes")


def required_memory(requirement: str) -> int | None:
    """Return the bytes of a requirement such as "memory:8GB" or "memory:1.5GiB"; None for any other text."""
    found = _AMOUNT.fullmatch(requirement.removeprefix(MEMORY_PREFIX))
    if found is None or not requirement.startswith(MEMORY_PREFIX):
        return None
    # A fraction of a byte rounds up: a requirement is a least amount. Integers are exact at each size.
    whole, _, fraction = found[1].partition(".")
    scaled: int = int(whole + fraction) * _UNITS[found[2]]
    divisor: int = 10 ** len(fraction)
    return -(-scaled // divisor)


def describe_memory(size: int) -> str:
    """Write a number of bytes in the largest unit that it reaches, with all its digits."""
    from decimal import Decimal  # late, because few runs require memory

    units = [name for name in _UNITS if not name.endswith("iB")]
    name = next((name for name in reversed(units) if size >= _UNITS[name]), "B")
    return f"{(Decimal(size) / _UNITS[name]).normalize():f} {name}"


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
