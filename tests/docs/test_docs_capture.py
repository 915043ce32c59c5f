"""docs/capture.md: its examples run, its line is what precreg prints, and its table has every option."""

import inspect
import re
import subprocess
import sys

import pytest

import precreg
from precreg.cli.capture import capture_command
from precreg.suite.capture.live import DEFAULT_LIMIT, DEFAULT_MAX_BYTES
from tests.docs.test_docs import page, sections, table
from tests.e2e.command import environ, repository, started
from tests.e2e.test_capture import KERNELS, LAYERS, TRAIN
from tests.pytest_plugin.session import pytest_

PAGE = page("capture.md")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def project(tmp_path):
    (tmp_path / "suites").mkdir()
    for name, text in {"kernels.py": KERNELS, "layers.py": LAYERS, "train.py": TRAIN, "suites/.keep": ""}.items():
        (tmp_path / name).write_text(text)
    return repository(tmp_path)


def run_program(project, text):
    (project / "program.py").write_text(text)
    command = [sys.executable, "program.py"]
    return subprocess.run(command, cwd=project, env=environ(), capture_output=True, text=True, check=True).stderr


def test_the_command_prints_what_the_page_shows(project):
    done = started(project, "capture", "kernels:softmax", "--limit", "12", "--", sys.executable, "train.py", "0")
    shown = re.search(r"^precreg: kept .*$", PAGE, re.MULTILINE)[0]
    assert done.stderr.splitlines()[-1] == shown


def test_the_block_and_the_decorator_write_suites(project):
    block, decorator, test = BLOCKS
    assert "in suites/unit/softmax.yaml" in run_program(project, block)
    called = "import doubling\n\ndoubling.double(__import__('numpy').ones(3))\n"
    (project / "doubling.py").write_text(decorator)
    assert "kept 1 of 1 calls of doubling:double in suites/unit/doubled.yaml" in run_program(project, called)
    (project / "suites/unit/softmax.yaml").unlink()
    (project / "test_layers.py").write_text(test)
    done = pytest_(project)
    assert "1 passed" in done.stdout, done.stdout
    assert "in suites/unit/softmax.yaml" in done.stdout + done.stderr
    ran = started(project, "run")
    assert "2 proposed" in ran.stdout, ran.stdout


def test_the_table_has_every_option():
    rows = table(sections(PAGE)["Options"], "`precreg.capture`", "command", "default", "meaning")
    named = {row["`precreg.capture`"].strip("`"): row for row in rows}
    assert set(named) == set(inspect.signature(precreg.capture).parameters) - {"what"}
    options = {name for option in capture_command.params for name in option.opts if name.startswith("--")}
    assert {row["command"].strip("`") for row in rows} == options | {"--project"}
    assert int(named["limit"]["default"]) == DEFAULT_LIMIT
    assert int(named["max_bytes"]["default"]) == DEFAULT_MAX_BYTES
