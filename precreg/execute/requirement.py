"""What a case needs to be there: packages, in some version, and devices. Nothing is imported to find out."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

from precreg.errors import UserError

_DEVICE = "device:"


@cache
def missing(requirement: str, chain: tuple[str, ...]) -> str | None:
    """Say what is missing of a requirement such as "numpy>=2", "torch" or "device:npu"; None when it is met.

    A device is there when a label of the environment's chain names it. Raises UserError (bad-value) for a requirement
    that cannot be read.
    """
    if requirement.startswith(_DEVICE):
        device = requirement.removeprefix(_DEVICE)
        return None if device in chain else f"needs the device {device}, but the environment is {chain[0]}"
    if requirement.isidentifier() and find_spec(requirement) is not None:
        return None
    return _missing_package(requirement)


def _missing_package(requirement: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    from packaging.requirements import InvalidRequirement, Requirement

    try:
        needed = Requirement(requirement)
    except InvalidRequirement as error:
        message = f"expected a requirement such as numpy>=2 or device:npu but got requirement={requirement}"
        raise UserError("bad-value", message) from error
    try:
        installed = version(needed.name)
    except PackageNotFoundError:
        return f"needs {requirement}, but {needed.name} is not installed"
    if needed.specifier.contains(installed, prereleases=True):
        return None
    return f"needs {requirement}, but {needed.name} {installed} is installed"
