"""Whatever kills a run, and whenever: --resume gives what an undisturbed run gives, and nothing is left behind."""

import json
import subprocess
import sys

import pytest

from tests.e2e.command import PATIENCE_S, environ, journal_cases, precreg, with_suite
from tests.e2e.kills import Kill, Killed, kills

# The writes of a run, in order: the first ones come before the journal has a header, the last ones after the reports.
WRITES = [2, 5, 8, 13, 21, 34]


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    return Killed(tmp_path_factory.mktemp("killed"))


@pytest.mark.parametrize("kill", list(kills(14)), ids=lambda kill: f"{kill.how}-{kill.moment}-{kill.at:.3g}")
def test_a_killed_run_loses_nothing_and_leaves_nothing(killed, kill):
    assert killed.check(kill) == []


@pytest.mark.parametrize("write", WRITES)
def test_a_run_killed_at_a_write_loses_nothing(killed, write):
    assert killed.check(Kill("kill", "write", write)) == []


MANY = """suite: many
subject: k:double
reference: k:double
matrix: {k: [%s]}
params: {k: $k}
inputs: {x: {shape: 16, dtype: float32, normal: {}}}
"""
KERNEL = "def double(x, k):\n    return x + x\n"
# The system refuses larger files to this run, as a full disk would. A journal of these cases has 60 kB.
ROOM_KB = 24


def test_a_run_on_a_full_disk_goes_on_when_it_has_room(tmp_path):
    project = with_suite(tmp_path, MANY % ", ".join(map(str, range(300))), KERNEL)
    run = ("run", "--jobs", "2", "--no-cache")
    assert precreg(project, *run).returncode == 2, "new ones are not judged"
    done = precreg(project, "baseline", "accept", "--all", "--reason", "first")
    assert done.returncode == 0, done.stderr
    assert precreg(project, *run).returncode == 0
    undisturbed = verdicts(project)
    before = {path: path.read_bytes() for path in (project / "baselines").rglob("*") if path.is_file()}
    (project / ".precreg" / "journal.jsonl").unlink()

    limited = ["bash", "-c", 'ulimit -f "$0"; exec "$@"', str(ROOM_KB), sys.executable, "-m", "precreg", *run]
    full = subprocess.run(
        limited, cwd=project, env=environ(), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert full.returncode == 2
    assert "Traceback" not in full.stderr
    assert ".precreg/journal.jsonl: error[not-writable]" in full.stderr
    assert "a run goes on with: precreg run --resume" in full.stderr
    kept = journal_cases(project)
    assert 20 < len(kept) < 280

    assert precreg(project, "run", "--jobs", "2", "--resume").returncode == 0
    assert journal_cases(project)[: len(kept)] == kept
    assert len(journal_cases(project)) == 300, "no case ran twice"
    assert verdicts(project) == undisturbed
    assert {path: path.read_bytes() for path in (project / "baselines").rglob("*") if path.is_file()} == before


def verdicts(project):
    """Return all of the results in the record that does not depend on time."""
    record = json.loads((project / "reports" / "record.json").read_text())
    return {
        each["id"]: (each["verdict"], each["outcome"]["execution"]["outputs"], each["outcome"].get("comparisons"))
        for each in record["results"]
    }
