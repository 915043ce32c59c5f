"""docs/monitor.md: its script prints what it shows, its suite runs, and its tables are those of the program."""

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from precreg.shadow.monitor.error_map import MonitorMetric
from precreg.types.monitor import MonitorEventKind, TensorRole
from tests.docs.test_docs import sections, table, write_files
from tests.e2e.command import precreg, repository

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "monitor.md").read_text()
SAMPLING = ROOT / "precreg" / "shadow" / "monitor" / "sampling.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return repository(write_files(tmp_path_factory.mktemp("monitor"), PAGE))


def test_the_script_prints_what_the_page_shows(folder):
    done = subprocess.run([sys.executable, "train.py"], cwd=folder, capture_output=True, text=True, check=True)
    assert f"```text\n{done.stdout}```" in PAGE
    assert "Own error of the layer, layers by step" in (folder / "monitor.html").read_text()
    assert (folder / "monitor.json").exists()


def test_the_suite_runs(folder):
    done = precreg(folder, "run", "unit/block")
    assert re.search(r"^1 proposed in ", done.stdout, re.MULTILINE), done.stdout
    assert done.returncode == 2


def test_the_tables_have_every_event_role_and_metric():
    parts = sections(PAGE)
    assert [row["event"].strip("`") for row in table(parts["Limits"], "event", "meaning")] == [
        *get_args(MonitorEventKind)
    ]
    rows = table(parts["Figures"], "role", "figures", "`own`", "`total`")
    assert {row["role"].strip("`") for row in rows} == set(get_args(TensorRole))
    assert all(f"`{name}`" in parts["Figures"] for name in get_args(MonitorMetric))
    # Its import would bring torch into this process, whose forks run commands.
    (most,) = re.findall(r"^MAX_CALLS = (\d+)$", SAMPLING.read_text(), re.MULTILINE)
    assert f"first {most} calls" in parts["Figures"]
