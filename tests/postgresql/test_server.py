"""What can go wrong with a server is said in one line, without its password."""

import subprocess
import sys

import pytest

from precreg.errors import UserError
from precreg.history.store import open_history
from tests.e2e.command import precreg, repository, with_suite
from tests.history.made import points, record
from tests.history.test_store import A, error_of
from tests.postgresql.server import PASSWORD


def test_a_wrong_password_is_said_and_not_shown(url):
    error = error_of(url(password="guessed"))
    assert error.slug == "history-unavailable"
    assert "authentication failed" in error.message
    assert "guessed" not in str(error)
    assert "monitor:***@" in str(error)


def test_a_server_that_is_down_is_said(url):
    error = error_of(url(port=1))
    assert error.slug == "history-unavailable"
    assert "refused" in error.message
    assert PASSWORD not in str(error)


@pytest.mark.parametrize("query", ["?password=hunter2", "?sslpassword=hunter2&port=1"])
def test_a_password_among_the_options_is_not_shown(url, query):
    assert "hunter2" not in str(error_of(url(password="", query=query)))


def test_a_database_that_is_not_there_is_said(url):
    error = error_of(url(database="other"))
    assert error.slug == "history-unavailable"
    assert '"other" does not exist' in error.message


def test_a_database_without_a_history_is_missing_one(new_place):
    assert error_of(new_place()).slug == "missing-history"


@pytest.mark.parametrize("scheme", ["postgres", "postgresql+psycopg", "postgresql+psycopg2", "postgresql+asyncpg"])
def test_the_schemes_that_other_tools_use_are_taken(new_place, scheme):
    with open_history(new_place().replace("postgresql:", f"{scheme}:"), project="demo", create=True) as history:
        assert history.runs() == ()


def test_without_a_driver_it_is_said_how_to_get_one(url, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    error = error_of(url())
    assert error.slug == "history-unavailable"
    assert "pip install 'precreg[postgresql]'" in error.message


def test_a_history_that_may_only_be_read_is_read(server, url, new_place):
    """A reader's role, and a server that takes no writes (a standby)."""
    place = new_place()
    with open_history(place, project="demo", create=True) as history:
        history.add(record(0, {A: 1.0}))
    schema = place.rpartition("%3D")[2]
    server.execute(f"CREATE ROLE reader LOGIN PASSWORD 'reader'; GRANT USAGE ON SCHEMA {schema} TO reader")
    server.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO reader")
    query = place.partition("?")[2]
    for only in (url("reader", "reader", query=f"?{query}"), f"{place}%20-cdefault_transaction_read_only%3Don"):
        with open_history(only, project="demo") as history:
            assert points(history.series("cpu")) == {A: [(1, 1.0, 1.0)]}
            with pytest.raises(UserError) as problem:
                history.add(record(1, {A: 1.0}))
            assert problem.value.slug == "not-writable"


def test_who_may_not_read_a_history_is_told_so(server, url, new_place):
    place = new_place()
    with open_history(place, project="demo", create=True):
        pass
    schema = place.rpartition("%3D")[2]
    server.execute(f"CREATE ROLE stranger LOGIN PASSWORD 'stranger'; GRANT USAGE ON SCHEMA {schema} TO stranger")
    with pytest.raises(UserError, match="expected to be allowed to read the history") as problem:
        open_history(url("stranger", "stranger", query=f"?{place.partition('?')[2]}"), project="demo")
    assert problem.value.slug == "history-unavailable"


def test_what_is_told_as_an_error_is_not_logged_as_well(server, url, new_place, caplog):
    place = new_place()
    with open_history(place, project="demo", create=True) as history:
        for at in range(3):
            history.add(record(at, {A: 1.0 + at}))
    schema = place.rpartition("%3D")[2]
    server.execute(f"CREATE ROLE keeper LOGIN PASSWORD 'keeper'; GRANT USAGE ON SCHEMA {schema} TO keeper")
    server.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO keeper")
    with open_history(url("keeper", "keeper", query=f"?{place.partition('?')[2]}"), project="demo") as history:
        with pytest.raises(UserError) as problem:
            history.prune(keep=1)
        assert problem.value.slug == "not-writable"
    assert not caplog.records


def test_two_who_begin_a_history_at_once_begin_one(new_place):
    place = new_place()
    code = f"from precreg.history.store import open_history; open_history({place!r}, project='demo', create=True)"
    both = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    assert [process.wait(60) for process in both] == [0, 0]
    with open_history(place, project="demo") as history:
        assert history.runs() == ()


def test_the_commands_take_a_server(tmp_path, new_place):
    """From a run to a server, and from there to a file."""
    project = repository(with_suite(tmp_path, SUITE))
    at = {"PRECREG_HISTORY": new_place()}
    precreg(project, "run", "--jobs", "0")
    assert precreg(project, "history", "add", "reports", **at).returncode == 2
    assert precreg(project, "history", "add", "--create", "reports", **at).stdout == "added as run 1\n"
    assert precreg(project, "history", "export", "h.jsonl", **at).returncode == 0
    assert precreg(project, "history", "import", "--create", "h.jsonl").stdout == "h.jsonl: 1 run added\n"
    shown = precreg(project, "history", "list", **at)
    assert shown.stdout == precreg(project, "history", "list").stdout
    assert shown.stdout.endswith("1 run\n")


def test_drift_is_told_from_a_server_as_from_a_file(tmp_path, new_place):
    project = repository(with_suite(tmp_path, DRIFTING, KERNEL))
    at = {"PRECREG_HISTORY": new_place()}
    for factor in ("1.0001", "1.0001", "1.001", "1.001"):
        (project / "suites/unit/k.py").write_text(KERNEL.replace("1.0001", factor))
        precreg(project, "run", "--jobs", "0")
        assert precreg(project, "history", "add", "--create", "reports", **at).returncode == 0
    assert precreg(project, "drift").returncode == 2, "there is no file"
    told = precreg(project, "drift", "--anchor", "1", **at)
    assert told.returncode == 1, told.stdout + told.stderr
    assert "DRIFT      unit/s/default" in told.stdout
    assert precreg(project, "history", "export", "h.jsonl", **at).returncode == 0
    assert precreg(project, "history", "import", "--create", "h.jsonl").returncode == 0
    assert precreg(project, "drift", "--anchor", "1").stdout == told.stdout


KERNEL = """\
def scaled(x):
    return x * x.dtype.type(1.0001)


def same(x):
    return x
"""
DRIFTING = """\
suite: s
subject: k:scaled
reference: k:same
inputs: {x: {shape: [64], dtype: float32, normal: {mean: 0, std: 1}}}
tolerance: {rtol: 1}
"""
SUITE = """\
suite: s
subject: k:same
reference: k:same
inputs: {x: {shape: [32], dtype: float32, normal: {mean: 0, std: 1}}}
"""
