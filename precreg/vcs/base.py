"""Which commit a run is held against. Apart from what reads it, so that a run without one imports next to nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from precreg import vcs
from precreg.environment.ci import merge_request_base

AUTO, OFF = "auto", "off"


def base_commit(project: Path, asked: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the commit to hold a run against, or None.

    `asked` is a revision, which is taken as it is; `REVISION...`, for its merge base with HEAD; `auto`, for the base of
    the merge request whose job this is, none elsewhere; or `off`. Raises UserError: no-git, unknown-revision,
    no-merge-base.
    """
    if asked == OFF:
        return None
    revision = merge_request_base(project, environ) if asked == AUTO else asked
    return None if revision is None else vcs.named_commit(project, revision)
