"""What a case needs to be there: packages, in some version, and devices. Nothing is imported to find out."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

_DEVICE = "device:"


@cache
def missing(requirement: str, chain: tuple[str, ...]) -> str | None:
    """Say what is missing of a requirement such as "numpy>=2", "torch" or "device:npu"; None when it is met.

    A device is there when a label of the environment's chain names it; a name alone is that of a module or of a
    package. Requirements are checked when suites are read.
    """
    if requirement.startswith(_DEVICE):
        device = requirement.removeprefix(_DEVICE)
        return None if device in chain else f"needs the device {device}, but the environment is {chain[0]}"
    if requirement.isidentifier():
        there = find_spec(requirement) is not None or _installed(requirement) is not None
        return None if there else f"needs {requirement}, which is not installed"
    return _missing_version(requirement)


def _missing_version(requirement: str) -> str | None:
    from packaging.requirements import Requirement

    needed = Requirement(requirement)
    installed = _installed(needed.name)
    if installed is None:
        return f"needs {requirement}, but {needed.name} is not installed"
    if needed.specifier.contains(installed, prereleases=True):
        return None
    return f"needs {requirement}, but {needed.name} {installed} is installed"


def _installed(package: str) -> str | None:
    """Return the version of a package, or None where it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None
