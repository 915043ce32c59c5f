"""docs/quantization.md: its commands print what it shows, its suite runs, and its tables are those of the program."""

import doctest
import re
from pathlib import Path
from typing import get_args

import pytest

from precreg.arithmetic import BLOCK_OPERANDS
from precreg.cli.quantization import quantization_command
from precreg.quantization.kind import METHODS, OPTIONS
from precreg.types.quantization import QuantizationEventKind
from tests.docs.test_docs import commands, sections, table, write_files
from tests.e2e.command import precreg, repository

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "quantization.md").read_text()
NUMBER = re.compile(r"^\d[\d,]*\.?\d*(e-?\d+)?$")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = write_files(tmp_path_factory.mktemp("quantization"), PAGE)
    (folder / "suites" / "unit" / "net.py").write_text((folder / "net.py").read_text())
    return repository(folder)


def words(line):
    return re.split(r"[\s(),/]+", line.strip().replace("dB", ""))


def agree(shown, printed):
    """Return whether lines have equal words, and numbers that differ by at most 15 %: sums depend on the processor."""
    one, other = words(shown), words(printed)
    return len(one) == len(other) and all(
        a == b or (NUMBER.match(a) and NUMBER.match(b) and abs(float(a) - float(b)) <= 0.15 * float(a) + 2)
        for a, b in zip(one, other, strict=True)
    )


def test_the_commands_print_what_the_page_shows(folder):
    found = commands(PAGE)
    assert len(found) == 2
    for arguments, expected in found:
        done = precreg(folder, *arguments.split())
        assert done.returncode == 0, done.stderr
        printed = [line for line in done.stdout.splitlines() if line]
        for line in filter(None, expected.splitlines()):
            assert any(agree(line, each) for each in printed), (line, done.stdout)


def test_the_suite_runs(folder):
    done = precreg(folder, "run", "unit/quantized_net")
    assert re.search(r"^1 proposed in ", done.stdout, re.MULTILINE), done.stdout


def test_the_examples_give_what_the_page_shows():
    blocks = re.findall(r"^```pycon\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    examples = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "docs/quantization.md", None, None)
    assert len(examples.examples) > 4
    assert doctest.DocTestRunner().run(examples).failed == 0


def test_the_tables_have_every_event_calibration_and_option():
    parts = sections(PAGE)
    rows = [row["format"].replace("`", "") for row in table(PAGE, "format", "element", "block", "scale")]
    assert [name for row in rows for name in row.split(", ")] == [*BLOCK_OPERANDS]
    events = [row["event"].strip("`") for row in table(parts["Limits"], "event", "meaning")]
    assert events == [*get_args(QuantizationEventKind)]
    rows = [row["calibration"].replace("`", "") for row in table(PAGE, "calibration", "threshold")]
    named = {name for row in rows for name in row.split(", ")}
    assert named == set(METHODS)
    rows = [row["option"] for row in table(PAGE, "option", "default", "meaning")]
    options = {name for row in rows for name in re.findall(r"--[\w-]+", row)}
    known = {name for each in quantization_command.params for name in each.opts if name.startswith("--")}
    assert options | {"--float", "--arrays", "--table", "--all"} == known
    assert all(f"`{name}`" in parts["Suites"] for name in OPTIONS if name not in ("weights", "activations"))
