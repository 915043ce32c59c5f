"""How does a history become a Parquet file?

A row holds one metric of one output of one case, over successive runs without a change. So a history of 1,000 runs has
some ten million rows, and not a billion.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection

from precreg.errors import UserError
from precreg.history.packing import PackedState, require_figures
from precreg.history.rows import stretches_of
from precreg.history.runs import HistoryRun, stored_runs
from precreg.history.series import CaseBlock, every_block

if TYPE_CHECKING:
    import pyarrow

# (name, type of pyarrow, whether rows share few values). Of a failed case, output, metric and figures are null.
PARQUET_COLUMNS = (
    ("environment", "string", True),
    ("case", "string", True),
    ("definition", "string", True),
    ("reason", "string", True),
    ("first_run", "int32", False),
    ("last_run", "int32", False),
    ("runs", "int32", False),
    ("first_started", "string", True),
    ("last_started", "string", True),
    ("first_commit", "string", True),
    ("last_commit", "string", True),
    ("output", "string", True),
    ("metric", "string", True),
    ("value", "float64", False),
    ("accepted", "float64", False),
)


def require_pyarrow() -> None:
    """Refuse an export to Parquet without pyarrow. Raises UserError (missing-extra)."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        message = "expected pyarrow, which writes Parquet, but it is not installed; JSON Lines need no extra"
        hint = "pip install 'precreg[parquet]', or write a name such as history.jsonl"
        raise UserError("missing-extra", message, hint=hint) from None


def write_parquet(connection: Connection, stream: IO[bytes]) -> int:
    """Write a history, some cases at a time, and return the number of rows. Raises DamagedError."""
    import pyarrow as pa
    from pyarrow import parquet

    schema = pa.schema([(name, _arrow_type(kind, shared=shared)) for name, kind, shared in PARQUET_COLUMNS])
    runs = {run.number: run for run in stored_runs(connection)}
    count = 0
    # Figures seldom repeat, and a dictionary of them would fill the memory before it is given up.
    shared = [name for name, _, of_few in PARQUET_COLUMNS if of_few]
    with parquet.ParquetWriter(stream, schema, compression="zstd", use_dictionary=shared) as writer:
        for environment in sorted({run.environment for run in runs.values()}):
            for block in every_block(connection, environment):
                block.load_texts()
                if (batch := _batch(block, runs, schema)) is not None:
                    writer.write_batch(batch)
                    count += batch.num_rows
    return count


def _arrow_type(kind: str, *, shared: bool) -> pyarrow.DataType:
    import pyarrow as pa

    plain = pa.type_for_alias(kind)
    return pa.dictionary(pa.int32(), plain) if shared else plain


class _Stretch(NamedTuple):
    """Hold the columns that the figures of one state at successive runs have in common."""

    environment: str
    case: str
    definition: str
    reason: str
    first_run: int
    last_run: int
    runs: int
    first_started: str
    last_started: str
    first_commit: str
    last_commit: str


def _stretches(block: CaseBlock, runs: dict[int, HistoryRun]) -> Iterator[tuple[_Stretch, PackedState]]:
    for case in block.cases:
        for state, places in stretches_of(case.rows, case.ran):
            texts = block.texts.load((state.definition, state.reason))
            first, last = (runs[block.runs.order[place]] for place in (places[0], places[-1]))
            yield (
                _Stretch(
                    block.runs.label,
                    case.name,
                    texts[state.definition],
                    texts[state.reason],
                    first.number,
                    last.number,
                    len(places),
                    first.started,
                    last.started,
                    first.commit,
                    last.commit,
                ),
                state,
            )


def _batch(block: CaseBlock, runs: dict[int, HistoryRun], schema: pyarrow.Schema) -> pyarrow.RecordBatch | None:
    """Return the rows of a block; None if no case ran."""
    import numpy as np
    import pyarrow as pa

    found = list(_stretches(block, runs))
    if not found:
        return None
    pairs = [block.texts.form(state.form).pairs() for _, state in found]
    for (_, state), of_state in zip(found, pairs, strict=True):
        require_figures(state.figures, len(of_state))
    # A failed case has one row without figures.
    counts = [len(of_state) or 1 for of_state in pairs]
    repeats = pa.array(np.repeat(np.arange(len(found)), counts))
    columns: dict[str, Any] = {}
    for at, name in enumerate(_Stretch._fields):
        column = pa.array([stretch[at] for stretch, _ in found], schema.field(name).type)
        columns[name] = column.take(repeats)
    nothing: list[tuple[str | None, str | None]] = [(None, None)]
    names = [pair for of_state in pairs for pair in of_state or nothing]
    for at, name in enumerate(("output", "metric")):
        columns[name] = pa.array([pair[at] for pair in names], schema.field(name).type)
    missing = np.full(1, np.nan)
    halves = [np.frombuffer(state.figures, "<f8").reshape(2, -1) for _, state in found]
    for at, name in enumerate(("value", "accepted")):
        numbers = np.concatenate([half[at] if half.size else missing for half in halves])
        columns[name] = pa.array(numbers, mask=np.isnan(numbers))
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
