"""docs/compare.md: its arrays are made, its commands run in order, and its tables held against the program."""

import re
import runpy
from typing import get_args

import pytest

from precreg.cli.compare import compare_command
from precreg.comparison.pairing import ARRAY_SUFFIXES
from precreg.measure.fingerprints.thresholds import FINGERPRINT_THRESHOLDS
from precreg.report.causes.fingerprints import MAX_FINGERPRINTS, NEAR_ZERO_TIMES
from precreg.storage.safetensors import _ML_DTYPES, _NUMPY
from precreg.types.diagnosis import FingerprintKind
from precreg.types.verdict import Reason
from tests.docs.test_docs import commands, files, page, sections, table
from tests.e2e.command import precreg

PAGE = page("compare.md", "compare-advice.md")
FILES = files(PAGE)
COMMANDS = commands(PAGE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder in which the page's script made its arrays."""
    folder = tmp_path_factory.mktemp("compare")
    (folder / "make.py").write_text(FILES["make.py"])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        runpy.run_path("make.py")
    return folder


@pytest.mark.parametrize(("arguments", "expected"), COMMANDS, ids=[arguments for arguments, _ in COMMANDS])
def test_commands_print_what_the_page_shows(arguments, expected, folder):
    done = precreg(folder, *arguments.split())
    shown = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert done.stderr == ""
    place = 0
    for line in filter(None, expected.splitlines()):
        pattern = ".*".join(map(re.escape, re.split(r"\s*\.\.\.\s*", " ".join(line.split()))))
        found = [index for index, text in enumerate(shown) if index >= place and re.fullmatch(pattern, text)]
        assert found, f"{line}\nnot in\n{done.stdout}"
        place = found[0] + 1


def test_there_are_commands():
    assert len(COMMANDS) == 12


def test_every_option_is_told_of():
    options = {name for option in compare_command.params for name in option.opts if name.startswith("--")}
    said = set(re.findall(r"--[a-z][a-z-]*", PAGE)) - {"--project"}
    assert said == options


def test_every_format_is_in_the_table():
    rows = table(PAGE, "suffix", "content")
    assert sorted(row["suffix"] for row in rows) == sorted(ARRAY_SUFFIXES)
    tensors = next(row["content"] for row in rows if row["suffix"] == ".safetensors")
    known = {*_NUMPY, *_ML_DTYPES}
    spelled = {name for name in known if re.search(rf"\b{name}\b", tensors)}
    assert known - spelled == {"I32", "I16", "U32", "U16"}, "which lie between those that are named"


def test_every_reason_is_one():
    for row in table(sections(PAGE)["Pairs"], "finding", "reason", "exit code"):
        if row["reason"] != "nothing was compared":
            assert set(re.findall(r"\w+", row["reason"])) <= set(Reason)


def test_every_threshold_of_advice_is_in_the_table_with_its_reason():
    rows = table(sections(PAGE)["Advice"] + "\n", "threshold", "value", "why")
    shown = {row["threshold"]: (float(row["value"]), row["why"]) for row in rows}
    assert shown == {name: tuple(threshold) for name, threshold in FINGERPRINT_THRESHOLDS.items()}


def test_every_shape_is_in_the_table():
    rows = table(sections(PAGE)["Advice"] + "\n", "shape", "the errors", "look for")
    assert [row["shape"] for row in rows] == list(get_args(FingerprintKind))


def test_the_page_has_the_limits_of_advice():
    text = " ".join(sections(PAGE)["Advice"].split())
    assert MAX_FINGERPRINTS == 3
    assert "at most three sentences" in text
    assert f"{NEAR_ZERO_TIMES} times" in text
