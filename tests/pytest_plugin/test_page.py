"""docs/pytest.md, run as it stands: files are written, commands run in one shell, output compared."""

import re
import subprocess
import sys

from precreg.pytest_plugin import TIER_MARKERS as TIERS_OF_PLUGIN
from precreg.pytest_plugin.check import Precision
from precreg.pytest_plugin.suites import EFFECTIVE_MARKERS
from precreg.types.case import TIERS
from tests.e2e.command import ROOT, environ
from tests.e2e.test_readme import BLOCK, pattern

PAGE = (ROOT / "docs" / "pytest.md").read_text()


def program(folder, name):
    (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {name} "$@"\n')
    (folder / name).chmod(0o755)


def test_the_page_as_it_stands(tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    program(tools, "precreg")
    program(tools, "pytest")
    variables = {name: value for name, value in environ().items() if not name.startswith("PYTEST_")}
    variables |= {"PATH": f"{tools}:{variables['PATH']}", "PYTEST_ADDOPTS": "-p no:hypothesispytest"}
    folder, commands = tmp_path, 0
    for language, path, text in BLOCK.findall(PAGE):
        if path:
            (folder / path).write_text(text)
            continue
        if language != "console":
            continue
        for command in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            line, *expected = command.splitlines()
            done = subprocess.run(["sh", "-c", line], cwd=folder, env=variables, capture_output=True, text=True)
            for text_of_line in expected:
                assert re.search(pattern(text_of_line), done.stdout), (
                    f"{line}\n{text_of_line}\n{done.stdout}{done.stderr}"
                )
            folder, commands = (tmp_path / "demo", commands + 1)
    assert commands == 8


def test_every_argument_of_check_is_in_the_table():
    names = [name for name in Precision.check.__annotations__ if name not in ("actual", "return")]
    table = PAGE.partition("| argument |")[2].partition("\n\n")[0]
    assert re.findall(r"`(\w+)`", " ".join(row.split("|")[1] for row in table.splitlines()[2:])) == [
        *("reference", "golden", "inputs", "seeds", "name", "tier", "category", "rtol", "atol", "tolerance", "exact")
    ]
    assert sorted(names) == sorted(re.findall(r"`(\w+)`", " ".join(r.split("|")[1] for r in table.splitlines()[2:])))


def test_the_page_lists_the_tags_that_are_no_marks():
    listed = PAGE.partition("the name of a mark that changes a test")[2].partition(")")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == EFFECTIVE_MARKERS


def test_the_plugin_names_the_tiers():
    assert TIERS_OF_PLUGIN == TIERS
