"""Where do the reports of a run go, and which functions write them?

Every caller of a run, the command and the pytest plugin, hands this one list to the session.
"""

from __future__ import annotations

import os
from pathlib import Path

# Through the door of the room, because this list shall not depend on where the room keeps the functions.
from precreg.report import make_reports_folder, write_reports
from precreg.run import RunOutputs

RUN_OUTPUTS = RunOutputs(make_folder=make_reports_folder, write=write_reports)


def reports_folder(project: Path) -> Path:
    """Return the default folder of the reports, relative to the current folder."""
    return Path(os.path.relpath(project / "reports"))
