"""A history of schema 1 becomes one of this schema, all of it or nothing. tests/postgresql runs this on a server."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
from sqlalchemy import insert, select, update

from precreg.history.rows import (
    CASES_TABLE,
    ENVIRONMENTS_TABLE,
    FIGURES_TABLE,
    HISTORY_TABLE,
    LAST_TABLE,
    TABLES_METADATA,
    TEXTS_TABLE,
)
from precreg.history.store import open_database, open_history
from precreg.history.upgrade import FIRST_CHANGES, FIRST_LATEST, FIRST_METADATA
from tests.e2e.command import PATIENCE_S
from tests.history.made import SKIPPED, record
from tests.history.test_store import A, B, C, error_of, process

GOLDEN = Path(__file__).parents[1] / "golden" / "stored"
NEW_TABLES = [ENVIRONMENTS_TABLE, TEXTS_TABLE, FIGURES_TABLE, LAST_TABLE]


def of_schema_1(place):
    """Make a history, and put it back to the tables of schema 1; return its export."""
    with open_history(place, project="demo", create=True) as history:
        for minutes, figures in enumerate(
            ({A: 0.1, B: None}, {A: 1 / 3, C: SKIPPED}, {A: 1 / 3, C: -0.0}, {B: 5e-324})
        ):
            history.add(record(minutes, figures))
        history.add(record(9, {A: 2.0}, label="npu", accepted=None))
        history.prune(keep=3)
        lines = list(history.export())
    opened = open_database(place, create=False, wait_s=60)
    with opened.writing() as connection:
        ids = dict(connection.execute(select(CASES_TABLE.c.name, CASES_TABLE.c.id)).all())
        labels = dict(connection.execute(select(ENVIRONMENTS_TABLE.c.id, ENVIRONMENTS_TABLE.c.label)).all())
        FIRST_METADATA.create_all(connection)
        for row in connection.execute(select(LAST_TABLE)).all():
            values = {"environment": labels[row.environment], "case_id": row.case_id, "digest": row.digest}
            connection.execute(insert(FIRST_LATEST).values(values))
        for case in (line for line in map(msgspec.json.decode, lines) if "case" in line):
            for run, state in case["changes"].items():
                text = msgspec.json.encode(state).decode()
                values = {"environment": case["environment"], "case_id": ids[case["case"]], "run": int(run)}
                connection.execute(insert(FIRST_CHANGES).values(values | {"state": text}))
        TABLES_METADATA.drop_all(connection, tables=NEW_TABLES)
        connection.execute(update(HISTORY_TABLE).values(version="precreg-history/1"))
    opened.close()
    return lines


def schema_of(place):
    opened = open_database(place, create=False, wait_s=60)
    with opened.reading() as connection:
        found = connection.execute(select(HISTORY_TABLE.c.version)).scalar_one()
    opened.close()
    return found


def test_an_upgraded_history_is_what_it_was(new_place):
    place = new_place()
    lines = of_schema_1(place)
    assert schema_of(place) == "precreg-history/1"
    with open_history(place, project="demo") as history:
        assert list(history.export()) == lines
        assert history.add(record(9, {A: 2.0}, label="npu", accepted=None)) is None
        assert history.add(record(10, {A: 2.0}, label="npu", accepted=None)) == 6
        changed = [line for line in map(msgspec.json.decode, history.export()) if line.get("environment") == "npu"]
        assert [list(line["changes"]) for line in changed if "case" in line] == [["5"]]
    assert schema_of(place) == "precreg-history/2"


def test_a_history_that_0_1_0_wrote_is_read(tmp_path):
    place = tmp_path / "h.sqlite"
    shutil.copyfile(GOLDEN / "history.sqlite", place)
    with open_history(place, project="quotients") as history:
        assert b"".join(history.export()) == (GOLDEN / "history.jsonl").read_bytes()


def test_of_two_processes_that_upgrade_at_once_one_does(new_place):
    place = new_place()
    lines = of_schema_1(place)
    code = f"from precreg.history.store import open_history\nwith open_history({place!r}, project='demo'): pass"
    both = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    assert [one.wait(PATIENCE_S) for one in both] == [0, 0]
    with open_history(place, project="demo") as history:
        assert list(history.export()) == lines


def test_a_kill_in_an_upgrade_leaves_the_history_as_it_was(new_place):
    place, other = new_place(), new_place()
    lines = of_schema_1(place)
    with open_history(other, project="demo", create=True):
        pass
    code = f"""
from precreg.history.store import open_database
from precreg.history.upgrade import upgrade_tables
with open_database({place!r}, create=False, wait_s=60).writing() as connection:
    upgrade_tables(connection)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = process(other, code)
    killed.communicate("go\n", timeout=PATIENCE_S)
    assert killed.returncode == -signal.SIGKILL
    assert schema_of(place) == "precreg-history/1"
    with open_history(place, project="demo") as history:
        assert list(history.export()) == lines


def test_a_damaged_history_of_schema_1_stays_as_it_is(new_place):
    place = new_place()
    of_schema_1(place)
    opened = open_database(place, create=False, wait_s=60)
    with opened.writing() as connection:
        connection.execute(update(FIRST_CHANGES).values(state="{bad"))
    opened.close()
    error = error_of(place)
    assert error.slug == "history-unavailable"
    assert "from precreg-history/1 to precreg-history/2" in error.message
    assert "a case's figures cannot be read" in error.message
    assert schema_of(place) == "precreg-history/1"


def test_a_history_of_schema_1_that_may_only_be_read_says_what_to_do(unprivileged):
    place = unprivileged / "h.sqlite"
    of_schema_1(str(place))
    place.chmod(0o444)
    unprivileged.chmod(0o555)
    error = error_of(place)
    assert error.slug == "not-writable"
    assert "once as a user who may write" in str(error)
