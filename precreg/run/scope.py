"""Which cases of a project must be read for one request?

A whole run reads every suite. A run of a few cases reads the suites of these, and those that findings of any run need:
tables, whose accepted rows may be gone, and suites with cumulative losses. The index of suites has all other names.
"""

from __future__ import annotations

from typing import NamedTuple

from precreg.baseline import suites_with_history
from precreg.environment import detect_environment
from precreg.errors import UserError
from precreg.run.request import RunRequest
from precreg.suite import Selection, load_cases, project_cases
from precreg.types import Case


class RequestScope(NamedTuple):
    """Hold the cases that were read, in the order of all, and the number of the project's other cases."""

    cases: list[Case]
    left_out: int


def read_scope(request: RunRequest) -> RequestScope:
    """Return the cases that a run must know. Raises UserError as `load_cases`."""
    # A base, a shard and a change judge by all cases: HEAD may have removed one, or judge it by less.
    needs_all = request.base is not None or request.shard is not None or request.changed is not None
    if needs_all or request.selection == Selection():
        return RequestScope(load_cases(request.project), 0)
    known = project_cases(request.project)
    try:
        ids = known.selected_ids(request.selection)
    except UserError:
        # A name that no case has may be an accepted row of a table that is gone.
        ids = set()
    if not ids:
        return RequestScope(known.every(), 0)
    chain = detect_environment(request.environment).chain
    suites = known.table_suites | suites_with_history(request.project, chain)
    ids |= known.ids_of_suites(suites)
    return RequestScope(known.cases(ids), known.number - len(ids))
