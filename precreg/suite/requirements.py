"""Which requirements of a case may a suite write, and how much memory does one name?

A requirement is a package (`numpy>=2`, `torch`), a device (`device:npu`) or an amount of memory (`memory:8GB`).
"""

from __future__ import annotations

import re

from precreg.storage import Source

MEMORY_PREFIX = "memory:"

_UNITS = {
    **{name: 1000**power for power, name in enumerate(("B", "kB", "MB", "GB", "TB"))},
    **{name: 1024**power for power, name in enumerate(("KiB", "MiB", "GiB", "TiB"), start=1)},
}
_AMOUNT = re.compile(rf"(\d{{1,9}}(?:\.\d{{1,9}})?) ?({'|'.join(_UNITS)})")


def check_requirements(source: Source, requirements: tuple[str, ...]) -> None:
    """Refuse a requirement that nothing can meet. Raises UserError (bad-value)."""
    for index, requirement in enumerate(requirements):
        if not _is_requirement(requirement):
            message = (
                f"expected a requirement such as numpy>=2, device:npu or memory:8GB but got requirement={requirement}"
            )
            raise source.error(
                "bad-value",
                message,
                "requires",
                index,
                hint="write a package with its version, a device or memory: requires: ['numpy>=2', 'memory:8GB']",
            )


def _is_requirement(text: str) -> bool:
    """Return True for device:LABEL, memory:AMOUNT, the import name of a module, or a requirement as pip writes it."""
    if text.startswith("device:"):
        return re.fullmatch(r"device:\S+", text) is not None
    if text.startswith(MEMORY_PREFIX):
        return required_memory(text) is not None
    if text.isidentifier():  # __main__ is precreg itself, so it is always there and requires nothing
        return text != "__main__"
    from packaging.requirements import InvalidRequirement, Requirement  # takes 10 ms, and few suites require a version

    try:
        Requirement(text)
    except InvalidRequirement:
        return False
    return True


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
