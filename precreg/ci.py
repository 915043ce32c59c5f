"""Whether a person is there: what waits for one, such as a proposal, is decided otherwise where nobody is."""

from __future__ import annotations

from collections.abc import Mapping


def in_ci(environ: Mapping[str, str]) -> bool:
    """Tell whether the variable CI says that this is an automatic run."""
    return environ.get("CI", "").lower() not in ("", "0", "false")
