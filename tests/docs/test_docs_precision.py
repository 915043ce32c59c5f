"""docs/precision_bisection.md: its example runs, its options are those of the command."""

import re

from precreg.cli.bisect import bisect_command
from precreg.cli.bisect_precision import PRECISION_OPTIONS
from tests.docs.test_docs import page, table, write_files
from tests.e2e.command import change, precreg, repository

PAGE = page("precision_bisection.md")


def test_the_example_prints_what_the_page_shows(tmp_path):
    project = repository(write_files(tmp_path, PAGE))
    (command, shown), *_ = re.findall(r"^\$ precreg (.*)\n((?:(?!```).*\n)*)", PAGE, re.MULTILINE)
    done = precreg(project, *command.split())
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(shown), done.stdout
    (project / "suites/devices").mkdir()
    assert precreg(project, *command.split(), "--write", "suites/devices/mlu370-wide.yaml").returncode == 0
    change(project / "suites/unit/chain.yaml", "device: mlu370", "device: mlu370-wide")
    assert "The bounds hold in mlu370-wide" in precreg(project, *command.split()).stdout


def test_the_options_of_the_table_are_those_of_the_command():
    rows = table(PAGE, "option", "meaning")
    shown = set(re.findall(r"--[a-z-]+", " ".join(row["option"] for row in rows)))
    known = {name for each in bisect_command.params for name in each.opts}
    assert shown <= known
    # --environment and --json belong to every search.
    assert len(PRECISION_OPTIONS) == len(shown - {"--environment", "--json"})
