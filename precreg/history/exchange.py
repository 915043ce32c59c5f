"""In which format does a history travel, and which rows change when runs are imported or removed?

An export is JSON Lines: a header, the runs, then the cases. A case's line has ranges of the runs that ran it, in the
order of the runs of its environment, and its state at each run that changed it. The header has the number of runs and
cases, so that the reader notices a truncated file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby, islice
from typing import Annotated, NamedTuple, NoReturn, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict
from sqlalchemy import Connection, bindparam, delete, func, select, union, update

from precreg.errors import UserError
from precreg.history.add import NewRun, add_cases, to_utc, write_last, write_rows, write_run
from precreg.history.packing import QUERY_CHUNK, KeptCase, PackedState, Texts, query_chunks
from precreg.history.rows import (
    CASES_TABLE,
    FIGURES_TABLE,
    HISTORY_TABLE,
    LAST_TABLE,
    RUNS_TABLE,
    SCOPES_TABLE,
    TEXTS_TABLE,
    DamagedError,
    Scope,
    StateRows,
    decode_states,
    encode_states,
    without_runs,
)
from precreg.history.runs import EnvironmentRuns, HistoryRun, all_cases, case_rows, new_environment_id, stored_runs
from precreg.history.series import StoredCase, every_block
from precreg.history.states import CaseState
from precreg.storage import future_schema, schema_age

# The format of exports is older than the tables, and any version of precreg since 0.1 reads it.
EXPORT_SCHEMA = "precreg-history/1"

_T = TypeVar("_T", bound=Struct)


class ExportHeader(Struct, frozen=True):
    """Hold the first line: schema, project, and the numbers of lines for runs and for cases."""

    schema: str
    project: str
    runs: int
    cases: int


class RunLine(NewRun, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Hold one run with its number in the exported history."""

    # PostgreSQL's INTEGER ends at 2^31 - 1, and the next run needs a number too.
    number: Annotated[int, Meta(ge=1, lt=2**31 - 1)]


class CaseLine(Struct, frozen=True, forbid_unknown_fields=True):
    """Hold one case in one environment: ranges (first, last) of run numbers, and changed states by run number."""

    case: str
    environment: str
    ran: list[tuple[int, int]]
    changes: dict[int, KeptCase]


def export_lines(connection: Connection, project: str) -> Iterator[bytes]:
    """Yield the lines of a history. Equal histories give equal lines."""
    runs = stored_runs(connection)
    cases = connection.execute(select(func.count()).select_from(LAST_TABLE)).scalar_one()
    yield _encode_line(ExportHeader(EXPORT_SCHEMA, project, len(runs), cases))
    identities = {
        number: identity for number, identity in connection.execute(select(RUNS_TABLE.c.number, RUNS_TABLE.c.identity))
    }
    for run in runs:
        yield _encode_line(RunLine(identity=identities[run.number], **asdict(run)))
    for environment in sorted({run.environment for run in runs}):
        yield from map(_encode_line, _read_cases(connection, environment))


def _read_cases(connection: Connection, environment: str) -> Iterator[CaseLine]:
    for block in every_block(connection, environment):
        block.load_texts()
        for one in block.cases:
            yield _case_line(one, block.runs, block.texts)


def _case_line(one: StoredCase, runs: EnvironmentRuns, texts: Texts) -> CaseLine:
    places = sorted(one.rows)
    kept = texts.unpack(one.rows[place] for place in places)
    changes = {runs.order[place]: state for place, state in zip(places, kept, strict=True)}
    ranges = [(runs.order[first], runs.order[last]) for first, last in find_ranges(one.ran)]
    return CaseLine(one.name, runs.label, ranges, changes)


