"""What a case needs to be there: packages, in some version, and devices. Nothing is imported to find out."""

from __future__ import annotations

import sys
from functools import cache

from precreg.subject.module_space import step_out

_DEVICE = "device:"


@cache
def missing(requirement: str, chain: tuple[str, ...]) -> str | None:
    """Say what is missing of a requirement such as "numpy>=2", "torch" or "device:npu"; None when it is met.

    A device is there when a label of the environment's chain names it; a name alone is that of a module or of a
    package. Requirements are checked when suites are read. A project's own modules meet none: whether they are on
    sys.path, or loaded, depends on which cases ran before.
    """
    if requirement.startswith(_DEVICE):
        device = requirement.removeprefix(_DEVICE)
        return None if device in chain else f"needs the device {device}, but the environment is {chain[0]}"
    step_out()
    if requirement.isidentifier():
        there = _importable(requirement) or _installed(requirement) is not None
        return None if there else f"needs {requirement}, which is not installed"
    return _missing_version(requirement)


def _importable(module: str) -> bool:
    """Tell whether an import would find a module, whatever is loaded by its name already."""
    finders = (finder for finder in sys.meta_path if hasattr(finder, "find_spec"))
    return any(finder.find_spec(module, None) is not None for finder in finders)


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
