"""Where a project's history is: the option, the variable, or the file in the project; the same for every command."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from precreg.history.store import History


DEFAULT = "history.sqlite"


history_option = click.option(
    "--history",
    "place",
    envvar="PRECREG_HISTORY",
    metavar="URL",
    help=f"A SQLite file, or postgresql://HOST/DATABASE; .precreg/{DEFAULT} in the project.",
)


def open_project_history(project: Path, place: str | None, *, create: bool = False) -> History:
    """Open the history of a project at the place given, else at its own. Raises UserError as open_history does."""
    from precreg.environment.ci import project_name
    from precreg.history.store import open_history
    from precreg.storage.writing import WORKING_FOLDER, make_scratch_folder, writing
    from precreg.subject.failure import encodable

    folder = Path(os.path.relpath(project / WORKING_FOLDER))
    if create and place is None:
        with writing(str(folder)):
            make_scratch_folder(folder)
    name = encodable(project_name(project, os.environ))
    return open_history(place or folder / DEFAULT, project=name, create=create)