def find_ranges(places: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last of each row of successive numbers."""
    for _, group in groupby(enumerate(places), lambda one: one[1] - one[0]):
        numbers = [place for _, place in group]
        yield numbers[0], numbers[-1]


def _encode_line(value: Struct) -> bytes:
    return msgspec.json.encode(value) + b"\n"


class ExportReader:
    """Read an export: its header and runs at once, its cases one by one.

    Raises:
        UserError: unreadable-history, future-schema, with the number of the line.
    """

    def __init__(self, lines: Iterable[bytes], shown: str) -> None:
        self.shown = shown
        self._lines, self._number = iter(lines), 0
        self.header = self._next(ExportHeader)
        self._check_schema()
        self.runs = [self._next(RunLine) for _ in range(self.header.runs)]
        self._check_order()
        self._order: dict[str, list[int]] = {}
        for run in self.runs:
            self._order.setdefault(run.environment, []).append(run.number)

    def cases(self) -> Iterator[CaseLine]:
        """Yield the cases, and check that the file ends after the last case.

        Raises UserError: unreadable-history.
        """
        last = ("", "")
        for _ in range(self.header.cases):
            case = self._next(CaseLine)
            last, before = (case.environment, case.case), last
            # The writer sorts the lines, so a line out of order means an edited or damaged file. An import relies on
            # this order: it reads the cases of one environment together.
            if last <= before:
                self._refuse("expected environments, and the cases of each, in order and once")
            if not set(case.changes) <= {*self.ran(case)} or not case.ran or case.ran[0][0] not in case.changes:
                self._refuse("expected a state at the first run that ran the case, and no state where none did")
            yield case
        if next(self._lines, None) is not None:
            self._refuse(f"expected {self.header.cases} cases but there are more lines")

    def ran(self, case: CaseLine) -> list[int]:
        """Return the numbers of the runs of a case in order. Raises UserError (unreadable-history)."""
        order = self._order.get(case.environment, [])
        try:
            return [n for first, last in case.ran for n in order[order.index(first) : order.index(last) + 1]]
        except ValueError:
            self._refuse(f"expected runs of {case.environment} but got ran={case.ran}")

    def _check_schema(self) -> None:
        age = schema_age(self.header.schema, EXPORT_SCHEMA)
        if age == "other":
            self._refuse(f"expected a history of schema {EXPORT_SCHEMA} but got schema={self.header.schema!r}")
        if age == "newer":
            raise future_schema(self.header.schema, EXPORT_SCHEMA, self.shown, line=1)

    def _check_order(self) -> None:
        keys = [(run.started, run.number) for run in self.runs]
        if keys != sorted(keys) or not all(_is_in_utc(run.started) for run in self.runs):
            self._refuse("expected runs in the order in which they started, in UTC")
        for name in ("number", "identity"):
            if len({getattr(run, name) for run in self.runs}) < len(self.runs):
                self._refuse(f"expected runs that differ in {name}")

    def _next(self, kind: type[_T]) -> _T:
        line = next(self._lines, None)
        self._number += 1
        if line is None:
            self._refuse("expected more lines: the file was cut")
        try:
            return msgspec.json.decode(line, type=kind)
        except (ValueError, RecursionError) as problem:  # msgspec raises RecursionError for deeply nested JSON
            self._refuse(f"expected a line of a history but got: {problem}")

    def _refuse(self, message: str) -> NoReturn:
        raise UserError("unreadable-history", message, file=self.shown, line=self._number)


def _is_in_utc(started: str) -> bool:
    try:
        return to_utc(started) == started
    except UserError:
        return False


def group_cases(cases: Iterable[CaseLine], size: int) -> Iterator[list[CaseLine]]:
    """Yield the cases in lists of at most `size` cases, each list of one environment."""
    for _, of_one in groupby(cases, lambda case: case.environment):
        while part := list(islice(of_one, size)):
            yield part


def import_export(connection: Connection, export: ExportReader) -> int:
    """Add the new runs of an export and return their number.

    An empty history keeps the run numbers of the export, so that an export and an import copy a history.
    """
    # Identities and not numbers decide which runs are new: each history has its own numbers.
    known = set(connection.execute(select(RUNS_TABLE.c.identity)).scalars())
    new = [run for run in export.runs if run.identity not in known]
    numbers = _assign_numbers(connection, new, keep=not known)
    ids, texts = all_cases(connection), Texts(connection)
    scopes = _NewScopes([run.number for run in new])
    environments = {name: _Environment(connection, name, new, numbers) for name in {run.environment for run in new}}
    for part in group_cases(export.cases(), QUERY_CHUNK):
        cases = [_Case(line, export.ran(line), texts) for line in part if line.environment in environments]
        add_cases(connection, ids, (case.line.case for case in cases))
        by_id = {ids[case.line.case]: case for case in cases}
        if by_id:
            environments[part[0].environment].add(connection, by_id)
        for id, case in by_id.items():
            scopes.add(id, case.ran)
    for run in new:
        write_run(connection, run, numbers[run.number], scopes.of(run.number))
    return len(new)


class _NewScopes:
    """Collect the cases of each new run: a bit for each, as 1,000 runs of 100,000 cases take 12 MB so."""

    def __init__(self, runs: Sequence[int]) -> None:
        import numpy as np

        self._places = {run: place for place, run in enumerate(runs)}
        # By case and then by run, because a case sets a range of runs.
        self._bits = np.zeros((1, len(runs)), np.uint8)

    def add(self, id: int, ran: Sequence[int]) -> None:
        """Add a case to the runs that ran it; other runs are in the history already."""
        import numpy as np

        if (row := id >> 3) >= len(self._bits):
            more = np.zeros((row + 1, self._bits.shape[1]), np.uint8)
            self._bits = np.concatenate([self._bits, more])
        self._bits[row, [self._places[run] for run in ran if run in self._places]] |= np.uint8(1 << (id & 7))

    def of(self, run: int) -> Scope:
        """Return the scope of a run."""
        return Scope(self._bits[:, self._places[run]].tobytes().rstrip(b"\0"))


def _assign_numbers(connection: Connection, new: Iterable[RunLine], *, keep: bool) -> dict[int, int]:
    """Return the number of each new run in this history, by its number in the export."""
    first = connection.execute(select(HISTORY_TABLE.c.next_number)).scalar_one()
    numbers = {run.number: run.number if keep else first + place for place, run in enumerate(new)}
    # max(): kept numbers may be beyond the next number of this history.
    connection.execute(update(HISTORY_TABLE).values(next_number=max([first - 1, *numbers.values()]) + 1))
    return numbers


class _Case:
    """Hold a case of an export, and the numbers of its runs in the export, in order."""

    def __init__(self, line: CaseLine, ran: list[int], texts: Texts) -> None:
        self.line, self.ran = line, ran
        self.states = dict(zip(line.changes, texts.pack([*line.changes.values()]), strict=True))

    def every_state(self) -> dict[int, PackedState]:
        """Return the state at each run by the run's number in the export."""
        places = {number: place for place, number in enumerate(self.ran)}
        rows = {places[number]: state for number, state in self.states.items()}
        return dict(zip(self.ran, decode_states(rows, places.values()).values(), strict=True))


class _Environment:
    """Merge the stored runs and the new runs of one environment in the order of their start."""

    def __init__(self, connection: Connection, name: str, new: Iterable[RunLine], numbers: Mapping[int, int]) -> None:
        self._id = new_environment_id(connection, name)
        self._stored, self._texts = EnvironmentRuns(connection, name), Texts(connection)
        here = [(run.started, run.number) for run in stored_runs(connection, name)]
        added = [(run.started, numbers[run.number]) for run in new if run.environment == name]
        self._order = [number for _, number in sorted(here + added)]
        self._positions = {number: position for position, number in enumerate(self._order)}
        self._new = {run.number: self._positions[numbers[run.number]] for run in new if run.environment == name}

    def add(self, connection: Connection, cases: Mapping[int, _Case]) -> None:
        """Write the states of the cases at the new runs. Cases are by their ids in this history."""
        before = case_rows(connection, self._id, cases, self._positions)
        stored = zip(cases.items(), self._stored.ran([*cases]), strict=True)
        after = {
            id: self._merge_states([self._stored.order[place] for place in ran], before.get(id, {}), case)
            for (id, case), ran in stored
        }
        write_rows(connection, self._id, self._order, before, after)
        last = {id: rows[max(rows)] for id, rows in after.items() if rows}
        kept = self._texts.unpack(last.values())
        write_last(connection, self._id, {id: CaseState.of(state).digest for id, state in zip(last, kept, strict=True)})

    def _merge_states(
        self, stored: Sequence[int], before: StateRows[PackedState], case: _Case
    ) -> StateRows[PackedState]:
        # Without stored states and with new runs only, the export's rows are already the encoded rows. This case is
        # common, an import into an empty history, and skips one decoding of every state.
        if not before and self._new.keys() >= set(case.ran):
            return encode_states({self._new[number]: state for number, state in case.states.items()})
        ran = sorted(self._positions[number] for number in stored)
        theirs = {self._new[number]: state for number, state in case.every_state().items() if number in self._new}
        return encode_states(decode_states(before, ran) | theirs)


class PruneRule(NamedTuple):
    """Hold which runs to remove: times are ISO 8601 in UTC.

    `before` and `keep` remove the runs that started before a time, None for any time, except the newest `keep` runs of
    each environment. `weekly_before` removes the runs that started before a time, except the last of each week of each
    environment; a week begins on Monday in UTC. Runs that `keep` keeps and runs of the `commits` stay in any case.
    """

    before: str | None
    keep: int | None
    commits: Collection[str]
    weekly_before: str | None = None


def select_runs_to_remove(runs: Sequence[HistoryRun], rule: PruneRule) -> list[HistoryRun]:
    """Return the runs to remove. `runs` are in the order of their start."""
    newest: set[int] = set()
    for environment in {run.environment for run in runs}:
        own = [run.number for run in runs if run.environment == environment]
        newest.update(own[-rule.keep :] if rule.keep else [])
    # The last of the week, so that a commit of the end of the week has a run.
    of_week = {(run.environment, _week(run)): run.number for run in runs}
    stays = newest | {run.number for run in runs if run.commit in rule.commits}
    by_age = rule.before is not None or rule.keep is not None
    return [
        run
        for run in runs
        if run.number not in stays
        and (
            (by_age and (rule.before is None or run.started < rule.before))
            or (
                rule.weekly_before is not None
                and run.started < rule.weekly_before
                and of_week[run.environment, _week(run)] != run.number
            )
        )
    ]


def _week(run: HistoryRun) -> tuple[int, int]:
    try:
        return datetime.fromisoformat(run.started).isocalendar()[:2]
    except ValueError:
        raise DamagedError(f"the start of run {run.number} is not a time") from None


def remove_runs(connection: Connection, runs: Collection[HistoryRun]) -> None:
    """Remove runs, with the scopes and cases that no other run has."""
    for environment in sorted({run.environment for run in runs}):
        _remove_from_environment(
            connection, environment, {run.number for run in runs if run.environment == environment}
        )
    connection.execute(delete(SCOPES_TABLE).where(SCOPES_TABLE.c.digest.not_in(select(RUNS_TABLE.c.scope))))
    connection.execute(delete(CASES_TABLE).where(CASES_TABLE.c.id.not_in(select(LAST_TABLE.c.case_id))))
    figures = FIGURES_TABLE.c
    used = union(*(select(column) for column in (figures.definition, figures.reason, figures.form)))
    connection.execute(delete(TEXTS_TABLE).where(TEXTS_TABLE.c.id.not_in(used)))


def _remove_from_environment(connection: Connection, label: str, removed: set[int]) -> None:
    runs, texts = EnvironmentRuns(connection, label), Texts(connection)
    stays = [run not in removed for run in runs.order]
    cases = sorted(
        connection.execute(select(LAST_TABLE.c.case_id).where(LAST_TABLE.c.environment == runs.id)).scalars()
    )
    for part in query_chunks(cases):
        before = case_rows(connection, runs.id, part, runs.positions)
        staying = {
            case: [place for place in ran if stays[place]] for case, ran in zip(part, runs.ran(part), strict=True)
        }
        after = {case: without_runs(rows, _find_carrier(staying[case])) for case, rows in before.items()}
        write_rows(connection, runs.id, runs.order, before, after)
        last = {case: rows[max(rows)] if rows else None for case, rows in after.items()}
        ends = {case: state for case, state in last.items() if state != before[case][max(before[case])]}
        write_last(connection, runs.id, _digests(ends, texts))
    connection.execute(
        delete(RUNS_TABLE).where(RUNS_TABLE.c.number == bindparam("gone")), [{"gone": run} for run in removed]
    )


def _digests(states: Mapping[int, PackedState | None], texts: Texts) -> dict[int, bytes | None]:
    some = {case: state for case, state in states.items() if state is not None}
    kept = zip(some, texts.unpack(some.values()), strict=True)
    return dict.fromkeys(states) | {case: CaseState.of(state).digest for case, state in kept}


def _find_carrier(staying: Sequence[int]) -> Callable[[int], int | None]:
    return lambda position: next(iter(staying[bisect_left(staying, position) :]), None)
